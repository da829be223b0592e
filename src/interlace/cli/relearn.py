"""``interlace relearn``: learns new codebooks from the originals of a store."""

from __future__ import annotations

import argparse
import time

from .options import add_json, add_learning, add_threads, learning
from .stores import add_store

HELP = "learn new codebooks from the originals of a store"
DESCRIPTION = """\
Learns codebooks from the originals that a store keeps (`interlace create --originals`), encodes all
rows again, and calibrates. Use it when `interlace health` reports drift. Searches use the old
codebooks until the new ones replace them atomically; after an error or Ctrl-C the store is unchanged.
Bytes and layout are those of the store unless given.
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
    """Learn and print a summary."""
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
        print(f"{args.store}: {rows:,} rows encoded with new codebooks in {seconds:.1f} s")
        print(codebooks)
    return 0
