"""What people pass by mistake, through the public calls: every refusal says what was expected, what came, and where."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import interlace as il
from helpers import (
    LAYOUTS,
    METRICS,
    FakeTensor,
    OnlyDLPack,
    build,
    clustered,
    hand_made,
    ids_of,
    same_index,
    small_index,
)
from interlace.inputs.arrays import BLOCK_ROWS
from raising import Facts, raises

X = clustered(60, 6)
Q = clustered(4, 6, seed=5)


@pytest.fixture(scope="module")
def index() -> il.Index:
    return build()


def spoiled(x: np.ndarray, row: int, column: int, value: float) -> np.ndarray:
    x = x.copy()
    x[row, column] = value
    return x


# (name of the argument, bad value, message): each for build, add, search and calibrate where it makes sense.
BAD_VECTORS = [
    pytest.param(lambda x: x.astype(object), "must hold real numbers .* got dtype object", id="object"),
    pytest.param(lambda x: x.astype(np.complex128), "must hold real numbers .* got dtype complex128", id="complex"),
    pytest.param(lambda x: x > 0, "must hold real numbers .* got dtype bool", id="bool"),
    pytest.param(lambda x: x.astype(str), "must hold real numbers .* got dtype <U", id="text"),
    pytest.param(lambda x: x[None], r"must be .*2-D \[rows, dimensions\], got ndarray of shape \(1, ", id="rank 3"),
    pytest.param(lambda x: x[:, :0], "has (no|0) dimensions", id="no dimensions"),
    pytest.param(lambda x: spoiled(x, 3, 2, math.nan), r"\[3, 2\] is nan, not a finite number", id="nan"),
    pytest.param(lambda x: spoiled(x, 2, 5, -math.inf), r"\[2, 5\] is -inf, not a finite number", id="inf"),
    pytest.param(lambda x: spoiled(x, 1, 0, 1e30), r"\[1, 0\] is .*too large", id="too large"),
    pytest.param(lambda x: [*x.tolist()[:2], [1.0]], "cannot be read as an array: list", id="ragged"),
    pytest.param(lambda x: None, "got NoneType None", id="None"),
    pytest.param(lambda x: "x.npy", r"is a path, .*il\.data\.read_vectors\('x.npy'\)", id="a path"),
]


@pytest.mark.parametrize(("spoil", "message"), BAD_VECTORS)
def test_vectors_that_cannot_be_coded(index: il.Index, spoil: Callable[[np.ndarray], Any], message: str) -> None:
    with pytest.raises(il.InputError, match=f"^x.*{message}"):
        il.Index.build(spoil(X), threads=1)
    with pytest.raises(il.InputError, match=f"^x.*{message}"):
        index.add(spoil(X), threads=1)
    with pytest.raises(il.InputError, match=f"^queries.*{message}"):
        index.search(spoil(Q))
    assert same_index(index, build())


def test_dimensions_that_do_not_fit(index: il.Index) -> None:
    for wrong in (5, 7):
        with pytest.raises(il.InputError, match=f"x has {wrong} dimensions, the index has 6"):
            index.add(np.ones((3, wrong)))
        with pytest.raises(il.InputError, match=f"queries has {wrong} dimensions, the index has 6"):
            index.search(np.ones((3, wrong)))
        with pytest.raises(il.InputError, match=f"queries has {wrong} dimensions, the index has 6"):
            index.search(np.ones(wrong))
        with pytest.raises(il.InputError, match=f"queries has {wrong} dimensions, the index has 6"):
            index.calibrate(np.ones((3, wrong)))


def test_a_single_vector_is_a_query_but_not_rows(index: il.Index) -> None:
    assert index.search(Q[0], 3).ids.shape == (3,)
    for call in (il.Index.build, index.add):
        with raises(il.InputError, "x", "2-D", "[rows, dimensions]", "ndarray", "(6,)"):
            call(Q[0])


def test_empty_input(index: il.Index) -> None:
    for nothing in ([], np.empty(0), np.empty((0, 6, 1))):
        with raises(il.InputError, "x", "2-D"):
            il.Index.build(nothing)
    with raises(il.InputError, "x", "rows"):
        il.Index.build(np.empty((0, 6)))
    before = len(index)
    index.add(np.empty((0, 6)))
    assert len(index) == before
    assert index.search(np.empty((0, 6)), 3).ids.shape == (0, 3)
    with raises(il.InputError, 397, 0):
        index.calibrate(np.empty((0, 6)))


def test_an_empty_index_answers_with_padding_and_refuses_calibration() -> None:
    empty = il.Index(hand_made())
    matches = empty.search(np.zeros((2, 4)), 3)
    assert (matches.ids == -1).all()
    assert np.isinf(matches.distances).all()
    assert matches.counts.tolist() == [0, 0]
    for queries in (None, np.zeros((2, 4))):
        with pytest.raises(il.InputError, match="an empty index cannot be calibrated"):
            empty.calibrate(queries)


def test_a_bad_value_far_behind_the_sample_is_named_by_its_row() -> None:
    x = np.tile(X, (BLOCK_ROWS // len(X) + 3, 1))
    row = BLOCK_ROWS + 77
    with pytest.raises(il.InputError, match=rf"x\[{row}, 4\] is nan, not a finite number"):
        il.Index.build(spoiled(x, row, 4, math.nan), n_bytes=2, max_train_rows=100, threads=1)
    x[row] = 0
    with pytest.raises(il.InputError, match=rf"x\[{row}\] is all zeros; the cosine metric needs a direction"):
        il.Index.build(x, n_bytes=2, max_train_rows=100, metric="cosine", threads=1)


def test_a_bad_value_in_the_sample_is_named_by_its_row() -> None:
    x = np.repeat(X, 3, axis=0)
    for row in (0, 100, 179):
        for sample in (20, 179, 180):
            with pytest.raises(il.InputError, match=rf"x\[{row}, 1\] is nan"):
                il.Index.build(spoiled(x, row, 1, math.nan), n_bytes=2, max_train_rows=sample, threads=1)
            zero = x.copy()
            zero[row] = 0
            with pytest.raises(il.InputError, match=rf"x\[{row}\] is all zeros"):
                il.Index.build(zero, n_bytes=2, max_train_rows=sample, metric="cosine", threads=1)


def test_a_query_of_zeros_has_no_cosine() -> None:
    index = build(metric="cosine")
    with raises(il.InputError, "queries[1]"):
        index.search(np.array([[1.0] * 6, [0.0] * 6]))


@pytest.mark.parametrize(
    "convert",
    [
        pytest.param(lambda x: x.astype(np.float16), id="float16"),
        pytest.param(lambda x: x.astype(np.float64), id="float64"),
        pytest.param(lambda x: x.astype(np.int8), id="int8"),
        pytest.param(lambda x: x.astype(np.uint8), id="uint8"),
        pytest.param(lambda x: x.astype(np.int64), id="int64"),
        pytest.param(lambda x: x.astype(">f4"), id="big-endian"),
        pytest.param(lambda x: x.tolist(), id="lists"),
        pytest.param(np.asfortranarray, id="column-major"),
        pytest.param(lambda x: np.repeat(np.repeat(x, 2, 0), 3, 1)[::2, ::3], id="strided"),
        pytest.param(lambda x: x[::-1, ::-1].copy()[::-1, ::-1], id="negative strides"),
        pytest.param(FakeTensor, id="torch"),
        pytest.param(OnlyDLPack, id="DLPack"),
    ],
)
def test_every_accepted_kind_of_array_gives_the_same_index_and_answers(convert: Callable[[np.ndarray], Any]) -> None:
    x = np.round(clustered(80, 5) * 20 + 60).clip(0, 127).astype(np.float32)  # integers: every kind holds them
    plain, other = (il.Index.build(v, n_bytes=3, threads=1) for v in (x, convert(x)))
    grown, other_grown = il.Index(plain.codebooks), il.Index(plain.codebooks)
    grown.add(x)
    other_grown.add(convert(x))
    assert same_index(plain, other)
    assert same_index(grown, other_grown)
    ours, theirs = plain.search(x, 4, threads=1), plain.search(convert(x), 4, threads=1)
    np.testing.assert_array_equal(ours.ids, theirs.ids)
    np.testing.assert_array_equal(ours.distances, theirs.distances)


@pytest.mark.parametrize("k", [0, -1, -(2**40), 1.0, 2.5, "3", None, True, [3], 2**70])
def test_k_must_be_a_positive_integer(index: il.Index, k: Any) -> None:
    with raises(il.InputError, "k", "integer"):
        index.search(Q, k)


def test_k_may_be_a_numpy_integer_and_exceed_the_rows(index: il.Index) -> None:
    assert index.search(Q, np.int32(3)).ids.shape == (4, 3)
    matches = index.search(Q, len(index) + 5)
    assert matches.ids.shape == (4, len(index) + 5)
    assert matches.counts.tolist() == [len(index)] * 4
    assert (matches.ids[:, len(index) :] == -1).all()
    assert np.isinf(matches.distances[:, len(index) :]).all()


@pytest.mark.parametrize("margin", ["Exact", "", "0.99", False, True, [0.9], 0.9 + 0j])
def test_an_unknown_margin(index: il.Index, margin: Any) -> None:
    with raises(il.InputError, "margin", "'exact'", "'paper'", "inf", 1):
        index.search(Q, margin=margin)


@settings(max_examples=40, deadline=None)
@given(st.floats(allow_infinity=False).filter(lambda m: not 0 < m < 1) | st.integers() | st.just(-math.inf))
def test_a_margin_out_of_range(index: il.Index, margin: float) -> None:
    with raises(il.InputError, "margin", 0, 1):
        index.search(Q, margin=margin)


@pytest.mark.parametrize("threads", [0, -1, 1.0, "2", True])
def test_threads_must_be_positive(index: il.Index, threads: Any) -> None:
    for call in (index.search, index.add, index.calibrate, il.Index.build):
        with raises(il.InputError, "threads", "None"):
            call(X, threads=threads)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_bytes": 4, "n_books": 4}, "give n_bytes or n_books, not both"),
        ({"n_bytes": 0}, "n_bytes must be a positive integer, got 0"),
        ({"n_bytes": 129}, "n_bytes must be at most 128, got 129"),
        ({"n_bytes": 8.0}, "n_bytes must be a positive integer, got 8.0"),
        ({"n_books": -1}, "n_books must be a positive integer, got -1"),
        ({"n_books": "4"}, "n_books must be a positive integer, got '4'"),
        ({"n_crude": 0}, "n_crude must be a positive integer, got 0"),
        ({"n_crude": 9}, "n_crude must be 1 to 8 .*, got 9"),
        ({"max_train_rows": 0}, "max_train_rows must be a positive integer, got 0"),
        ({"seed": -1}, "seed must be an integer of at least 0, got -1"),
        ({"seed": "a"}, "seed must be an integer of at least 0, got 'a'"),
        ({"seed": None}, "seed must be an integer of at least 0, got None"),
        ({"metric": "euclid"}, "metric must be one of l2, ip, cosine, got 'euclid'"),
        ({"metric": None}, "metric must be one of l2, ip, cosine, got None"),
        ({"layout": "pq"}, "layout must be one of auto, subspace, hybrid, residual, got 'pq'"),
        ({"layout": None}, "layout must be one of auto, subspace, hybrid, residual, got None"),
    ],
)
def test_settings_of_build(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(il.InputError, match=f"^{message}$"):
        il.Index.build(X, **settings)


def test_an_index_needs_codebooks() -> None:
    with raises(il.InputError, "Index", "ndarray", "(60, 6)", "Index.build"):
        il.Index(X)  # type: ignore[arg-type]


POOR = {
    "a single row": X[:1],
    "two rows": X[:2],
    "fewer rows than words": X[:20],
    "constant columns": np.where(np.arange(6) % 2 == 0, 3.0, X),
    "all rows equal": np.full((40, 6), 2.5),
    "one dimension": X[:, :1],
    "few distinct rows": np.tile(X[:3], (30, 1)),
    "tiny values": X * 1e-12,
    "large values": X * 1e12,
}


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", POOR)
def test_poor_data_is_indexed_without_complaint(name: str, layout: str, metric: str) -> None:
    x = POOR[name].astype(np.float32)
    index = il.Index.build(x, n_bytes=4, layout=layout, metric=metric, threads=1)
    index.verify()
    exact, scan = (index.search(x, 3, margin=m, threads=1) for m in ("exact", math.inf))
    np.testing.assert_array_equal(exact.ids, scan.ids)
    np.testing.assert_array_equal(exact.distances, scan.distances)
    assert exact.counts.tolist() == [min(3, len(x))] * len(x)
    if len(x) <= 20 and metric == "l2":  # a word for every row: each one finds itself at no distance
        assert (exact.ids[:, 0] == np.arange(len(x))).all()
        assert exact.distances[:, 0].max() <= 1e-9 * (x.astype(np.float64) ** 2).sum(1).max()
    wanted = x.astype(np.float64)
    wanted = wanted / np.linalg.norm(wanted, axis=1)[:, None] if metric == "cosine" else wanted
    error = ((index.reconstruct(index.ids) - wanted) ** 2).sum()
    assert error <= ((wanted - wanted.mean(0)) ** 2).sum() * 0.2 + 1e-12 * (wanted**2).sum()


@pytest.mark.parametrize("kind", ["int64", "string"])
@pytest.mark.parametrize(
    ("bad", "facts"),
    [
        (lambda x, ids: (x[:2], ids[:3]), ("ids", 2, 3)),
        (lambda x, ids: (x[:2], [ids[0], ids[0]]), ("ids", "ids[0]", "ids[1]")),
        (lambda x, ids: (x[:2], None), (2,)),
        (lambda x, ids: (x[:2], [1.5, 2.5]), ("ids", "ids[0]", "1.5")),
        (lambda x, ids: (x[:2], [2**63, 1]), ("ids", "int64", "ids[0]", 9223372036854775808)),
        (lambda x, ids: (spoiled(x, 1, 1, math.nan), ids), ("x[1, 1]", "nan")),
        (lambda x, ids: (x[:, :3], ids), ("x", 3, 4)),
    ],
)
def test_after_an_error_in_add_the_index_is_as_it_was(kind: str, bad: Callable[..., Any], facts: Facts) -> None:
    index, untouched = small_index(ids=kind), small_index(ids=kind)
    x = clustered(5, 4, seed=8)
    fresh = ids_of(kind, 5, first=100)
    wrong_x, wrong_ids = bad(x, fresh)
    with raises(il.InputError, *facts):
        index.add(wrong_x, wrong_ids)
    assert same_index(index, untouched)
    index.add(x, fresh)
    untouched.add(x, fresh)
    assert same_index(index, untouched)
    assert len(index) == 14


def test_a_failure_in_the_middle_of_a_large_add_leaves_the_index_unchanged() -> None:
    index = small_index()
    x = np.zeros((BLOCK_ROWS + 10, 4), np.float32)
    x[-1, 3] = math.inf
    with pytest.raises(il.InputError, match=rf"x\[{BLOCK_ROWS + 9}, 3\] is inf"):
        index.add(x)
    assert same_index(index, small_index())


# --- filter -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("allowed", "facts"),
    [
        (np.ones(8, bool), ("filter", 9, "(8,)")),
        (np.ones(10, bool), ("filter", 9, "(10,)")),
        (np.ones((9, 1), bool), ("filter", 9, "(9, 1)")),
        (True, ("filter", 9, "()")),
        (np.array([1.0, 2.0]), ("filter", "float64")),
        (np.array([1j]), ("filter", "complex128")),
        ([0, None], ("filter", "filter[1]", "NoneType", "None")),
        ([0, "a"], ("filter", "filter[1]", "'a'")),
        ([2**63], ("filter", "int64", "filter[0]", 9223372036854775808)),
        ("abc", ("filter", "1-D")),
        ({0, 1}, ("filter", "1-D", "set")),
        (3, ("filter", "1-D")),
        (np.zeros((2, 2), int), ("filter", "1-D")),
    ],
)
def test_a_filter_that_is_none(allowed: Any, facts: Facts) -> None:
    with raises(il.InputError, *facts):
        small_index().search(np.zeros(4), filter=allowed)


@pytest.mark.parametrize(
    ("kind", "allowed", "facts"),
    [
        ("default", [3, 9, -1], ("id 9", "(2 of 3 unknown)")),
        ("default", ["3"], ("'3'", "(1 of 1 unknown)")),
        ("int64", [-500, 0], ("id 0", "(1 of 2 unknown)")),
        ("string", ["a", "b"], ("'b'", "(1 of 2 unknown)")),
        ("string", [0], ("id 0", "(1 of 1 unknown)")),
    ],
)
def test_unknown_ids_in_a_filter_are_named(kind: str, allowed: list[Any], facts: Facts) -> None:
    with raises(il.UnknownIdError, *facts):
        small_index(ids=kind).search(np.zeros(4), filter=allowed)


@pytest.mark.parametrize("kind", ["default", "int64", "string"])
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_filter_keeps_the_best_of_what_it_allows(kind: str, data: st.DataObject) -> None:
    index, q = small_index(ids=kind), clustered(2, 4, seed=3)
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=9, max_size=9)))
    everything = index.search(q, 9, margin=math.inf)
    by_mask = index.search(q, 4, margin="exact", filter=mask)
    by_ids = index.search(q, 4, margin="exact", filter=np.random.default_rng(0).permutation(index.ids[mask]))
    allowed = set(index.ids[mask].tolist())
    for row in range(2):
        expected = [i for i in everything.ids[row].tolist() if i in allowed][:4]
        assert by_mask.ids[row].tolist()[: len(expected)] == expected
        assert by_mask.counts[row] == min(4, len(allowed))
    np.testing.assert_array_equal(by_mask.ids, by_ids.ids)
    np.testing.assert_array_equal(by_mask.distances, by_ids.distances)
