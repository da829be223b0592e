"""What a margin and what each byte of the code buy, measured with rows of the collection as queries."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..collections.collection import Collection
from ..collections.searching import has_originals, vectors_of
from .contents import sample_ids

TRIED, TIMES = 64, 3  # queries for a margin, and how often they are timed
SCANNED = 16_000_000  # rows that the queries of the margins scan together
LONG = 0.1  # seconds of a run that needs no other
#: Margins of the curve.
MARGINS: tuple[float | str, ...] = (0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, "exact", "inf")
ROWS, QUERIES = 2_000, 64  # of the sample for the bytes


def margins(found: Collection, k: int) -> dict[str, Any]:
    """What each margin costs and buys for rows of the collection as queries: agreement, recall, operations, time."""
    snapshot = found.snapshot()
    if not len(snapshot):
        return {"k": k, "queries": 0, "margins": []}
    queries = vectors_of(snapshot, sample_ids(snapshot, max(8, min(TRIED, SCANNED // len(snapshot)))))
    exhaustive = snapshot.search(queries, k, margin=float("inf"))
    true = None
    if has_originals(snapshot):
        true = snapshot.search(queries, k, margin="exact", rerank=max(k, min(len(snapshot), 2_000)))
    rows = []
    for margin in MARGINS:
        asked: Any = float("inf") if margin == "inf" else margin
        ran = snapshot.search(queries, k, margin=asked)
        if ran.stats.seconds < LONG:  # short ones again: the first also fills caches
            runs = [snapshot.search(queries, k, margin=asked) for _ in range(1, TIMES)]
            ran = min((ran, *runs), key=lambda run: run.stats.seconds)
        rows.append(
            {
                "margin": margin,
                "ran": ran.stats.margin,
                "agreement": _shared(ran.ids, exhaustive.ids),
                "recall": None if true is None else _shared(ran.ids, true.ids),
                "scanned": ran.stats.scanned / max(1, ran.stats.queries * ran.stats.rows),
                "survivors": ran.stats.survivors / max(1, ran.stats.queries * ran.stats.rows),
                "ops_per_vector": ran.stats.ops_per_vector,
                "seconds": ran.stats.seconds / max(1, ran.stats.queries),
            }
        )
    return {"k": k, "queries": len(queries), "margins": rows}


def _shared(a: NDArray[Any], b: NDArray[Any]) -> float:
    """The share of the hits of b that are among those of a."""
    each = [len(set(x) & set(y)) / max(1, len(y)) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    return float(np.mean(each))


def recall_by_bytes(found: Collection, k: int = 10) -> dict[str, Any]:
    """Recall@k in a sample of the rows, by the books that are read; empty without original vectors or codes."""
    snapshot, books = found.snapshot(), found.store.codebooks
    if snapshot.collecting or not has_originals(snapshot) or len(snapshot) <= k:
        return {"k": k, "rows": 0, "queries": 0, "bytes": []}
    ids = sample_ids(snapshot, ROWS)
    x = vectors_of(snapshot, ids).astype(np.float32)
    queries = np.linspace(0, len(x) - 1, min(QUERIES, len(x))).astype(np.int64)
    searcher, alike = snapshot.searcher, books.metric_type.is_squared
    cells, columns = books.split_codes(searcher.engine.codes_of(searcher.ids.rows_of(ids, "ids")))
    # In the coordinates of the books each byte adds a word. The mean moves squared distances; it does not change the
    # order of products.
    turned = x[queries] - books.mean if alike else x[queries]
    turned = turned if books.rotation is None else turned @ books.rotation
    wanted = _nearest(x[queries], x, queries, k, alike)
    coded = np.zeros((len(x), books.dim), np.float32)
    rows = []
    for position, column in enumerate((0, *books.columns)):
        if column < 0:
            continue  # a norm: it corrects distances, and adds nothing to the vector
        book = books.books[column]
        coded[:, book.support] += book.words[cells if position == 0 else columns[:, position - 1]]
        got = _nearest(turned, coded, queries, k, alike)
        rows.append({"bytes": position + 1, "recall": _shared(got, wanted), "crude": column < books.n_crude})
    return {"k": k, "rows": len(x), "queries": len(queries), "bytes": rows}


def _nearest(q: NDArray[Any], x: NDArray[Any], own: NDArray[Any], k: int, alike: bool) -> NDArray[Any]:
    """The k nearest rows of each query, without itself."""
    far = -(q @ x.T)
    if alike:
        far = np.einsum("ij,ij->i", x, x) + 2 * far
    far[np.arange(len(own)), own] = np.inf
    return np.argpartition(far, k - 1, axis=1)[:, :k]
