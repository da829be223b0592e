"""The ablation of PQN on CIFAR-10 (``experiments/pqn_ablation.py``): its runs as a table of the page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from ..errors import InputError
from .provenance import differ, origins
from .results import Result
from .summary import Results, value_of

FOLDER = "pqn-ablation"
#: Order of the table.
ORDER = ("cross-entropy", "triplet", "pqn-warm", "pqn-warm-triplet", "pqn-400k")
#: The run of the full size that they are compared with: figure, data, label, number of books.
FIRST = ("published", "cifar10-images", "PQN (CNN)", 6)
HEAD = ("training", "epochs", "accuracy", "MAP, class prediction", "MAP, float", "MAP, 48 bits", "MAP@100, 48 bits")


def ablation(results: Path) -> list[Result]:
    """Its runs, in order; raises if different code made them."""
    paths = (results / FOLDER / f"{name}.json" for name in ORDER)
    found = [json.loads(path.read_text(encoding="utf-8")) for path in paths if path.exists()]
    if differ(made := origins(found)):
        listed = ", ".join(f"{n} of {origin.text}" for origin, n in sorted(made.items()))
        raise InputError(f"{str(results / FOLDER)!r} mixes results of different code: {listed}")
    return found


def ablation_table(found: list[Result], full: Mapping[str, Results]) -> str:
    """One row for each run, after that of the full size; empty without any."""
    if not found:
        return ""
    rows = [row for row in (_first(full),) if row] + [_row(one) for one in found]
    (origin,) = {origin.text for origin in origins(found)}
    lines = [
        "*What PQN lacks on CIFAR-10*: the same network on all 50,000 images, measured with the 10,000 test images, "
        f"one seed (`experiments/pqn_ablation.py`, {origin}; the first line is that of the table above).",
        "",
        *(f"| {' | '.join(row)} |" for row in (HEAD, ("---",) * len(HEAD), *rows)),
    ]
    return "\n".join(lines) + "\n"


def _first(full: Mapping[str, Results]) -> tuple[str, ...]:
    """The run of the full size; empty without it."""
    figure, data, label, n_books = FIRST
    if figure not in full:
        return ()
    means = (full[figure].mean(data, label, n_books, measure) for measure in ("float", "map", "map@100"))
    cells = ["-" if mean is None else f"{mean.value:.3f}" for mean in means]
    return "PQN from random weights, constant rates", "30", "-", "-", *cells


def _row(one: Result) -> tuple[str, ...]:
    measures = one["measures"]
    values = (
        measures.get("accuracy"),
        measures.get("class prediction", {}).get("map"),
        measures["float"]["map"],
        measures.get("map"),
        value_of(one, "map@100") if "map" in measures else None,
    )
    return one["label"], str(one["epochs"]), *("-" if value is None else f"{value:.3f}" for value in values)
