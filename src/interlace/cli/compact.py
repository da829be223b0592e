"""``interlace compact``: one segment, no removed rows."""

from __future__ import annotations

import argparse
import time

from .options import add_json
from .stores import add_store

HELP = "give back the space of removed rows of a store"
DESCRIPTION = """\
Writes all rows of a store as one segment, without those that were removed. Readers go on meanwhile.
A store does part of this by itself; here it is done at once, and for all of it.
"""
EPILOG = """\
example:
  interlace compact my.store
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``interlace compact``."""
    add_store(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Compact and tell."""
    from .output import print_json
    from .stores import open_store

    started = time.perf_counter()
    with open_store(args.store, "a") as store:
        before = store.health()
        store.compact()
        after = store.health()
    seconds = time.perf_counter() - started
    if args.json:
        facts = {"rows": after.rows, "bytes_before": before.bytes, "bytes": after.bytes, "seconds": seconds}
        print_json({"store": args.store, "removed": before.removed, "segments_before": before.segments, **facts})
    else:
        print(
            f"{args.store}: {after.rows:,} rows; {before.removed:,} removed ones are gone, {before.bytes:,} bytes "
            f"became {after.bytes:,} in {seconds:.1f} s"
        )
    return 0
