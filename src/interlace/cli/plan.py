"""``interlace plan``: estimates the size, memory and time of an index before it is built."""

from __future__ import annotations

import argparse

from .options import add_json, add_learning, add_threads, learning, memory, number, positive

HELP = "estimate size, memory and build time of an index"
DESCRIPTION = """\
Estimates the size of an index on disk and in memory, and the memory, operations and time to build it.
Memory is an upper bound without the input. Times are CPU seconds divided by threads, computed from
the operations and a measurement of a tenth of a second on this machine.

With --machines, plans an index in shards on a Ray cluster (docs/distributed.md).

With --sample, learns codes of several lengths from vectors like yours and predicts the recall of each.
"""
EPILOG = """\
examples:
  interlace plan --rows 1000000 --dim 128 --bytes 8
  interlace plan --rows 50000000 --dim 768 --bytes 16 --layout subspace --ids int64 --json
  interlace plan --rows 1000000 --dim 96 --layout residual --effort best --max-memory 1GB
  interlace plan --rows 1000000 --sample vectors.npy --budgets 8,16,32,64
  interlace plan --rows 1e9 --dim 128 --machines 8 --memory 64GB --replicas 2
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``interlace plan``."""
    parser.add_argument(
        "--rows", type=_count, metavar="N", help="number of vectors, such as 1e9; by default those of --sample"
    )
    parser.add_argument("--dim", type=positive, metavar="N", help="dimensions of a vector; not needed with --sample")
    parser.add_argument("--sample", metavar="FILE", help="predict recall from these vectors, some thousand or more")
    parser.add_argument(
        "--budgets", metavar="N,N,...", type=_lengths, default=(8, 16, 32, 64), help="lengths of codes for --sample"
    )
    parser.add_argument("--rerank", type=positive, metavar="N", default=100, help="rows that --sample re-ranks")
    kinds = ("default", "int64", "string")
    parser.add_argument(
        "--ids", choices=kinds, default="default", help="kind of ids; default ids (0, 1, ...) need no space"
    )
    parser.add_argument("--no-times", action="store_true", help="estimate sizes only, without the measurement")
    cluster = parser.add_argument_group("several machines")
    cluster.add_argument("--machines", type=positive, metavar="N", help="machines of a Ray cluster")
    cluster.add_argument("--memory", type=memory, metavar="SIZE", help="memory of each machine, such as 64GB")
    cluster.add_argument("--replicas", type=positive, default=1, metavar="N", help="machines that hold each shard")
    add_learning(parser)
    add_threads(parser)
    add_json(parser)


def _count(text: str) -> int:
    """A positive integer, also as 1e9."""
    value = number(text)
    return int(value) if "e" in text.lower() and 1 <= value < 1e15 and value == int(value) else positive(text)


def _lengths(text: str) -> tuple[int, ...]:
    return tuple(positive(part) for part in text.split(","))


def run(args: argparse.Namespace) -> int:
    """Plan and print."""
    from .. import plan
    from ..errors import InputError
    from .output import print_json

    if args.sample is not None:
        return _predict(args)
    if args.rows is None:
        raise InputError("--rows is required, or --sample with vectors, whose number is the default")
    if args.dim is None:
        raise InputError("--dim is required, or --sample with vectors that have the dimensions")
    if args.machines is not None:
        return _machines(args)
    if args.memory is not None or args.replicas != 1:
        raise InputError("--memory and --replicas belong to --machines")
    found = plan(
        args.rows,
        args.dim,
        ids=args.ids,
        threads=args.threads,
        measure=not args.no_times,
        **learning(args),
    )
    if args.json:
        print_json(found.as_dict())
    else:
        print(found)
    return 0


def _machines(args: argparse.Namespace) -> int:
    from ..index.machines import plan_machines
    from .output import print_json

    found = plan_machines(
        args.rows,
        args.dim,
        machines=args.machines,
        memory=args.memory,
        replicas=args.replicas,
        ids=args.ids,
        threads=args.threads,
        measure=not args.no_times,
        **learning(args),
    )
    if args.json:
        print_json(found.as_dict())
    else:
        print(found)
    return 0


def _predict(args: argparse.Namespace) -> int:
    from .. import plan_recall
    from ..inputs.readers import read_vectors
    from .output import print_json

    settings = learning(args)
    kept = {name: settings[name] for name in ("metric", "layout", "effort", "cells", "seed") if name in settings}
    found = plan_recall(
        read_vectors(args.sample),
        rows=args.rows,
        n_bytes=args.budgets,
        rerank=args.rerank,
        threads=args.threads,
        **kept,
    )
    if args.json:
        print_json(found.as_dict())
    else:
        print(found)
    return 0
