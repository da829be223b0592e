"""What a store refuses, in which words, and that nothing is lost by it."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from store_helpers import BOOKS, Model, check, vectors

import interlace as il
from helpers import build, run_python
from interlace.store import Limits
from raising import raises


@pytest.fixture
def store(tmp_path: Path) -> il.Store:
    made = il.create(tmp_path / "s", BOOKS)
    made.add(vectors(5), [10, 11, 12, 13, 14])
    return made


def model_of(x: Any, ids: list[Any]) -> Model:
    model = Model()
    model.put(x, ids)
    return model


REFUSED: dict[str, tuple[Any, str, type[Exception]]] = {
    "duplicate": (
        lambda s: s.add(vectors(3), [1, 12, 11]),
        "id 12 .*upsert",
        il.DuplicateIdError,
    ),
    "twice": (lambda s: s.add(vectors(2), [1, 1]), r"ids\[0\] and ids\[1\] are both 1", il.DuplicateIdError),
    "upserted twice": (lambda s: s.upsert(vectors(2), [1, 1]), "are both 1", il.DuplicateIdError),
    "minus one": (lambda s: s.add(vectors(1), [-1]), "-1, which stands for 'no hit'", il.InputError),
    "length": (lambda s: s.add(vectors(2), [1]), "2 expected, got 1", il.InputError),
    "strings": (lambda s: s.add(vectors(1), ["a"]), "int64 ids.*string", il.InputError),
    "dimension": (lambda s: s.add(np.zeros((2, 5))), "x has 5 dimensions, the index has 4", il.InputError),
    "nan": (lambda s: s.add(np.full((1, 4), np.nan)), r"x\[0, 0\] is nan, not a finite", il.InputError),
    "effort": (lambda s: s.add(vectors(1), effort="high"), "effort must be one of", il.InputError),
    "effort of another type": (lambda s: s.add(vectors(1), effort={}), "effort must be one of", il.InputError),
    "threads": (lambda s: s.add(vectors(1), threads=0), "threads must be", il.InputError),
    "no ids": (lambda s: s.upsert(vectors(1), None), "upsert needs ids", il.InputError),
    "unknown": (lambda s: s.remove([10, 99, 98]), r"id 99 is not in the store \(2 of 3 unknown\)", il.UnknownIdError),
    "unknown get": (lambda s: s.get([10, 99]), "id 99 is not in the store", il.UnknownIdError),
    "missing": (
        lambda s: s.remove([10], missing="warn"),
        "missing must be 'raise' or 'ignore', got 'warn'",
        il.InputError,
    ),
    "remove strings": (lambda s: s.remove(["10"]), "id '10' is not in the store", il.UnknownIdError),
    "query": (lambda s: s.search(np.zeros(3)), "queries has 3 dimensions", il.InputError),
    "k": (lambda s: s.search(np.zeros(4), 0), "k must be", il.InputError),
    "mask": (lambda s: s.search(np.zeros(4), filter=np.ones(4, bool)), "5 expected, got shape", il.InputError),
    "filter": (lambda s: s.search(np.zeros(4), filter=[99]), "id 99 is not in the store", il.UnknownIdError),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_and_nothing_is_changed(store: il.Store, name: str) -> None:
    act, match, kind = REFUSED[name]
    with pytest.raises(kind, match=match):
        act(store)
    check(store, model_of(vectors(5), [10, 11, 12, 13, 14]))
    with store.batch(), pytest.raises(kind, match=match):
        act(store)
    check(store, model_of(vectors(5), [10, 11, 12, 13, 14]))


def test_a_stream_of_blocks_stops_where_it_goes_wrong(store: il.Store) -> None:
    """Rows before are kept, and the error says how many."""
    with raises(il.PartlyAddedError, "block 2", "row 7", 5, 7) as e:
        store.add(iter([vectors(4), vectors(3), np.zeros((2, 5)), vectors(1)]))
    assert e.value.added == 7
    assert store.ids.tolist() == [*range(10, 15), *range(15, 22)]
    with raises(il.PartlyAddedError, "block 1", "row 2", "id 10") as e:
        store.add([vectors(2), vectors(2)], [1, 2, 3, 10])
    assert e.value.added == 2
    assert pickle.loads(pickle.dumps(e.value)).added == 2
    with raises(il.PartlyAddedError, 2, 1) as e:
        store.add([vectors(2), vectors(2)], [5, 6, 7])
    assert e.value.added == 2
    with raises(il.PartlyAddedError, "ids", 5, 4):
        store.upsert([vectors(2), vectors(2)], [5, 6, 7, 8, 9])
    with pytest.raises(il.DuplicateIdError, match="are both 50"):  # before the first block
        store.add([vectors(2), vectors(2)], [50, 51, 52, 50])
    assert 50 not in store


def test_an_error_of_the_stream_itself_passes_through(store: il.Store) -> None:
    def blocks() -> Any:
        yield vectors(2)
        raise RuntimeError("the network is gone")

    with pytest.raises(RuntimeError, match="the network is gone"):
        store.add(blocks())
    assert len(store) == 7


def test_streams_of_every_kind(store: il.Store) -> None:
    assert store.add(iter([vectors(2), vectors(0), vectors(1)])).tolist() == [15, 16, 17]
    assert store.add(iter([])).tolist() == []
    assert store.upsert((vectors(1, i) for i in range(3)), [15, 16, 30]).tolist() == [15, 16, 30]
    assert len(store) == 9


def test_one_row_with_one_id(store: il.Store) -> None:
    assert store.upsert(vectors(1)[0], 10).tolist() == [10]
    assert store.add(vectors(1)[0].tolist(), np.int32(3)).tolist() == [3]
    assert store.remove(3) == 1
    assert store.get(10).shape == (4,)
    assert store.get([10]).shape == (1, 4)


def test_an_error_inside_a_batch_keeps_what_was_before(store: il.Store) -> None:

    def write() -> None:
        with store.batch():
            store.remove([10, 11])
            store.add(vectors(1), [10])
            _ = 1 / 0

    with pytest.raises(ZeroDivisionError):
        write()
    assert store.ids.tolist() == [12, 13, 14, 10]
    with store.batch(), store.batch():
        store.remove(12)
    assert store.ids.tolist() == [13, 14, 10]
    for act in (store.compact, store.calibrate, store.close):
        with store.batch(), pytest.raises(il.InputError, match="cannot run inside a batch"):
            act()


def test_readers_do_not_write(store: il.Store) -> None:
    reader = il.open(store.path)
    assert reader.mode == "r"
    for act in (
        lambda: reader.add(vectors(1)),
        lambda: reader.upsert(vectors(1), [10]),
        lambda: reader.remove([10]),
        lambda: reader.compact(),
        lambda: reader.calibrate(),
        lambda: reader.batch().__enter__(),
    ):
        with raises(il.StoreError, "il.open(path, mode='a')"):
            act()


def test_a_closed_store(store: il.Store) -> None:
    with store:
        pass
    calls: dict[str, Any] = {
        "add": (vectors(1),),
        "upsert": (vectors(1), [1]),
        "remove": ([1],),
        "search": (np.zeros(4),),
        "range_search": (np.zeros(4), 1.0),
        "search_by_id": (1,),
        "explain": (np.zeros(4), 1),
        "allow": ([1],),
        "get": ([1],),
        "distance_error": (np.zeros(4),),
        "to_file": ("nowhere",),
        "backup": ("nowhere",),
        "add_columns": ({"n": "int8"},),
        "drop_columns": (["n"],),
    }

    def used(name: str) -> None:
        if callable(found := getattr(store, name)):
            found(*calls.get(name, ())).__enter__()  # where a batch begins

    for name in sorted(name for name in dir(il.Store) if not name.startswith("_")):
        if name not in ("close", "mode", "path"):
            with pytest.raises(il.StoreError, match="is closed"):
                used(name)
    for act in (len, list, lambda closed: 1 in closed):
        with pytest.raises(il.StoreError, match="is closed"):
            act(store)
    store.close()
    assert "5 rows" in repr(store)


def test_opening(tmp_path: Path, store: il.Store) -> None:
    with raises(il.InputError, "mode", "'r'", "'a'", "'w'"):
        il.open(store.path, mode="w")
    with pytest.raises(il.InputError, match="limits must be"):
        il.open(store.path, mode="a", limits={"rows": 3})
    with pytest.raises(il.InputError, match="limits must be"):
        il.create(tmp_path / "new", BOOKS, limits={"rows": 3})
    assert not (tmp_path / "new").exists()
    for mode in ("r", "a"):
        with pytest.raises(FileNotFoundError, match="new" if mode == "r" else r"no store there; il\.create"):
            il.open(tmp_path / "new", mode=mode)
    build(60).save(tmp_path / "file")
    with pytest.raises(il.InputError, match="is a file"):
        il.open(tmp_path / "file", mode="a")
    assert isinstance(il.open(tmp_path / "file"), il.Index)
    with pytest.raises(il.InputError, match="no embedding"):
        il.open(store.path, object())
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(store)


def test_creating(tmp_path: Path, store: il.Store) -> None:
    with pytest.raises(il.InputError, match="already a store"):
        il.create(store.path, BOOKS)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("")
    with pytest.raises(il.InputError, match="'thesis.tex'"):
        il.create(tmp_path / "full", BOOKS)
    assert os.listdir(tmp_path / "full") == ["thesis.tex"]
    with pytest.raises(il.InputError, match="is a file"):
        il.create(tmp_path / "full" / "thesis.tex", BOOKS)
    with pytest.raises(FileNotFoundError):
        il.create(tmp_path / "a" / "b", BOOKS)
    for source, match in ((7, "got int 7"), (il.ICQ(), "source must be fitted.*ICQ"), (None, "source .*or dim")):
        with pytest.raises(il.InputError, match=match):
            il.create(tmp_path / "new", source)
    assert not (tmp_path / "new").exists()
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "segment-3.interlace").write_text("of a creation that was cut short")
    (tmp_path / "empty" / "CREATING").write_text("")
    il.create(tmp_path / "empty", BOOKS).close()
    assert len(il.open(tmp_path / "empty")) == 0


@pytest.mark.parametrize(
    "given",
    [{"rows": 0}, {"records": -1}, {"bytes": 1.5}, {"removed_share": 2}, {"removed_share": "x"}, {"rows": True}],
)
def test_limits(given: dict[str, Any]) -> None:
    with pytest.raises(il.InputError, match=next(iter(given))):
        Limits(**given)


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anywhere")
def test_a_directory_that_may_not_be_written(store: il.Store) -> None:
    store.close()
    os.chmod(store.path, 0o500)
    try:
        assert len(il.open(store.path)) == 5
        with pytest.raises(il.StoreError, match="cannot be written to"):
            il.open(store.path, mode="a")
    finally:
        os.chmod(store.path, 0o700)


class Lying(np.ndarray):
    """An array whose shape is not that of its values."""

    shape = (1_000_000, 4)  # type: ignore[assignment]


def test_an_array_that_lies_about_its_shape_adds_the_rows_it_has(store: il.Store) -> None:
    lying = vectors(5).view(Lying)
    assert len(store.add(lying)) == 5
    assert len(store) == 10
    store.verify()
    index = il.Index(BOOKS)
    index.add(lying)
    assert len(index) == 5
    index.verify()
    assert index.search(lying, 1).ids.shape == (5, 1)
    assert len(il.Index.from_codes(BOOKS, np.zeros((5, 2), np.uint8).view(Lying))) == 5
    ids = np.arange(100, 105).view(Lying)
    assert store.add(vectors(5), ids).tolist() == list(range(100, 105))


CHANGED = """
import sys, threading, time
import numpy as np
import interlace as il
from interlace import _native
# Whatever another thread does to an array while it is used, at the worst moment: before every native call.
x = np.ones((40, 4), np.float32)
codes = np.zeros((40, 2), np.uint8)
mask = np.zeros(40, bool)
mask[:3] = True
def worst():
    x[:] = np.nan
    codes[:] = 255
    mask[:] = True
