"""``interlace evaluate``: recall, agreement and speed of an index, or MAP of a model learned with labels."""

from __future__ import annotations

import argparse
import os

from .options import add_embedded, add_json, add_margin, add_threads, natural, positive, share

HELP = "measure recall, agreement and speed of an index, or MAP of a model"
DESCRIPTION = """\
Measures recall, agreement and speed of an index. Recall needs the true
neighbours: pass the file that the index was built from (--vectors) to compute
them by brute force, or pass them (--truth, with queries). Without either they
come from kept originals (--originals of `interlace build` and `create`); where
none are kept, only the agreement with the full scan of the codes is measured.
--rerank and --recall measure searches that compare the best rows by code with
kept originals. Without queries, some of the vectors are the queries, and the row of
each query is excluded from its results.

For a model fitted with labels, pass labels of the queries (--labels). The
command prints MAP of the ranking of all rows and MAP@R of the first R, both by
the full scan of the codes, and operations and agreement of the margin. The
database is the rows that the model was fitted on, or the rows of --vectors
(with --vectors-labels, unless they are the same rows). With --vectors, MAP of
the embedding without codes is printed as well.
"""
EPILOG = """\
examples:
  interlace evaluate my.index --vectors vectors.npy
  interlace evaluate my.index queries.npy --vectors vectors.npy -k 100
  interlace evaluate my.index queries.fvecs --truth truth.ivecs --json
  interlace evaluate model.icq queries.npy --labels query-labels.npy
  interlace evaluate model.icq q.npy --labels qy.txt --vectors x.npy --at 100
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``interlace evaluate``."""
    parser.add_argument(
        "index", metavar="FILE", help="index of `interlace build`, a store, or model of `interlace fit --labels`"
    )
    parser.add_argument("asked", metavar="QUERIES", nargs="?", help="query vectors, same as --queries")
    parser.add_argument(
        "--vectors", metavar="FILE", help="the vectors that the index was built from, in the same order"
    )
    parser.add_argument("--queries", metavar="FILE", help="query vectors (default: some of the vectors)")
    parser.add_argument("--truth", metavar="FILE", help="ids of the true neighbours of the queries")
    for name in ("vectors", "queries", "truth"):
        parser.add_argument(f"--{name}-key", metavar="KEY", help=f"which array, column or data set of the {name}")
    parser.add_argument(
        "-k", "--k", type=positive, metavar="K", help="neighbours per query (default: 10; for a model 100)"
    )
    add_margin(parser)
    depth = parser.add_mutually_exclusive_group()
    depth.add_argument("--rerank", type=positive, metavar="N", help="re-rank the N best rows by kept originals")
    depth.add_argument("--recall", type=share, metavar="R", help="as in `interlace search`: choose margin and re-rank")
    parser.add_argument(
        "--sample", type=positive, default=1000, metavar="N", help="use at most N queries (default: 1000)"
    )
    parser.add_argument(
        "--seed", type=natural, default=0, metavar="N", help="seed of the sample of queries (default: 0)"
    )
    of_models = parser.add_argument_group("models")
    labels = "labels of the queries: a file, or a name inside QUERIES, as in `interlace fit`"
    of_models.add_argument("--labels", metavar="LABELS", help=labels)
    of_models.add_argument("--labels-key", metavar="KEY", help="which column or array of the file of labels")
    of_models.add_argument(
        "--vectors-labels", metavar="LABELS", help="labels of --vectors (default: those of the model)"
    )
    of_models.add_argument("--at", type=positive, metavar="R", help="list length R of MAP@R (default: 1000)")
    add_embedded(parser)
    add_threads(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Evaluate and print."""
    from ..errors import InputError
    from .inputs import file_kind
    from .score import score_model

    if args.asked is not None:
        if args.queries is not None:
            raise InputError(f"queries are given twice: {args.asked!r} and --queries {args.queries!r}")
        args.queries = args.asked
    if not os.path.isdir(args.index) and file_kind(args.index) == "model":
        return score_model(args)
    for name in ("labels", "labels_key", "vectors_labels", "at"):
        if getattr(args, name) is not None:
            raise InputError(f"--{name.replace('_', '-')} is for models; {args.index!r} is not a model")
    return _evaluate_index(args)


def _evaluate_index(args: argparse.Namespace) -> int:
    from .. import open as open_index
    from ..data import read_vectors
    from .inputs import read_truth
    from .output import print_json

    index = open_index(args.index)
    shape = None if args.embedded else index.input_shape
    found = index.evaluate(
        None if args.queries is None else read_vectors(args.queries, args.queries_key, input_shape=shape),
        10 if args.k is None else args.k,
        truth=None if args.truth is None else read_truth(args.truth, args.truth_key),
        x=None if args.vectors is None else read_vectors(args.vectors, args.vectors_key, input_shape=shape),
        margin=args.margin,
        sample=args.sample,
        threads=args.threads,
        seed=args.seed,
        embedded=args.embedded,
        rerank=args.rerank,
        recall=args.recall,
    )
    if args.json:
        print_json({"index": args.index, **found.as_dict()})
    else:
        print(found)
    return 0
