"""Which layout? Each is learned from a small sample, its recall measured on held-out rows, its cost predicted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..codec.codebooks import Codebooks
from ..codec.encode import encode
from ..codec.metric import METRICS
from ..engine.engine import Engine
from ..engine.options import SearchOptions
from ..engine.segments import Segment
from ..inputs.arrays import FloatArray
from .cost import search_seconds
from .schedule import TRIAL_QUERIES, TRIAL_ROWS, trial_train, tried_layouts, usual_layout

#: Recall that is not worth slower search.
TOLERANCE = 0.005
#: Queries that brute force takes at a time, and rows that are held in float64.
QUERIES, BLOCK = 32, 4096


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
    effort: str = "balanced",
) -> Choice:
    """Try some layouts on part of the sample x; ``learn(x, layout)`` gives codebooks of few rounds.

    ``n_crude`` is what the user asked for, None if nothing. The choice has a number of its own only where another one
    than the layout's was cheaper. ``n_rows`` is the number of rows the index will hold, for the prediction.
    """
    layouts_tried = tried_layouts(layouts, n_bytes, x.shape[1], len(x), effort)
    if not layouts_tried:
        usual, why = usual_layout(layouts, n_bytes, x.shape[1], len(x), effort)
        return Choice(usual, n_crude, why)
    order = rng.permutation(len(x))
    queries = x[order[:TRIAL_QUERIES]]
    rest = order[TRIAL_QUERIES:]
    train = x[np.sort(rest[: min(trial_train(n_bytes), len(rest) // 2)])]
    rows = x[np.sort(rest[len(rest) // 2 :][:TRIAL_ROWS])]
    table = []
    for layout in layouts_tried:
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
    blocks = (slice(start, start + BLOCK) for start in range(0, len(rows), BLOCK))
    error = sum(float(((rows[b] - decoded[b]).astype(np.float64) ** 2).sum()) for b in blocks) / len(rows)
    out = []
    # Where search computes cross terms there is a second step even if all books are crude.
    more = {codebooks.n_books} if n_crude is None and codebooks.has_cross_sums else set()
    for crude in sorted({codebooks.n_crude, *more}):
        arrays, description = codebooks.to_arrays()
        tried = Codebooks.from_arrays(arrays, description | {"n_crude": crude})
        if tried.columns != codebooks.columns:  # norm columns move with the number of crude books
            continue
        engine, half = Engine(tried, (Segment.pack(codes, tried),)), len(queries) // 2
        engine = engine.with_calibration(engine.calibrated(queries[:half], threads=threads, confidence=0.0))
        asked = queries[half:]
        stats = engine.search(asked, SearchOptions(k=10, margin=0.99, threads=threads)).stats
        work = np.array([stats.cells, stats.scanned, stats.survivors]) / len(asked)
        out.append(
            {
                "layout": tried.layout,
                "n_books": tried.n_books,
                "n_crude": tried.n_crude,
                "recall": recall,
                "error": error,
                "scanned_share": float(work[1]) / len(rows),
                "survivors_share": float(work[2]) / len(rows),
                "microseconds": 1e6 * search_seconds(tried, work, len(rows), n_rows),
            }
        )
    return out


def _nearest(rows: FloatArray, queries: FloatArray, metric: str, k: int = 10) -> NDArray[np.int64]:
    squares = np.einsum("ij,ij->i", rows, rows)
    found = []
    for start in range(0, len(queries), QUERIES):  # scores of a few queries at a time
        products = queries[start : start + QUERIES] @ rows.T
        scores = squares - 2 * products if METRICS[metric].is_squared else -products
        found.append(np.argpartition(scores, min(k, scores.shape[1] - 1), axis=1)[:, :k].copy())
    return np.concatenate(found)


def _recall(truth: NDArray[np.int64], found: NDArray[np.int64]) -> float:
    return float(np.mean([len(set(a) & set(b)) / len(a) for a, b in zip(truth.tolist(), found.tolist(), strict=True)]))
