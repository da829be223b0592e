"""Iterators of blocks: read once, kept in a file without a name, the same rows as the array."""

from __future__ import annotations

import errno
import functools
import gc
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis.extra.numpy as npst
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import interlace as il
from helpers import FakeTensor, OnlyDLPack, clustered, same_index, small_index
from interlace.inputs import spool
from interlace.inputs.arrays import Rows
from raising import Facts, raises

X = np.arange(36, dtype=np.float32).reshape(12, 3)
DTYPES = (np.float16, np.float32, np.float64, np.int8, np.uint8, np.int16, np.int64, ">f4")
LINUX = pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="looks at /proc")


def cut(x: Any, *places: int) -> list[Any]:
    """x in blocks that start at 0 and at these places."""
    bounds = [0, *sorted(places), len(x)]
    return [x[a:b] for a, b in zip(bounds[:-1], bounds[1:], strict=True)]


def all_rows(rows: Rows, size: int = 5) -> np.ndarray:
    return np.concatenate([np.empty((0, rows.dim), np.float32), *rows.blocks(size)])


class Loader:
    """As torch's DataLoader: it can be iterated, has a length, and cannot be indexed."""

    def __init__(self, blocks: list[Any]) -> None:
        self.blocks, self.times = blocks, 0

    def __len__(self) -> int:
        return len(self.blocks)

    def __iter__(self) -> Iterator[Any]:
        self.times += 1
        return iter(self.blocks)


@pytest.mark.parametrize(
    "wrap",
    [
        pytest.param(iter, id="iterator"),
        pytest.param(lambda blocks: (b for b in blocks), id="generator"),
        pytest.param(lambda blocks: map(np.array, blocks), id="map"),
        pytest.param(list, id="list of blocks"),
        pytest.param(tuple, id="tuple of blocks"),
        pytest.param(Loader, id="loader"),
        pytest.param(lambda blocks: (b.tolist() for b in blocks if len(b)), id="lists of lists"),
        pytest.param(lambda blocks: map(FakeTensor, blocks), id="tensors"),
        pytest.param(lambda blocks: (FakeTensor(b, "torch.bfloat16") for b in blocks), id="bfloat16 tensors"),
        pytest.param(lambda blocks: map(OnlyDLPack, blocks), id="DLPack"),
        pytest.param(lambda blocks: map(np.asfortranarray, blocks), id="column-major"),
        pytest.param(lambda blocks: (np.repeat(b, 2, axis=1)[:, ::2] for b in blocks), id="strided"),
    ],
)
def test_every_iterable_of_blocks_gives_the_rows(wrap: Callable[[list[np.ndarray]], Any]) -> None:
    rows = Rows(wrap(cut(X, 1, 5, 5, 9)))
    assert (len(rows), rows.dim) == X.shape
    np.testing.assert_array_equal(all_rows(rows), X)
    np.testing.assert_array_equal(all_rows(rows, 7), X)  # and again
    np.testing.assert_array_equal(rows.take(np.array([0, 4, 5, 11])), X[[0, 4, 5, 11]])


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_any_cut_of_any_array_is_the_array_in_its_own_dtype(data: st.DataObject) -> None:
    shape = npst.array_shapes(min_dims=2, max_dims=2, max_side=9)
    values = {"allow_nan": False, "allow_infinity": False, "max_value": 100, "min_value": 0}
    x = data.draw(npst.arrays(st.sampled_from([np.dtype(t) for t in DTYPES]), shape, elements=values))
    places = data.draw(st.lists(st.integers(0, len(x)), max_size=5))
    rows = Rows(iter(cut(x, *places)))
    assert rows._source.dtype == x.dtype
    assert not rows._source.flags.writeable
    np.testing.assert_array_equal(all_rows(rows), x.astype(np.float32))


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(DTYPES), st.integers(0, 4)), min_size=1, max_size=6), st.integers(1, 4))
def test_blocks_of_different_dtypes_become_float32(kinds: list[tuple[Any, int]], piece: int) -> None:
    rng = np.random.default_rng(0)
    blocks = [(100 * rng.random((n, 2))).astype(dtype) for dtype, n in kinds]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spool, "PIECE_ROWS", piece)
        rows = Rows(iter(blocks))
    np.testing.assert_array_equal(all_rows(rows), np.concatenate([b.astype(np.float32) for b in blocks]))
    if len({b.dtype for b in blocks if len(b)}) > 1:
        assert rows._source.dtype == np.float32


def test_a_list_of_rows_is_still_an_array() -> None:
    for x in (X.tolist(), [*X], tuple(map(tuple, X)), [tuple(row) for row in X]):
        rows = Rows(x)
        assert not isinstance(rows._source, np.memmap)
        np.testing.assert_array_equal(all_rows(rows), X)


def test_what_can_be_iterated_again_is_iterated_once() -> None:
    """A loader may shuffle: a second time would give other rows."""
    loader = Loader(cut(X, 4))
    list(Rows(loader).blocks())
    assert loader.times == 1


