"""Every reader of the library, as the fuzzer calls it: bytes in; out comes a sound object, or an error of ours.

What a target opens it also uses, because files are mapped and much of them is looked at late.
"""

from __future__ import annotations

import shutil
import warnings
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import fuzz_mutations as mutations
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import interlace as il
from interlace.cli.inputs import load_model
from interlace.files import storage
from interlace.store import verify
from interlace.store.columns import Columns
from interlace.store.filters import as_expression, columns_of, qualifying

HERE = Path(__file__).resolve().parent
GOLDEN, SEEDS = HERE.parent / "golden", HERE / "seeds"
STORES = tuple(sorted(path.name for path in SEEDS.iterdir() if path.is_dir()))
#: What filter strings are about: columns with names of one to four bytes for a character, and a table of them.
FILTERED = Columns.of({"n": "int64", "größe": "string", "e\u0301cole": "bool", "価格": "float32", "𐐀": "timestamp[s]"})
ROWS = FILTERED.table({"n": [1, None], "größe": ["字" * 33, "😀"], "価格": [0.5, None]}, 2)


@dataclass(frozen=True)
class Seed:
    """A file that is sound."""

    name: str
    path: Path

    @property
    def data(self) -> bytes:
        return self.path.read_bytes()


@dataclass(frozen=True)
class Target:
    """A reader: its seeds, how its files are changed, and what is done with one (its bytes, a folder, its seed)."""

    name: str
    seeds: tuple[Seed, ...]
    knowing: mutations.Change
    run: Callable[[bytes, Path, Seed], None]
    causes: tuple[str, ...] = ()  #: audit events that belong to it, which no other reader should cause

    def mutated(self, rng: mutations.Rng, seed: Seed) -> bytes:
        """Other bytes; one in four by changes that do not know the format."""
        data = seed.data
        return mutations.blind(rng, data) if rng.integers(4) == 0 else self.knowing(rng, data)


