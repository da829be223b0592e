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
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from ..errors import DamagedFileError, InputError
from ..inputs.literals import Metric
from ..store import Store, create
from ..store import open as open_store

Json = dict[str, Any]
#: Ids in one question to the data base; SQLite limits the parameters of a question.
MOST_PARAMETERS = 500


class DocumentFolder:
    """Documents by id. ``folder=None`` is a temporary directory, which ends with the object.

    ``metric=None`` is that of the vectors in the folder, and cosine for a new one. ``settings`` are those of
    :func:`interlace.create` without a source, such as ``n_bytes``. One process can have a folder open at a time.
    """

    def __init__(
        self,
        folder: str | PathLike[str] | None,
        *,
        metric: Metric | None = None,
        exact: bool = False,
        settings: dict[str, Any] | None = None,
    ) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="interlace-") if folder is None else None
        self.path = os.fspath(folder) if folder is not None else getattr(self._temporary, "name", "")
        self._exact, self._settings = exact, dict(settings or {})
        self._metric: Metric = metric or "cosine"
        if self._metric not in get_args(Metric):
            raise InputError(f"metric must be {', '.join(get_args(Metric))}, got {metric!r}")
        os.makedirs(self.path, exist_ok=True)
        self._lock = threading.RLock()
        self._store: Store | None = None
        self._base = _documents(os.path.join(self.path, "documents.sqlite"))
        try:
            if os.path.isdir(self._vectors):
                self._store = open_store(self._vectors, mode="a")
            if metric not in (None, self.metric):
                raise InputError(
                    f"metric is {metric!r}, but the vectors in {self.path!r} were stored for {self.metric!r}"
                )
        except BaseException:
            self.close()
            raise

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
        _check(ids, data, vectors)
        last = {document: place for place, document in enumerate(ids)}  # of equal ids the last one counts
        texts = {document: _text(document, data[place]) for document, place in last.items()}
        with_vector = [document for document, place in last.items() if vectors[place] is not None]
        rows = _matrix([vectors[last[document]] for document in with_vector])
        with self._lock:
            try:
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
                stale = [document for document in last if document not in kept]
                if stale and self._store is not None:
                    self._store.remove(stale, missing="ignore")
            except BaseException:
                self._base.rollback()
                raise

    def replace(self, ids: Sequence[str], data: Sequence[Json]) -> None:
        """Replace the data of documents that exist; vectors stay."""
        rows = [(_text(document, each), document) for document, each in zip(ids, data, strict=True)]
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
            hits = self._nearest(query, k, None) if matches is None else None
            if hits is None:
                with_vectors = self._base.execute("select id, data from documents where coded = 1").fetchall()
                allowed = [row[0] for row in with_vectors if matches is None or matches(row[0], json.loads(row[1]))]
                hits = (self._nearest(query, k, allowed) if allowed else None) or []
        return hits

    def _nearest(self, query: Any, k: int, allowed: list[str] | None) -> list[tuple[str, Json, float]] | None:
        """The k nearest vectors and their documents; None if one has no document, as after a crash."""
        assert self._store is not None
        rows = len(self._store) if allowed is None else len(allowed)
        if not rows:
            return []
        found = self._store.search(_query(query), k=min(k, rows), filter=allowed)
        names = [str(name) for name in found.ids]
        texts = {name: text for name, text, coded in self._select("id, data, coded", names) if coded}
        if len(texts) < len(names):
            return None
        return [(name, json.loads(texts[name]), float(d)) for name, d in zip(names, found.distances, strict=True)]

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


def _documents(path: str) -> sqlite3.Connection:
    """The data base, with its table; DamagedFileError if the file is another one."""
    base = sqlite3.connect(path, check_same_thread=False)
    try:
        base.execute("pragma journal_mode=wal")
        base.execute("pragma synchronous=full")
        base.execute(
            "create table if not exists documents (number integer primary key, id text unique not null, data text not "
            "null, vector blob, coded integer not null)"
        )
        base.commit()
    except sqlite3.DatabaseError as error:
        base.close()
        raise DamagedFileError(f"{path!r} cannot be used: {error}") from error
    return base


def _check(ids: Sequence[Any], data: Sequence[Json], vectors: Sequence[Any]) -> None:
    if len(vectors) != len(ids) or len(data) != len(ids):
        raise InputError(f"{len(ids)} ids need as many documents and vectors, got {len(data)} and {len(vectors)}")
    for place, name in enumerate(ids):
        if not isinstance(name, str) or not name:
            raise InputError(f"ids must be strings that are not empty, got {name!r} for document {place}")


def _text(document: str, data: Json) -> str:
    try:
        return json.dumps(data)
    except (TypeError, ValueError) as error:
        raise InputError(f"document {document!r} has metadata that JSON cannot hold: {error}") from error


def _query(given: Any) -> NDArray[np.float32]:
    try:
        vector = np.asarray(given, np.float32)
    except (TypeError, ValueError) as error:
        raise InputError(f"the vector of a query must have numbers: {error}") from error
    if vector.ndim != 1:
        raise InputError(f"a query must be one vector, got an array of shape {vector.shape}")
    return vector


def _matrix(vectors: list[Any]) -> NDArray[np.float32] | None:
    if not vectors:
        return None
    try:
        rows = [np.asarray(vector, np.float32) for vector in vectors]
    except (TypeError, ValueError) as error:
        raise InputError(f"vectors must have numbers: {error}") from error
    shapes = {row.shape for row in rows}
    if len(shapes) > 1 or rows[0].ndim != 1:
        raise InputError(f"vectors must have one number of dimensions, got {sorted(shapes)}")
    return np.stack(rows)


def _loaded(row: Any) -> tuple[str, Json, NDArray[np.float64] | None]:
    return row[0], json.loads(row[1]), None if row[2] is None else np.frombuffer(row[2], np.float64)
