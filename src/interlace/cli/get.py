"""``interlace get``: prints or writes rows of a store by id."""

from __future__ import annotations

import argparse
import json

from .stores import add_ids, add_store

HELP = "get rows of a store by id"
DESCRIPTION = """\
Gets the decoded vectors of rows, which approximate the vectors that were added. --originals gets the
original vectors if the store keeps them. With -o, writes a .npy array with one row per id in the given
order. Without -o, prints one line of JSON per row with its columns, which `interlace add` can read.
"""
EPILOG = """\
examples:
  interlace get my.store --id 17
  interlace get my.store ids.txt --originals -o vectors.npy
"""
ROWS = 4096  # decoded at a time


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``interlace get``."""
    add_store(parser)
    add_ids(parser, "get")
    parser.add_argument("--originals", action="store_true", help="get the original vectors, which the store must keep")
    parser.add_argument("-o", "--output", metavar="FILE.npy", help="array to write")


def run(args: argparse.Namespace) -> int:
    """Get rows, and print or write them."""
    from ..errors import InputError
    from .output import in_json, save_npy
    from .stores import given_ids, open_store
    from .targets import check_folder

    if args.output is not None:
        if not args.output.endswith(".npy"):
            raise InputError(f"--output must end with .npy, got {args.output!r}")
        check_folder(args.output, "an array", args.ids)
    store = open_store(args.store)
    ids = given_ids(args, store)
    if args.output is not None:
        save_npy(args.output, store.get(ids, originals=args.originals))
        print(f"wrote {args.output}: {len(ids):,} x {store.dim}")
        return 0
    snapshot = store.snapshot
    snapshot.rows.ids.rows_of(ids)  # raises for an unknown id before the first line is printed
    for first in range(0, len(ids), ROWS):
        some = ids[first : first + ROWS]
        vectors = snapshot.get(some, originals=args.originals).tolist()
        rows = [{"id": value, "vector": vector} for value, vector in zip(some, vectors, strict=True)]
        if store.columns is not None:
            payload = snapshot.payload(some).to_pylist()
            rows = [{**row, "payload": values} for row, values in zip(rows, payload, strict=True)]
        for row in rows:
            print(json.dumps(row, default=in_json))
    return 0
