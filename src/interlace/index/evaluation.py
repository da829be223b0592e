"""How good an index is, and how fast: its own ground truth, recall, agreement, speed and size in one object."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..codec.exact import nearest_rows
from ..engine import margins
from ..engine.hits import SearchStats, but_own
from ..engine.margins import Rule
from ..engine.options import SearchOptions
from ..engine.rerank import rerank as rerank_rows
from ..errors import InputError
from ..evaluate.answers import agreement, as_ids, exact_neighbours
from ..evaluate.answers import recall as recall_of
from ..inputs.arrays import FloatArray, Rows, positive
from ..inputs.literals import Margin
from .id_values import IdArray
from .report import Report
from .searcher import Searcher

#: Searches are timed this often, or for so many seconds, whichever ends first; single queries are so many at most.
REPEATS, SECONDS, SINGLES = 5, 0.5, 200
_LEFT_OUT = "each one's own row left out"


@dataclass(frozen=True)
class Evaluation:
    """What :meth:`Index.evaluate` found; None where there was nothing to tell it from."""

    rows: int
    queries: int  #: that were evaluated
    k: int
    queries_from: str  #: where the queries came from
    truth_from: str | None  #: where the true neighbours came from; None: there are none, and no recall
    #: recall@j by j, of 1, 10 and k: share of the true j nearest among the first j found by the search that was asked
    #: for, after its re-rank if there is one
    recall: dict[int, float]
    #: the same for the exhaustive scan of the codes without a re-rank: what the codes themselves can tell
    code_recall: dict[int, float]
    #: mean share of the rows found by code, k or as many as are re-ranked, that the exhaustive scan finds too: what the
    #: margin loses
    agreement: float
    rerank: int | None  #: rows that are compared with their originals for each query; None without a re-rank
    queries_per_second: float  #: all queries in one call
    queries_per_second_single: float  #: one call for each query
    bytes_per_vector: float  #: codes and row numbers; after a re-rank, which reads them, originals too
    quantization_error: float | None  #: mean squared distance of a row from the vector that its code stands for
    #: the same as a share of the variance of the rows; above 1, x is not what was added, or the books do not fit it
    relative_error: float | None
    stats: SearchStats = field(repr=False)  #: of all queries in one call

    @property
    def ops_per_vector(self) -> float:
        """Table additions per query and row."""
        return self.stats.ops_per_vector

    @property
    def scanned(self) -> float:
        """Share of the rows whose crude distance was looked at."""
        return self.stats.scanned / (self.stats.queries * self.stats.rows)

    @property
    def survivors(self) -> float:
        """Share of the rows that were compared with the whole code."""
        return self.stats.survivors / (self.stats.queries * self.stats.rows)

    @property
    def margin(self) -> str:
        """The rule that ran, with its parameter."""
        return self.stats.margin

    def as_dict(self) -> dict[str, Any]:
        """Every number by name, one level deep; recalls are ``recall@j`` and ``code_recall@j``."""
        apart = ("recall", "code_recall", "stats")
        found = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in apart}
        found |= {f"recall@{j}": value for j, value in self.recall.items()}
        found |= {f"code_recall@{j}": value for j, value in self.code_recall.items()}
        found |= {name: getattr(self, name) for name in ("ops_per_vector", "scanned", "survivors", "margin")}
        return found | {"threads": self.stats.threads, "simd": self.stats.simd}

    def __str__(self) -> str:
        threads = f"{self.stats.threads} thread{'s' * (self.stats.threads > 1)}"
        after = "" if self.rerank is None else f" after a re-rank of {self.rerank:,} rows"
        by_code = "by the exhaustive scan of the codes"
        facts = [(f"recall@{j}", f"{value:.4f}{after}") for j, value in self.recall.items()]
        facts += [(f"code recall@{j}", f"{value:.4f} {by_code}") for j, value in self.code_recall.items()]
        facts += [
            ("agreement", f"{self.agreement:.4f} with the exhaustive scan of the codes"),
            ("margin", self.margin),
            ("queries per second", f"{self.queries_per_second:,.0f} in a batch ({threads}, {self.stats.simd})"),
            ("", f"{self.queries_per_second_single:,.0f} one by one"),
            ("ops per vector", f"{self.ops_per_vector:.3f}"),
            ("scanned, survivors", f"{self.scanned:.1%}, {self.survivors:.3%} of the rows"),
            ("bytes per vector", f"{self.bytes_per_vector:.2f}"),
        ]
        if self.quantization_error is not None:
            share = "" if self.relative_error is None else f", {self.relative_error:.2%} of the variance"
            facts.append(("quantization error", f"{self.quantization_error:.4g}{share}"))
        truth = "no true neighbours" if self.truth_from is None else f"truth: {self.truth_from}"
        lines = [f"{self.rows:,} rows, {self.queries:,} queries ({self.queries_from}), k={self.k}; {truth}"]
        return "\n".join([*lines, *(f"  {name:<19}{value}" for name, value in facts)])


def evaluate(
    searcher: Searcher,
    queries: Any = None,
    k: int = 10,
    *,
    truth: Any = None,
    x: Any = None,
    margin: Margin | None = None,
    sample: int = 1000,
    threads: int | None = None,
    seed: int = 0,
    embedded: bool = False,
    rerank: int | None = None,
    recall: float | None = None,
) -> Evaluation:
    """See :meth:`Index.evaluate`."""
    engine, space, ids = searcher.engine, searcher.space, searcher.ids
    k, sample = positive(k, "k"), positive(sample, "sample")
    rng = np.random.default_rng(positive(seed, "seed", least=0))
    n = engine.n_kept
    if n < (2 if queries is None else 1):
        raise InputError(
            "an empty index cannot be evaluated"
            if n == 0
            else "the only row of this index has no neighbours; pass queries to evaluate it"
        )
    if truth is not None and queries is None:
        raise InputError("truth requires queries: pass the queries it belongs to")
    asked = Asked(margin, rerank, recall, threads)
    options = searcher.options(k, 0, margin, threads, None, rerank, recall)
    rows = None if x is None else _rows(x, searcher, embedded)
    kept_vectors = searcher.originals if x is None else None
    kept = engine.kept_rows()  # x has these, in this order
    # The sample of rows: the queries, where none are given, and what the quantization error is measured on.
    chosen = np.sort(rng.choice(n, min(n, sample), replace=False))
    originals = None
    if rows is not None:
        originals = space.directed(rows.take(chosen), "x", rows=chosen)
    elif kept_vectors is not None:
        originals = space.directed(kept_vectors.take(kept[chosen]), "x", rows=chosen)
    decoded = engine.decode(kept[chosen])
    own: NDArray[np.int64] | None = kept[chosen]
    if queries is not None:
        vectors, truth = _given(space.search_vectors(queries, embedded)[0], truth, k, sample, rng)
        own, queries_from = None, "given"
    elif originals is not None:
        source = "rows of x" if rows is not None else "kept originals"
        vectors, queries_from = originals, f"{source}, {_LEFT_OUT}"
    else:
        vectors, queries_from = space.directed(decoded, "queries"), f"rows as coded, {_LEFT_OUT}"
    batch, single, stats = _speed(searcher, vectors, k, asked)  # first: it is quick, and refuses what must be
    truth_from = None if truth is None else "given"
    if truth is None and (rows is not None or kept_vectors is not None):
        truth_from = "exact neighbours in x" if rows is not None else "exact neighbours by kept originals"
        truth = ids.take(_true_rows(searcher, rows, vectors, k, own))
    found, by_code, scanned = _answers(searcher, vectors, options, own)
    error, share = (None, None) if originals is None else _error(originals, decoded)
    report = Report.of(searcher, None)
    return Evaluation(
        rows=n,
        queries=len(vectors),
        k=k,
        queries_from=queries_from,
        truth_from=truth_from,
        recall=_recalls(found, truth, k),
        code_recall=_recalls(scanned[:, :k], truth, k),
        agreement=agreement(by_code, scanned),
        rerank=options.rerank,
        queries_per_second=batch,
        queries_per_second_single=single,
        bytes_per_vector=report.code_bytes_per_vector if options.rerank is None else report.bytes_per_vector,
        quantization_error=error,
        relative_error=share,
        stats=stats,
    )


@dataclass(frozen=True)
class Asked:
    """The options of the searches that are measured, as a user passes them."""

    margin: Margin | None
    rerank: int | None
    recall: float | None
    threads: int | None


def _recalls(found: IdArray, truth: IdArray | None, k: int) -> dict[int, float]:
    return {} if truth is None else {j: recall_of(found, truth, j) for j in sorted({1, 10, k}) if j <= k}


def _true_rows(
    searcher: Searcher, rows: Rows | None, vectors: FloatArray, k: int, own: NDArray[np.int64] | None
) -> NDArray[np.int64]:
    """The true neighbours [queries, k] by brute force over x, or over the kept originals."""
    engine, depth = searcher.engine, k + (own is not None)
    if rows is None:
        removed = None if engine.removed is None else ~engine.removed.kept()
        blocks, metric = searcher.kept_vectors("evaluate").blocks(), engine.codebooks.metric_type.of_originals
        return without(nearest_rows(blocks, vectors, depth, metric, removed=removed)[0], own)
    found, kept = exact_neighbours(rows, vectors, depth, searcher.space.metric)[0], engine.kept_rows()
    return without(np.where(found < 0, -1, kept[found]), own)


def without(found: NDArray[np.int64], own: NDArray[np.int64] | None) -> NDArray[np.int64]:
    """Rows found [queries, k + 1] less each query's own one; where it was not found, less the last."""
    if own is None:
        return found
    return np.asarray(found[but_own(found, own)]).reshape(len(found), found.shape[1] - 1)


