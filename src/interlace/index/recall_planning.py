"""Which recall codes of several lengths will reach, predicted from a sample of the user's vectors.

Books are learned from a part of the sample, as ``Index.build`` learns them, and rank the other part. An index learns
from more rows than a small sample has, so its recall is rather higher than predicted. The recall of codes falls with
the number of rows, because neighbours move closer to each other: it is measured among a quarter, a half and all of
these rows, and its log odds are continued along a line over the logarithm of their number.

After a re-rank too few neighbours are missing among few rows to continue a line. Two estimates stand for it: the line
of the codes alone, begun at the recall after the re-rank (too high), and the recall of the rows that are as near as the
k nearest of all rows would be, of n rows the k m / n nearest of m (too low, because to find the very nearest row is
harder than to find ten of ten). It is at least the recall of the codes alone, which a re-rank never lowers. The
prediction is their mean, and both are reported.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..codec.codebooks import Codebooks
from ..codec.encode import encode
from ..codec.metric import metric_of
from ..errors import InputError
from ..inputs.arrays import FloatArray, Rows, as_queries, positive
from ..inputs.conversion import row_count
from ..inputs.literals import Auto, Effort, Layout, Metric
from ..learn.fit import learn_codebooks
from ..learn.settings import Settings
from ..progress import Progress, part, silent

#: Rows of the sample that are used at most, queries among them, and the fewest rows a prediction is made from.
MOST_ROWS, QUERIES, LEAST_ROWS = 40_000, 500, 2_000
#: Share of the sample that books are learned from.
LEARNED = 2 / 3
#: Parts of the rows among which recall is measured, and numbers of neighbours.
PARTS, NEIGHBOURS = (4, 2, 1), (1, 2, 4, 8, 16)
#: Of samples below this share of the rows, the table says that predictions may be far off.
SMALL_SAMPLE = 0.1
#: No log odds are larger: of 500 queries and 10 hits each, fewer than one is lost.
MOST_ODDS = math.log(1e4)


@dataclass(frozen=True)
class RecallPoint:
    """One length of codes: predicted recall@k by the codes alone, and after a re-rank by originals."""

    n_bytes: int
    layout: str
    recall: float
    reranked: float
    reranked_range: tuple[float, float]  #: the two estimates it is the mean of
    code_bytes: float  #: per vector, row numbers included


@dataclass(frozen=True)
class RecallPlan:
    """Predicted recall by length of codes. Exhaustive search: a margin may lose a little more."""

    rows: int
    dim: int
    metric: str
    k: int
    rerank: int
    sample_rows: int  #: that were searched
    queries: int
    points: tuple[RecallPoint, ...]
    given_rows: int  #: of the sample: those that were learned from, searched, or used as queries

    @property
    def is_small_sample(self) -> bool:
        """Whether the sample has less than a tenth of the rows, so that predictions may be far off."""
        return self.given_rows < SMALL_SAMPLE * self.rows

    def as_dict(self) -> dict[str, Any]:
        """Every number by name."""
        return asdict(self)

    def __str__(self) -> str:
        lines = [
            f"recall@{self.k} predicted for {self.rows:,} rows x {self.dim} dimensions, {self.metric}, "
            f"from {self.sample_rows:,} rows and {self.queries} queries",
            f"  {'n_bytes':>7}  {'bytes/vector':>12}  {'layout':<8}  codes alone  re-rank of {self.rerank}",
        ]
        for p in self.points:
            low, high = p.reranked_range
            lines.append(
                f"  {p.n_bytes:7d}  {p.code_bytes:12.2f}  {p.layout:<8s}  {p.recall:11.2f}  "
                f"{p.reranked:.2f} ({low:.2f} to {high:.2f})"
            )
        if self.is_small_sample:
            lines.append(
                f"  may be far off: the sample has {self.given_rows:,} rows, less than a tenth of {self.rows:,}; "
                "measure with index.evaluate()"
            )
        return "\n".join(lines)

    __repr__ = __str__


def plan_recall(
    x: Any,
    *,
    rows: int | None = None,
    n_bytes: Sequence[int] = (8, 16, 32, 64),
    queries: Any = None,
    k: int = 10,
    rerank: int = 100,
    metric: Metric = "l2",
    layout: Layout = "auto",
    effort: Effort = "balanced",
    cells: int | Auto = "auto",
    seed: int = 0,
    threads: int | None = None,
    progress: Progress = silent,
) -> RecallPlan:
    """Predict recall@k of indexes with codes of several lengths, from a sample of vectors.

    ``x`` are some thousand rows like those of the index; more than 40,000 are sampled. ``rows`` is the number of rows
    that the index will hold, by default as many as x has. ``queries`` are yours, or some of the rows. ``rerank`` is how
    many of the best rows by code are compared with their originals. The other settings are those of ``Index.build``.
    Takes about as long as building an index of the sample for each length. Predictions from less than a tenth of the
    rows may be far off, and the printed table says so (docs/learning.md).
    """
    k, rerank = positive(k, "k"), positive(rerank, "rerank")
    given, rng = Rows(x), np.random.default_rng(seed)
    n_rows = len(given) if rows is None else row_count(rows, "rows")
    lengths = _lengths(n_bytes)
    if rerank < k:
        raise InputError(f"rerank must be at least k = {k}, got {rerank}")
    if len(given) < LEAST_ROWS:
        raise InputError(f"x must have at least {LEAST_ROWS:,} rows to predict from, got {len(given):,}")
    settings = [
        Settings(
            n_bytes=length, layout=layout, effort=effort, cells=cells, metric=metric, seed=seed, threads=threads
        ).checked()
        for length in lengths
    ]
    kind = metric_of(metric)
    chosen = np.sort(rng.permutation(len(given))[:MOST_ROWS])
    vectors = kind.prepare(given.take(chosen), name="x", rows=chosen)
    vectors = vectors[rng.permutation(len(vectors))]
    if queries is None:
        asked, vectors = vectors[:QUERIES], vectors[QUERIES:]
    else:
        asked, _ = as_queries(queries, given.dim)
        _, first = np.unique(asked, axis=0, return_index=True)  # a query that comes again predicts no more
        asked = kind.prepare(asked[np.sort(first)[:QUERIES]], name="queries")
    n_learned = int(LEARNED * len(vectors))
    settings[0].check_rows(min(n_rows, n_learned), "the part of the sample that is learned from")
    searched = vectors[n_learned:]  # rows that were learned from are coded better, the more so the fewer there are
    truth = kind.distances(asked, searched)
    points = []
    for i, of_length in enumerate(settings):
        report = part(progress, i / len(settings), (i + 1) / len(settings), f"{lengths[i]} bytes")
        learned = learn_codebooks(Rows(vectors[:n_learned]), of_length, report)
        points.append(_point(learned.codebooks, of_length, searched, asked, truth, k, rerank, n_rows))
    progress("done", 1.0)
    return RecallPlan(n_rows, given.dim, metric, k, rerank, len(searched), len(asked), tuple(points), len(chosen))


def _lengths(n_bytes: Sequence[int]) -> list[int]:
    if isinstance(n_bytes, int | np.integer):
        n_bytes = [int(n_bytes)]
    try:
        lengths = [positive(length, "n_bytes") for length in n_bytes]
    except TypeError:
        raise InputError(f"n_bytes must be lengths of codes, such as (8, 16, 32), got {n_bytes!r:.60}") from None
    if not lengths:
        raise InputError("n_bytes must name at least one length of codes, got none")
    return lengths


def _point(
    codebooks: Codebooks,
    settings: Settings,
    searched: FloatArray,
    queries: FloatArray,
    truth: FloatArray,
    k: int,
    rerank: int,
    n_rows: int,
) -> RecallPoint:
    decoded = codebooks.decode(encode(codebooks, searched, settings.workers))
    found = codebooks.metric_type.distances(queries, decoded)
    alone, reranked, reranked_range = _predicted(truth, found, k, rerank, n_rows)
    of_index = settings.for_rows(n_rows)
    return RecallPoint(
        n_bytes=settings.code_bytes,
        layout=codebooks.layout,
        recall=alone,
        reranked=reranked,
        reranked_range=reranked_range,
        code_bytes=len(codebooks.columns) + (2 + math.log2(max(1, of_index.n_cells))) / 8,
    )


def _predicted(
    truth: FloatArray, found: FloatArray, k: int, rerank: int, n_rows: int
) -> tuple[float, float, tuple[float, float]]:
    """Recall by codes alone, after a re-rank, and its range; distances [queries, rows] of vectors and their codes."""
    sizes = [truth.shape[1] // part for part in PARTS]
    alone = [_odds(_ranked(truth[:, :n], k), _ranked(found[:, :n], k)) for n in sizes]
    further = min(0.0, float(np.polyfit(np.log(sizes), alone, 1)[0])) * math.log(n_rows / sizes[-1])
    first = _odds(_ranked(truth, k), _ranked(found, min(rerank, truth.shape[1])))
    high = _share(first + further)
    by_codes = _share(alone[-1] + further)
    high = max(high, by_codes)
    low = min(high, max(by_codes, _of_nearest(truth, found, rerank / k, k * truth.shape[1] / n_rows)))
    return by_codes, (low + high) / 2, (low, high)


def _of_nearest(truth: FloatArray, found: FloatArray, deeper: float, as_if: float) -> float:
    """Log odds of the recall of NEIGHBOURS as a line over their logarithm, read at ``as_if`` of them."""
    nearest = _ranked(truth, NEIGHBOURS[-1])
    ranked = _ranked(found, min(truth.shape[1], math.ceil(NEIGHBOURS[-1] * deeper)))
    odds = [_odds(nearest[:, :n], ranked[:, : math.ceil(n * deeper)]) for n in NEIGHBOURS]
    slope, start = np.polyfit(np.log(NEIGHBOURS), odds, 1)
    return _share(start + slope * math.log(as_if))


def _odds(nearest: NDArray[np.int64], ranked: NDArray[np.int64]) -> float:
    """Log odds of the share of the nearest rows that are among the ranked ones."""
    share = min(max(float((nearest[:, :, None] == ranked[:, None, :]).any(2).mean()), 1e-9), 1 - 1e-9)
    return min(max(math.log(share / (1 - share)), -MOST_ODDS), MOST_ODDS)


def _share(odds: float) -> float:
    return 1 / (1 + math.exp(-odds))


def _ranked(distances: FloatArray, n: int) -> NDArray[np.int64]:
    """The n nearest rows of each query, in order."""
    some = np.argpartition(distances, n - 1, axis=1)[:, :n]
    order = np.argsort(np.take_along_axis(distances, some, 1), axis=1, kind="stable")
    return np.asarray(np.take_along_axis(some, order, 1))
