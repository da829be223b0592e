"""`DocumentFolder`: documents with or without vectors in one directory, which the adapters of frameworks share.

``documents.sqlite`` has the documents: an id, a JSON text and, if asked, the exact vector. ``vectors`` is a
:class:`~interlace.Store` with the same ids, made when the first vector comes. The documents decide what exists: vectors
are written before the document is committed and removed after it, so that after a crash there is at most a vector
without its document, which searches skip and the next write removes.
"""

from __future__ import annotations

import json
import os
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..inputs.literals import Metric
from ..store import Store, create
from ..store import open as open_store

Json = dict[str, Any]
#: Ids in one question to the data base; SQLite limits the parameters of a question.
MOST_PARAMETERS = 500


class DocumentFolder:
    """Documents by id. ``folder=None`` is a temporary directory, which ends with the object.

    ``settings`` are those of :func:`interlace.create` without a source, such as ``n_bytes``. One process can have a
    folder open at a time.
    """

    def __init__(
        self,
        folder: str | PathLike[str] | None,
        *,
        metric: Metric = "cosine",
        exact: bool = False,
        settings: dict[str, Any] | None = None,
    ) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="interlace-") if folder is None else None
        self.path = os.fspath(folder) if folder is not None else getattr(self._temporary, "name", "")
        self._metric, self._exact, self._settings = metric, exact, dict(settings or {})
        os.makedirs(self.path, exist_ok=True)
        self._lock = threading.RLock()
        self._base = sqlite3.connect(os.path.join(self.path, "documents.sqlite"), check_same_thread=False)
        self._base.execute("pragma journal_mode=wal")
        self._base.execute("pragma synchronous=full")
        self._base.execute(
            "create table if not exists documents (number integer primary key, id text unique not null, data text not "
            "null, vector blob, coded integer not null)"
        )
        self._base.commit()
        self._store: Store | None = None
        if os.path.isdir(self._vectors):
            self._store = open_store(self._vectors, mode="a")

    @property
    def _vectors(self) -> str:
        return os.path.join(self.path, "vectors")

    @property
    def store(self) -> Store | None:
        """The vectors; None before the first one."""
        return self._store

    @property
    def metric(self) -> str:
        """How vectors are compared."""
        return self._metric if self._store is None else self._store.codebooks.metric

    def __len__(self) -> int:
        with self._lock:
            return int(self._base.execute("select count(*) from documents").fetchone()[0])

    def known(self, ids: Sequence[str]) -> set[str]:
        """Which of these ids there are."""
        return {found[0] for found in self._select("id", ids)}

    def write(self, ids: Sequence[str], data: Sequence[Json], vectors: Sequence[Any]) -> None:
        """Add or replace documents; a vector may be None. After an error none of them is written."""
        last = {document: place for place, document in enumerate(ids)}  # of equal ids the last one counts
        texts = {document: json.dumps(data[place]) for document, place in last.items()}
        with_vector = [document for document, place in last.items() if vectors[place] is not None]
        rows = _matrix([vectors[last[document]] for document in with_vector])
        with self._lock:
            try:
                stale = [document for document in last if document not in set(with_vector)]
                if rows is not None:
                    if self._store is None:
                        self._store = create(self._vectors, dim=rows.shape[1], metric=self._metric, **self._settings)
                    self._store.upsert(rows, with_vector)
                kept = dict(zip(with_vector, rows if rows is not None else (), strict=True))
                for document, text in texts.items():
                    exact = None
                    if self._exact and document in kept:
                        exact = np.asarray(vectors[last[document]], np.float64).tobytes()
                    self._base.execute(
                        "insert into documents (id, data, vector, coded) values (?, ?, ?, ?) on conflict (id) do "
                        "update set data = excluded.data, vector = excluded.vector, coded = excluded.coded",
                        (document, text, exact, document in kept),
                    )
                self._base.commit()
                if stale and self._store is not None:
                    self._store.remove(stale, missing="ignore")
            except BaseException:
                self._base.rollback()
                raise

    def replace(self, ids: Sequence[str], data: Sequence[Json]) -> None:
        """Replace the data of documents that exist; vectors stay."""
        rows = [(json.dumps(each), document) for document, each in zip(ids, data, strict=True)]
        with self._lock:
            self._base.executemany("update documents set data = ? where id = ?", rows)
            self._base.commit()

    def delete(self, ids: Sequence[str]) -> int:
        """Remove documents; ids that are not there are ignored. Returns how many there were."""
        with self._lock:
            before = len(self)
            self._base.executemany("delete from documents where id = ?", [(document,) for document in ids])
            self._base.commit()
            if self._store is not None and len(ids):
                self._store.remove(list(ids), missing="ignore")
            return before - len(self)

    def get(self, ids: Sequence[str]) -> list[tuple[str, Json, NDArray[np.float64] | None]]:
        """Documents in the order of ids, without those that are not there."""
        found = {row[0]: row for row in self._select("id, data, vector", ids)}
        return [_loaded(found[document]) for document in ids if document in found]

    def all(self) -> Iterator[tuple[str, Json, NDArray[np.float64] | None]]:
        """All documents, in the order in which they were first written."""
        with self._lock:
            rows = self._base.execute("select id, data, vector from documents order by number").fetchall()
        return map(_loaded, rows)

    def search(
        self, query: Any, k: int, matches: Callable[[str, Json], bool] | None = None
    ) -> list[tuple[str, Json, float]]:
        """The k nearest documents that match, with their distances, nearest first."""
        with self._lock:
            if self._store is None or k < 1:
                return []
            with_vectors = self._base.execute("select id, data from documents where coded = 1").fetchall()
            allowed = [row[0] for row in with_vectors if matches is None or matches(row[0], json.loads(row[1]))]
            if not allowed:
                return []
            everything = matches is None and len(allowed) == len(self._store)
            vector = np.asarray(query, np.float32)
            found = self._store.search(vector, k=min(k, len(allowed)), filter=None if everything else allowed)
            texts = {row[0]: row[1] for row in self._select("id, data", [str(i) for i in found.ids])}
        hits = zip(found.ids, found.distances, strict=True)
        return [(str(i), json.loads(texts[str(i)]), float(distance)) for i, distance in hits if str(i) in texts]

    def vectors(self, ids: Sequence[str]) -> NDArray[np.float32]:
        """The vectors of documents that have one, as the store keeps them."""
        assert self._store is not None
        return np.asarray(self._store.get(list(ids), originals=True))

    def close(self) -> None:
        """Close the files; a temporary directory is removed."""
        with self._lock:
            if self._store is not None:
                self._store.close()
            self._base.close()
            if self._temporary is not None:
                self._temporary.cleanup()

    def _select(self, columns: str, ids: Sequence[str]) -> list[Any]:
        found: list[Any] = []
        with self._lock:
            for start in range(0, len(ids), MOST_PARAMETERS):
                part = list(ids[start : start + MOST_PARAMETERS])
                places = ", ".join("?" * len(part))
                found += self._base.execute(f"select {columns} from documents where id in ({places})", part).fetchall()
        return found


def score_of(metric: str, distance: float) -> float:
    """A score of which larger is better: the cosine, the product, or 1 / (1 + squared distance)."""
    if metric == "l2":
        return 1.0 / (1.0 + max(0.0, distance))
    return 1.0 - distance if metric == "cosine" else -distance


def _matrix(vectors: list[Any]) -> NDArray[np.float32] | None:
    if not vectors:
        return None
    lengths = {len(vector) for vector in vectors}
    if len(lengths) > 1:
        raise InputError(f"vectors must have one number of dimensions, got {sorted(lengths)}")
    return np.asarray(vectors, np.float32)


def _loaded(row: Any) -> tuple[str, Json, NDArray[np.float64] | None]:
    return row[0], json.loads(row[1]), None if row[2] is None else np.frombuffer(row[2], np.float64)
