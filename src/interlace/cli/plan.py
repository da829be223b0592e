"""``interlace plan``: what an index would cost, before there is one."""

from __future__ import annotations

import argparse

from .options import add_json, add_threads, positive

HELP = "tell what an index would cost: bytes, memory, time"
DESCRIPTION = """\
Tells what an index of so many vectors would take on disk and in memory, and about how long it
would take to build and to search. Sizes are computed; times are estimates from a measurement
of half a second on this machine.
"""
EPILOG = """\
examples:
  interlace plan --rows 1000000 --dim 128 --bytes 8
  interlace plan --rows 50000000 --dim 768 --bytes 16 --layout subspace --ids int64 --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``interlace plan``."""
    parser.add_argument("--rows", type=positive, metavar="N", required=True, help="number of vectors")
    parser.add_argument("--dim", type=positive, metavar="N", required=True, help="dimensions of a vector")
    size = parser.add_mutually_exclusive_group()
    size.add_argument(
        "--bytes", "--n-bytes", dest="n_bytes", type=positive, metavar="N", help="bytes per vector (default: 8)"
    )
    size.add_argument("--books", "--n-books", dest="n_books", type=positive, metavar="N", help="the same in books")
    layouts = ("auto", "hybrid", "subspace", "residual")
    parser.add_argument("--layout", choices=layouts, default="auto", help="as for `interlace build` (default: auto)")
    parser.add_argument("--metric", choices=("l2", "ip", "cosine"), default="l2", help="default: l2")
    kinds = ("default", "int64", "string")
    parser.add_argument(
        "--ids", choices=kinds, default="default", help="kind of ids; default ones (0, 1, ...) are free"
    )
    parser.add_argument("--no-times", action="store_true", help="sizes only: nothing is measured")
    add_threads(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Plan and print."""
    from .. import plan
    from .output import print_json

    found = plan(
        args.rows,
        args.dim,
        n_bytes=args.n_bytes,
        n_books=args.n_books,
        layout=args.layout,
        metric=args.metric,
        ids=args.ids,
        threads=args.threads,
        measure=not args.no_times,
    )
    if args.json:
        print_json(found.as_dict())
    else:
        print(found)
    return 0
