"""Runs the fits of RESULTS.md that no figure has, one JSON per fit, and prints their tables as Markdown.

    python experiments/controls.py [controls | attempts | defaults] [--list] [--table] [--hours H]

The fits are listed in controls.py, attempts.py and defaults.py of src/interlace/paper, the most informative first. Each
file in the folder of that name in results has the settings, the measures, the commit and a hash of the code. Fits that
have a file are skipped, so run it again to continue. Run it in a checkout without changes, so that results name their
commit.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from interlace.paper.attempts import ATTEMPTS
from interlace.paper.controls import CONTROLS
from interlace.paper.defaults import DEFAULTS
from interlace.paper.runner import run_all
from interlace.paper.sizes import STANDARD, size_of

STUDIES = {study.folder: study for study in (CONTROLS, ATTEMPTS, DEFAULTS)}
RESULTS = Path(__file__).resolve().parent / "results"


def main(argv: list[str] | None = None) -> int:
    """Execute the fits that have no result, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", nargs="?", choices=STUDIES, default=CONTROLS.folder, help="default: %(default)s")
    parser.add_argument("--list", action="store_true", help="list the fits and whether they have results")
    parser.add_argument("--table", action="store_true", help="print the tables of the existing results, run nothing")
    parser.add_argument("--hours", type=float, help="start no fit after that many hours")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the results (default: %(default)s)")
    options = parser.parse_args(argv)
    study = STUDIES[options.study]
    store, runs = study.store(options.results), study.runs()
    if options.list:
        for run in runs:
            print(f"{'done' if store.path(run).exists() else '-':6s}{run.figure}/{run.name}")
        return 0
    failed = {}
    if not options.table:
        say = lambda text: print(text, file=sys.stderr, flush=True)  # noqa: E731
        failed = run_all(runs, store, size_of(STANDARD), threads=1, hours=options.hours, say=say).failed
    study.everything(store)  # raises if different code made them
    for group in study.titles:
        if len(results := study.results_of(store, group)):
            print(f"{group}\n\n{study.table(results, group)}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
