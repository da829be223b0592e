"""``interlace relearn``: new books from the originals that a store keeps."""

from __future__ import annotations

import argparse
import time

from .options import add_json, add_learning, add_threads, learning
from .stores import add_store

HELP = "learn new books from the kept originals of a store"
DESCRIPTION = """\
Learns books from the originals that a store keeps (`interlace create --originals`), codes all rows by
them, and calibrates: for a store whose rows are no longer those that its books were learned for, see
`interlace health`. Searches go on with the old books until the new ones take their place in one step;
after an error or Ctrl-C before that the store is what it was. Bytes and layout stay unless given.
"""
EPILOG = """\
examples:
  interlace relearn my.store
  interlace relearn my.store --n-bytes 16
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``interlace relearn``."""
    add_store(parser)
    add_learning(parser, metric=False)
    add_threads(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Learn and tell."""
    from .output import print_json, progress_bar
    from .stores import open_store

    started = time.perf_counter()
    with open_store(args.store, "a") as store, progress_bar() as progress:
        store.relearn(progress=progress, threads=args.threads, **learning(args))
        rows, codebooks, generation = len(store), store.codebooks, store.generation
    seconds = time.perf_counter() - started
    if args.json:
        facts = {"rows": rows, "layout": codebooks.layout, "n_bytes": codebooks.n_bytes, "generation": generation}
        print_json({"store": args.store, **facts, "seconds": seconds})
    else:
        print(f"{args.store}: {rows:,} rows coded by new books in {seconds:.1f} s")
        print(codebooks)
    return 0