class Tolerated:
    """Errors of ours are what should come of a bad file; each use of an object gets its own."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        return kind is not None and issubclass(kind, il.InterlaceError)


def use(found: il.Index | il.Store, *, verified: bool = True) -> None:
    """Whatever reads rows, ids or tables; at last, unless told otherwise, everything is verified."""
    repr(found)
    warnings.simplefilter("ignore", il.CalibrationWarning)  # calibrations of old seeds
    shape = found.input_shape
    if int(np.prod(shape)) > 4096:  # weights of an embedding are in the file, so that this is no larger either
        return
    queries = np.random.default_rng(0).normal(size=(2, *shape)).astype(np.float32)
    for margin in ("exact", 0.999, "paper"):
        with Tolerated():
            found.search(queries, 3, margin=margin, threads=1)
    for options in ({}, {"rerank": 9}, {"recall": 0.5}):
        with Tolerated():
            found.search(queries[0], 3, threads=1, **options)
    with Tolerated():
        if found.originals is not None:
            found.evaluate(queries, 3, rerank=5, threads=1)
    with Tolerated():
        some = found.ids[:5]
        found.search(queries[0], 200, filter=some, threads=1)
        _ = 7 in found, "a" in found
        (found.get if isinstance(found, il.Store) else found.reconstruct)(some)
    with Tolerated():
        found.report()
    with Tolerated():
        if verified:
            found.verify()


def use_extras(store: il.Store) -> None:
    """Whatever reads columns and originals. Not a filter of text, which is compiled: nothing else should be."""
    queries = np.random.default_rng(0).normal(size=(2, store.dim)).astype(np.float32)
    with Tolerated():
        if store.columns is None:
            return
    for column in ("n", "tag"):
        with Tolerated():
            store.search(queries, 3, filter=pc.field(column).is_valid(), threads=1, embedded=True)
    with Tolerated():
        store.payload(store.ids[:5]).validate(full=True)
        store.payload().to_pylist()
    with Tolerated():
        store.search(queries, 3, rerank=9, margin="exact", threads=1, embedded=True)
    with Tolerated():
        store.get(store.ids[-5:], originals=True)


def run_index(data: bytes, folder: Path, seed: Seed) -> None:
    """An index file."""
    (folder / "file").write_bytes(data)
    with Tolerated():
        index = il.Index.open(folder / "file")
        use(index)
        if index.dim <= 4096:
            queries = np.random.default_rng(0).normal(size=(400, index.dim)).astype(np.float32)
            with Tolerated():
                index.calibrate(queries, threads=1, embedded=True)
            with Tolerated():
                index.calibrate(np.repeat(queries[:16], 25, axis=0), threads=1, embedded=True)
                assert index.calibration.queries <= 16
            with Tolerated():
                index.calibrate(threads=1)
            with Tolerated():
                index.distance_error(queries, embedded=True)
            for call in (index.search, index.add):
                with Tolerated():
                    call(queries[:2] * np.float32(1e-20), threads=1, embedded=True)
                    assert index.metric == "cosine"
        if int(np.prod(index.input_shape)) <= 4096:
            with Tolerated():
                index.add(_rows(20, *index.input_shape), ids=_more_ids(index, 20), threads=1)


def _rows(n: int, *shape: int) -> Any:
    """Inputs to be coded: few values are zero, and some are large."""
    rows = np.random.default_rng(1).normal(size=(n, *shape)).astype(np.float32)
    rows[n // 2 :] *= 1e6
    return rows


def _more_ids(index: il.Index, n: int) -> Any:
    """Of the kind that the index has."""
    return {"default": None, "int64": list(range(10**9, 10**9 + n))}.get(
        index.ids_of_rows.kind, [f"more {i}" for i in range(n)]
    )


def run_model(data: bytes, folder: Path, seed: Seed) -> None:
    """A fitted model, or codebooks alone."""
    (folder / "file").write_bytes(data)
    with Tolerated():
        il.Codebooks.load(folder / "file")
    with Tolerated():
        model = load_model(str(folder / "file"))
        repr(model)
        if model.codebooks_.dim <= 4096:
            with Tolerated():
                model.encode(_rows(20, model.codebooks_.dim))
        with Tolerated():
            model.decode(np.zeros((2, model.codebooks_.n_bytes), np.uint8))


def run_checkpoint(data: bytes, folder: Path, seed: Seed) -> None:
    """A checkpoint of learning, read for the run that wrote it."""
    from interlace.learn.joint.checkpoint import read_checkpoint

    (folder / "file").write_bytes(data)
    with Tolerated():
        found = read_checkpoint(folder / "file", _configuration(seed))
        assert found is not None
        assert all(isinstance(array, np.ndarray) for array in found[0].values())


@cache
def _configuration(seed: Seed) -> Any:
    return storage.read(seed.path).meta["configuration"]


def run_store(data: bytes, folder: Path, seed: Seed) -> None:
    """A store with one of its files changed: read, verified, and one in four written to, which takes the longest."""
    store = folder / "store"
    shutil.copytree(seed.path.parent, store)
    (store / seed.path.name).write_bytes(data)
    with Tolerated():
        opened = il.open(store)
        use(opened, verified=False)
        assert isinstance(opened, il.Store)
        use_extras(opened)
        with Tolerated():
            opened.health()
            opened.refresh()
            opened.to_file(folder / "file", payload=False)
    with Tolerated():
        verify(str(store))  # also where it could not be opened
    if zlib.crc32(data) % 4:
        return
    with Tolerated():
        writer = il.open(store, mode="a")
        assert isinstance(writer, il.Store)
        try:
            with Tolerated():
                first = next(iter(writer), 1)
                payload = None if writer.columns is None else [{"n": 1}]
                writer.upsert(_rows(1, writer.dim), [first], payload=payload, threads=1)
            with Tolerated():
                writer.compact()
            with Tolerated():
                use(writer, verified=False)
                use_extras(writer)
        finally:
            writer.close()


def run_filter(data: bytes, folder: Path, seed: Seed) -> None:
    """A filter string, and values of an expression of Arrow: its text may be shortened in the middle of a character."""
    text = data.decode(errors="surrogateescape")
    with Tolerated():
        _check_filter(text)
    if text.isprintable():  # without half characters, which Arrow refuses itself
        with Tolerated():
            _check_filter(pc.field("größe").isin(pa.array([text, text[::-1]])))


def _check_filter(given: Any) -> None:
    expression = as_expression(given, FILTERED)
    assert set(columns_of(expression, FILTERED)) <= set(FILTERED.schema.names)
    assert qualifying(expression, ROWS).shape == (2,)


def _files(pattern: str, folder: Path = SEEDS) -> tuple[Seed, ...]:
    found = tuple(Seed(f"{path.parent.name}/{path.name}", path) for path in sorted(folder.glob(pattern)))
    if not found:
        raise FileNotFoundError(f"no seeds {pattern} in {folder}: make them by tests/fuzz/fuzz_seeds.py")
    return found


def _of_stores(name: str) -> tuple[Seed, ...]:
    """Of all stores that have such a file."""
    return _files(f"*/{name}")


def targets(names: Iterable[str] = ()) -> list[Target]:
    """All of them, or those of these names."""
    models = _files("model.interlace", GOLDEN)
    indexes = tuple(seed for seed in _files("*.interlace", GOLDEN) if seed not in models)
    found = [
        Target("index", indexes, mutations.container, run_index),
        Target("model", (*models, *_files("codebooks.interlace")), mutations.container, run_model),
        Target("checkpoint", _files("checkpoint.ckpt"), mutations.container, run_checkpoint),
        Target("manifest", _of_stores("MANIFEST.json"), mutations.manifest, run_store),
        Target("log", _of_stores("log-*.log"), mutations.log, run_store),
        Target("segment", _of_stores("segment-*.interlace"), mutations.container, run_store),
        Target("removed", _of_stores("removed-*.interlace"), mutations.container, run_store),
        Target("books", _of_stores("books-*.interlace"), mutations.container, run_store),
        Target("payload", _of_stores("payload-*.interlace"), mutations.container, run_store),
        Target("originals", _of_stores("originals-*.interlace"), mutations.container, run_store),
        Target("filter", _files("filters/*.txt"), mutations.filter_text, run_filter, causes=("compile",)),
    ]
    wanted = set(names)
    if unknown := wanted - {target.name for target in found}:
        raise SystemExit(f"there is no target {min(unknown)!r}; targets are {', '.join(t.name for t in found)}")
    return [target for target in found if not wanted or target.name in wanted]
