"""RESULTS.md: for each figure the picture, the claims with their answers, and a table, all from the JSON."""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import InputError
from .checks import OPEN
from .claims import answers
from .drawing import draw, title_of
from .figures import BASELINES, FIGURES, Figure
from .results import Store
from .summary import Mean, Results

HEAD = """\
# Results

Made by `interlace reproduce report` from the JSON beside it; do not edit. {protocol} says how runs are
made and what was chosen where the paper leaves it open. MAP is that of the whole ranking by the exhaustive scan of the
codes; *float* is the same embedding without codes. *error* is the share of the variance that codes lose, of rows that
were not learned from. Operations are table additions per query and database vector for lists of 100: *two-step* as in
the paper (every row pays for every crude book), *crude order* where rows come by their crude distance; at 99.9 %
agreement with the exhaustive scan by the calibrated margin, and by the exact bound. *agreement* is what the calibrated
margin reached, two-step. *paper's margin* is the two-step search by the paper's sigma, *psi* the number of its
dimensions. The other methods' own papers add up all tables: K operations (*exhaustive*); ours are what the same books
cost in our search. Tables of vectors without labels have the operations of our own search, *in cells*: rows of a cell
that is skipped cost nothing, so that they may be less than 1. Means and standard deviations over seeds; a gap counts
as ahead or behind if it is beyond two standard errors over paired seeds, which for three seeds is right four times in
five (with one seed, always).
"""
#: Of any size but the full one.
SMALL = """
**These runs are of size {size}: few rows, books and epochs. They show that everything runs; neither their numbers nor
the answers to claims say how good anything is.**
"""

#: Of a table: heading, measure, decimal places.
Columns = tuple[tuple[str, str, int], ...]
LABELLED: Columns = (
    ("MAP", "map", 3),
    ("MAP@100", "map@100", 3),
    ("P@100", "precision@100", 3),
    ("float MAP", "float", 3),
    ("error", "error", 3),
    ("exhaustive", "exhaustive", 0),
    ("two-step", "two-step", 2),
    ("two-step, exact", "two-step exact", 2),
    ("crude order", "crude order", 2),
    ("crude order, exact", "crude order exact", 2),
    ("agreement", "agreement", 4),
)
#: Of the ablation besides: what sigma's constant changes, and how many dimensions psi has.
PAPER_MARGIN: Columns = (
    ("paper's margin", "two-step paper", 2),
    ("its agreement", "agreement of paper", 4),
    ("psi", "psi", 1),
)
VECTORS: Columns = (
    ("bytes", "bytes", 0),
    ("error", "error", 4),
    ("recall@1", "recall@1", 3),
    ("recall@10", "recall@10", 3),
    ("recall@100", "recall@100", 3),
    ("in cells", "own", 2),
    ("in cells, exact", "own exact", 2),
    ("agreement", "agreement in crude order", 4),
)
#: What a terminal has room for.
SHORT: Columns = tuple(
    column for column in LABELLED if column[0] in ("MAP", "float MAP", "error", "exhaustive", "two-step")
)
SHORT_VECTORS: Columns = tuple(column for column in VECTORS if column[0] in ("bytes", "error", "recall@10", "in cells"))


def results_of(store: Store, figure: Figure) -> Results:
    """All that a figure has."""
    return Results(store.all(figure.name), figure.lines)


def write_report(store: Store, page: Path, *, pictures: bool = True) -> tuple[Path, list[str]]:
    """Draw every figure that has results, write the page; the figures that have none."""
    present = _present(store)
    if not present:
        raise InputError(f"there are no results in {str(store.folder)!r} to report; run a figure first, or give --out")
    if pictures:
        for name, results in present.items():
            draw(FIGURES[name], results, picture(store, name))
    text = page_text(store, page)
    page.parent.mkdir(parents=True, exist_ok=True)
    temporary = page.with_name(f"{page.name}.{os.getpid()}.tmp")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, page)
    return page, [name for name in FIGURES if name not in present]


