"""``interlace reproduce``: the figures of the paper, their tables, and a report."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..progress import Bar
from .options import add_threads, positive

if TYPE_CHECKING:
    from ..paper.results import Store
    from ..paper.runs import Run
    from ..paper.sizes import Size

HELP = "run the experiments of the paper and draw its figures"
DESCRIPTION = """\
Learns what a figure of the paper compares, measures it, and writes one JSON
for each fit and a picture; prints a table and what came of the claims. Runs
that are there are left out, so a run that was killed goes on where it was.
NAME is a figure, 'all', or 'report': the page of all figures (RESULTS.md) from
what is there.
Needs torch, scikit-learn and matplotlib (pip install 'interlace[train,cli]').
Files of MNIST, CIFAR-10 and SIFT are looked for in the folder that the variable
INTERLACE_DATA names.
"""
EPILOG = """\
examples:
  interlace reproduce --list
  interlace reproduce synthetic-cq
  interlace reproduce synthetic-cq --quick    a minute; numbers say little
  interlace reproduce codes --plugin mine.py  your own quantizer beside others
  interlace reproduce all --seeds 5
  interlace reproduce report
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``interlace reproduce``."""
    parser.add_argument("name", metavar="NAME", nargs="?", help="a figure, 'all' or 'report'; --list tells which")
    parser.add_argument("--list", action="store_true", help="figures, or the runs of NAME and whether they are there")
    parser.add_argument("--quick", action="store_true", help="few rows, epochs and books, into a folder of its own")
    parser.add_argument("--seeds", type=positive, metavar="N", help="seeds 0 to N - 1 (default: by figure)")
    parser.add_argument(
        "--resume",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="leave out what is there; --no-resume refuses results that are there and starts all fits anew",
    )
    parser.add_argument("--out", metavar="DIR", help="folder of the results (default: experiments/results)")
    parser.add_argument(
        "--only",
        action="append",
        metavar="NAME",
        help="runs of this method, line ('ICQ end to end'), data set ('mnist') or number of books ('8'); may be given "
        "again: '--only ICQ --only SQ+CQ --only 8' are both methods with 8 books",
    )
    parser.add_argument(
        "--plugin", action="append", default=[], metavar="FILE.py", help="register methods; may be given again"
    )
    parser.add_argument("--report", action="store_true", help="write the page of all figures afterwards")
    parser.add_argument("--size", help=argparse.SUPPRESS)  # tiny, for tests
    add_threads(parser)


def run(args: argparse.Namespace) -> int:
    """Run, draw, tell."""
    from ..errors import InputError
    from ..paper.figures import FIGURES
    from ..paper.plugins import load_plugin
    from ..paper.results import Store
    from ..paper.sizes import size_of

    for path in args.plugin:
        load_plugin(path)
    size = size_of("quick" if args.quick else args.size or "full")
    if args.quick and args.size not in (None, "quick"):
        raise InputError(f"give --quick or --size, not both; got --size {args.size}")
    folder = Path("experiments", "results", size.folder) if args.out is None else Path(args.out)
    store = Store(folder, size.name)
    if args.name is None:
        if not args.list:
            raise InputError(f"name a figure ({', '.join(FIGURES)}), 'all' or 'report'")
        return _list_figures(size, args.seeds)
    if args.name == "report" and args.list:
        raise InputError("--list tells figures, or the runs of one; 'report' has none")
    code = 0
    if args.name != "report":
        runs = _wanted(args, size)
        if args.list:
            return _list_runs(runs, store)
        code = _run(args, runs, store, size)
    if args.report or args.name == "report":
        _report(store, folder, default=args.out is None and size.name == "full")
    return code


def _wanted(args: argparse.Namespace, size: Size) -> list[Run]:
    from ..paper.figures import FIGURES, figure_of, runs_of

    figures = list(FIGURES.values()) if args.name == "all" else [figure_of(args.name)]
    runs = [run for figure in figures for run in runs_of(figure, size, args.seeds)]
    if args.only:
        runs = _only(args.only, runs, args.name)
    return runs


def _only(names: list[str], runs: list[Run], figure: str) -> list[Run]:
    """The runs that have one of the wanted names of each kind of which there is one, in small letters or large.

    Baselines have no books: they stay whatever number is wanted.
    """
    from ..errors import InputError

    kinds: list[Callable[[Run], set[str]]] = [
        lambda run: {run.method, run.label},
        lambda run: {run.data},
        lambda run: {str(run.n_books)} if run.n_books else set(),
    ]
    known = [{name for run in runs for name in kind(run)} for kind in kinds]
    asked = {name.casefold(): name for name in names}
    for folded, name in asked.items():
        if not any(folded == other.casefold() for found in known for other in found):
            present = dict.fromkeys(name for kind in kinds for run in runs for name in sorted(kind(run)))
            raise InputError(f"{figure} has no runs of {name}; it has {'; '.join(present)}")
    for kind, found in zip(kinds, known, strict=True):
        if wanted := {name for name in found if name.casefold() in asked}:
            runs = [run for run in runs if kind(run) & wanted or not kind(run)]
    return runs


def _list_figures(size: Size, seeds: int | None) -> int:
    from ..paper.figures import FIGURES, runs_of
    from .output import aligned

    rows: list[tuple[str, ...]] = [
        (name, f"{len(runs_of(f, size, seeds))} runs", f.title) for name, f in FIGURES.items()
    ]
    print(aligned(rows, indent=""))
    return 0


def _list_runs(runs: list[Run], store: Store) -> int:
    missing = set(store.missing(runs))
    for run in runs:
        print(f"{'-' if run in missing else 'there':6s}{run.figure:14s}{run.name}")
    return 0


def _run(args: argparse.Namespace, runs: list[Run], store: Store, size: Size) -> int:
    from ..paper.runner import run_all

    lines = _Lines()
    try:
        outcome = run_all(
            runs,
            store,
            size,
            resume=args.resume,
            threads=args.threads,
            say=lines.say,
            progress=lines.bar,
            debug=getattr(args, "debug", False),
        )
    except KeyboardInterrupt:
        lines.say("what is finished is kept; the same command goes on from here")
        raise
    finally:
        lines.clear()
    figures = list(dict.fromkeys(run.figure for run in runs))
    done = len(outcome.done) + len(outcome.copied)
    there, failed = len(outcome.there), len(outcome.failed)
    print(f"{done} run{'s'[: done != 1]} done, {there} were there, {failed} failed; results: {store.folder}")
    for name in figures:
        _show(store, name)
    for why in dict.fromkeys(outcome.failed.values()):
        print(f"interlace: error: {why}", file=sys.stderr)
    return 1 if outcome.failed else 0


def _show(store: Store, name: str) -> None:
    """The picture, a table, and what came of the claims of the figure."""
    from ..errors import InputError
    from ..paper.checks import OPEN
    from ..paper.claims import answers
    from ..paper.drawing import draw, title_of
    from ..paper.figures import figure_of
    from ..paper.report import SHORT, SHORT_VECTORS, notes_of, picture, results_of, rows_of
    from .output import aligned

    results = results_of(store, figure_of(name))
    if not len(results):
        return
    try:
        print(f"{name}: {draw(figure_of(name), results, picture(store, name))}")
    except InputError as error:  # matplotlib is not there; the numbers are
        print(f"{name}: no picture, {error}")
    for data in results.data:
        columns = SHORT_VECTORS if data == "vectors" else SHORT
        print(f"\n{title_of(results, data)}\n{aligned(rows_of(results, data, columns))}")
    for note in notes_of(results):
        print(f"\n{note}")
    told = answers(name, results)
    print("\nclaims" + ("" if store.size == "full" else f" (of size {store.size}: the answers say little)"))
    for claim, answer in told:
        if answer.verdict != OPEN:
            print(f"  {answer.verdict}: {claim.sentence} {answer.numbers}")
    if unknown := sum(answer.verdict == OPEN for _, answer in told):
        print(f"  not measured: {unknown} of {len(told)}, which need more runs")


def _report(store: Store, folder: Path, default: bool) -> None:
    from ..paper.report import write_report

    page, without = write_report(store, (folder.parent if default else folder) / "RESULTS.md")
    print(f"report: {page}" + (f" (no results yet: {', '.join(without)})" if without else ""))


class _Lines:
    """A line for each run; below it, on a terminal, a bar for each fit that takes longer than a second."""

    def __init__(self) -> None:
        self._bar: Bar | None = None

    def say(self, text: str) -> None:
        self.clear()
        print(text, file=sys.stderr, flush=True)

    def bar(self) -> Any:
        self._bar = Bar(delay=1.0, leave=False) if sys.stderr.isatty() else None
        return self._bar if self._bar is not None else False

    def clear(self) -> None:
        if self._bar is not None:
            self._bar.clear()