def changed(native):
    def call(*args, **kwargs):
        worst()
        return native(*args, **kwargs)
    return call
books = il.Codebooks.load(sys.argv[1])
for name in ("encode", "search", "range_search", "count_cells", "pack", "cross_floors"):
    setattr(_native, name, changed(getattr(_native, name)))
real = _native.Filter
_native.Filter = changed(real)
def fresh():
    x[:] = 1
    codes[:] = 0
    mask[:] = False
    mask[:3] = True
index = il.Index(books)
index.add(x)
fresh()
assert index.search(x, 3).counts.tolist() == [3] * 40
fresh()
assert index.range_search(x[0], 1e9).counts.tolist() == [40]
fresh()
assert index.search(np.ones(4), 40, filter=mask).counts == 3
fresh()
assert len(index.allow(mask)) == 3
fresh()
coded = il.Index.from_codes(books, codes)
coded.verify()
store = il.create(sys.argv[2], books, originals="float16")
fresh()
store.add(x)
store.verify()
assert np.isfinite(store.get(store.ids, originals=True)).all()
print(1)
"""


def test_arrays_that_change_while_they_are_used(tmp_path: Path) -> None:
    """What was checked is what is coded, searched and packed."""
    BOOKS.save(tmp_path / "books")
    assert run_python(CHANGED, str(tmp_path / "books"), str(tmp_path / "s")) == 1


def test_masks_of_odd_bytes(store: il.Store) -> None:
    """A bool is true by any byte but 0."""
    odd = np.array([0, 2, 255, 0, 7], np.uint8).view(np.bool_)
    assert len(store.allow(odd)) == 3
    assert sorted(store.search(np.zeros(4), 5, filter=odd, margin="exact").ids[:3]) == [11, 12, 14]
