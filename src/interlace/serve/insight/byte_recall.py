"""How much each byte of the code adds: recall when only the first books are read."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..collections.collection import Collection
from ..collections.searching import has_originals
from .sampling import sample_ids, vectors_of

ROWS, QUERIES = 2_000, 64


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
        shared = np.mean([len(set(a) & set(b)) / k for a, b in zip(got.tolist(), wanted.tolist(), strict=True)])
        rows.append({"bytes": position + 1, "recall": float(shared), "crude": column < books.n_crude})
    return {"k": k, "rows": len(x), "queries": len(queries), "bytes": rows}


def _nearest(q: NDArray[Any], x: NDArray[Any], own: NDArray[Any], k: int, alike: bool) -> NDArray[Any]:
    """The k nearest rows of each query, without itself."""
    far = -(q @ x.T)
    if alike:
        far = np.einsum("ij,ij->i", x, x) + 2 * far
    far[np.arange(len(own)), own] = np.inf
    return np.argpartition(far, k - 1, axis=1)[:, :k]
