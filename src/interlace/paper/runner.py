"""Executes missing runs one after the other; an interruption never loses a finished run."""

from __future__ import annotations

import platform
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from importlib import metadata
from typing import Any

from .._version import __version__
from ..errors import FitInterruptedWarning, InputError, InterlaceError
from ..estimators.baselines.registry import method
from ..estimators.models import Model
from ..learn.recipe import Recipe
from .figures import BASELINES, FIGURES
from .measure import baseline, measure
from .problem import Problem
from .provenance import current
from .results import Result, ResultFolder
from .runs import Run
from .sizes import Size
from .sources import GENERATED, STANDARD, load
from .tuning import FIGURE as TUNING
from .tuning import held_out

#: Rough cost of a data set relative to a synthetic one, to estimate the remaining time.
COSTS = {"mnist": 6.0, "cifar10": 6.0, "vectors": 4.0}

Say = Callable[[str], None]


@dataclass
class Outcome:
    """Requested runs by outcome."""

    done: list[Run] = field(default_factory=list)
    copied: list[Run] = field(default_factory=list)
    there: list[Run] = field(default_factory=list)
    failed: dict[Run, str] = field(default_factory=dict)
    elsewhere: list[Run] = field(default_factory=list)  #: another process fits them now
    left: list[Run] = field(default_factory=list)  #: not started, because the time was over


def run_all(
    runs: Sequence[Run],
    store: ResultFolder,
    size: Size,
    *,
    resume: bool = True,
    threads: int | None = None,
    hours: float | None = None,
    say: Say = lambda text: None,
    progress: Callable[[], Any] = lambda: False,
    debug: bool = False,
) -> Outcome:
    """Fit, measure and write every run that has no result yet.

    If a run fails (missing data, an error in a user's method), the error is reported and the other runs continue; with
    ``debug`` it is raised. A folder that is not writable, or that has results of other code (unless it is ``mixed``),
    is an error before the first fit. With ``resume=False`` existing results are an error, and checkpoints of
    interrupted fits are removed. After ``hours`` no further run starts. ``progress()`` returns the parameter
    ``progress`` of each estimator.
    """
    missing = store.missing(runs)
    outcome = Outcome(there=[run for run in runs if run not in set(missing)])
    if not resume:
        _restart(store, runs, outcome.there)
    for run in outcome.there:  # an interruption after writing the result leaves its checkpoint
        store.forget(run)
    if missing:
        store.check_writable()
        store.check_origin(dict.fromkeys((*FIGURES, TUNING, *(run.figure for run in runs))), current())
    left, clock = sum(_cost(run, size) for run in missing), _Clock()
    worker = _Worker(store, size, threads, progress, say)
    for number, run in enumerate(missing, 1):
        if hours is not None and clock.hours >= hours:
            outcome.left = missing[number - 1 :]
            say(f"{hours:g} hours are over: {len(outcome.left)} runs are left; run the same command again to continue")
            break
        if run in outcome.done:  # measured with the fit of another run
            continue
        if store.read(run) is not None:  # another process was faster
            outcome.there.append(run)
            continue
        known = store.same(run, FIGURES)
        if known is not None:
            store.write(run, {"copied_from": known["run"]["figure"], **_measured(known)})
            outcome.copied.append(run)
        else:
            if not store.claim(run):  # another process fits it now
                outcome.elsewhere.append(run)
                continue
            say(f"[{number}/{len(missing)}{clock.left(left)}] {run.title}")
            together = [run, *(other for other in missing[number:] if _one_fit(run, other) and store.claim(other))]
            try:
                results = worker.results(together)
                texts = {one: store.text(one, result) for one, result in results.items()}
            except Exception as error:  # a user's method may raise anything
                if debug:
                    raise
                why = _why(error)
                say("  failed with the same error" if why in outcome.failed.values() else f"  failed: {why}")
                outcome.failed[run] = why
            except BaseException:  # Ctrl-C
                for one in together:
                    store.release(one)
                raise
            else:
                for one, text in texts.items():
                    store.keep(one, text)  # a write error stops all runs: later results would be lost as well
                    outcome.done.append(one)
                store.forget(run)
                clock.passed(_cost(run, size))
            for one in together:  # after a failure as well
                store.release(one)
        left -= _cost(run, size)
    return outcome


