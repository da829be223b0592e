"""``interlace compact``: merges a store into one segment without removed rows."""

from __future__ import annotations

import argparse
import time

from .options import add_json
from .stores import add_store

HELP = "free the space of the removed rows of a store"
DESCRIPTION = """\
Writes all rows of a store as one segment, without the removed rows. Searches continue meanwhile. A
store compacts some of its segments automatically; this command compacts all of them at once.
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
    """Compact and print sizes."""
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
            f"{args.store}: {after.rows:,} rows; dropped {before.removed:,} removed rows, {before.bytes:,} bytes "
            f"before, {after.bytes:,} now, in {seconds:.1f} s"
        )
    return 0
