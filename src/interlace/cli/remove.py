"""``interlace remove``: removes rows from a store."""

from __future__ import annotations

import argparse

from .options import add_json
from .stores import add_ids, add_store

HELP = "remove rows from a store by id"
DESCRIPTION = """\
Removes rows. If an id is unknown, no row is removed. The store frees the space of removed rows
automatically from time to time; `interlace compact` frees it at once.
"""
EPILOG = """\
examples:
  interlace remove my.store gone.txt
  interlace remove my.store --id 17 --id 18
  interlace remove my.store - --ignore-missing < gone.txt
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``interlace remove``."""
    add_store(parser)
    add_ids(parser, "remove")
    parser.add_argument("--ignore-missing", action="store_true", help="ignore unknown ids")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Remove and print how many."""
    from .output import print_json
    from .stores import given_ids, open_store

    with open_store(args.store, "a") as store:
        removed = store.remove(given_ids(args, store), missing="ignore" if args.ignore_missing else "raise")
        rows = len(store)
    if args.json:
        print_json({"store": args.store, "removed": removed, "rows": rows})
    else:
        print(f"{args.store}: {removed:,} row{'s' * (removed != 1)} removed; {rows:,} in the store")
    return 0
