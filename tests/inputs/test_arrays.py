"""Input of any kind -> checked float32 rows: what is accepted, and what refusals say."""

from __future__ import annotations

import sys
import tracemalloc
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import hypothesis.extra.numpy as npst
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import FakeTensor, OnlyDLPack
from interlace.errors import InputError
from interlace.inputs.arrays import BLOCK_ROWS, LARGEST, Rows, as_queries, as_rows, describe, normalize, to_numpy
from raising import raises

X = np.arange(12, dtype=np.float32).reshape(4, 3)


@pytest.mark.parametrize(
    "x",
    [
        pytest.param(X.tolist(), id="lists"),
        pytest.param(tuple(map(tuple, X.tolist())), id="tuples"),
        pytest.param([*X], id="list of rows"),
        *(pytest.param(X.astype(t), id=str(np.dtype(t))) for t in "bBhHiIlLefdg"),
        pytest.param(X.astype(">f8"), id="big-endian"),
        pytest.param(np.asfortranarray(X), id="column-major"),
        pytest.param(np.repeat(X, 2, axis=1)[:, ::2], id="strided"),
        pytest.param(X[::-1, ::-1].copy()[::-1, ::-1], id="negative strides"),
        pytest.param(np.lib.stride_tricks.as_strided(X, X.shape, X.strides, writeable=False), id="read-only"),
        pytest.param(np.frombuffer(b"\0" + X.tobytes(), np.uint8)[1:].view(np.float32).reshape(4, 3), id="unaligned"),
        pytest.param(np.ma.masked_array(X), id="masked array without a mask"),
        pytest.param(FakeTensor(X), id="torch tensor"),
        pytest.param(FakeTensor(X, "torch.bfloat16"), id="torch bfloat16"),
        pytest.param(OnlyDLPack(X), id="DLPack"),
        pytest.param(memoryview(X), id="buffer"),
    ],
)
def test_every_accepted_kind_gives_the_same_rows(x: object) -> None:
    for rows in (as_rows(x, name="x", dim=3), next(Rows(x).blocks()), Rows(x).take(np.arange(4))):
        assert rows.dtype == np.float32
        assert rows.flags.c_contiguous
        assert type(rows) is np.ndarray or isinstance(rows, np.memmap)
        np.testing.assert_array_equal(rows, X)


def test_tensors_are_read_without_importing_torch() -> None:
    before = "torch" in sys.modules
    to_numpy(FakeTensor(X), "x")
    to_numpy(OnlyDLPack(X), "x")
    assert ("torch" in sys.modules) == before


def test_real_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.from_numpy(X.copy())
    for x in (tensor, tensor.clone().requires_grad_(), tensor.double(), tensor.half(), tensor.bfloat16(), tensor.int()):
        np.testing.assert_array_equal(as_rows(x, name="x"), X)
    with pytest.raises(InputError, match="complex"):
        as_rows(tensor.to(torch.complex64), name="x")


def test_h5py_datasets_are_read_in_blocks(tmp_path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        rows = Rows(file.create_dataset("x", data=X.astype(np.float64)))
        assert (len(rows), rows.dim) == (4, 3)
        np.testing.assert_array_equal(np.concatenate(list(rows.blocks(3))), X)
        np.testing.assert_array_equal(rows.take(np.array([1, 3])), X[[1, 3]])


def test_a_memmap_is_copied_in_blocks(tmp_path: Path) -> None:
    n = 8 * BLOCK_ROWS
    np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float32, (n, 16)).flush()
    x = np.load(tmp_path / "x.npy", mmap_mode="r")
    tracemalloc.start()
    try:
        assert sum(len(block) for block in Rows(x).blocks()) == n
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < x.nbytes / 2


def test_bfloat16_of_ml_dtypes() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes, which has bfloat16 for NumPy, is not installed")
    x = X.astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(as_rows(x, name="x"), X)
    rows = Rows(iter([x[:3], x[3:]]))
    assert rows._source.dtype == x.dtype
    np.testing.assert_array_equal(np.concatenate(list(rows.blocks(3))), X)
    x[2, 1] = np.nan
    with raises(InputError, "x[2, 1]", "nan"):
        as_rows(x, name="x")


class Tracked(FakeTensor):
    """Notes how many rows were converted at once."""

    largest = 0

    def detach(self) -> FakeTensor:
        return self

    def __getitem__(self, rows: Any) -> FakeTensor:
        return Tracked(self.values[rows], self.dtype, attached=False)

    def cpu(self) -> FakeTensor:
        Tracked.largest = max(Tracked.largest, len(self.values))
        return self


Tracked.__module__ = "torch"


