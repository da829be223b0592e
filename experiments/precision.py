"""Tries to close the gap of ICQ to SQ+PQ in MAP@100 on the synthetic sets, one JSON per fit.

    python experiments/precision.py [--list]

Draws of Datasets 2 and 3 that no figure has, 4, 8 and 16 books, the lengths of the standard size. ICQ with its default
and with one or two values changed, SQ+PQ with the setting that tuning chose. All are judged by the queries of these
draws, which no result on RESULTS.md uses. Fits that have a JSON file are skipped; the table of all fits is printed.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import interlace as il
from interlace import judge

RESULTS = Path(__file__).resolve().parent / "results" / "precision"
#: Figures have draws 0 to 4, tuning has draw 10 of Dataset 2.
DRAWS, SETS, BOOKS = (11, 12, 13), (2, 3), (4, 8, 16)
LENGTHS: dict[str, Any] = {"warm_up": 5, "shape": 3, "epochs": 10, "patience": 5}
#: Label -> method, changes to the recipe.
LINES: dict[str, tuple[str, dict[str, Any]]] = {
    "SQ+PQ, tuned": ("SQ+PQ", {"scale": 4.0}),
    "ICQ": ("ICQ", {}),
    "ICQ, error 0.8": ("ICQ", {"error": 0.8}),
    "ICQ, error 3": ("ICQ", {"error": 3.0}),
    "ICQ, scale 2": ("ICQ", {"scale": 2.0}),
    "ICQ, error 0.8, scale 2": ("ICQ", {"error": 0.8, "scale": 2.0}),
    "ICQ, error 0.8, cross 10": ("ICQ", {"error": 0.8, "cross": 10.0}),
    "ICQ, half of the books on psi": ("ICQ", {"psi_share": 0.5}),
}


def _path(label: str, number: int, n_books: int, draw: int) -> Path:
    stem = label.lower().replace(",", "").replace("+", "-").replace(" ", "-")
    return RESULTS / f"synthetic{number}-{stem}-{n_books}-draw{draw}.json"


def _fit(label: str, number: int, n_books: int, draw: int) -> dict[str, Any]:
    method, changed = LINES[label]
    data = il.data.synthetic(number, draw)
    recipe = il.Recipe(**LENGTHS | changed)
    model = il.quantizers.method(method).make(n_books=n_books, recipe=recipe, seed=draw, threads=1)
    model.fit(data.x, data.labels)
    held_out = np.setdiff1d(np.arange(len(data.x)), model.sample_)
    found = judge.judge(model, data.queries, data.query_labels, data.x[held_out])
    said = {"label": label, "method": method, "changed": changed, "data": f"synthetic{number}", "books": n_books}
    return {**said, "draw": draw, "interlace": il.__version__, **found}


def table(results: Path = RESULTS) -> str:
    """Means over data sets and draws, for each line and number of books, as Markdown."""
    found = [json.loads(path.read_text()) for path in sorted(results.glob("*.json"))]
    lines = [
        "| line | " + " | ".join(f"K = {k}: MAP@100, MAP" for k in BOOKS) + " |",
        "| --- |" + " --- |" * len(BOOKS),
    ]
    for label in LINES:
        cells = []
        for k in BOOKS:
            here = [one for one in found if one["label"] == label and one["books"] == k]
            means = [float(np.mean([one[name] for one in here])) for name in ("map@100", "map")] if here else []
            cells.append(", ".join(f"{mean:.3f}" for mean in means) or "-")
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    """Execute the fits that have no result, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="list the fits and whether they have results")
    options = parser.parse_args(argv)
    fits = [(label, number, k, draw) for draw in DRAWS for number in SETS for label in LINES for k in BOOKS]
    if options.list:
        for one in fits:
            print(f"{'done' if _path(*one).exists() else '-':6s}{_path(*one).stem}")
        return 0
    RESULTS.mkdir(parents=True, exist_ok=True)
    for one in fits:
        path = _path(*one)
        if path.exists():
            continue
        print(path.stem, file=sys.stderr, flush=True)
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(_fit(*one), indent=1) + "\n")
        temporary.replace(path)
    print(table())
    return 0


if __name__ == "__main__":
    sys.exit(main())
