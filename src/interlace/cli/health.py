"""``interlace health``: what a store needs."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from .options import add_json
from .stores import add_store

HELP = "tell whether a store needs something"
DESCRIPTION = """\
Tells what lies about in a store (removed rows, segments, log), whether its calibration still holds,
and whether its books still fit the rows that come: the error of rows of late against that of rows
held out of learning ("drift"). The last lines say what to do.
"""
EPILOG = """\
examples:
  interlace health my.store
  interlace health my.store --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``interlace health``."""
    add_store(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Look and tell."""
    from .output import print_json
    from .stores import open_store

    found = open_store(args.store).health()
    if args.json:
        facts = asdict(found) | {"removed_share": found.removed_share, "advice": found.advice}
        print_json({"store": args.store, **facts})
    else:
        print(f"{args.store}: {found}")
    return 0
