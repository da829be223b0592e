"""Compares the defaults of the recipe with other values on held-out rows, one JSON per variant.

    python experiments/validation.py [--only METHOD] [--list]

MNIST, linear embedding, K = 8 or as given: methods learn from 18,000 rows of the training set, 2,000 others of it are
the queries; the test set is not read. (Dataset 2: a draw that is in no figure, and its queries.) One value is changed
at a time, for ICQ and for the methods it is compared with. Where a value was much better, it became the default
(`CHOSEN`), which was measured as well. `experiments/joint_report.py` writes the table.
Variants that have a JSON file are skipped.
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

RESULTS = Path(__file__).resolve().parent / "results" / "validation"
N_BOOKS, ROWS, QUERIES = 8, 18_000, 2_000
#: Draw of Dataset 2; figures have draws 0 to 2.
DRAW = 10
#: Values for all methods, and values for single methods.
COMMON: dict[str, tuple[float, ...]] = {"error": (0.05, 0.8), "rate_embedding": (0.0, 1e-3), "rate_books": (3e-3, 3e-2)}
VARIANTS: dict[str, dict[str, tuple[float, ...]]] = {
    "ICQ": {
        "scale": (4.0, 16.0),
        "cross": (10.0, 90.0),
        "gamma1": (0.0, 0.02),
        "gamma2": (5.0, 80.0),
        "pi2": (0.2, 0.6),
        "hard_after": (0, 10),
        "psi_share": (0.125, 0.5),
    },
    "SQ+CQ": {"scale": (4.0, 16.0), "cross": (10.0, 90.0)},
    "SQ+PQ": {"scale": (4.0, 16.0)},
    "DQN": {},
    "DPQ": {"softness": (0.1, 1.0), "central": (0.0, 0.1, 0.3, 3.0), "gini": (0.0, 1.0)},
    "PQN": {"soft_error": (0.0,), "softness": (0.1, 1.0)},
    "PQN+CQ": {"error": (0.0, 0.05, 0.8)},
    "ICQ soft_triplet": {"error": (0.0, 0.05, 0.8)},
    # Is the weight for 8 books too large for 16, which have four times as many pairs?
    "ICQ, 16 books": {"cross": (3.0, 10.0, 90.0)},
    "SQ+CQ, 16 books": {"cross": (3.0, 10.0, 90.0)},
    "ICQ, 16 books, Dataset 2": {"cross": (3.0, 10.0, 90.0)},
    "SQ+CQ, 16 books, Dataset 2": {"cross": (3.0, 10.0, 90.0)},
}
#: Defaults at the time of the measurement that have changed since.
STARTS: dict[str, dict[str, float]] = {
    "DPQ": {"central": 1.0, "soft_error": 0.2},
    "PQN": {"soft_error": 0.2},
}
#: Two changed values that became defaults together.
CHOSEN = {"DPQ": {"central": 0.1, "soft_error": 0.0}}
#: Methods without the common values.
FEW = ("PQN+CQ", "ICQ soft_triplet", *(method for method in VARIANTS if "16 books" in method))


def variants() -> dict[str, tuple[str, dict[str, Any]]]:
    """File name -> method, changes to the recipe."""
    found: dict[str, tuple[str, dict[str, Any]]] = {}
    for method, own in VARIANTS.items():
        stem = method.lower().replace(",", "").replace("+", "-").replace(" ", "-")
        found[f"{stem}-start"] = method, {}
        if method not in FEW:
            found[f"{stem}-seed-1"] = method, {"seed": 1}
        if method in CHOSEN:
            found[f"{stem}-chosen"] = method, CHOSEN[method]
        for name, values in (own if method in FEW else _common(method) | own).items():
            found |= {f"{stem}-{name}-{value:g}": (method, {name: value}) for value in values}
    return found


def _common(method: str) -> dict[str, tuple[float, ...]]:
    """Values for all methods; the error has another name for product books with soft codes."""
    soft = "soft_error" in STARTS.get(method, {})
    return {f"soft_{name}" if soft and name == "error" else name: values for name, values in COMMON.items()}


def _rows(method: str) -> tuple[Any, Any, Any, Any]:
    """Training rows and queries with labels: from MNIST's training set, or a draw that is in no figure."""
    if method.endswith("Dataset 2"):
        drawn = il.data.synthetic(2, DRAW)
        return drawn.x, drawn.labels, drawn.queries, drawn.query_labels
    data = il.data.mnist()
    assert data.labels is not None
    order = np.random.default_rng(0).permutation(len(data.x))
    rows, asked = np.sort(order[:ROWS]), np.sort(order[ROWS : ROWS + QUERIES])
    return data.x[rows], data.labels[rows], data.x[asked], data.labels[asked]


def _fitted(method: str, changed: dict[str, Any], threads: int, x: Any, labels: Any) -> Any:
    recipe = il.Recipe(**STARTS.get(method, {}) | {key: value for key, value in changed.items() if key != "seed"})
    name, _, books = method.partition(", ")
    name, _, loss = name.partition(" ")
    settings = {"loss": loss} if loss else {}
    n_books = int(books.partition(" ")[0]) if books else N_BOOKS
    model = il.quantizers.method(name).make(
        n_books=n_books, recipe=recipe, seed=int(changed.get("seed", 0)), threads=threads, **settings
    )
    return model.fit(x, labels)


def main(argv: list[str] | None = None) -> int:
    """Execute the variants that have no result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=VARIANTS, action="append", help="only this method; repeatable")
    parser.add_argument("--list", action="store_true", help="list the variants and whether they have results")
    parser.add_argument("--threads", type=int, default=1, help="threads of each fit (1)")
    options = parser.parse_args(argv)
    methods = options.only or VARIANTS
    wanted = {name: RESULTS / f"{name}.json" for name, (method, _) in variants().items() if method in methods}
    if options.list:
        for name, path in wanted.items():
            print(f"{'done' if path.exists() else '-':6s}{name}")
        return 0
    RESULTS.mkdir(parents=True, exist_ok=True)
    for name, path in wanted.items():
        if path.exists():
            continue
        print(name, file=sys.stderr, flush=True)
        method, changed = variants()[name]
        x, labels, queries, query_labels = _rows(method)
        model = _fitted(method, changed, options.threads, x, labels)
        held_out = np.setdiff1d(np.arange(len(x)), model.sample_)
        found = judge.judge(model, queries, query_labels, x[held_out])
        result = {
            "method": method,
            "variant": changed,
            "rows": len(x),
            "queries": len(queries),
            "interlace": il.__version__,
            **found,
        }
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(result, indent=1) + "\n")
        temporary.replace(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
