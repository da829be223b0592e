"""Tuning with one budget: every line gets the same number of fits, on training rows, and all of them are kept.

``interlace reproduce tune`` fits the first settings of each method for each family of data sets, as many as the size
of the run has in its ``budget``. A fit learns from
some training rows and is judged by other training rows; test queries are never used. Figures then use the best setting
of each line. A figure whose lines have different numbers of fits is refused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from ..errors import InputError
from .figures import FIGURES as ALL_FIGURES
from .figures import HEAD, runs_of
from .problem import Problem
from .results import ResultFolder
from .runs import Run, Settings
from .sizes import Size, size_of
from .summary import value_of

FIGURE = "tuning"
#: Settings of each line in each family; the budget of a size is the first of them.
MOST = 8
#: Rows to learn from, and rows to judge by, at most; both are training rows.
LEARN_ROWS, JUDGED_ROWS = 12_000, 2_000
#: The data set on which each family is tuned. Seed 10 draws no data set of a figure.
DATA = {"synthetic": "synthetic2", "linear": "mnist", "heads": "cifar10-alexnet"}
SEED, N_BOOKS, HEAD_DIM = 10, 8, 1024
MEASURE = "map@100"
_QUICK: Settings = (("rate_embedding", 1e-3),)
_SOFT: tuple[Settings, ...] = ((("softness", 0.1),), (("softness", 1.0),))
_RATES: tuple[Settings, ...] = ((("rate_books", 0.03),), (("rate_books", 0.003),))
_WORDS: tuple[Settings, ...] = ((("error", 0.05),), (("scale", 4.0),))
_BOTH: tuple[Settings, ...] = ((*_QUICK, ("scale", 4.0)), (*_QUICK, ("error", 0.05)))
#: Settings of each method, the default first; methods that are compared have as many.
GRIDS: dict[str, tuple[Settings, ...]] = {
    "ICQ": ((), _QUICK, *_WORDS, (("psi_share", 0.125),), (("cross", 10.0),), *_BOTH),
    "SQ+CQ": ((), _QUICK, *_WORDS, (("cross", 90.0),), (("cross", 10.0),), *_BOTH),
    "SQ+PQ": ((), _QUICK, *_WORDS, *_RATES, *_BOTH),
    "DQN": ((), _QUICK, (("error", 0.05),), (("error", 0.8),), *_RATES, (*_QUICK, ("error", 0.05)), (("error", 2.0),)),
    "DPQ": ((), _QUICK, *_SOFT, (("central", 0.3),), (("gini", 0.3),), *_RATES),
    "PQN": ((), _QUICK, *_SOFT, *_RATES, (*_QUICK, ("rate_books", 0.03)), (("soft_error", 0.05),)),
}
_LOW = ("cross", 3.0)
_FAST: Settings = (*_QUICK, ("scale", 4.0))
#: The same for heads on features of a network, in addition to the length of their training.
HEAD_GRIDS: dict[str, tuple[Settings, ...]] = {
    "ICQ": (
        (),
        _QUICK,
        _FAST,
        (*_FAST, _LOW),
        (*_FAST, _LOW, ("rate_books", 0.03)),
        (*_FAST, _LOW, ("rate_books", 0.03), ("hard_after", 1)),
        (_LOW,),
        (*_QUICK, _LOW),
    ),
    "SQ+CQ": (
        (),
        _QUICK,
        _FAST,
        (*_FAST, _LOW),
        (*_FAST, _LOW, ("rate_books", 0.03)),
        (*_FAST, _LOW, ("error", 0.05)),
        (_LOW,),
        (*_QUICK, _LOW),
    ),
    "SQ+PQ": (
        (),
        _QUICK,
        _FAST,
        (*_FAST, ("rate_books", 0.03)),
        (*_FAST, ("rate_books", 0.003)),
        (*_FAST, ("error", 0.05)),
        (("rate_books", 0.03),),
        (*_QUICK, ("rate_books", 0.03)),
    ),
    "PQN": ((), _QUICK, *_SOFT, *_RATES, (*_QUICK, ("rate_books", 0.03)), (*_QUICK, ("softness", 1.0))),
    "PQN+CQ": (
        (),
        (("error", 0.005), ("cross", 0.75)),
        (*_QUICK, ("error", 0.005), ("cross", 0.75)),
        (("error", 0.05), _LOW),
        (("error", 0.005), _LOW),
        (("error", 0.05), ("cross", 0.75)),
        (("error", 0.005), ("cross", 0.75), ("softness", 1.0)),
        (("error", 0.005), ("cross", 0.75), ("rate_books", 0.003)),
    ),
    "DQN": ((), _QUICK, (("error", 0.05),), (("error", 0.8),), *_RATES, (*_QUICK, ("error", 0.05)), (("error", 2.0),)),
    "DPQ": ((), _QUICK, *_SOFT, (("central", 0.3),), (("gini", 0.3),), *_RATES),
}
#: Figures whose lines are tuned; those of ``ablation`` are compared with the default.
FIGURES = ("synthetic-pq", "synthetic-cq", "real-sq", "effective", "pqn", "unseen", "text")


def family_of(run: Run) -> str | None:
    """The family whose settings a run takes; None if it is not tuned."""
    if run.figure not in FIGURES or not run.n_books or run.recipe != "default" or run.loss is not None:
        return None
    if run.embedding != "linear" or run.settings or not run.labels:
        return None
    kind = run.data.partition("-")[2]
    family = "heads" if kind in ("lenet", "alexnet", "cnn3") else run.data.rstrip("123") if kind == "" else "linear"
    family = family if family in ("heads", "synthetic") else "linear"
    return family if run.method in grids(family) else None


def grids(family: str) -> Mapping[str, tuple[Settings, ...]]:
    """Settings of each method in a family."""
    return HEAD_GRIDS if family == "heads" else GRIDS


def lines(family: str, size: Size) -> list[str]:
    """Methods of a family that some figure of this size compares, in the order of their grids."""
    runs = (run for name in FIGURES for run in runs_of(ALL_FIGURES[name], size, 1))
    used = {run.method for run in runs if family_of(run) == family}
    return [method for method in grids(family) if method in used]


def trials(size: Size, families: Iterable[str] = tuple(DATA)) -> list[Run]:
    """Every fit of the tuning, setting by setting, so that all lines have as many when it is interrupted."""
    return [
        _trial(family, method, number)
        for family in families
        for number in range(size.budget)
        for method in lines(family, size)
    ]


def _trial(family: str, method: str, number: int) -> Run:
    heads = family == "heads"
    changes = grids(family)[method][number]
    return Run(
        label=f"{method} {number}",
        method=method,
        figure=FIGURE,
        data=DATA[family],
        n_books=N_BOOKS,
        seed=SEED,
        dim=HEAD_DIM if heads else None,
        changes=(*HEAD, *changes) if heads else changes,
    )


def held_out(problem: Problem) -> Problem:
    """Training rows alone: some to learn from, which are the database, and others as queries."""
    judged = min(JUDGED_ROWS, len(problem.x) // 5)
    learn = min(LEARN_ROWS, len(problem.x) - judged)
    x, labels = problem.x, problem.labels
    assert labels is not None
    last = slice(len(x) - judged, len(x))
    return Problem(f"{problem.name}-held-out", x[:learn], x[last], labels[:learn], labels[last])


def scores(store: ResultFolder, family: str, method: str) -> dict[int, float]:
    """MAP@100 of each finished fit, by the number of its setting."""
    found = {n: store.read(_trial(family, method, n)) for n in range(size_of(store.size).budget)}
    return {n: value_of(result, MEASURE) or 0.0 for n, result in found.items() if result is not None}


def tuned(runs: Sequence[Run], store: ResultFolder) -> list[Run]:
    """The runs with the best settings of their lines; unchanged if nothing was tuned.

    InputError if the lines of a family have different numbers of fits, or not all of them.
    """
    budget = size_of(store.size).budget
    families = {family for run in runs if (family := family_of(run)) is not None}
    best: dict[tuple[str, str], Settings] = {}
    for family in sorted(families):
        methods = sorted({run.method for run in runs if family_of(run) == family})
        counted = {method: scores(store, family, method) for method in methods}
        if not any(counted.values()):
            continue
        if any(len(found) != budget for found in counted.values()):
            listed = ", ".join(f"{method} {len(found)}" for method, found in counted.items())
            raise InputError(
                f"lines of {family} must have {budget} tuning fits each, there are {listed}: finish 'interlace "
                "reproduce tune', or pass --untuned"
            )
        for method, found in counted.items():
            number = max(found, key=lambda n: (found[n], -n))
            best[family, method] = grids(family)[method][number]
    return [_with(run, best) for run in runs]


def _with(run: Run, best: Mapping[tuple[str, str], Settings]) -> Run:
    family = family_of(run)
    if family is None or (family, run.method) not in best:
        return run
    chosen = best[family, run.method]
    base = HEAD if family == "heads" else run.changes
    return dataclasses.replace(run, changes=tuple((dict(base) | dict(chosen)).items()))


def table(store: ResultFolder) -> list[tuple[str, ...]]:
    """Cells for the page: family, method, fits, best setting, its MAP@100, that of the default."""
    rows: list[tuple[str, ...]] = []
    for family in DATA:
        for method in grids(family):
            if found := scores(store, family, method):
                number = max(found, key=lambda n: (found[n], -n))
                changed = ", ".join(f"{name} = {value:g}" for name, value in grids(family)[method][number])
                default = f"{found[0]:.3f}" if 0 in found else "-"
                rows.append((family, method, str(len(found)), changed or "default", f"{found[number]:.3f}", default))
    return rows
