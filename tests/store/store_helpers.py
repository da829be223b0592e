"""What the tests of the store share: codebooks whose distances are exact, a model of a store, small limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import interlace as il
from books import random_codebooks
from interlace.codec.encode import encode
from interlace.store import Limits

#: Words are whole numbers and books share no dimension: distances are exact in float32, and tie all the time.
BOOKS = random_codebooks(np.random.default_rng(3), "subspace", dim=4, n_books=2, n_words=6, integers=True)
#: Everything happens after a few writes.
SMALL = Limits(rows=12, records=4, bytes=600, removed_share=0.4)
#: Nothing happens by itself.
LARGE = Limits(removed_share=None)

#: What a store may have beside ids and codes; whole numbers are exact in float16.
RICH: dict[str, Any] = {"columns": {"n": "int32", "tag": "string"}, "originals": "float16"}

#: A store that starts without codebooks, and learns small ones quickly, beside columns and originals.
EMPTY: dict[str, Any] = {
    **RICH,
    "source": None,
    "dim": 4,
    "n_bytes": 2,
    "n_words": 4,
    "layout": "subspace",
    "effort": "fastest",
    "iterations": 0,
    "threads": 1,
}

FloatArray = NDArray[np.float32]


def vectors(n: int, seed: int = 0) -> FloatArray:
    """Rows [n, 4] of whole numbers."""
    return np.random.default_rng(seed).integers(-3, 4, (n, 4)).astype(np.float32)


def decoded(x: FloatArray) -> FloatArray:
    """What a store keeps of vectors."""
    return BOOKS.decode(encode(BOOKS, np.ascontiguousarray(x, np.float32), 1))


def values(x: FloatArray) -> list[dict[str, Any]]:
    """Columns of rows, which follow from their vectors: numbers and text, some of them missing."""
    sums = x.sum(1).astype(int).tolist() if len(x) else []
    return [{"n": None if s % 4 == 0 else s, "tag": None if s % 3 == 0 else f"é{s % 5}" * (s % 7)} for s in sums]


class Model:
    """A store as a dict of vectors in the order of insertion, searched exhaustively.

    ``exact``: the store has no codebooks, and keeps vectors as they are.
    """

    def __init__(self, exact: bool = False) -> None:
        self.exact = exact
        self.rows: dict[Any, FloatArray] = {}
        self.originals: dict[Any, FloatArray] = {}
        self.next_id = 0

    def copy(self) -> Model:
        other = Model(self.exact)
        other.rows, other.originals, other.next_id = dict(self.rows), dict(self.originals), self.next_id
        return other

    def put(self, x: FloatArray, ids: list[Any]) -> None:
        """Add or replace; a row that replaces another comes last."""
        for i, vector, original in zip(ids, x if self.exact else decoded(x), x, strict=True):
            self.rows.pop(i, None)
            self.rows[i], self.originals[i] = vector, original
            if not isinstance(i, str):
                self.next_id = max(self.next_id, i + 1)

    def remove(self, ids: list[Any]) -> None:
        for i in ids:
            self.rows.pop(i, None)

    def search(self, q: FloatArray, k: int, allowed: Any = None) -> tuple[list[Any], list[float]]:
        """Ids and squared distances, ties by insertion."""
        return self._nearest(self.rows, q, k, allowed)

    def rerank(self, q: FloatArray, k: int, depth: int, allowed: Any = None) -> tuple[list[Any], list[float]]:
        """The same, of the best by code by their originals."""
        best = set(self.search(q, depth, allowed)[0])
        return self._nearest({i: self.originals[i] for i in self.rows}, q, k, best)

    @property
    def payload(self) -> list[dict[str, Any]]:
        """Columns of all rows."""
        return values(np.array([self.originals[i] for i in self.rows], np.float32).reshape(-1, 4))

    @staticmethod
    def _nearest(rows: dict[Any, FloatArray], q: FloatArray, k: int, allowed: Any) -> tuple[list[Any], list[float]]:
        found = [(float(((v - q) ** 2).sum()), i) for i, v in rows.items() if allowed is None or i in allowed]
        found.sort(key=lambda pair: pair[0])  # stable
        return [i for _, i in found[:k]], [d for d, _ in found[:k]]


def check(store: Any, model: Model, *, seed: int = 0, k: int = 5) -> None:
    """A store (or a snapshot) holds what the model does, and finds what it finds."""
    ids = list(model.rows)
    assert len(store) == len(ids)
    assert store.ids.tolist() == ids == list(store)
    if ids:
        assert np.array_equal(store.get(ids), np.array(list(model.rows.values())))
        assert ids[0] in store
    if store.columns is not None:
        check_extras(store, model, seed=seed, k=k)
    queries = vectors(3, seed)
    for margin in ("exact", np.inf):
        matches = store.search(queries, k, margin=margin, threads=1)
        for row, q in enumerate(queries):
            expected, distances = model.search(q, k)
            assert matches.counts[row] == len(expected)
            assert matches.ids[row].tolist()[: len(expected)] == expected
            assert matches.distances[row].tolist()[: len(expected)] == distances
            assert np.isinf(matches.distances[row][len(expected) :]).all()


def check_extras(store: Any, model: Model, *, seed: int = 0, k: int = 5) -> None:
    """Columns and originals are those of the model, and a second look finds what it finds."""
    ids = list(model.rows)
    assert store.payload().to_pylist() == model.payload
    if ids:
        assert np.array_equal(store.get(ids, originals=True), np.array([model.originals[i] for i in ids]))
        some = ids[::-2]
        assert store.payload(some, "n").to_pylist() == [{"n": v["n"]} for v in model.payload[::-2]]
    queries = vectors(2, seed)
    for depth in (k, 2 * k, k + len(ids)):
        matches = store.search(queries, k, margin="exact", threads=1, rerank=depth)
        for row, q in enumerate(queries):
            expected, distances = model.rerank(q, k, depth)
            assert matches.counts[row] == len(expected)
            assert matches.ids[row].tolist()[: len(expected)] == expected
            assert matches.distances[row].tolist()[: len(expected)] == distances


def put(store: Any, act: str, x: FloatArray, *arguments: Any, **keywords: Any) -> Any:
    """``store.add`` or ``upsert``, with columns where the store has some."""
    if store.columns is not None:
        keywords["payload"] = values(x)
    return getattr(store, act)(x, *arguments, **keywords)


def files_of(folder: Path) -> list[str]:
    """Names of a store's files, the lock left out."""
    return sorted(path.name for path in folder.iterdir() if path.name != "LOCK")


