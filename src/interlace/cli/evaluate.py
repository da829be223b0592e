"""``interlace evaluate``: how good and how fast the searches of an index are."""

from __future__ import annotations

import argparse

from .options import add_embedded, add_json, add_threads, margin, natural, positive

HELP = "measure recall, agreement and speed of an index"
DESCRIPTION = """\
Measures how good and how fast searches are. An index holds codes, not vectors: give the file it
was built from (--vectors), and the true neighbours are found there by brute force; or give them
(--truth, with --queries). With neither there is no recall, only agreement with the full scan.
Without --queries, some of the vectors are the queries, each one's own row left out.
"""
EPILOG = """\
examples:
  interlace evaluate my.index --vectors vectors.npy
  interlace evaluate my.index --vectors vectors.npy --queries queries.npy -k 100 --margin exact
  interlace evaluate my.index --queries queries.fvecs --truth groundtruth.ivecs --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``interlace evaluate``."""
    parser.add_argument("index", metavar="INDEX", help="index written by `interlace build`")
    parser.add_argument("--vectors", metavar="FILE", help="the vectors it was built from, in the same order")
    parser.add_argument("--queries", metavar="FILE", help="query vectors (default: some of the vectors)")
    parser.add_argument("--truth", metavar="FILE", help="ids of the true neighbours of the queries")
    for name in ("vectors", "queries", "truth"):
        parser.add_argument(f"--{name}-key", metavar="KEY", help=f"which array, column or data set of the {name}")
    parser.add_argument("-k", "--k", type=positive, default=10, metavar="K", help="neighbours per query (default: 10)")
    parser.add_argument(
        "--margin", type=margin, default=0.999, help="as for `interlace search`: 0.999 (default), exact, paper, inf"
    )
    parser.add_argument("--sample", type=positive, default=1000, metavar="N", help="at most so many queries (1000)")
    parser.add_argument("--seed", type=natural, default=0, metavar="N", help="which of them (default: 0)")
    add_embedded(parser)
    add_threads(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Evaluate and print."""
    from .. import Index
    from ..data import read_vectors
    from .inputs import read_truth
    from .output import print_json

    index = Index.open(args.index)
    shape = None if args.embedded else index.input_shape
    found = index.evaluate(
        None if args.queries is None else read_vectors(args.queries, args.queries_key, input_shape=shape),
        args.k,
        truth=None if args.truth is None else read_truth(args.truth, args.truth_key),
        x=None if args.vectors is None else read_vectors(args.vectors, args.vectors_key, input_shape=shape),
        margin=args.margin,
        sample=args.sample,
        threads=args.threads,
        seed=args.seed,
        embedded=args.embedded,
    )
    if args.json:
        print_json({"index": args.index, **found.as_dict()})
    else:
        print(found)
    return 0
