"""``interlace export``: a store as one index file."""

from __future__ import annotations

import argparse
import os

from .options import add_json
from .stores import add_store

HELP = "write all rows of a store as one index file"
DESCRIPTION = """\
Writes the rows of a store, their ids and its calibration as one index file, which every command
takes that takes an index. The store stays as it is.
"""
EPILOG = """\
example:
  interlace export my.store -o my.index
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``interlace export``."""
    add_store(parser)
    parser.add_argument(
        "-o", "--output", metavar="FILE", required=True, help="index file to write; an old index is replaced"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Export and tell."""
    from .output import print_json
    from .stores import open_store
    from .targets import check_interlace_target

    check_interlace_target(args.output, "an index")
    store = open_store(args.store)
    store.to_file(args.output)
    size = os.path.getsize(args.output)
    if args.json:
        print_json({"store": args.store, "file": args.output, "rows": len(store), "file_bytes": size})
    else:
        print(f"{args.output}: {len(store):,} rows, {size:,} bytes")
    return 0
