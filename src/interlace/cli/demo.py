"""``interlace demo``: a table and a plot that compare interlace with exact search and faiss."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from .options import add_json

HELP = "compare a search with exact search and faiss"
DESCRIPTION = """\
Learns 8-byte codes for 25,000 small images (generated from scikit-learn's digits), searches them, and
compares recall, bytes and speed with exact search and with faiss, if it is installed. Prints a table
and draws a plot. Takes less than 20 seconds on one core.
"""
EPILOG = """\
examples:
  interlace demo
  interlace demo --out results --json
  interlace demo --quick          a few seconds; the numbers are not representative
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``interlace demo``."""
    parser.add_argument(
        "--out", metavar="DIR", default="interlace-demo", help="folder of the plot (default: interlace-demo)"
    )
    parser.add_argument("--quick", action="store_true", help="fewer rows and rounds")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Measure, print a table, draw a plot."""
    from . import demo_run as demo
    from .output import print_json, progress_bar
    from .plot import draw

    folder = Path(args.out)
    folder.mkdir(parents=True, exist_ok=True)  # fails before a minute of work
    with progress_bar() as progress:
        result = demo.run(6_000, 200, rounds=2, progress=progress) if args.quick else demo.run(progress=progress)
    plot = draw(result, folder / "demo.png")
    if args.json:
        print_json(asdict(result) | {"plot": None if plot is None else str(plot)})
        return 0
    print(demo.table(result))
    missing = "no plot, because matplotlib is not installed: pip install 'interlace[cli]'"
    print(f"took {result.seconds:.0f} s; " + (f"plot: {plot}" if plot else missing))
    return 0
