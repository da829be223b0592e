"""Another number of shards, or other codebooks, for a sharded store: all rows are written again, beside the old."""

from __future__ import annotations

import contextlib
import os
import shutil
from os import PathLike
from typing import Any

import numpy as np

from ..codec.originals import Loss
from ..codec.space import Space
from ..errors import ClusterError, InputError
from ..index.index import Index
from ..inputs.arrays import Rows, positive
from ..learn.fit import learn_codebooks
from ..learn.settings import Settings
from ..progress import as_progress, part
from ..store.books import StoredBooks
from ..store.opening import open as open_store
from ..store.store import Store
from . import runtime
from .layout import StoreLayout
from .models import SharedModel, as_model
from .sharded import create_shards

BLOCK = 1 << 14  # rows written at a time
SAMPLE = 1 << 18  # rows that new codebooks may be learned from


def rebuild(
    path: str | PathLike[str],
    *,
    shards: int | None = None,
    model: Any = None,
    address: str | None = None,
    progress: Any = "auto",
) -> StoreLayout:
    """Write all rows of a sharded store again, from their kept originals; the store must not be open elsewhere.

    ``shards`` is the new number of shards, ``model`` new codebooks, or a dict of settings to learn them with, from a
    sample of all shards. One task writes each new shard. The last step replaces one small file: before it the store is
    unchanged, and what a rebuild that died has left is removed by the next one.
    """
    old, said = StoreLayout.read(path), as_progress(progress)
    wanted = None if model is None else as_model(model)
    n_shards = old.shards if shards is None else positive(shards, "shards")
    runtime.connect(address)
    with contextlib.ExitStack() as stack:
        locked = [stack.enter_context(open_store(old.folder(i), mode="a")) for i in range(old.shards)]
        first = locked[0]
        if first.originals is None:
            raise InputError(
                f"{old.path!r} keeps no originals, from which rows are encoded again: il.ray.create(..., "
                "originals='float16')"
            )
        new_model = _model(wanted, locked, said)
        new = StoreLayout(old.path, n_shards, old.generation + 1, new_model.fingerprint)
        shutil.rmtree(os.path.dirname(new.folder(0)), ignore_errors=True)
        space = Space(new_model.codebooks, new_model.embedding)
        kept = StoredBooks(space, originals=first.snapshot.originals)  # whose centre stays as it is
        lost = sum((store.snapshot.loss for store in locked), Loss())
        share = Loss(0, lost.error / n_shards, lost.merged)  # the rows are counted when they are written
        create_shards(new, Index.of(kept.without_rows(share)), first.columns)
        calls = [runtime.task(_fill, old, new, shard) for shard in range(n_shards)]
        written, writing = 0, part(said, 0.5, 0.95, "writing")
        for i, call in enumerate(calls):
            written += runtime.value_of(call)
            writing(f"{i + 1} of {n_shards} shards", (i + 1) / n_shards)
        expected = sum(len(store) for store in locked)
        if written != expected:
            raise ClusterError(f"the rebuild wrote {written} of {expected} rows; {old.path!r} is unchanged")
        new.write()
    shutil.rmtree(os.path.dirname(old.folder(0)), ignore_errors=True)
    said("done", 1.0)
    return new


def _model(wanted: SharedModel | Settings | None, stores: list[Store], said: Any) -> SharedModel:
    space = stores[0].searcher.space
    if wanted is None:
        return SharedModel(space.codebooks, space.embedding)
    if isinstance(wanted, SharedModel):
        if wanted.codebooks.dim != space.dim or wanted.codebooks.metric != space.metric:
            raise InputError(
                f"the new codebooks are for {wanted.codebooks.metric} and {wanted.codebooks.dim} dimensions, the store "
                f"has {space.metric} and {space.dim}"
            )
        return wanted
    if wanted.metric != space.metric:
        raise InputError(f"the metric of a store cannot change: it is {space.metric}, got {wanted.metric}")
    total, parts = sum(len(store) for store in stores), []
    rng = np.random.default_rng(wanted.seed)
    for store in stores:
        count = min(len(store), -(-SAMPLE * len(store) // max(1, total)))
        chosen = np.sort(rng.choice(len(store), count, replace=False))
        parts.append(store.get(store.ids[chosen], originals=True) if count else np.empty((0, space.dim), np.float32))
    rows = Rows(np.concatenate(parts))
    found = learn_codebooks(rows, wanted, part(said, 0.0, 0.5, "learning"))
    return SharedModel(found.codebooks, space.embedding)


def _fill(old: StoreLayout, new: StoreLayout, shard: int) -> int:
    """Write the rows of one new shard; a task that is repeated writes the same rows."""
    written = 0
    with open_store(new.folder(shard), mode="a") as target:
        for number in range(old.shards):
            source = open_store(old.folder(number))
            assert isinstance(source, Store)
            ids = source.ids
            ids = ids[new.shard_of(ids) == shard]
            for start in range(0, len(ids), BLOCK):
                some = ids[start : start + BLOCK]
                payload = None if source.columns is None else source.payload(some)
                target.upsert(source.get(some, originals=True), some, payload=payload, threads=1, embedded=True)
                written += len(some)
    return written