@pytest.mark.parametrize(
    ("blocks", "facts"),
    [
        pytest.param(
            [X[:4], X[4:6], X[6:, :2]],
            ("block 2", "(from row 6)", 2, 3),
            id="width",
        ),
        pytest.param(
            [*X],
            ("block 0", "(from row 0)", "2-D", "ndarray", "(3,)"),
            id="rows one by one",
        ),
        pytest.param([X, 3.0], ("block 1", "(from row 12)", "2-D", "float", "3.0"), id="number"),
        pytest.param([X, None], ("block 1", "(from row 12)", "2-D", "NoneType"), id="None"),
        pytest.param([X, (X, X[:, 0])], ("block 1", "(from row 12)"), id="rows and labels"),
        pytest.param([X, X > 3], ("block 1", "(from row 12)"), id="bool"),
        pytest.param([X, "x.npy"], ("block 1", "(from row 12)"), id="path"),
        pytest.param([X[:, :0]], ("block 0", "(from row 0)"), id="no dimensions"),
        pytest.param([], ("x", "before"), id="no block"),
    ],
)
def test_bad_blocks_are_named_by_their_number_and_row(blocks: list[Any], facts: Facts) -> None:
    with raises(il.InputError, *facts):
        Rows(b for b in blocks)


def test_a_generator_that_was_read_before() -> None:
    blocks = (b for b in [X])
    Rows(blocks)
    with pytest.raises(il.InputError, match="was read before"):
        Rows(blocks)


def test_the_width_is_compared_with_the_index_before_all_is_read() -> None:
    read = []

    def blocks() -> Iterator[np.ndarray]:
        for start in range(0, 12, 4):
            read.append(start)
            yield X[start : start + 4]

    with raises(il.InputError, "block 0", "(from row 0)", 3, 4):
        small_index().add(blocks())
    assert read == [0]


def test_bad_values_have_the_users_row_number() -> None:
    x = X.copy()
    x[9, 1] = np.nan
    with raises(il.InputError, "x[9, 1]", "nan"):
        all_rows(Rows(iter(cut(x, 4, 8))))
    # In a mixture, integers that float32 cannot hold are refused, as they are alone.
    large = np.full((2, 3), 2**24 + 1)
    for blocks in ([X, large], [large, X], [X, X.astype(np.int8), large]):
        row = sum(len(b) for b in blocks if b is not large) if blocks[0] is not large else 0
        with pytest.raises(il.InputError, match=rf"^x\[{row}, 0\] is 16777217, beyond 2\^24"):
            Rows(iter(blocks))


def test_blocks_without_rows() -> None:
    empty = X[:0]
    np.testing.assert_array_equal(all_rows(Rows(iter([empty, X[:, :2][:0], X, empty.astype(np.int8)]))), X)
    assert len(Rows(iter([empty, empty]))) == 0
    with raises(il.InputError, "x", "rows"):
        il.Index.build(iter([empty]))


class BrokenError(Exception):
    pass


def broken(blocks: list[np.ndarray], error: Exception) -> Iterator[np.ndarray]:
    yield from blocks
    raise error


def open_files() -> tuple[int, int]:
    """Descriptors, and maps of files that have no name any more."""
    gc.collect()
    return len(os.listdir("/proc/self/fd")), Path("/proc/self/maps").read_text().count("(deleted)")


@LINUX
def test_an_error_of_the_iterator_passes_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    x = clustered(40, 4)
    index, same = small_index(), small_index()
    before = open_files()
    for blocks in ([], [x], [x, x.astype(np.float16)], [x.astype(np.int8), x]):
        error = BrokenError("no more")
        for call in (index.add, il.Index.build):
            with pytest.raises(BrokenError) as caught:
                call(broken(blocks, error))
            assert caught.value is error
            assert caught.value.__cause__ is None
            assert open_files() == before  # while the traceback still holds every frame
    assert len(index) == len(same)
    assert same_index(index, same)
    assert os.listdir(tmp_path) == []


@LINUX
def test_the_space_is_free_when_the_rows_are_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = open_files()
    rows = Rows(iter([X, X.astype(np.int8)]))
    assert open_files() == (before[0] + 1, before[1] + 1)  # the map, which has a descriptor of its own
    assert os.listdir(tmp_path) == []
    del rows
    assert open_files() == before


@LINUX
def test_blocks_are_not_kept_in_two_dtypes() -> None:
    seen = []

    def blocks() -> Iterator[np.ndarray]:
        for block in (X, X.astype(np.int8), X.astype(np.int8), X) * 2:
            yield block.astype(np.int16) if not seen else block
            seen.append(open_files())

    before = open_files()
    Rows(blocks())
    assert set(seen) == {(before[0] + 1, before[1])}


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_full_disk_is_named_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    full = functools.partial(open, "/dev/full", "wb")
    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with raises(OSError, "TMPDIR") as caught:
        Rows(iter([X]))
    assert caught.value.errno == errno.ENOSPC


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.uint8])
@pytest.mark.parametrize("metric", ["l2", "cosine"])
def test_an_index_of_blocks_is_that_of_the_array_to_the_last_byte(dtype: Any, metric: str, tmp_path: Path) -> None:
    x = clustered(3000, 8)
    x = (np.clip(x * 20 + 100, 1, 255) if dtype == np.uint8 else x).astype(dtype)
    times = 0

    def blocks() -> Iterator[np.ndarray]:
        nonlocal times
        times += 1
        yield from cut(x[:2500], 1, 700, 1999)

    one = il.Index.build(x[:2500], n_bytes=4, metric=metric, threads=1)
    other = il.Index.build(blocks(), n_bytes=4, metric=metric, threads=1)
    assert times == 1
    one.add(x[2500:], threads=1)
    other.add(iter(cut(x[2500:], 3, 400)), threads=1)
    one.save(tmp_path / "one")
    other.save(tmp_path / "other")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()
    assert same_index(one, other)