class _Worker:
    """Fits and measures runs; keeps the data of the last run, which the next one usually shares."""

    def __init__(
        self, store: ResultFolder, size: Size, threads: int | None, progress: Callable[[], Any], say: Say
    ) -> None:
        self.store, self.size, self.threads, self.progress, self.say = store, size, threads, progress, say
        self._loaded: tuple[tuple[str, int, bool], Problem] | None = None
        self._refused: dict[tuple[str, int, bool], Exception] = {}

    def problem(self, run: Run) -> Problem:
        """Data of a run; a failure to load it is remembered."""
        key = run.data, run.seed, run.figure == TUNING
        if key in self._refused:
            raise self._refused[key]
        if self._loaded is None or self._loaded[0] != key:
            self._loaded = None  # never two data sets in memory
            try:
                found = load(run.data, run.seed, self.size, self.store.folder / "networks", self.threads)
                found = held_out(found) if run.figure == TUNING else found
            except (InterlaceError, FileNotFoundError) as error:
                self._refused[key] = error
                raise
            if found.name == GENERATED:
                self.say(f"  SIFT file not found: {run.data} are generated; compare results only with each other")
            self._loaded = key, found
        return self._loaded[1]

    def results(self, runs: Sequence[Run]) -> dict[Run, Result]:
        """Contents of the JSON files, except the runs themselves; all runs have the fit of the first one."""
        with _recorded_warnings() as texts:
            problem = self._checked(runs[0])
            started = time.perf_counter()
            model = None if runs[0].method in BASELINES else self.fitted(runs[0], problem)
            seconds = time.perf_counter() - started
        found = {}
        for run in runs:
            with _recorded_warnings() as more:
                started = time.perf_counter()
                other = self._checked(run)
                if run != runs[0] and (theirs := other.learned) != problem.learned:
                    raise InputError(f"{run.data} has other training rows or queries than {runs[0].data}: {theirs}")
                measures = baseline(run.method, other, run.seed) if model is None else measure(model, other)
            found[run] = {
                "data": other.description,
                "measures": measures,
                "fit": {} if model is None else _fit_of(model),
                "fit_seconds": seconds,
                "seconds": seconds + time.perf_counter() - started,
                "provenance": current().to_dict(),
                "versions": versions(),
                "warnings": list(dict.fromkeys([*texts, *more])),
            }
        return found

    def _checked(self, run: Run) -> Problem:
        """Data of a run, which finished runs must share."""
        problem = self.problem(run)
        self.store.check_data(run, problem.description["sha256"])
        return problem

    def fitted(self, run: Run, problem: Problem) -> Model:
        """The fitted estimator of a run; resumes from a checkpoint if there is one."""
        settings: dict[str, Any] = dict(run.settings)
        if run.labels:
            changes = dict(self.size.lengths) | dict(run.changes) | dict(self.size.recipe)
            if run.recipe == "paper":
                settings["recipe"] = Recipe.paper(**changes)
            elif changes:
                settings["recipe"] = Recipe(**changes)
            settings["embedding"] = run.embedding
            settings["checkpoint"] = checkpoint = self.store.checkpoint(run)
            checkpoint.parent.mkdir(parents=True, exist_ok=True)
            if run.dim is not None:
                settings["dim"] = run.dim
            if run.loss is not None:
                settings["loss"] = run.loss
        model = method(run.method).make(
            n_books=run.n_books, seed=run.seed, threads=self.threads, progress=self.progress(), **settings
        )
        if not isinstance(model, Model):
            made = type(model).__name__
            raise InputError(f"the method {run.method!r} must return an interlace.estimators.models.Model, got {made}")
        return model.fit(problem.x, problem.labels) if run.labels else model.fit(problem.x)


def _one_fit(run: Run, other: Run) -> bool:
    """Whether two runs differ only in the database that is searched."""
    return {run.data, other.data} <= STANDARD.keys() and other == replace(run, data=other.data)


@contextmanager
def _recorded_warnings() -> Iterator[list[str]]:
    """List of the texts of warnings; the warning of an interrupted fit is raised as KeyboardInterrupt."""
    texts: list[str] = []
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warnings.simplefilter("error", FitInterruptedWarning)
            yield texts
    except FitInterruptedWarning as error:
        raise KeyboardInterrupt from error
    texts += dict.fromkeys(" ".join(str(warning.message).split()) for warning in caught)


class _Clock:
    """Estimates the remaining time from the seconds per unit of cost so far."""

    def __init__(self) -> None:
        self._started, self._cost = time.perf_counter(), 0.0

    @property
    def hours(self) -> float:
        """Since the start."""
        return (time.perf_counter() - self._started) / 3600

    def passed(self, cost: float) -> None:
        self._cost += cost

    def left(self, cost: float) -> str:
        if not self._cost:
            return ""
        minutes = (time.perf_counter() - self._started) / self._cost * cost / 60
        return f", {minutes:.0f} min left" if minutes >= 1 else ", less than a minute left"


def _cost(run: Run, size: Size) -> float:
    """Cost of a run relative to others; a book costs a third of the fixed part."""
    rows = COSTS.get(run.data.partition("-")[0], 1.0) if size.rows is None else 1.0
    network = {512: 4.0, 1024: 8.0}.get(run.dim or 0, 1.0) * (1.0 if run.embedding == "linear" else 10.0)
    return rows * network * (3 + run.n_books)


def _restart(store: ResultFolder, runs: Iterable[Run], there: list[Run]) -> None:
    """Refuse existing results and remove checkpoints."""
    if there:
        raise InputError(
            f"--no-resume: {str(store.folder)!r} has results of {len(there)} of these runs ({there[0].name}.json ...), "
            "which are never overwritten: move them away, or pass another --out"
        )
    for run in runs:
        store.forget(run)


def _why(error: Exception) -> str:
    """Error text in one line; with the type if it is not one of ours."""
    known = isinstance(error, InterlaceError | OSError)
    text = str(error) if known else f"{type(error).__name__}: {error} (--debug shows where)"
    return " ".join(text.split())


def _measured(result: Result) -> Result:
    return {name: value for name, value in result.items() if name not in ("format", "size", "run", "copied_from")}


def _fit_of(model: Model) -> dict[str, Any]:
    """Information about the fit, as far as the method provides it."""
    info = model.fit_info_
    names = ("epochs", "validation_map", "loss", "recipe", "psi", "psi_share")
    return {name: info[name] for name in names if name in info}


def versions() -> dict[str, str]:
    """Versions of the packages that the numbers depend on."""
    found = {"interlace": __version__, "python": platform.python_version()}
    for name in ("numpy", "torch", "scikit-learn"):
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found
