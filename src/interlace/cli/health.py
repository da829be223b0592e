"""``interlace health``: reports whether a store needs maintenance."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from .options import add_json
from .stores import add_store

HELP = "report whether a store needs maintenance"
DESCRIPTION = """\
Reports deleted rows, segments and log size, whether the calibration is valid for the current rows,
and drift: the quantization error of recently added rows relative to that of rows held out of
learning. The last lines recommend what to do.
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
    """Print the health of a store."""
    from .output import print_json
    from .stores import open_store

    found = open_store(args.store).health()
    if args.json:
        facts = asdict(found) | {"removed_share": found.removed_share, "advice": found.advice}
        print_json({"store": args.store, **facts})
    else:
        print(f"{args.store}: {found}")
    return 0