def _rows(x: Any, searcher: Searcher, embedded: bool) -> Rows:
    rows, n = searcher.space.rows(x, embedded), searcher.engine.n_kept
    if len(rows) != n:
        raise InputError(
            f"x must hold the rows of the index in the order they were added: {n} expected, got {len(rows)}"
        )
    return rows


def _given(
    vectors: FloatArray, truth: Any, k: int, sample: int, rng: np.random.Generator
) -> tuple[FloatArray, IdArray | None]:
    """At most ``sample`` of the user's queries, and their true neighbours."""
    if len(vectors) == 0:
        raise InputError("queries has no rows; an evaluation needs at least one")
    ids = None if truth is None else as_ids(truth, "truth")
    if ids is not None and (len(ids) != len(vectors) or ids.shape[1] < k):
        raise InputError(
            f"truth must hold at least k={k} ids for each of {len(vectors)} queries, got shape {ids.shape}"
        )
    if len(vectors) > sample:
        kept = np.sort(rng.choice(len(vectors), sample, replace=False))
        vectors, ids = vectors[kept], None if ids is None else ids[kept]
    return vectors, ids


def _answers(
    searcher: Searcher, vectors: FloatArray, options: SearchOptions, own: NDArray[np.int64] | None
) -> tuple[IdArray, IdArray, IdArray]:
    """Ids that the search finds [n, k], that it finds by code [n, depth], and that the exhaustive scan finds.

    With its own row left out, a query is searched as in an index that does not hold it: one more hit under the rule of
    the depth, because then the last of the others is the last that was asked for.
    """
    engine, extra = searcher.engine, int(own is not None)
    options = replace(options, rerank=None if options.rerank is None else min(options.rerank, engine.n_kept))
    rules = engine.rule(options.margin, options.depth, reranked=options.rerank is not None), margins.EVERYTHING

    def rows_by(rule: Rule) -> NDArray[np.int64]:
        return engine.search_by_rule(vectors, options.depth + extra, lambda _: rule, options.threads).rows

    search, scan = map(rows_by, rules)
    found = search
    if options.rerank is not None:
        kept = searcher.kept_vectors("rerank")
        metric = engine.codebooks.metric_type
        found = rerank_rows(kept, vectors, search, options.k + extra, metric, options.threads)[0]
    answers = [searcher.ids.take(without(rows, own)) for rows in (found, search, scan)]
    return answers[0], answers[1], answers[2]


