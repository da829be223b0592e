"""``interlace calibrate``: recalibrates margins and re-rank depths for the current rows of a store."""

from __future__ import annotations

import argparse
import time

from .options import add_embedded, add_json, add_threads
from .stores import add_store

HELP = "recalibrate the margins of a store for its current rows"
DESCRIPTION = """\
A margin such as 0.999 is calibrated for the rows that the store had at that time. It remains valid
until the store has twice as many rows, except for k = 1; after that, searches are exact, and slower,
until the store is calibrated again. If the store keeps originals, the re-rank depths of `interlace
search --recall` are measured as well. Pass queries that are like your future ones. Without queries,
the originals of some rows are the queries, or decoded rows if the store keeps no originals.
"""
EPILOG = """\
examples:
  interlace calibrate my.store queries.npy
  interlace calibrate my.store
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``interlace calibrate``."""
    add_store(parser)
    parser.add_argument("queries", metavar="QUERIES", nargs="?", help="file of query vectors, one per row")
    parser.add_argument("--key", help="which array, column or data set of QUERIES")
    add_embedded(parser)
    add_threads(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Calibrate and print the result."""
    from ..data import read_vectors
    from .output import print_json
    from .stores import open_store

    started = time.perf_counter()
    with open_store(args.store, "a") as store:
        shape = None if args.embedded else store.input_shape
        queries = None if args.queries is None else read_vectors(args.queries, args.key, input_shape=shape)
        store.calibrate(queries, threads=args.threads, embedded=args.embedded)
        health = store.health()
    seconds = time.perf_counter() - started
    if args.json:
        print_json({"store": args.store, "rows": health.rows, "calibrated": health.calibrated, "seconds": seconds})
    else:
        print(f"{args.store}: calibrated in {seconds:.1f} s; {health.calibration}")
    return 0
