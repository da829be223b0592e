"""Which layout? Each is learned from a small sample, its recall measured on held-out rows, its cost predicted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import margins
from ..arrays import FloatArray
from ..codebooks import Codebooks
from ..encode import encode
from ..searching import calibrate, search_rows
from ..segments import Segment

#: Bounds of the trial, which bound its time: rows to search, queries, rounds of learning.
TRIAL_ROWS, TRIAL_QUERIES, TRIAL_ITERATIONS = 16384, 300, 3
#: Rows to learn from: at least, for each byte, at most. Many residual books need many rows: 16 of them, learned from
#: 12,288 rows of SIFT, were worse than hybrid ones; from 32,768 they are better, as they are from all rows.
LEAST_TRAIN, TRAIN_PER_BYTE, MOST_TRAIN = 12288, 2048, 32768
LEAST_ROWS = 4000
#: More bytes than this make residual books slow to code with: cross terms grow with the square of the books.
MOST_RESIDUAL_BYTES = 24
#: Recall that is not worth slower search.
TOLERANCE = 0.005
# Nanoseconds on one core of the machine the benchmark ran on; only their ratios matter, to order layouts.
_NS_PER_PRODUCT, _NS_PER_LOOKUP, _NS_PER_SURVIVOR, _NS_PER_CELL = 0.06, 0.1, 65.0, 350.0


@dataclass(frozen=True)
class Choice:
    """The layout that was chosen, why, and the measured table behind it: one dict per candidate."""

    layout: str
    n_crude: int | None
    why: str
    table: tuple[dict[str, Any], ...] = ()

    def __str__(self) -> str:
        lines = [f"layout {self.layout!r}: {self.why}"]
        for row in self.table:
            lines.append(
                f"  {row['layout']:9s} {row['n_crude']:2d} crude of {row['n_books']:2d}   recall@10 {row['recall']:.3f}"
                f"   error {row['error']:.4g}   {row['microseconds']:8.1f} us per query predicted"
            )
        return "\n".join(lines)


def trial_train(n_bytes: int) -> int:
    """Rows that each layout is learned from for the trial, at most."""
    return min(max(LEAST_TRAIN, TRAIN_PER_BYTE * n_bytes), MOST_TRAIN)


def choose(
    x: FloatArray,
    learn: Callable[[FloatArray, str], Codebooks],
    layouts: tuple[str, ...],
    *,
    n_bytes: int,
    n_crude: int | None,
    n_rows: int,
    rng: np.random.Generator,
    threads: int,
) -> Choice:
    """Try some layouts on part of the sample x; ``learn(x, layout)`` gives codebooks of few rounds.

    ``n_crude`` is what the user asked for, None if nothing. The choice has a number of its own only where another one
    than the layout's was cheaper. ``n_rows`` is the number of rows the index will hold, for the prediction.
    """
    usual = "hybrid" if "hybrid" in layouts else layouts[0]
    if len(layouts) == 1:
        return Choice(usual, n_crude, "the only one that the other settings allow")
    if n_bytes < 3 or x.shape[1] < 4:
        layout = usual if n_bytes > 1 and x.shape[1] > 1 else "subspace"
        return Choice(layout, n_crude, "so few bytes or dimensions leave no choice that matters")
    if len(x) < LEAST_ROWS:
        return Choice(usual, n_crude, f"the usual one; {len(x)} rows are too few to compare layouts ({LEAST_ROWS})")
    order = rng.permutation(len(x))
    queries = x[order[:TRIAL_QUERIES]]
    rest = order[TRIAL_QUERIES:]
    train = x[np.sort(rest[: min(trial_train(n_bytes), len(rest) // 2)])]
    rows = x[np.sort(rest[len(rest) // 2 :][:TRIAL_ROWS])]
    table = []
    for layout in layouts:
        if layout == "residual" and n_bytes > MOST_RESIDUAL_BYTES:
            continue
        codebooks = learn(train, layout)
        codes = encode(codebooks, rows, threads)
        table += _measured(codebooks, codes, rows, queries, n_crude, n_rows, threads)
    best = max(row["recall"] for row in table)
    good = [row for row in table if row["recall"] >= best - TOLERANCE]
    chosen = min(good, key=lambda row: float(row["microseconds"]))
    why = (
        f"recall@10 {chosen['recall']:.3f} on {len(rows)} held-out rows (best {best:.3f}), the cheapest search of "
        f"those within {TOLERANCE} of the best"
    )
    return Choice(chosen["layout"], chosen["n_crude"], why, tuple(table))


def _measured(
    codebooks: Codebooks,
    codes: NDArray[np.uint8],
    rows: FloatArray,
    queries: FloatArray,
    n_crude: int | None,
    n_rows: int,
    threads: int,
) -> list[dict[str, Any]]:
    """One entry per number of crude books worth trying; recall does not depend on it."""
    decoded = codebooks.decode(codes)
    recall = _recall(_nearest(rows, queries, codebooks.metric), _nearest(decoded, queries, codebooks.metric))
    error = float(((rows - decoded).astype(np.float64) ** 2).sum(1).mean())
    out = []
    # Where search computes cross terms there is a second step even if all books are crude.
    more = {codebooks.n_books} if n_crude is None and codebooks.has_cross_sums else set()
    for crude in sorted({codebooks.n_crude, *more}):
        arrays, description = codebooks.to_arrays()
        tried = Codebooks.from_arrays(arrays, description | {"n_crude": crude})
        if tried.columns != codebooks.columns:  # norm columns move with the number of crude books
            continue
        segments = (Segment.pack(codes, tried),)
        half = len(queries) // 2
        calibration = calibrate(tried, segments, queries[:half], None, threads, confidence=0.0)  # an estimate will do
        rule = margins.parse(0.99, k=10, n=len(rows), calibration=calibration, sigma=0.0)
        work = search_rows(tried, segments, queries[half:], 10, rule, threads)[3].mean(0)
        out.append(
            {
                "layout": tried.layout,
                "n_books": tried.n_books,
                "n_crude": tried.n_crude,
                "recall": recall,
                "error": error,
                "scanned_share": float(work[1]) / len(rows),
                "survivors_share": float(work[2]) / len(rows),
                "microseconds": _predicted(tried, work, len(rows), n_rows),
            }
        )
    return out


def _predicted(codebooks: Codebooks, work: NDArray[Any], n: int, n_rows: int) -> float:
    """Microseconds per query: tables, cells, scan, survivors (which grow with the root of the rows)."""
    products = 256 * sum(len(book.support) for book in codebooks.books)
    if codebooks.rotation is not None:
        products += codebooks.dim**2
    scanned = float(work[1]) / n * n_rows * codebooks.n_crude_columns
    survivors = float(work[2]) * (n_rows / n) ** 0.5
    nanoseconds = (
        products * _NS_PER_PRODUCT
        + float(work[0]) * _NS_PER_CELL
        + scanned * _NS_PER_LOOKUP
        + survivors * _NS_PER_SURVIVOR
    )
    return float(nanoseconds) / 1000


def _nearest(rows: FloatArray, queries: FloatArray, metric: str, k: int = 10) -> NDArray[np.int64]:
    products = queries @ rows.T
    scores = -products if metric != "l2" else (rows**2).sum(1)[None] - 2 * products
    return np.asarray(np.argpartition(scores, min(k, scores.shape[1] - 1), axis=1)[:, :k])


def _recall(truth: NDArray[np.int64], found: NDArray[np.int64]) -> float:
    return float(np.mean([len(set(a) & set(b)) / len(a) for a, b in zip(truth.tolist(), found.tolist(), strict=True)]))