@pytest.mark.parametrize(("dtype", "device"), [("torch.bfloat16", "cpu"), ("torch.float32", "cuda")])
def test_tensors_that_numpy_cannot_view_are_converted_in_blocks(dtype: str, device: str) -> None:
    x = np.zeros((2 * BLOCK_ROWS + 5, 2), np.float32)
    x[-3, 1] = np.nan
    tensor = Tracked(x, dtype, attached=False)
    tensor.device = SimpleNamespace(type=device)
    Tracked.largest = 0
    rows = Rows(tensor)
    assert len(rows) == len(x)
    with pytest.raises(InputError, match=rf"^x\[{len(x) - 3}, 1\] is nan"):
        list(rows.blocks())
    assert rows.take(np.arange(0, 2 * BLOCK_ROWS, 2)).shape == (BLOCK_ROWS, 2)
    assert Tracked.largest == BLOCK_ROWS


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.float16, np.int16])
@pytest.mark.parametrize("source", ["array", "iterator"])
def test_narrow_numbers_are_widened_in_blocks(dtype: type, source: str) -> None:
    x = np.ones((1_000_000, 8), dtype)
    tracemalloc.start()
    try:
        rows = Rows(x if source == "array" else (x[i : i + 50_000] for i in range(0, len(x), 50_000)))
        assert sum(len(block) for block in rows.blocks()) == len(x)
        rows.take(np.arange(0, len(x), 1000))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 5 * BLOCK_ROWS * 8 * 4 < x.nbytes / 2


def test_sparse_matrices_are_refused() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    for make in (sparse.csr_matrix, sparse.csr_array, sparse.coo_array):
        x = make(X)
        for call in (Rows, lambda x: as_rows(x, name="x")):
            with raises(InputError, "x", "toarray()", "(4, 3)"):
                call(x)
        np.testing.assert_array_equal(next(Rows(x.toarray() for x in [x]).blocks()), X)
    with pytest.raises(InputError, match="^queries is sparse"):
        as_queries(sparse.csr_array(X), 3)


@settings(max_examples=60, deadline=None)
@given(
    npst.arrays(
        st.sampled_from([np.float16, np.float32, np.float64, np.int8, np.uint8, np.int16]),
        npst.array_shapes(min_dims=2, max_dims=2, max_side=9),
        elements={"allow_nan": False, "allow_infinity": False, "max_value": 100, "min_value": 0},
    ),
    st.integers(1, 4),
)
def test_blocks_are_the_rows_in_order(x: np.ndarray, rows: int) -> None:
    np.testing.assert_array_equal(np.concatenate(list(Rows(x).blocks(rows))), x.astype(np.float32))


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (X[0], r"x must be 2-D \[rows, dimensions\], got ndarray of shape \(3,\) and dtype float32"),
        (X[None], r"x must be 2-D \[rows, dimensions\], got ndarray of shape \(1, 4, 3\) and dtype float32"),
        (X[:, :0], r"x has no dimensions: ndarray of shape \(4, 0\)"),
        ([], r"x must be 2-D .* got list \[\]"),
        (None, r"x must be 2-D .* got NoneType None"),
        ("vectors.npy", r"x is a path, not vectors: open the file by il\.data\.read_vectors\('vectors.npy'\)"),
        (Path("a/b.npy"), r"x is a path, not vectors: open the file by il\.data\.read_vectors\('a/b.npy'\)"),
        ([[1, 2], [3]], r"x cannot be read as an array: list \[\[1, 2\], \[3\]\]"),
        (X.astype(object), r"x must hold real numbers .* got dtype object"),
        (X.astype(np.complex64), r"x must hold real numbers .* got dtype complex64"),
        (X > 3, r"x must hold real numbers .* got dtype bool"),
        ([["1", "2"]], r"x must hold real numbers .* got dtype <U1"),
        (X.astype("M8[s]"), r"x must hold real numbers .* got dtype datetime64\[s\]"),
        (np.zeros((2, 2), "f4,f4"), r"x must hold real numbers"),
        (np.ma.masked_greater(X, 5), r"x has masked entries, .* MaskedArray of shape \(4, 3\)"),
    ],
)
def test_what_is_no_matrix_of_numbers_is_refused(x: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Rows(x)
    with pytest.raises(InputError, match=message):
        as_rows(x, name="x")


def test_a_tensor_that_cannot_be_read_is_named() -> None:
    class Broken(FakeTensor):
        def detach(self) -> FakeTensor:
            raise RuntimeError("out of memory")

    Broken.__module__ = "torch"
    with raises(InputError, "x", "(4, 3)"):
        to_numpy(Broken(X), "x")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_values_that_are_not_finite_are_named_by_row_and_column(value: float, dtype: type) -> None:
    x = X.astype(dtype)
    x[2, 1] = x[3, 0] = value
    with pytest.raises(InputError, match=rf"x\[2, 1\] is {value}, not a finite number"):
        as_rows(x, name="x")


@pytest.mark.parametrize("value", [-1.01 * LARGEST, 3e38, 1e300])
def test_values_whose_squares_overflow_are_named(value: float) -> None:
    x = X.astype(np.float64)
    x[1, 2] = value
    with raises(InputError, "x[1, 2]", "(more than 1e+16)"):
        as_rows(x, name="x")
    x[1, 2] = LARGEST
    assert as_rows(x, name="x")[1, 2] == np.float32(LARGEST)


def test_integers_that_float32_cannot_hold_are_named() -> None:
    for dtype in (np.int32, np.int64, np.uint32, np.uint64):
        x = X.astype(dtype)
        x[3, 2] = 2**24
        assert as_rows(x, name="x")[3, 2] == 2**24
        x[3, 2] = 2**24 + 1
        with raises(InputError, "x[3, 2]", 16777217, "2^24"):
            as_rows(x, name="x")


def test_a_bad_value_in_a_later_block_has_the_users_row_number() -> None:
    x = np.zeros((BLOCK_ROWS + 100, 2), np.float32)
    x[BLOCK_ROWS + 17, 1] = np.nan
    with pytest.raises(InputError, match=rf"x\[{BLOCK_ROWS + 17}, 1\] is nan"):
        list(Rows(x).blocks())
    with pytest.raises(InputError, match=rf"x\[{BLOCK_ROWS + 17}, 1\] is nan"):
        Rows(x).take(np.array([3, 5, BLOCK_ROWS + 17]))


def test_dimensions_are_compared_with_the_index() -> None:
    with raises(InputError, "x", 3, 5):
        as_rows(X, name="x", dim=5)
    with raises(InputError, "x", 3, 5):
        Rows(X, dim=5)


def test_queries_of_one_and_two_dimensions() -> None:
    many, single = as_queries(X, 3)
    assert (many.shape, single) == ((4, 3), False)
    one, single = as_queries(X[1], 3)
    assert (one.shape, single) == ((1, 3), True)
    for q in (X[None], 3.0):
        with raises(InputError, "queries", "1-D", "[dimensions]", "2-D", "[rows, dimensions]"):
            as_queries(q, 3)


@settings(max_examples=60, deadline=None)
@given(npst.arrays(np.float32, (3, 4), elements=st.floats(-(2.0**53), 2.0**53, width=32)))
def test_normalized_rows_have_length_one(x: np.ndarray) -> None:
    lengths = np.linalg.norm(x.astype(np.float64), axis=1)
    if (lengths == 0).any():
        with pytest.raises(InputError, match=rf"x\[{np.argmax(lengths == 0)}\] is all zeros; the cosine metric"):
            normalize(x, name="x")
    else:
        unit = normalize(x, name="x")
        np.testing.assert_allclose(np.linalg.norm(unit.astype(np.float64), axis=1), 1, rtol=1e-6)
        np.testing.assert_allclose(unit * lengths[:, None], x, rtol=1e-5, atol=lengths.max() * 1e-6)


def test_a_row_of_zeros_has_the_users_row_number() -> None:
    x = X.copy()
    x[2] = 0
    with raises(InputError, "x[102]"):
        normalize(x, name="x", first_row=100)
    with raises(InputError, "x[70]"):
        normalize(x, name="x", rows=np.array([5, 6, 70, 80]))


def test_describe_says_what_came() -> None:
    assert describe(X) == "ndarray of shape (4, 3) and dtype float32"
    assert describe([1, 2]) == "list [1, 2]"
    assert len(describe("x" * 1000)) < 80


class Lying(np.ndarray):
    """An array whose shape, items and conversion are whatever it says."""

    shape = (1_000_000, 3)  # type: ignore[assignment]

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, key: Any) -> Any:
        raise AssertionError("asked for items")

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("asked for an array")


