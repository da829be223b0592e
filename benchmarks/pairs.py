"""What codes learned from labels or from pairs gain over unsupervised ones, on labelled text at equal bytes.

    python benchmarks/pairs.py [--bytes 8,16,32] [--rows 8000] [--seeds 1] [--results FILE]

Rows are package descriptions of text128k with their section as label (256 dimensions, length 1). A fifth of the classes
is held out: no row of them is in the training set. All methods learn from the same ``--rows`` rows: "codes" from the
vectors alone, "labels" with the classes, "pairs" with one pair for each row, of another random row of its class
(nothing else of the classes). The database are 10,000 other rows of all classes, the queries those test queries of
text128k that have a label. The start of pairs and their dim were chosen on an eighth of the training rows, which was
held out for that (the settings of labels are the defaults); nothing was tuned on queries or database. MAP@100
counts rows of the query's class; queries of classes that were learned and of classes that were held out are reported
apart. recall@10 is that of the exact neighbours by cosine: what codes for classes lose as codes of the vectors. "float"
are the vectors themselves. A result that is in the file already is not computed again.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import interlace as il
import machine
from bench_sets import data_file
from peers import RESULTS, write

Rows = NDArray[np.int64]
HELD_OUT, FIRST_DATABASE_ROW, DATABASE_ROWS = 12, 14_000, 10_000
METHODS = ("float", "codes", "labels", "pairs")


class Texts:
    """Training rows, a database and queries, by labels."""

    def __init__(self, path: Path, n_rows: int) -> None:
        with np.load(path) as data:
            base, labels = data["base"], data["labels"]
            queries, wanted = data["query"].astype(np.float32), data["query_labels"]
        rng = np.random.default_rng(0)
        rows = rng.permutation(np.flatnonzero(labels >= 0))
        self.unseen = rng.permutation(np.unique(labels[rows]))[:HELD_OUT]
        candidates = rows[:FIRST_DATABASE_ROW]
        learn = candidates[~np.isin(labels[candidates], self.unseen)][:n_rows]
        stored = rows[FIRST_DATABASE_ROW : FIRST_DATABASE_ROW + DATABASE_ROWS]
        self.x, self.y = base[learn].astype(np.float32), labels[learn]
        self.database, self.labels = base[stored].astype(np.float32), labels[stored]
        # A query needs relevant rows; its class must be in the database.
        known = (wanted >= 0) & np.isin(wanted, self.labels)
        self.queries, self.wanted = queries[known], wanted[known]
        self.new = np.isin(self.wanted, self.unseen)
        self.truth = nearest(self.queries, self.database)

    def pairs(self, seed: int) -> tuple[Rows, Rows]:
        """Each training row with another random row of its class; classes of a single row have none."""
        rng, queries, positives = np.random.default_rng([seed, 7]), [], []
        for label in np.unique(self.y):
            members = rng.permutation(np.flatnonzero(self.y == label))
            if len(members) > 1:
                queries.append(members)
                positives.append(np.roll(members, 1))
        return np.concatenate(queries), np.concatenate(positives)

    def measured(self, ranked: Rows) -> dict[str, float]:
        """MAP@100 and recall@10 of lists of 100 rows of the database, one for each query."""
        relevant = self.labels[ranked] == self.wanted[:, None]
        precision = il.evaluate.average_precision(relevant)
        hits = [len(np.intersect1d(a[:10], b)) / 10 for a, b in zip(ranked, self.truth, strict=True)]
        return {
            "map_seen": round(float(precision[~self.new].mean()), 4),
            "map_unseen": round(float(precision[self.new].mean()), 4),
            "recall": round(float(np.mean(hits)), 4),
        }


def nearest(queries: NDArray[np.float32], rows: NDArray[np.float32], k: int = 10) -> Rows:
    """The k rows of the largest product, best first; vectors have length 1."""
    return np.asarray(np.argsort(-(queries @ rows.T), axis=1, kind="stable")[:, :k])


def ranked_by_codes(texts: Texts, method: str, n_bytes: int, seed: int) -> tuple[Rows, dict[str, Any]]:
    """The first 100 rows for each query by the exhaustive scan of codes, and facts of the fit."""
    settings: dict[str, Any] = {"n_bytes": n_bytes, "seed": seed, "progress": False}
    if method == "codes":
        model: il.ICQ = il.ICQ(metric="cosine", **settings).fit(texts.x)
    elif method == "labels":
        model = il.ICQ(**settings).fit(texts.x, texts.y)
    else:
        model = il.ICQ(**settings).fit(texts.x, pairs=texts.pairs(seed))
    found = model.index(texts.database).search(texts.queries, k=100, margin=float("inf")).ids
    facts = {name: model.fit_info_[name] for name in ("validation_map", "epochs") if name in model.fit_info_}
    return np.asarray(found, np.int64), facts | {"dim": model.codebooks_.dim}


def main(argv: list[str] | None = None) -> int:
    """Compute the results that are missing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bytes", type=lambda text: [int(n) for n in text.split(",")], default=[8, 16, 32])
    parser.add_argument("--rows", type=int, default=8_000, help="rows to learn from")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--results", type=Path, default=RESULTS / "pairs.json")
    options = parser.parse_args(argv)
    path = data_file("text128k", "text128k.npz")
    if path is None:
        raise SystemExit("text128k.npz was not found: set INTERLACE_DATA to the folder of text128k")
    texts = Texts(path, options.rows)
    found: dict[str, Any] = {
        "format": 1,
        "kind": "pairs",
        "environment": machine.environment(),
        "queries_seen": int((~texts.new).sum()),
        "queries_unseen": int(texts.new.sum()),
        "database": len(texts.database),
        "held_out_classes": HELD_OUT,
        "entries": [],
    }
    if options.results.exists():
        found = json.loads(options.results.read_text())
    for n_bytes in options.bytes:
        for method in METHODS:
            for seed in range(1 if method == "float" else options.seeds):
                place = {"method": method, "n_bytes": 1024 if method == "float" else n_bytes, "seed": seed}
                place["rows"] = len(texts.x)
                if any(place.items() <= entry.items() for entry in found["entries"]):
                    continue
                if method == "float":
                    ranked, facts = nearest(texts.queries, texts.database, 100), {}
                else:
                    ranked, facts = ranked_by_codes(texts, method, n_bytes, seed)
                entry = place | texts.measured(ranked) | facts
                print(entry, file=sys.stderr, flush=True)
                found["entries"].append(entry)
                write(options.results, found)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
