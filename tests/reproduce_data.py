"""Results made by hand, as runs of `interlace reproduce` would have left them."""

from __future__ import annotations

from typing import Any

from interlace.paper.results import FORMAT, Result
from interlace.paper.runs import Run

#: What a search of each kind costs, unless a test says otherwise.
SEARCHES = (
    "two-step, 0.999",
    "two-step, exact",
    "two-step, paper",
    "crude order, 0.999",
    "crude order, exact",
    "crude order, paper",
)


def made(
    label: str = "ICQ",
    data: str = "synthetic1",
    n_books: int = 4,
    seed: int = 0,
    *,
    figure: str = "synthetic-cq",
    ops: float | None = None,
    sha256: str | None = None,
    **measures: Any,
) -> Result:
    """One result; ``ops`` are those of every search (by default half of the books). ``map`` is also that of lists."""
    run = Run(label=label, method=label, figure=figure, data=data, n_books=n_books, seed=seed)
    cost = n_books / 2 if ops is None else ops
    search = {"ops": cost, "ops_in_cells": cost, "agreement": 1.0}
    found: dict[str, Any] = {"map": 0.5, "map@100": measures.get("map", 0.6), **measures}
    if n_books:
        found = {
            "relative_error": 0.1,
            "precision@100": 0.55,
            "bytes": n_books,
            "n_psi": 3,
            "float": {"map": 0.52, "map@100": 0.61},
            "searches": {name: search for name in SEARCHES},
            **found,
        }
    described = {"name": data, "rows": 10, "database": 10, "queries": 2, "shape": [4], "sha256": sha256 or data}
    return {
        "format": FORMAT,
        "size": "standard",
        "run": run.to_dict(),
        "data": described,
        "measures": found,
        "fit": {},
        "fit_seconds": 1.0,
        "seconds": 2.0,
        "provenance": {"commit": "c0ffee", "code": "beef"},
        "versions": {},
        "warnings": [],
    }
