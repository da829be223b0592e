"""Figures that the papers of the baselines report, and the runs here that follow their protocols."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .sizes import FULL, STANDARD
from .summary import Mean, Results


@dataclass(frozen=True)
class Reported:
    """A figure of another paper, taken from summaries of it."""

    method: str
    data: str  #: as the paper has it
    code: str
    values: tuple[float, ...]  #: one, or the ends of a range
    measure: str  #: in ``summary.MEASURES``
    run: tuple[str, str, str, int]  #: figure, data, label and number of books of the run here
    about: bool = False  #: the summaries do not agree on the last digit
    #: A run in another protocol, which is shown if there is none in that of the paper; and what differs.
    nearest: tuple[tuple[str, str, str, int], str] | None = None

    @property
    def text(self) -> str:
        """The figure as the summaries print it: ``about .94``, ``.55-.58``."""
        return ("about " if self.about else "") + "-".join(f"{value:.3g}"[1:] for value in self.values)


REPORTED: tuple[Reported, ...] = (
    Reported("SQ", "MNIST, kernel features", "64 bits", (0.94,), "map", ("published", "mnist-kernel", "SQ", 8), True),
    Reported("SQ", "MNIST, pixels", "64 bits", (0.94,), "map", ("published", "mnist", "SQ", 8), True),
    Reported("DQN", "CIFAR-10, 54K", "48 bits", (0.55, 0.58), "map", ("published", "cifar10-54k", "DQN (CNN)", 6)),
    Reported(
        "DPQ",
        "CIFAR-10",
        "48 bits",
        (0.75,),
        "map",
        ("published", "cifar10-images", "DPQ (CNN)", 6),
        nearest=(("published", "cifar10-54k", "DPQ (CNN)", 6), "learned from 5,000 images, searched in 54K"),
    ),
    Reported(
        "PQN", "CIFAR-10, 3-layer CNN", "48 bits", (0.786,), "map", ("published", "cifar10-images", "PQN (CNN)", 6)
    ),
    Reported("SUBIC", "CIFAR-10, 3-layer CNN", "48 bits", (0.686,), "map", ("published", "cifar10-images", "SUBIC", 6)),
)


def published_rows(figures: Mapping[str, Results], full: Mapping[str, Results] | None = None) -> list[tuple[str, ...]]:
    """Cells of the table: method, data, code, reported, measured, measure, size, seeds, commit.

    Where the full size (all images) has results, they are shown; without a run in the protocol of the paper, the
    nearest one.
    """
    rows: list[tuple[str, ...]] = []
    for one in REPORTED:
        measured, made = "not measured", ("-", "-", "-")
        wanted = [(one.run, "")] + ([(one.nearest[0], f" ({one.nearest[1]})")] if one.nearest else [])
        sizes = ((full or {}, FULL), (figures, STANDARD))
        for run, told, known, size in ((*these, *those) for these in wanted for those in sizes):
            if (found := _measured(run, one.measure, known)) is not None:
                figure, data, label, n_books = run
                commits = known[figure].commits(data, label, n_books)
                measured, made = found.text() + told, (size, str(found.n), ", ".join(commits))
                break
        rows.append((one.method, one.data, one.code, f"{one.text} (reported)", measured, one.measure.upper(), *made))
    return rows


def _measured(run: tuple[str, str, str, int], measure: str, figures: Mapping[str, Results]) -> Mean | None:
    figure, data, label, n_books = run
    return figures[figure].mean(data, label, n_books, measure) if figure in figures else None
