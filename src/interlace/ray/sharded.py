"""A sharded store: one store for each shard, one actor that writes to it, and readers beside it."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any

import numpy as np
import ray
from numpy.typing import NDArray

from ..codec.space import Space
from ..errors import DuplicateIdError, InputError, ShardUnavailableError, UnknownIdError
from ..index.id_values import IdArray, as_id_array, is_id, parse_ids, shown_id
from ..index.index import Index
from ..inputs.arrays import as_rows, positive, to_numpy
from ..inputs.literals import Missing, OriginalsKind
from ..store.creating import create as create_store
from ..store.opening import open as read_store
from . import runtime
from .calls import ShardGroup, ask
from .cluster import ClusterSearches, as_seconds
from .layout import NAME, StoreLayout, checked_folder
from .models import SharedModel, as_model
from .opening import OPEN_TIMEOUT
from .scaling import GroupActor, Reporter, Scaling, as_scaling, start_scaler
from .store_shard import StoreShard


class ShardedStore(ClusterSearches):
    """What :func:`interlace.ray.create` and :func:`interlace.ray.open_store` return.

    An id belongs to one shard, by a hash. A write that returns is on the disk of its shards, as with a
    :class:`interlace.Store`, and every later search sees it. A write to several shards is not one transaction: an error
    says which shards have it, and the same :meth:`upsert` or :meth:`remove` can be repeated.
    """

    def __init__(
        self,
        layout: StoreLayout,
        space: Space,
        groups: Sequence[ShardGroup],
        timeout: float,
        reporter: Reporter | None = None,
    ) -> None:
        super().__init__(space, groups, timeout, reporter)
        self.layout = layout
        self._writers = [ShardGroup(group.numbers, 0, 0, group.actors[:1]) for group in groups]

    def upsert(self, x: Any, ids: Any, *, payload: Any = None, timeout: float | None = None) -> IdArray:
        """Add rows, or replace those with the same ids; ``payload`` has their columns. A lost writer is waited for."""
        return self._write(x, ids, payload, timeout, adding=False)

    def add(self, x: Any, ids: Any, *, payload: Any = None, timeout: float | None = None) -> IdArray:
        """As :meth:`upsert`, but an id that exists raises :class:`interlace.DuplicateIdError`.

        The ids are looked up first: of two processes that add the same new id at the same time, the later one wins.
        """
        return self._write(x, ids, payload, timeout, adding=True)

    def _write(self, x: Any, ids: Any, payload: Any, timeout: float | None, *, adding: bool) -> IdArray:
        if ids is None:
            raise InputError("a sharded store needs ids: a row belongs to the shard of its id")
        vectors = self._vectors(x)
        wanted = parse_ids([ids] if is_id(ids) else ids, len(vectors))
        shards = self.layout.shard_of(wanted)
        if adding:
            there = self._present(wanted, shards, timeout)
            if there.any():
                raise DuplicateIdError(f"id {shown_id(wanted[int(np.argmax(there))])} is in the store already")
        take = _rows_of(payload, len(vectors))
        chosen = [np.flatnonzero(shards == shard) for shard in range(self.layout.shards)]
        calls = {
            shard: ("upsert", vectors[rows], wanted[rows], take(rows)) for shard, rows in enumerate(chosen) if len(rows)
        }
        self._acknowledged(calls, timeout)
        return wanted

    def _vectors(self, x: Any) -> NDArray[np.float32]:
        """Rows as vectors, checked before anything is written."""
        if self.space.embedding is not None:
            return self.space.embedding(x)
        array = to_numpy(x, "x")
        rows = as_rows(array[None] if array.ndim == 1 else array, name="x", dim=self.space.dim)
        # It refuses rows of length 0, and rows too small for float32.
        self.space.codebooks.metric_type.prepare(rows, name="x")
        return rows

    def remove(self, ids: Any, *, missing: Missing = "raise", timeout: float | None = None) -> int:
        """Remove rows; returns how many. An unknown id raises, and nothing is removed, unless ``missing="ignore"``."""
        if missing not in ("raise", "ignore"):
            raise InputError(f"missing must be 'raise' or 'ignore', got {missing!r}")
        wanted = as_id_array([ids] if is_id(ids) else ids, "ids")
        shards = self.layout.shard_of(wanted)
        there = self._present(wanted, shards, timeout)
        if missing == "raise" and not there.all():
            first = shown_id(wanted[int(np.argmin(there))])
            raise UnknownIdError(f"id {first} is not in the store ({int((~there).sum())} of {len(there)} unknown)")
        wanted, shards = wanted[there], shards[there]
        self._acknowledged({int(s): ("remove", wanted[shards == s]) for s in np.unique(shards)}, timeout)
        return len(np.unique(wanted))

    def _present(self, ids: IdArray, shards: NDArray[np.int64], timeout: float | None) -> NDArray[np.bool_]:
        there = np.zeros(len(ids), np.bool_)
        used = np.unique(shards).tolist()
        self._check_open()
        seconds = self.timeout if timeout is None else as_seconds(timeout)
        calls = [("present", ids[shards == shard]) for shard in used]
        for shard, found in zip(used, ask([self._writers[s] for s in used], calls, timeout=seconds), strict=True):
            there[shards == shard] = found
        return there

    def _acknowledged(self, calls: dict[int, tuple[Any, ...]], timeout: float | None) -> None:
        """Write to some shards; ShardUnavailableError says which of them have not acknowledged it."""
        self._check_open()
        seconds, used = self.timeout if timeout is None else as_seconds(timeout), sorted(calls)
        writers = [self._writers[shard] for shard in used]
        found = ask(writers, [calls[s] for s in used], timeout=seconds, partial=True, patience=math.inf)
        silent = tuple(shard for shard, one in zip(used, found, strict=True) if one is None)
        if silent:
            done = [shard for shard in used if shard not in silent]
            raise ShardUnavailableError(
                f"shards {list(silent)} did not acknowledge the write within {seconds:g} s, and may have it or not; "
                f"shards {done} have it. Repeat it",
                silent,
            )

    def payload(self, ids: Any, columns: Any = None, *, timeout: float | None = None) -> Any:
        """Columns of these ids as a ``pyarrow.Table``, in their order."""
        import pyarrow

        wanted = as_id_array([ids] if is_id(ids) else ids, "ids")
        places, tables = [], []
        for here, table in self._ask([("payload", wanted, columns)] * len(self.groups), timeout, False):
            places.append(np.flatnonzero(here))
            tables.append(table)
        where = np.concatenate(places)
        if len(where) < len(wanted):
            missing = shown_id(wanted[int(np.setdiff1d(np.arange(len(wanted)), where)[0])])
            raise UnknownIdError(f"id {missing} is not in the store")
        return pyarrow.concat_tables(tables).take(np.argsort(where, kind="stable"))

    def compact(self, timeout: float | None = None) -> None:
        """Free the space of removed rows, in all shards at once."""
        self._all("compact", timeout)

    def calibrate(self, queries: Any = None, timeout: float | None = None) -> None:
        """Recalibrate margins of every shard for its current rows."""
        self._all("calibrate", timeout, None if queries is None else self._vectors(queries))

    def health(self, timeout: float | None = None) -> list[Any]:
        """:meth:`interlace.Store.health` of each shard."""
        return self._all("health", timeout)

    def verify(self, timeout: float | None = None) -> None:
        """Check every byte on disk."""
        self._all("verify", timeout)

    def _all(self, call: str, timeout: float | None, *arguments: Any) -> list[Any]:
        self._check_open()
        seconds = self.timeout if timeout is None else as_seconds(timeout)
        writers = self._writers
        calls = [("answered", call, *arguments)] * len(writers)
        return [found for (found,) in ask(writers, calls, timeout=seconds, patience=math.inf)]

    def __len__(self) -> int:
        return int(sum(self._all("count", None)))

    def __contains__(self, value: object) -> bool:
        if not is_id(value):
            return False
        wanted = as_id_array([value], "id")
        return bool(self._present(wanted, self.layout.shard_of(wanted), None)[0])

    def close(self) -> None:
        """End the actors; what was acknowledged is on disk."""
        if self._closed:
            return
        with contextlib.suppress(Exception):
            ask(self._writers, [("answered", "close")] * len(self._writers), timeout=min(5.0, self.timeout))
        super().close()

    def _most_rows(self) -> float:
        return math.inf  # others write too

    def _filters(self, filter: Any) -> list[Any]:
        """An expression or ids, the same for every group; rows of different shards have no common order for a mask."""
        if filter is not None and not isinstance(filter, str):
            array = to_numpy(filter, "filter")
            if array.dtype == np.bool_ or array.ndim != 1:
                raise InputError("filter of a sharded store is an expression or a 1-D array of ids")
            filter = as_id_array(filter, "filter")
        return [filter] * len(self.groups)

    def __enter__(self) -> ShardedStore:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"ShardedStore({self.layout.path!r}: {self.layout.shards} shards, {self.space.codebooks!r})"


def _rows_of(payload: Any, n: int) -> Callable[[NDArray[np.int64]], Any]:
    """Some rows of a payload of any kind that stores take."""
    if payload is None:
        return lambda rows: None
    if isinstance(payload, dict):
        if any(not isinstance(v, list | tuple | np.ndarray) and not hasattr(v, "take") for v in payload.values()):
            payload = {name: [value] for name, value in payload.items()}  # of a single row
        wrong = {name: len(values) for name, values in payload.items() if len(values) != n}
        if wrong:
            name, length = next(iter(wrong.items()))
            raise InputError(f"payload column {name!r} has {length} values for {n} rows")
        return lambda rows: {name: [values[i] for i in rows.tolist()] for name, values in payload.items()}
    if len(payload) != n:
        raise InputError(f"payload has {len(payload)} rows for {n} vectors")
    if hasattr(payload, "iloc"):
        return lambda rows: payload.iloc[rows]
    if hasattr(payload, "take"):
        return lambda rows: payload.take(rows)
    return lambda rows: [payload[i] for i in rows.tolist()]


def create(
    path: str | PathLike[str],
    model: Any,
    *,
    shards: int,
    columns: Any = None,
    originals: OriginalsKind | None = None,
    replicas: int = 1,
    threads: int | None = None,
    timeout: float = 30.0,
    address: str | None = None,
    scaling: Scaling | int | None = None,
) -> ShardedStore:
    """Create a sharded store in a new or empty directory, on a disk that all nodes see, and open it.

    ``model`` is what all shards share: :class:`interlace.Codebooks`, a fitted model, an index whose codebooks are
    used, or the path of one. ``columns`` and ``originals`` as for :func:`interlace.create`; the other arguments as for
    :func:`open_store`.
    """
    found = as_model(model)
    if not isinstance(found, SharedModel):
        raise InputError("a sharded store needs codebooks that are learned already: all shards share them")
    n_shards, folder = positive(shards, "shards"), checked_folder(path)
    os.makedirs(folder, exist_ok=True)
    if os.path.exists(os.path.join(folder, NAME)):
        raise InputError(f"{folder!r} already has a sharded store; il.ray.open_store(path) opens it")
    layout = StoreLayout(folder, n_shards, 1, found.fingerprint)
    create_shards(layout, Index(found.codebooks, found.embedding, originals), columns)
    layout.write()
    return open_store(folder, replicas=replicas, threads=threads, timeout=timeout, address=address, scaling=scaling)


def create_shards(layout: StoreLayout, source: Index, columns: Any) -> None:
    """Empty stores for all shards, of an index without rows; those of a creation that did not finish are taken over."""
    for shard in range(layout.shards):
        os.makedirs(os.path.dirname(layout.folder(shard)), exist_ok=True)
        if not os.path.exists(layout.folder(shard)):
            create_store(layout.folder(shard), source, columns=columns).close()


def open_store(
    path: str | PathLike[str],
    *,
    replicas: int = 1,
    threads: int | None = None,
    timeout: float = 30.0,
    address: str | None = None,
    scaling: Scaling | int | None = None,
) -> ShardedStore:
    """Open a sharded store for reading and writing: start its actors, and wait until they have opened their files.

    Each shard has one actor that writes and searches, and ``replicas - 1`` more that search; ``scaling`` adds more of
    these while calls wait, as for :func:`interlace.ray.open`. One process at a time can have a sharded store open.
    """
    layout = StoreLayout.read(path)
    n_replicas, seconds = positive(replicas, "replicas"), as_seconds(timeout)
    scales = as_scaling(scaling, n_replicas)
    runtime.connect(address)
    nodes = runtime.node_ids()
    if threads is None:
        threads = max(1, runtime.cpus() // (layout.shards * n_replicas))
    groups, readers = [], []
    for shard in range(layout.shards):
        writer, reader = (GroupActor(StoreShard, (layout.folder(shard), mode, threads)) for mode in "ar")
        actors = [(reader if r else writer).start(nodes[(shard + r) % len(nodes)]) for r in range(n_replicas)]
        groups.append(ShardGroup((shard,), 0, 0, actors))
        readers.append(reader)
    alone = [one for group in groups for one in group.alone()]
    try:
        ask(alone, [("ready",)] * len(alone), timeout=max(OPEN_TIMEOUT, seconds))
        first = read_store(layout.folder(0))
    except BaseException:
        for one in alone:
            ray.kill(one.actors[0])
        raise
    reporter = None if scales is None else Reporter(start_scaler(readers, n_replicas, scales), groups)
    return ShardedStore(layout, first.searcher.space, groups, seconds, reporter)