def _present(store: Store) -> dict[str, Results]:
    """Figures that have results."""
    found = {name: results_of(store, figure) for name, figure in FIGURES.items()}
    return {name: results for name, results in found.items() if len(results)}


def page_text(store: Store, page: Path) -> str:
    """What the page should say, if it stood there."""
    present = _present(store)
    beside = (page.parent / "PROTOCOL.md").exists()
    parts = [HEAD.format(protocol="[PROTOCOL.md](PROTOCOL.md)" if beside else "experiments/PROTOCOL.md of the project")]
    if store.size != "full":
        parts[0] += SMALL.format(size=store.size)
    parts.append(_overview(present))
    parts += [
        _section(FIGURES[name], results, _relative(picture(store, name), page)) for name, results in present.items()
    ]
    return "\n".join(parts)


def picture(store: Store, figure: str) -> Path:
    """Where the picture of a figure is."""
    return store.folder / figure / f"{figure}.png"


def _relative(path: Path, page: Path) -> str:
    return Path(os.path.relpath(path, page.parent)).as_posix()


def _overview(found: dict[str, Results]) -> str:
    lines = ["## Claims", "", "| figure | claim | answer |", "| --- | --- | --- |"]
    for name, results in found.items():
        lines += [f"| [{name}](#{name}) | {c.sentence} | {_bold(a.verdict)} |" for c, a in answers(name, results)]
    return "\n".join(lines) + "\n"


def _bold(verdict: str) -> str:
    return f"**{verdict}**" if verdict.startswith("did not") else verdict


def _section(figure: Figure, results: Results, shown: str) -> str:
    lines = [f"## {figure.name}", "", f"{figure.title}.", "", f"![{figure.title}]({shown})", ""]
    for claim, answer in answers(figure.name, results):
        numbers = f": {answer.numbers}" if answer.verdict != OPEN else ""
        lines += [f"- *{claim.sentence}* {_bold(answer.verdict)}{numbers}."]
    for data in results.data:
        lines += ["", table_of(results, data, PAPER_MARGIN if figure.drawn == "variants" and data != "vectors" else ())]
    for note in notes_of(results):
        lines += ["", f"{note}."]
    return "\n".join(lines) + "\n"


def notes_of(results: Results) -> list[str]:
    """What a reader should know of fits that went badly, and of results that other versions made."""
    notes = []
    for what, lines in results.warned().items():
        fits = ", ".join(f"{label} ({n})" for label, n in sorted(lines.items()))
        notes.append(f"Fits that warned that {what}: {fits}")
    if len(versions := results.versions()) > 1:
        notes.append(f"Made by different versions of interlace, {', '.join(versions)}: compare with care")
    return notes


def table_of(results: Results, data: str, more: Columns = ()) -> str:
    """Every line and number of books on one data set, baselines last; ``more`` columns behind the usual ones."""
    head, *rows = rows_of(results, data, (*(VECTORS if data == "vectors" else LABELLED), *more))
    lines = [
        f"**{title_of(results, data)}**",
        "",
        *(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)),
    ]
    return "\n".join(lines)


def rows_of(results: Results, data: str, columns: Columns) -> list[tuple[str, ...]]:
    """The cells of a table, its head first."""
    rows: list[tuple[str, ...]] = [("", "K", *(name for name, _, _ in columns), "seeds")]
    for label in [*results.labels(data), *results.labels(data, codes=False)]:
        for n_books in results.books(data, label) or [0]:
            means = [(results.mean(data, label, n_books, measure), places) for _, measure, places in columns]
            cells = ["-" if found is None else _cell(found, places) for found, places in means]
            k = "" if label in BASELINES else str(n_books)
            rows.append((label, k, *cells, str(len(results.of(data, label, n_books)))))
    return rows


def _cell(found: Mean, places: int) -> str:
    return f"{found.value:.0f}" if places == 0 else found.text(places)
