"""RESULTS.md: for each figure the picture, the claims with their answers, and a table, all from the JSON."""

from __future__ import annotations

import os
from pathlib import Path

from .checks import OPEN
from .claims import answers
from .drawing import draw
from .figures import BASELINES, FIGURES, Figure
from .results import Store
from .summary import Mean, Results

HEAD = """\
# Results

Made by `interlace reproduce report` from the JSON beside it; do not edit. [PROTOCOL.md](PROTOCOL.md) says how runs are
made and what was chosen where the paper leaves it open. MAP is that of the whole ranking by the exhaustive scan of the
codes; *float* is the same embedding without codes. Operations are table additions per query and database vector for
lists of 100: *two-step* as in the paper (every row pays for every crude book), *crude order* where rows come by their
crude distance; at 99.9 % agreement with the exhaustive scan by the calibrated margin, and by the exact bound. The
other methods' own papers add up all tables: K operations (*exhaustive*); ours are what the same books cost in our
search. Means and standard deviations over seeds; a gap counts as ahead or behind if it is beyond two standard errors
over paired seeds (with one seed, always).
"""

#: Columns of the tables: heading, measure, decimal places.
LABELLED = (
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
    ("agreement", "agreement in crude order", 4),
)
#: Of the ablation besides: what sigma's constant changes, and how many dimensions psi has.
PAPER_MARGIN = (("paper's margin", "two-step paper", 2), ("its agreement", "agreement of paper", 4), ("psi", "psi", 1))
VECTORS = (
    ("bytes", "bytes", 0),
    ("error", "error", 4),
    ("recall@1", "recall@1", 3),
    ("recall@10", "recall@10", 3),
    ("recall@100", "recall@100", 3),
    ("operations", "own", 2),
    ("operations, exact", "own exact", 2),
    ("agreement", "agreement in crude order", 4),
)


def results_of(store: Store, figure: Figure) -> Results:
    """All that a figure has."""
    return Results(store.all(figure.name))


def write_report(store: Store, page: Path, *, pictures: bool = True) -> tuple[Path, list[str]]:
    """Draw every figure that has results, write the page; the figures that have none."""
    present = _present(store)
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
    return text_of(present, {name: _relative(picture(store, name), page) for name in present})


def picture(store: Store, figure: str) -> Path:
    """Where the picture of a figure is."""
    return store.folder / figure / f"{figure}.png"


def _relative(path: Path, page: Path) -> str:
    return Path(os.path.relpath(path, page.parent)).as_posix()


def text_of(found: dict[str, Results], pictures: dict[str, str]) -> str:
    """The whole page."""
    parts = [HEAD]
    if found:
        parts.append(_overview(found))
    parts += [_section(FIGURES[name], results, pictures[name]) for name, results in found.items()]
    return "\n".join(parts)


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
    return "\n".join(lines) + "\n"


def table_of(results: Results, data: str, more: tuple[tuple[str, str, int], ...] = ()) -> str:
    """Every line and number of books on one data set, baselines last; ``more`` columns behind the usual ones."""
    vectors = data == "vectors"
    columns = (*(VECTORS if vectors else LABELLED), *more)
    title = f"**{results.data_name(data) if vectors else data}**"
    lines = [title, "", "| | K | " + " | ".join(name for name, _, _ in columns) + " | seeds |"]
    lines.append("| --- | --- |" + " --- |" * (len(columns) + 1))
    for label in [*results.labels(data), *results.labels(data, codes=False)]:
        for n_books in results.books(data, label) or [0]:
            cells = []
            for _, measure, places in columns:
                found = results.mean(data, label, n_books, measure)
                cells.append("-" if found is None else _cell(found, places))
            k = "" if label in BASELINES else str(n_books)
            lines.append(f"| {label} | {k} | " + " | ".join(cells) + f" | {len(results.of(data, label, n_books))} |")
    return "\n".join(lines)


def _cell(found: Mean, places: int) -> str:
    return f"{found.value:.0f}" if places == 0 else found.text(places)