def filled(
    folder: Path,
    *,
    kind: str = "int64",
    limits: Limits = SMALL,
    rich: bool = False,
    originals: str = "float16",
    books: bool = True,
) -> tuple[il.Store, Model]:
    """A store with several segments, tombstones in a file and in the log, and rows in the log; and its model.

    Without ``books`` it has vectors, columns and, once it learns, originals.
    """
    extras = {**RICH, "originals": originals} if rich else {}
    if not books:
        extras = {**EMPTY, "relearn": "manual", "originals": originals}
    rich = rich or not books
    store, model = il.create(folder, **{"source": BOOKS, "limits": limits, **extras}), Model(exact=not books)
    names = (lambda numbers: [f"é{i}" for i in numbers]) if kind == "string" else list
    for step, n in enumerate((20, 30, 3)):
        ids = names(range(100 * step, 100 * step + n))
        put(store, "add", vectors(n, step), ids)
        model.put(vectors(n, step), ids)
    gone = names([0, 3, 7, 101])
    store.remove(gone)
    model.remove(gone)
    for step in range(4):  # records enough for a checkpoint
        ids = names([300 + step, 4])
        put(store, "upsert", vectors(2, 10 + step), ids)
        model.put(vectors(2, 10 + step), ids)
    store.compact()
    store.remove(names([12, 111, 112, 302]))
    model.remove(names([12, 111, 112, 302]))
    put(
        store, "add", vectors(18, 30), names(range(400, 418))
    )  # a checkpoint, with a tombstone file for the large segment
    model.put(vectors(18, 30), names(range(400, 418)))
    store.remove(names([110, 401]))
    put(store, "upsert", vectors(1, 20), names([11]))
    model.remove(names([110, 401]))
    model.put(vectors(1, 20), names([11]))
    if not rich:  # whose log is full after fewer rows
        rows, log = store.snapshot.rows, store.session.state.place
        assert (len(rows.parts), rows.tail.n, log.sequence) == (2, 1, 2)
    assert len(store.snapshot.rows.parts) >= 2
    return store, model
