"""``interlace export``: writes a store as one index file."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from ..errors import InputError
from .options import add_json
from .stores import add_store

if TYPE_CHECKING:
    from .. import Store

HELP = "write all rows of a store as one index file"
DESCRIPTION = """\
Writes the rows of a store, their ids and its calibration as one index file for all commands that
take an index. The store does not change. An index has no columns: --payload writes the columns of the
store to a separate file, in the same order of rows; --no-payload omits them.
"""
EPILOG = """\
examples:
  interlace export my.store -o my.index
  interlace export my.store -o my.index --payload my.parquet
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``interlace export``."""
    add_store(parser)
    parser.add_argument(
        "-o", "--output", metavar="FILE", required=True, help="index file to write; replaces an existing index"
    )
    columns = parser.add_mutually_exclusive_group()
    columns.add_argument("--payload", metavar="FILE.parquet", help="file to write the columns to")
    columns.add_argument("--no-payload", action="store_true", help="do not write the columns")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Export and print sizes."""
    from .output import print_json
    from .stores import open_store
    from .targets import check_interlace_target

    check_interlace_target(args.output, "an index")
    store = open_store(args.store)
    if args.payload is not None:
        _check_payload(args, store)
    elif store.columns is not None and not args.no_payload:
        raise InputError(
            "an index file has no columns: write them to a file with --payload FILE.parquet, or omit them with "
            "--no-payload"
        )
    store.to_file(args.output, payload=False)
    if args.payload is not None:
        _write_payload(args.payload, store)
    size = os.path.getsize(args.output)
    if args.json:
        facts = {"file": args.output, "rows": len(store), "file_bytes": size, "payload": args.payload}
        print_json({"store": args.store, **facts})
    else:
        print(f"{args.output}: {len(store):,} rows, {size:,} bytes")
        if args.payload is not None:
            print(f"{args.payload}: columns {', '.join(store.columns.names)}")
    return 0


def _check_payload(args: argparse.Namespace, store: Store) -> None:
    """Refuse a wrong --payload before anything is written."""
    from .targets import check_folder

    if not args.payload.endswith(".parquet"):
        raise InputError(f"--payload must end with .parquet, got {args.payload!r}")
    if store.columns is None:
        raise InputError(f"{args.store!r} has no columns: do not pass --payload")
    check_folder(args.payload, "columns")


def _write_payload(path: str, store: Store) -> None:
    import pyarrow.parquet as parquet

    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        parquet.write_table(store.payload(), temporary)
        os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)
