"""``interlace reproduce``: runs the experiments of the paper and writes figures, tables and a report."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..progress import Bar
from .options import add_threads, positive

if TYPE_CHECKING:
    from ..paper.results import ResultFolder
    from ..paper.runs import Run
    from ..paper.sizes import Size

HELP = "run the experiments of the paper and draw its figures"
DESCRIPTION = """\
Fits and measures the methods that a figure of the paper compares. Writes one
JSON file per fit and a plot; prints a table and the verdicts on the claims.
Runs that have a result are skipped, so an interrupted command can be resumed.
NAME is a figure, 'all', or 'report', which writes a page of all figures
(RESULTS.md) from the existing results.
Needs torch, scikit-learn and matplotlib (pip install 'interlace[train,cli]').
Files of MNIST, CIFAR-10 and SIFT are searched in the folder that the
environment variable INTERLACE_DATA names.
"""
EPILOG = """\
examples:
  interlace reproduce --list
  interlace reproduce synthetic-cq
  interlace reproduce synthetic-cq --quick    a minute; not representative
  interlace reproduce codes --plugin mine.py  compare your own quantizer
  interlace reproduce all --seeds 5
  interlace reproduce report
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``interlace reproduce``."""
    parser.add_argument("name", metavar="NAME", nargs="?", help="a figure (see --list), 'all', 'tune' or 'report'")
    parser.add_argument(
        "--list", action="store_true", help="list the figures, or the runs of NAME and whether they have results"
    )
    parser.add_argument("--quick", action="store_true", help="few rows, epochs and books, written to a separate folder")
    parser.add_argument("--full", action="store_true", help="all rows and long fits: days, in a separate folder")
    parser.add_argument("--seeds", type=positive, metavar="N", help="seeds 0 to N - 1 (default: depends on the figure)")
    parser.add_argument(
        "--resume",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="skip runs that have results; --no-resume refuses existing results and restarts all fits",
    )
    parser.add_argument("--out", metavar="DIR", help="folder for results (default: experiments/results)")
    parser.add_argument(
        "--only",
        action="append",
        metavar="NAME",
        help="only runs of this method, label ('ICQ end to end'), data set ('mnist') or number of books ('8'); "
        "repeatable: '--only ICQ --only SQ+CQ --only 8' selects both methods with 8 books",
    )
    parser.add_argument(
        "--plugin",
        action="append",
        default=[],
        metavar="FILE.py",
        help="Python file that registers methods; repeatable",
    )
    parser.add_argument(
        "--mixed", action="store_true", help="accept results that different code made, which are otherwise refused"
    )
    parser.add_argument("--untuned", action="store_true", help="use default settings, not those that 'tune' found best")
    parser.add_argument("--hours", type=float, metavar="H", help="start no further run after this time")
    parser.add_argument("--report", action="store_true", help="also write the page of all figures")
    parser.add_argument("--size", help=argparse.SUPPRESS)  # tiny, for tests
    add_threads(parser)


def run(args: argparse.Namespace) -> int:
    """Run, draw, print."""
    from ..errors import InputError
    from ..paper.figures import FIGURES
    from ..paper.plugins import load_plugin
    from ..paper.results import ResultFolder
    from ..paper.sizes import STANDARD, size_of

    for path in args.plugin:
        load_plugin(path)
    size = size_of("quick" if args.quick else "full" if args.full else args.size or STANDARD)
    if args.quick + args.full + (args.size is not None) > 1 and not (args.quick and args.size == "quick"):
        both = "--full" if args.full else f"--size {args.size}"
        raise InputError(f"--{'quick' if args.quick else 'size'} and {both} cannot be combined")
    folder = Path("experiments", "results", size.folder) if args.out is None else Path(args.out)
    store = ResultFolder(folder, size.name, mixed=args.mixed)
    if args.name is None:
        if not args.list:
            raise InputError(f"NAME is missing: pass a figure ({', '.join(FIGURES)}), 'all' or 'report'")
        return _list_figures(size, args.seeds)
    if args.name == "report" and args.list:
        raise InputError("--list lists figures or the runs of a figure; 'report' has no runs")
    code = 0
    if args.name != "report":
        runs = _wanted(args, size, store)
        if args.list:
            return _list_runs(runs, store)
        code = _run(args, runs, store, size)
    if args.report or args.name == "report":
        _report(store, folder, default=args.out is None and size.name == STANDARD)
    return code


def _wanted(args: argparse.Namespace, size: Size, store: ResultFolder) -> list[Run]:
    from ..paper.figures import FIGURES, figure_of, runs_of
    from ..paper.tuning import trials, tuned

    if args.name == "tune":
        found = trials(size)
        return _only(args.only, found, args.name) if args.only else found
    figures = list(FIGURES.values()) if args.name == "all" else [figure_of(args.name)]
    runs = [run for figure in figures for run in runs_of(figure, size, args.seeds)]
    if args.only:
        runs = _only(args.only, runs, args.name)
    return runs if args.untuned or args.list else tuned(runs, store)


def _only(names: list[str], runs: list[Run], figure: str) -> list[Run]:
    """Runs that match one of the names of each kind (method or label, data set, number of books), ignoring case.

    Baselines have no books and match every number of books.
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
            raise InputError(f"--only: {figure} has no runs of {name!r}; choose from {'; '.join(present)}")
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


