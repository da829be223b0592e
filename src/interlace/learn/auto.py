"""``layout="auto"``: learn each layout from a small sample, measure its recall on held-out rows, predict its cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..codec.codebooks import Codebooks
from ..codec.encode import encode
from ..codec.exact import nearest_rows
from ..codec.metric import Metric, metric_of
from ..engine.engine import Engine
from ..engine.hits import SearchStats
from ..engine.options import SearchOptions
from ..engine.segments import Segment
from ..evaluate.answers import recall
from ..inputs.arrays import FloatArray
from .cost.rates import search_seconds
from .layout_rules import TRIAL_QUERIES, TRIAL_ROWS, compared_layouts, trial_train_rows, usual_layout
from .schedule import default_crude
from .settings import Settings

#: A loss of recall up to this is accepted for a faster search.
TOLERANCE = 0.005
#: Of long codes, a loss up to this for a search that takes at most this share of the time. The tables of residual
#: books in groups take longer than the rows where there are many dimensions (benchmarks/LIMITS.md).
LONG_TOLERANCE, LONG_SHARE = 0.02, 0.7
BLOCK = 4096  #: rows that are compared or converted to float64 at a time
K = 10
TARGET = 0.99  #: agreement that the searches are calibrated for


@dataclass(frozen=True)
class Choice:
    """The layout that was chosen, why, and the measurements behind it: one dict for each candidate."""

    layout: str
    n_crude: int | None  #: None: the layout's default
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
    settings: Settings,
    *,
    n_rows: int,
    rng: np.random.Generator,
) -> Choice:
    """The layout for the sample x, and the number of crude books.

    ``learn(rows, layout)`` learns codebooks in a few rounds. ``n_rows`` is the number of rows that the index will hold;
    the cost of a search is predicted for it.
    """
    layouts = compared_layouts(settings, x.shape[1], len(x))
    if not layouts:
        usual, why = usual_layout(settings, x.shape[1], len(x))
        return Choice(usual, settings.crude_books, why)
    order = rng.permutation(len(x))
    queries, rest = x[order[:TRIAL_QUERIES]], order[TRIAL_QUERIES:]
    train = x[np.sort(rest[: min(trial_train_rows(settings.code_bytes), len(rest) // 2)])]
    rows = _trial_rows(x, rest, len(train), min(1.0, len(x) / max(1, n_rows)))
    truth = _nearest(rows, queries, metric_of(settings.metric))
    table = []
    for layout in layouts:
        table += _measure(learn(train, layout), rows, queries, truth, settings, n_rows)
    best = max(row["recall"] for row in table)
    good = [row for row in table if row["recall"] >= best - TOLERANCE]
    chosen, tolerance = _cheapest(good), TOLERANCE
    if settings.is_long:
        other = _cheapest([row for row in table if row["recall"] >= best - LONG_TOLERANCE])
        if other["microseconds"] <= LONG_SHARE * chosen["microseconds"]:
            chosen, tolerance = other, LONG_TOLERANCE
    why = (
        f"recall@10 {chosen['recall']:.3f} on {len(rows)} rows (best {best:.3f}), the cheapest search of "
        f"those within {tolerance} of the best"
    )
    return Choice(chosen["layout"], chosen["n_crude"], why, tuple(table))


def _cheapest(table: list[dict[str, Any]]) -> dict[str, Any]:
    return min(table, key=lambda row: float(row["microseconds"]))


def _trial_rows(x: FloatArray, rest: NDArray[np.int64], n_train: int, trained: float) -> FloatArray:
    """Rows to search: as large a share of them were learned from, by the trial, as of the rows of the index.

    Residual books code the rows that they were learned from much better than others. An index of up to 65,536 rows has
    few others.
    """
    n = min(TRIAL_ROWS, len(rest) - len(rest) // 2)
    n_learned = min(round(trained * n), n_train)
    return np.asarray(x[np.sort(np.concatenate([rest[:n_learned], rest[len(rest) // 2 :][: n - n_learned]]))])


def _measure(
    codebooks: Codebooks,
    rows: FloatArray,
    queries: FloatArray,
    truth: NDArray[np.int64],
    settings: Settings,
    n_rows: int,
) -> list[dict[str, Any]]:
    """Recall, error and predicted cost; one entry for each number of crude books worth trying."""
    threads = settings.workers
    codes = encode(codebooks, rows, threads)
    decoded = codebooks.decode(codes)
    found = recall(_nearest(decoded, queries, codebooks.metric_type), truth, K)
    blocks = (slice(start, start + BLOCK) for start in range(0, len(rows), BLOCK))
    error = sum(float(((rows[b] - decoded[b]).astype(np.float64) ** 2).sum()) for b in blocks) / len(rows)
    # If search computes cross terms, there is a second step even if all books are crude.
    others = {codebooks.n_books} if settings.crude_books is None and codebooks.has_cross_sums else set()
    if settings.crude_books is None and codebooks.folds_cells and codebooks.layout == "hybrid":
        others.add(default_crude(codebooks.n_books))
    out = []
    for n_crude in sorted({codebooks.n_crude, *others}):
        arrays, description = codebooks.to_arrays()
        tried = Codebooks.from_arrays(arrays, description | {"n_crude": n_crude})
        if tried.columns != codebooks.columns:  # the place of norm columns depends on the number of crude books
            continue
        stats = _search_work(tried, codes, queries, threads)
        total = stats.queries * len(rows)
        out.append(
            {
                "layout": tried.layout,
                "n_books": tried.n_books,
                "n_crude": tried.n_crude,
                "recall": found,
                "error": error,
                "scanned_share": stats.scanned / total,
                "survivors_share": stats.survivors / total,
                "microseconds": 1e6 * search_seconds(tried, stats, n_rows),
            }
        )
    return out


def _search_work(codebooks: Codebooks, codes: NDArray[np.uint8], queries: FloatArray, threads: int) -> SearchStats:
    """Work of searches with a margin that half of the queries calibrate; the other half is searched."""
    engine, half = Engine(codebooks, (Segment.pack(codes, codebooks),)), len(queries) // 2
    calibration = engine.calibrated(queries[:half], threads=threads, confidence=0.0)  # an estimate is enough
    options = SearchOptions(k=K, margin=TARGET, threads=threads)
    return engine.with_calibration(calibration).search(queries[half:], options).stats


def _nearest(rows: FloatArray, queries: FloatArray, metric: Metric) -> NDArray[np.int64]:
    """The K nearest rows of each query."""
    blocks = ((start, rows[start : start + BLOCK]) for start in range(0, len(rows), BLOCK))
    return nearest_rows(blocks, queries, K, metric)[0]
