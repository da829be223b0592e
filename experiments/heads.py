"""Tunes the recipe of heads on features of AlexNet for ICQ, PQN and others, one JSON per fit.

    python experiments/heads.py [--only METHOD] [--list]

Recipe of 2 + 1 + 4 epochs on features of the network that `interlace reproduce pqn` trains. Each fit is evaluated on
its own held-out rows (a tenth of the training set); test queries are not read. *Small* fits learn 128 dimensions from
15,000 rows, in half a minute; *full* ones 1,024 from all 50,000, as the figure does; both with 8 books. *small-4* to
*small-16* are small fits with that number of books on a separately trained network, so compare only within a size.
`experiments/joint_report.py` writes the table. Fits that have a JSON file are skipped.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import interlace as il
from interlace.paper.sizes import size_of
from interlace.paper.sources import load

RESULTS = Path(__file__).resolve().parent / "results"
HEAD = {"warm_up": 2, "shape": 1, "epochs": 4}
#: Database rows for the search with held-out queries.
SEARCHED_ROWS = 5_000
#: Rows, dimensions, books.
SIZES = {"small": (15_000, 128, 8), "full": (50_000, 1024, 8)}
SIZES |= {f"small-{n_books}": (15_000, 128, n_books) for n_books in (4, 8, 16)}
#: Larger learning rates of Adam: for the embedding, for the books, for both.
RE, R3, R10 = {"rate_embedding": 1e-3}, {"rate_books": 0.03}, {"rate_books": 0.1}
QUICK = RE | R3
FASTER = R3 | {"rate_embedding": 3e-3}
SOFTER, HARD, LOOSE = {"scale": 4.0}, {"hard_after": 1}, {"cross": 3.0}


def _lighter(times: float) -> dict[str, float]:
    """Weights of all terms except L_E, divided by ``times``."""
    return {"error": 0.2 / times, "cross": 30.0 / times, "gamma1": 0.005 / times, "gamma2": 20.0 / times}


NO_ERROR = {"error": 0.0}
#: Learning rates of the books, with all other settings as in the figure.
RATES = (0.0075, 0.015, 0.03)
Changes = dict[str, Any]
VARIANTS: dict[str, dict[str, dict[str, list[Changes]]]] = {
    "small": {
        "PQN": {"": [{}, RE, R3, R10, QUICK, {"soft_error": 0.2}, QUICK | {"epochs": 8}, FASTER | {"epochs": 8}]},
        "PQN+CQ": {"": [{}] + [_lighter(w) | rates for w in (10, 40) for rates in ({}, RE, QUICK)]},
        "SQ+PQ": {"": [QUICK, FASTER | SOFTER | {"epochs": 8}]},
        "SQ+CQ": {"": [QUICK, FASTER | SOFTER, FASTER | SOFTER | {"epochs": 8}]},
        "ICQ": {
            "soft_triplet": [{}, {"softness": 0.03}, QUICK]
            + [_lighter(w) | rates for w in (10, 40) for rates in ({}, RE, QUICK)],
            "asymmetric_triplet": [{}]
            + [_lighter(w) | rates for w in (10, 40) for rates in ({}, RE, QUICK)]
            + [NO_ERROR | more for more in ({}, {"cross": 0.0}, {"cross": 3.0}, R3, RE, HARD, QUICK)]
            + [NO_ERROR | {"cross": 3.0} | rates for rates in (QUICK, R10 | RE)],
            "contrastive": [{}, QUICK, RE, FASTER]
            + [QUICK | more for more in ({"error": 0.05}, NO_ERROR, {"cross": 3.0}, {"gamma2": 2.0}, {"epochs": 8})]
            + [QUICK | more for more in (HARD, {"scale": 16.0}, SOFTER, SOFTER | HARD)]
            + [FASTER | SOFTER | HARD, FASTER | {"scale": 2.0} | HARD, FASTER | SOFTER | HARD | {"epochs": 8}],
            "cross_entropy": [QUICK],
            "soft_hard": [QUICK],
        },
        "DPQ": {"": [QUICK]},
    },
    "full": {
        "PQN": {"": [{}, RE, QUICK]},
        "PQN+CQ": {"": [{}, {"rate_books": 0.04}]},
        "ICQ": {
            "soft_triplet": [{}, NO_ERROR, {"cross": 3.0}, HARD],
            "contrastive": [{}] + [QUICK | SOFTER | HARD | more for more in ({}, {"epochs": 8})],
        },
    },
    **{
        f"small-{n_books}": {
            "ICQ": {
                "contrastive": [QUICK | SOFTER | HARD | {"rate_books": rate} for rate in RATES]
                + [QUICK | SOFTER | HARD | LOOSE, RE | SOFTER | HARD | LOOSE]
            },
            "SQ+CQ": {"": [{}, QUICK | SOFTER, QUICK | SOFTER | LOOSE, RE | SOFTER | LOOSE]},
            "PQN+CQ": {"": [{}, _lighter(10), _lighter(40)]},
            "SQ+PQ": {"": [{}, QUICK | SOFTER]},
            "PQN": {"": [{}]},
        }
        for n_books in (4, 8, 16)
    },
}


def variants() -> dict[str, tuple[str, str, str, Changes]]:
    """File name -> size, method, loss ("": default of the method), changes to the recipe."""
    found: dict[str, tuple[str, str, str, Changes]] = {}
    for size, methods in VARIANTS.items():
        for method, losses in methods.items():
            for loss, several in losses.items():
                for changes in several:
                    changed = [f"{name}-{value:g}" for name, value in sorted(changes.items())]
                    stem = "-".join([size, method.lower().replace("+", "-"), *([loss] if loss else []), *changed])
                    found[stem] = size, method, loss, changes
    return found


def fitted(size: str, method: str, loss: str, changes: Changes, threads: int) -> dict[str, Any]:
    """One fit: its MAP on held-out rows, and its losses by epoch."""
    data = load("cifar10-alexnet", 0, size_of("full"), RESULTS / "networks", threads)
    rows, dim, n_books = SIZES[size]
    model = il.quantizers.method(method).make(
        n_books=n_books,
        dim=dim,
        recipe=il.Recipe(**HEAD | changes),
        threads=threads,
        seed=0,
        **({"loss": loss} if loss else {}),
    )
    assert data.labels is not None
    x, y = data.x[:rows], data.labels[:rows]
    model.fit(x, y)
    held_out, learned = np.setdiff1d(np.arange(rows), model.sample_), model.sample_[:SEARCHED_ROWS]
    kept = ("phase", "embedding", "quantization", "cross", "interleaving", "prior", "map")
    return {
        "size": size,
        "method": method,
        "loss": loss or None,
        "variant": changes,
        "rows": rows,
        "dim": dim,
        "map": round(model.fit_info_["validation_map"], 5),
        # MAP of the search, which uses constants for cross terms; "map" uses decoded vectors.
        "searched": round(model.score(x[held_out], y[held_out], x[learned], y[learned], at=None), 5),
        "history": [
            {key: round(row[key], 5) if key != "phase" else row[key] for key in kept if row.get(key) is not None}
            for row in model.history_
        ],
    }


def main(argv: list[str] | None = None) -> int:
    """Execute the fits that have no result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=sorted({v[1] for v in variants().values()}), help="only this method")
    parser.add_argument("--size", choices=SIZES, help="only this size")
    parser.add_argument("--list", action="store_true", help="list the fits and whether they have results")
    parser.add_argument("--threads", type=int, default=1, help="threads of each fit (1)")
    options = parser.parse_args(argv)
    folder = RESULTS / "heads"
    folder.mkdir(parents=True, exist_ok=True)
    for name, wanted in variants().items():
        path = folder / f"{name}.json"
        if options.only not in (None, wanted[1]) or options.size not in (None, wanted[0]):
            continue
        if options.list:
            print(f"{'done' if path.exists() else '-':6s}{name}")
        elif not path.exists():
            print(name, file=sys.stderr, flush=True)
            temporary = path.with_suffix(".tmp")
            temporary.write_text(json.dumps(fitted(*wanted, options.threads), indent=1) + "\n")
            temporary.replace(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