def _list_runs(runs: list[Run], store: ResultFolder) -> int:
    missing = set(store.missing(runs))
    for run in runs:
        print(f"{'-' if run in missing else 'done':6s}{run.figure:14s}{run.name}")
    return 0


def _run(args: argparse.Namespace, runs: list[Run], store: ResultFolder, size: Size) -> int:
    from ..paper.figures import FIGURES
    from ..paper.runner import run_all

    lines = _Lines()
    try:
        outcome = run_all(
            runs,
            store,
            size,
            resume=args.resume,
            threads=args.threads,
            hours=args.hours,
            say=lines.say,
            progress=lines.bar,
            debug=getattr(args, "debug", False),
        )
    except KeyboardInterrupt:
        lines.say("finished runs are kept; run the same command again to resume")
        raise
    finally:
        lines.clear()
    figures = list(dict.fromkeys(run.figure for run in runs))
    done = len(outcome.done) + len(outcome.copied)
    there, failed = len(outcome.there), len(outcome.failed)
    print(f"{done} run{'s'[: done != 1]} done, {there} skipped, {failed} failed; results: {store.folder}")
    for name in figures:
        if name in FIGURES:
            _print_figure(store, name)
    for why in dict.fromkeys(outcome.failed.values()):
        print(f"interlace: error: {why}", file=sys.stderr)
    return 1 if outcome.failed else 0


def _print_figure(store: ResultFolder, name: str) -> None:
    """Draw a figure, print its tables and the verdicts on its claims."""
    from ..errors import InputError
    from ..paper.checks import OPEN
    from ..paper.claims import answers
    from ..paper.drawing import draw
    from ..paper.figures import figure_of
    from ..paper.names import title_of
    from ..paper.report import SHORT, SHORT_VECTORS, notes_of, picture, results_of, rows_of
    from ..paper.sizes import size_of
    from .output import aligned

    results = results_of(store, figure_of(name))
    if not len(results):
        return
    try:
        print(f"{name}: {draw(figure_of(name), results, picture(store, name))}")
    except InputError as error:  # matplotlib is not installed
        print(f"{name}: no plot, {error}")
    for data in results.data:
        columns = SHORT_VECTORS if data == "vectors" else SHORT
        print(f"\n{title_of(results, data)}\n{aligned(rows_of(results, data, columns))}")
    for note in notes_of(results):
        print(f"\n{note}")
    answered = answers(name, results)
    print("\nclaims" + ("" if size_of(store.size).representative else f" (size {store.size}: not representative)"))
    for claim, answer in answered:
        if answer.verdict != OPEN:
            print(f"  {answer.verdict}: {claim.sentence} {answer.numbers}")
    if unknown := sum(answer.verdict == OPEN for _, answer in answered):
        print(f"  not measured: {unknown} of {len(answered)}, which need more runs")


def _report(store: ResultFolder, folder: Path, default: bool) -> None:
    from ..paper.report import write_report

    page, without = write_report(store, (folder.parent if default else folder) / "RESULTS.md")
    print(f"report: {page}" + (f" (no results yet: {', '.join(without)})" if without else ""))


class _Lines:
    """Prints one line per run and, on a terminal, a progress bar for each fit that takes longer than a second."""

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