def test_arrays_are_what_they_hold_not_what_they_say() -> None:
    lying = X.view(Lying)
    assert lying.shape == (1_000_000, 3)
    assert type(to_numpy(lying, "x")) is np.ndarray
    assert len(Rows(lying)) == 4
    np.testing.assert_array_equal(as_rows(lying, name="x"), X)
    np.testing.assert_array_equal(np.concatenate(list(Rows(lying).blocks())), X)
    np.testing.assert_array_equal(as_queries(lying, 3)[0], X)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.float16])
def test_rows_are_copies(dtype: type) -> None:
    """Which nobody can change after they were checked."""
    x = X.astype(dtype)
    for rows in (as_rows(x, name="x"), as_queries(x, 3)[0], Rows(x).part(0, 4), Rows(x).take(np.arange(4))):
        assert not np.shares_memory(rows, x)
    assert not np.shares_memory(as_queries(x[0], 3)[0], x)


class Shrinking:
    """A source, as a file may be, that has fewer rows when they are read than it said."""

    def __init__(self, n: int) -> None:
        self.x, self.iloc = np.zeros((n, 3), np.float32), self
        self.shape, self.ndim, self.dtype = (1_000_000, 3), 2, np.dtype(np.float32)

    def __getitem__(self, rows: Any) -> Any:
        return self.x[rows] if isinstance(rows, slice) else self.x[: len(rows) - 1]


Shrinking.__module__ = "h5py"


def test_the_rows_that_were_read_count() -> None:
    rows = Rows(Shrinking(5))
    assert len(rows) == 1_000_000
    with raises(InputError, 5, "row 0", 16384):
        next(rows.blocks())
    with pytest.raises(InputError, match="rows from row|gives 2 rows"):
        rows.take(np.arange(3))