def _speed(searcher: Searcher, vectors: FloatArray, k: int, asked: Asked) -> tuple[float, float, SearchStats]:
    """Queries per second in one call and in calls of their own, as users make them; the work of the one call."""

    def search(q: FloatArray) -> SearchStats:
        return searcher.search(
            q,
            k,
            margin=asked.margin,
            threads=asked.threads,
            embedded=True,
            rerank=asked.rerank,
            recall=asked.recall,
        ).stats

    stats = search(vectors)  # also warms up
    best, until = math.inf, time.perf_counter() + SECONDS
    for _ in range(REPEATS):
        started = time.perf_counter()
        search(vectors)
        best = min(best, time.perf_counter() - started)
        if time.perf_counter() > until:
            break
    until, seconds = time.perf_counter() + SECONDS, []
    for query in vectors[:SINGLES]:
        started = time.perf_counter()
        search(query)
        seconds.append(time.perf_counter() - started)
        if started > until:
            break
    return len(vectors) / best, 1 / float(np.median(seconds)), stats


def _error(originals: FloatArray, decoded: FloatArray) -> tuple[float, float | None]:
    """Mean squared distance of rows from what their codes stand for, and its share of their variance."""
    error = float(((originals.astype(np.float64) - decoded) ** 2).sum(1).mean())
    variance = float(originals.var(0, dtype=np.float64).sum())
    return error, error / variance if variance > 0 else None
