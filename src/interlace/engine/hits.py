"""What an engine returns: row numbers, distances, and what the search cost. Ids are attached later, by who has some."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _native
from ..errors import DamagedFileError
from ..inputs.arrays import FloatArray
from ..inputs.literals import RuleKind
from .margins import Rule

#: Counters of the native search for each query: cells, rows scanned, survivors, look-ups, strays, and whether it was
#: unlike the calibration's and so searched exactly (cpp/core/search.h).
WORK, STRAYS, UNLIKE = 6, 4, 5
QUERIES_PER_TASK = 8  # QueryTables::kGroup of cpp/core/query_tables.h: what one thread takes at a time


@dataclass(frozen=True)
class SearchStats:
    """Work of one call, summed over its queries."""

    queries: int
    rows: int  #: rows in the index
    cells: int  #: cells visited
    scanned: int  #: rows whose crude distance was computed
    survivors: int  #: rows compared by their whole code
    #: table additions: one per visited cell, the crude columns of each scanned row, the rest of each survivor
    lookups: int
    seconds: float
    margin: str  #: the rule that ran, with its parameter: a text for people
    threads: int  #: that had something to do
    simd: str
    reranked: int = 0  #: rows compared with kept originals
    unlike: int = 0  #: out-of-distribution queries for a calibrated margin, searched exactly
    #: expected recall@k after a re-rank: the recall@10 that the calibration measured for this margin and depth, scaled
    #: to the k and the number of rows of this search; None where it has not measured it. The least of several parts.
    expected_recall: float | None = None
    #: The rule that ran. Where the parts of an index ran several, the one that may lose hits.
    rule: RuleKind = "exact"
    #: Why the search, or a part of it, ran exactly in place of the margin that was asked for; None where it did not.
    fallback: str | None = None
    #: How the margin and the re-rank depth were chosen, where the call did not give them; of parts that differ, each.
    chosen: str | None = None

    @classmethod
    def of_work(
        cls, work: NDArray[np.uint64], *, rows: int, seconds: float, rule: Rule, threads: int, unlike: int = 0
    ) -> SearchStats:
        """From the counters [queries, WORK] of the native search."""
        cells, scanned, survivors, lookups, *_ = (work[0] if len(work) == 1 else work.sum(0)).tolist()
        return cls(
            queries=len(work),
            rows=rows,
            cells=cells,
            scanned=scanned,
            survivors=survivors,
            lookups=lookups,
            seconds=seconds,
            margin=rule.label,
            threads=max(1, min(threads, -(-len(work) // QUERIES_PER_TASK))),
            simd=_native.simd_level(),
            unlike=unlike,
            rule=rule.kind,
            fallback=rule.fallback,
        )

    @classmethod
    def summed(cls, parts: Sequence[SearchStats]) -> SearchStats:
        """Of queries, or of parts of an index, that were searched in several calls."""
        added = ("queries", "cells", "scanned", "survivors", "lookups", "seconds", "reranked", "unlike")
        sums = {name: sum(getattr(part, name) for part in parts) for name in added}
        expected = [part.expected_recall for part in parts if part.expected_recall is not None]
        return replace(
            parts[0],
            **sums,
            threads=max(part.threads for part in parts),
            rule=next((part.rule for part in parts if not part.is_exact), parts[0].rule),
            fallback=next((part.fallback for part in parts if part.fallback is not None), None),
            expected_recall=min(expected) if len(expected) == len(parts) else None,
            chosen=" / ".join(dict.fromkeys(part.chosen for part in parts if part.chosen is not None)) or None,
        )

    @property
    def is_exact(self) -> bool:
        """The hits are those of the exhaustive scan of the codes."""
        return self.rule in ("exact", "exhaustive")

    @property
    def ops_per_vector(self) -> float:
        """Table additions per query and database vector, the paper's Average Ops."""
        return self.lookups / max(1, self.queries * self.rows)

    def two_step_ops(self, n_books: int, n_crude: int) -> float:
        """Table additions per vector if every row paid for every crude book: no cells are skipped or share a sum."""
        return n_crude + (n_books - n_crude) * self.survivors / max(1, self.queries * self.rows)

    def __str__(self) -> str:
        total = max(1, self.queries * self.rows)
        more = f"{self.reranked} compared with originals, " if self.reranked else ""
        if self.chosen is not None:
            more += f"{self.chosen}, "
        if self.expected_recall is not None:
            more += f"expected recall {self.expected_recall:.3f} of the k neighbours by the calibration, "
        if self.unlike:
            more += f"{self.unlike} {'query' if self.unlike == 1 else 'queries'} searched exactly, "
        return (
            f"{self.queries} queries x {self.rows} rows, margin {self.margin}: scanned {self.scanned / total:.1%}, "
            f"survivors {self.survivors / total:.3%}, {more}{self.ops_per_vector:.3f} ops per vector, "
            f"{self.seconds * 1e3:.2f} ms ({self.simd}, {self.threads} thread{'s' * (self.threads > 1)})"
        )


def but_own(rows: NDArray[Any], own: NDArray[Any]) -> NDArray[np.bool_]:
    """Mask of all but one of the hits [queries, k]: without the row (or id) ``own[i]`` of query i, or without the last
    hit where that row was not found."""
    drop = rows == own[:, None]
    drop[~drop.any(1), -1] = True
    if (drop.sum(1) != 1).any():
        raise DamagedFileError("the index is damaged: row numbers are not unique")
    return np.asarray(~drop)


@dataclass(frozen=True, eq=False)
class RowHits:
    """The nearest rows of each query, nearest first; -1 and inf beyond the last."""

    rows: NDArray[np.int64]  #: [queries, k]
    distances: FloatArray  #: [queries, k]
    counts: NDArray[np.int64]  #: [queries]
    stats: SearchStats

    def after(self, offset: int) -> RowHits:
        """Without the first ``offset`` hits of each query."""
        if not offset:
            return self
        distances = np.ascontiguousarray(self.distances[:, offset:])
        return RowHits(self.rows[:, offset:], distances, np.maximum(self.counts - offset, 0), self.stats)

    def without(self, own: NDArray[np.int64]) -> RowHits:
        """Without the row ``own[i]`` of query i, one hit fewer for each; the last one where it was not found."""
        others, shape = but_own(self.rows, own), (len(self.rows), self.rows.shape[1] - 1)
        found = (self.rows == own[:, None]).any(1)
        counts = np.minimum(self.counts - found, shape[1])
        return RowHits(self.rows[others].reshape(shape), self.distances[others].reshape(shape), counts, self.stats)


@dataclass(frozen=True, eq=False)
class RangeHits:
    """All rows within a radius, nearest first; those of query i are offsets[i]:offsets[i + 1]."""

    offsets: NDArray[np.int64]  #: [queries + 1]
    rows: NDArray[np.int64]  #: [hits]
    distances: FloatArray  #: [hits]
    stats: SearchStats
