"""``interlace verify``: checks every byte of a file against its checksums, and the invariants of an index."""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

from .options import add_json

HELP = "check every byte of an index file or a store"
DESCRIPTION = """\
Reads the whole file and compares every section with its checksum. For an index, also checks that
codes, row numbers and ids are consistent. For a store, checks all its files. Exit code 0: no damage;
1: damaged, or not an interlace file.
"""
EPILOG = """\
example:
  interlace verify my.index && cp my.index /somewhere/safe/
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``interlace verify``."""
    parser.add_argument("file", metavar="FILE", help="index, model or codebooks file, or the directory of a store")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Check a file or a store; raises for damage."""
    from .. import Codebooks, FileError, Index, store
    from ..codec.embedding import embedding_in
    from ..files.storage import read
    from .output import print_json

    started = time.perf_counter()
    try:
        if os.path.isdir(args.file):
            return _print_store(args, store.verify(args.file), started)
        file = read(args.file)
        if file.meta.get("kind") == "index":
            Index.open(args.file).verify()
        else:
            file.verify()
            if "codebooks" in file.meta:
                Codebooks.load(args.file)
            embedding_in(file)
    except FileError as error:
        if args.json:
            print_json({"file": args.file, "ok": False, "error": str(error)})
        raise
    seconds = time.perf_counter() - started
    if args.json:
        print_json(
            {"file": args.file, "ok": True, "bytes": file.n_bytes, "sections": len(file.names), "seconds": seconds}
        )
    else:
        sections = f"{len(file.names)} sections"
        print(f"{args.file}: no damage, checked {file.n_bytes:,} bytes in {sections} in {seconds:.2f} s")
    return 0


def _print_store(args: argparse.Namespace, found: Any, started: float) -> int:
    """Print what was checked in a store."""
    from .output import print_json

    seconds = time.perf_counter() - started
    facts = {"rows": found.rows, "files": found.files, "bytes": found.n_bytes}
    if args.json:
        print_json({"file": args.file, "ok": True, **facts, "seconds": seconds})
    else:
        print(
            f"{args.file}: no damage, checked {found.rows:,} rows, {found.n_bytes:,} bytes in {found.files} files in "
            f"{seconds:.2f} s"
        )
    return 0
