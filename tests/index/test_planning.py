"""Plans against what is then really built: shapes, bytes, memory, operations."""

from __future__ import annotations

import contextlib
import re
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import interlace as il
from helpers import ID_KINDS, LAYOUTS, METRICS
from interlace import _native
from interlace.codec.encode import EFFORTS
from interlace.engine.segments import MAX_ROWS
from interlace.index import planning
from interlace.index.planning import STRING_LENGTH
from interlace.inputs.arrays import Rows
from interlace.learn import auto
from interlace.learn.cost import rates
from interlace.learn.cost.limits import LEAST_ROWS
from interlace.learn.cost.shape import row_number_bytes, shape_of
from interlace.learn.cost.work import Work
from interlace.learn.fit import learn_codebooks
from interlace.learn.layout_rules import COMPARE_FROM, RESIDUAL_ROWS, compared_layouts
from interlace.learn.sample import training_rows
from interlace.learn.settings import Settings, parse_memory
from interlace.progress import silent
from raising import Facts, raises


def spread(n: int, dim: int, seed: int = 0) -> np.ndarray:
    """Gaussian rows on axes of falling spread: no two alike."""
    return (np.random.default_rng(seed).normal(size=(n, dim)) / np.sqrt(1 + np.arange(dim))).astype(np.float32)


def learned(x: np.ndarray, **settings: Any) -> il.Codebooks:
    """Books from (nearly) all rows of x."""
    return learn_codebooks(Rows(x), Settings(threads=1, **settings).checked(), silent).codebooks


def fixed_ids(kind: str, n: int) -> Any:
    """Integers of the kind that takes most room: in no order, all 64 bits in use."""
    text = [f"{i:0{STRING_LENGTH}}" for i in range(n)]
    integers = np.unique(np.random.default_rng(1).integers(-(2**63) + 64, 2**63, n + 9))[:n]
    return {"default": None, "int64": np.random.default_rng(2).permutation(integers), "string": text}[kind]


@settings(max_examples=30, deadline=None)
@given(
    layout=st.sampled_from(["auto", *LAYOUTS]),
    metric=st.sampled_from(METRICS),
    dim=st.integers(1, 12),
    size=st.integers(1, 10),
    unit=st.sampled_from(["n_bytes", "n_books"]),
    rotation=st.sampled_from(["auto", "none"]),
    effort=st.sampled_from(list(EFFORTS)),
    n_words=st.sampled_from([16, 256]),
)
def test_the_shape_is_the_one_that_is_learned(
    layout: str, metric: str, dim: int, size: int, unit: str, rotation: str, effort: str, n_words: int
) -> None:
    n = 500
    wanted = {"layout": layout, "metric": metric, "rotation": rotation, "effort": effort, "n_words": n_words}
    setting = {**wanted, "iterations": 1, unit: size}
    books = learned(spread(n, dim), **setting)
    shape = shape_of(dim, Settings(**setting).checked(), n)
    assert shape.layout == books.layout
    assert shape.n_books == books.n_books
    assert sum(shape.widths) == sum(len(book.support) for book in books.books)
    assert shape.rotated == (books.rotation is not None)
    assert shape.n_norms == len(books.norms) == 0
    assert (shape.beam, shape.sweeps) == (books.beam, books.sweeps)
    assert shape.n_columns == len(books.columns)
    if books.layout == "subspace":  # all of psi is crude, and how many books that is the data decide
        assert shape.n_crude_columns <= books.n_crude_columns
    else:
        assert shape.n_crude_columns == books.n_crude_columns
    if books.n_cells == shape.n_words:
        assert shape.table_bytes() == books.native.table_bytes


@pytest.mark.parametrize("cross", ["exact", "byte"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("n_bytes", [4, 7])
def test_cross_terms_have_their_place(layout: str, cross: str, n_bytes: int) -> None:
    n, dim = 600, 12
    setting: dict[str, Any] = {"layout": layout, "cross": cross, "n_bytes": n_bytes}
    books = learned(spread(n, dim), iterations=1, **setting)
    shape = shape_of(dim, Settings(**setting).checked(), n)
    assert (shape.n_books, shape.n_norms) == (books.n_books, len(books.norms))
    if layout == "residual":
        assert shape.n_crude == books.n_crude
        assert shape.table_bytes() == books.native.table_bytes
    elif n_bytes > 4:  # where psi ends is the data's affair
        assert shape.table_bytes() == pytest.approx(books.native.table_bytes, rel=0.25)


def test_pairs_and_systems_of_books() -> None:
    shape = shape_of(8, Settings(n_bytes=5, layout="hybrid", cross="exact").checked(), 1000)
    assert shape.spans == ((0, 8), (0, 4), (0, 4), (4, 8), (4, 8))
    assert set(shape.pairs) == {(0, 1), (0, 2), (0, 3), (0, 4), (1, 2), (3, 4)}
    assert (shape.n_pairs, shape.n_dense) == (2, 4)
    product = shape_of(8, Settings(n_bytes=3, layout="subspace").checked(), 1000)
    assert product.spans == ((0, 3), (3, 6), (6, 8))
    assert (product.pairs, product.n_dense) == ((), 0)


@pytest.mark.parametrize("n_bytes", [1, 2, 3, 24, 25])
@pytest.mark.parametrize("dim", [1, 3, 4])
@pytest.mark.parametrize("n", [500, RESIDUAL_ROWS, COMPARE_FROM - 1, COMPARE_FROM])
def test_auto_tries_what_the_learner_tries(n_bytes: int, dim: int, n: int) -> None:
    class EnoughError(Exception):
        """The first layout was tried."""

    def tried(_: np.ndarray, layout: str) -> il.Codebooks:
        first.append(layout)
        raise EnoughError

    first: list[str] = []
    settings = Settings(n_bytes=n_bytes).checked()
    shape = shape_of(dim, settings, n)
    x, rng = spread(n, dim), np.random.default_rng(0)
    with contextlib.suppress(EnoughError):
        made = auto.choose(x, tried, settings, n_rows=n, rng=rng)
        assert shape.layout == made.layout
    assert list(compared_layouts(settings, dim, n)[:1]) == first
    if first:
        assert shape.layout == "residual"


def test_what_auto_assumes_is_told() -> None:
    plan = il.plan(50_000, 32, measure=False)
    assert (plan.layout, plan.tried) == ("residual", ("subspace", "hybrid", "residual"))
    assert "'auto' tries subspace, hybrid, residual on the data; residual, the slowest to learn, is assumed" in str(
        plan
    )
    for layout in plan.tried:
        other = il.plan(50_000, 32, layout=layout, measure=False)
        assert other.tried == ()
        assert "auto" not in str(other)
        assert other.learning_memory <= plan.learning_memory
        assert other.tables <= plan.tables


@given(st.integers(1, 20_000), st.integers(1, 256))
def test_row_numbers_of_equal_cells_take_exactly_this(n: int, n_cells: int) -> None:
    codes = (np.arange(n) % n_cells).astype(np.uint8)[:, None]
    starts = np.zeros(n_cells + 1, np.uint64)
    low, high, samples = _native.count_cells(codes, starts)
    assert row_number_bytes(n, n_cells) == starts.nbytes + 8 * low + 8 * high + 4 * samples


@pytest.mark.parametrize(
    ("n", "dim", "n_bytes", "layout", "metric", "ids", "tolerance"),
    [
        (20_000, 16, 8, "hybrid", "l2", "default", 0.04),
        (20_000, 24, 4, "subspace", "ip", "string", 0.03),
        (20_000, 12, 5, "residual", "l2", "int64", 0.03),
        (8_000, 40, 8, "residual", "l2", "default", 0.06),
        (30_001, 8, 16, "auto", "cosine", "int64", 0.03),
        (20_000, 5, 2, "residual", "ip", "default", 0.03),
        # A few cells more or less, and the header, weigh more in a small file.
        (2_000, 16, 8, "hybrid", "l2", "string", 0.08),
        (1_000, 6, 3, "subspace", "l2", "default", 0.08),
    ],
)
def test_bytes_are_those_of_the_index(
    n: int, dim: int, n_bytes: int, layout: str, metric: str, ids: str, tolerance: float, tmp_path: Path
) -> None:
    x = spread(n, dim)
    index = il.Index(learned(x[:1800], layout=layout, metric=metric, n_bytes=n_bytes, iterations=1))
    index.add(x, fixed_ids(ids, n), threads=1)
    index.calibrate(np.resize(x, (400, x.shape[1])), threads=1)
    index.save(tmp_path / "i")
    report = il.open(tmp_path / "i").report()
    plan = il.plan(n, dim, n_bytes=n_bytes, layout=layout, metric=metric, ids=ids, max_train_rows=1800, measure=False)
    assert plan.n_bytes == report.n_bytes
    assert (plan.codes, plan.ids) == (report.codes, report.ids)
    for name in ("row_numbers", "learned", "tables", "file"):
        assert getattr(plan, name) == pytest.approx(getattr(report, name), rel=tolerance), name
    assert plan.memory == pytest.approx(report.total, rel=tolerance)
    assert plan.code_bytes_per_vector == pytest.approx(report.code_bytes_per_vector, rel=tolerance)
    assert plan.float32 == x.nbytes
    assert plan.ratio == pytest.approx(x.nbytes / (tmp_path / "i").stat().st_size, rel=tolerance)


@pytest.mark.parametrize(
    "setting",
    [
        {"layout": "subspace"},
        {"layout": "subspace", "rotation": "learned"},
        {"layout": "subspace", "cross": "exact", "n_words": 32},
        {"layout": "hybrid"},
        {"layout": "hybrid", "metric": "cosine", "n_words": 64},
        {"layout": "residual", "n_words": 16, "n_bytes": 4},
        {"layout": "residual", "metric": "ip"},
        {"layout": "residual", "cross": "byte"},
    ],
)
def test_learning_takes_no_more_memory_than_planned(setting: dict[str, Any]) -> None:
    """Arrays of NumPy; test_memory.py has all memory of a process."""
    n, dim = 6000, 32
    x = spread(10 * n // 9, dim)
    tracemalloc.start()
    learned(x, iterations=1, max_train_rows=n, **setting)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    plan = il.plan(len(x), dim, max_train_rows=n, measure=False, threads=1, **setting)
    assert plan.n_train == n
    fixed = 16 << 20  # tables of the native core, and what is made once
    assert peak <= plan.learning_memory <= 2 * peak + fixed


def peak_of(plan: il.Plan) -> int:
    return max(plan.learning_memory, plan.coding_memory, plan.peak)


@pytest.mark.parametrize("max_memory", ["1MB", "10MB", "60MB", "100MB", "1GB", "20GB"])
@pytest.mark.parametrize("layout", ["auto", *LAYOUTS])
@pytest.mark.parametrize(("n", "dim"), [(900, 8), (20_000, 64), (10**6, 64), (10**6, 960)])
@pytest.mark.parametrize("n_bytes", [4, 16])
def test_what_is_planned_fits_or_the_smallest_memory_that_does_is_named(
    n: int, dim: int, n_bytes: int, layout: str, max_memory: str
) -> None:
    setting: dict[str, Any] = {"n_bytes": n_bytes, "layout": layout, "threads": 2, "measure": False}
    allowed = parse_memory(max_memory)
    try:
        plan = il.plan(n, dim, max_memory=max_memory, **setting)
    except il.InputError as error:
        found = re.search(r"max_memory=(\d+)", str(error))
        assert found is not None
        least = int(found[1])
        assert least > allowed
        plan, allowed = il.plan(n, dim, max_memory=least, **setting), least
        with pytest.raises(il.InputError, match="max_memory"):
            il.plan(n, dim, max_memory=least - 1, **setting)
    assert peak_of(plan) <= allowed
    assert plan.n_train >= min(n, LEAST_ROWS) * 0.9


def test_a_bound_that_is_too_small_is_refused_before_anything_is_learned() -> None:
    x = spread(3000, 8)
    with pytest.raises(il.InputError, match=r"max_memory allows 1,000,000.*max_memory=\d+"):
        il.plan(10**6, 64, max_memory="1MB", layout="residual", measure=False)
    with raises(il.InputError, 1000, 8):
        il.ICQ(max_memory="1MB", threads=1).fit(x)
    with raises(il.InputError, 3000):
        il.Index.build(x, max_memory="1MB", threads=1, progress=lambda what, done: pytest.fail(what))


def test_more_memory_learns_from_more_rows() -> None:
    sizes = ("330MB", "340MB", "2GB")
    rows = [il.plan(10**6, 256, max_memory=size, layout="hybrid", measure=False).n_train for size in sizes]
    assert rows[0] < rows[1] < rows[2] == 65_536


@pytest.mark.parametrize("n", [1, 9, 1999, 2000, 2500, 30_000, 100_000])
@pytest.mark.parametrize("max_train_rows", [1, 1000, 65_536])
def test_it_learns_from_as_many_rows_as_build_does(n: int, max_train_rows: int) -> None:
    rows = training_rows(n, max_train_rows, np.random.default_rng(0))
    assert il.plan(n, 4, max_train_rows=max_train_rows, measure=False).n_train == len(rows)


@given(st.integers(1, 10**10), st.integers(1, 4096), st.integers(1, 64), st.sampled_from(ID_KINDS))
def test_any_size_is_planned_and_more_rows_cost_more(n: int, dim: int, n_bytes: int, ids: str) -> None:
    less, more = (il.plan(rows, dim, n_bytes=n_bytes, ids=ids, measure=False) for rows in (n, 2 * n))
    assert less.file > less.codes
    assert more.file > less.file or more.layout != less.layout  # more rows give auto another choice
    assert more.codes >= less.codes
    assert less.n_bytes <= n_bytes
    assert less.n_indexes == -(-n // MAX_ROWS)
    assert str(less) == repr(less)
    assert f"{less.file:,} bytes" in str(less)


def test_ten_milliards_of_rows_need_no_memory() -> None:
    tracemalloc.start()
    plan = il.plan(10**10, 128, measure=False)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000
    assert plan.n_indexes == 3
    assert "in 3 indexes" in str(plan)
    assert 9.2 < plan.code_bytes_per_vector < 9.3  # 7 columns and 18 bits: 65,536 cells in each index


def test_a_setting_that_build_does_not_know_is_refused() -> None:
    with pytest.raises(TypeError, match=r"plan\(\).* 'n_byte'"):
        il.plan(10, 4, n_byte=4)


def test_without_measurement_there_are_no_times() -> None:
    plan = il.plan(1000, 8, measure=False)
    assert plan.trying_seconds is plan.learning_seconds is plan.coding_seconds is plan.build_seconds is None
    assert " s\n" not in str(plan)
    assert "operations" in str(plan)


def test_times_are_operations_at_the_rates_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each operation a nanosecond: seconds are counted, not measured."""
    monkeypatch.setattr(planning, "rates", lambda shape: Work(*[1e-9] * 4))
    for threads in (1, 4):
        plan = il.plan(50_000, 24, threads=threads)
        for name in ("trying", "learning", "coding"):
            counted = getattr(plan, f"{name}_operations")
            assert getattr(plan, f"{name}_seconds") == pytest.approx(1e-9 * counted / threads, rel=1e-3)
        assert plan.build_seconds == pytest.approx(plan.trying_seconds + plan.learning_seconds + plan.coding_seconds)
    assert "CPU seconds" in str(plan)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rates_are_measured_once_for_a_kind_of_books(layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[object] = []
    monkeypatch.setattr(rates, "cpu_seconds", lambda work: [measured.append(work), work(), 1e-3][-1])
    rates.measured_rates.cache_clear()
    first, again = (il.plan(n, 16, layout=layout) for n in (1000, 2000))
    assert 3 <= len(measured) <= 5
    assert all(s > 0 for s in (first.learning_seconds, first.coding_seconds, again.learning_seconds))
    rates.measured_rates.cache_clear()


def test_operations_follow_the_settings() -> None:
    base = {"layout": "residual", "n_bytes": 6, "measure": False}
    plain = il.plan(20_000, 32, **base)
    assert plain.trying_operations == 0
    assert il.plan(20_000, 32, **base, effort="fast").learning_operations < plain.learning_operations / 2
    assert il.plan(20_000, 32, **base, iterations=2).learning_operations < plain.learning_operations
    assert il.plan(20_000, 32, **base, effort="best").coding_operations > 2 * plain.coding_operations
    assert il.plan(60_000, 32, **base).coding_operations == pytest.approx(3 * plain.coding_operations, rel=1e-6)
    assert il.plan(50_000, 32, n_bytes=6, measure=False).trying_operations > 0


def test_small_data_are_learned_with_little_work() -> None:
    """No layouts are compared; operations are a fraction of a second's, or of five."""
    small, larger = il.plan(2000, 16, measure=False), il.plan(20_000, 64, n_bytes=8, measure=False)
    assert small.tried == larger.tried == ()
    assert small.learning_operations < 2.5e9
    assert larger.learning_operations < 8e10


@pytest.mark.parametrize(
    "setting",
    [
        {"n_bytes": 0},
        {"n_bytes": 129},
        {"n_books": 129},
        {"n_bytes": 8.0},
        {"n_bytes": True},
        {"n_bytes": 4, "n_books": 4},
        {"metric": "l1"},
        {"layout": "round"},
        {"max_train_rows": 0},
        {"cross": "norm"},
        {"effort": "most"},
        {"iterations": -1},
        {"n_words": 1},
        {"max_memory": "much"},
        {"layout": "residual", "cross": "none"},
        {"threads": 0},
    ],
)
def test_what_build_refuses_is_refused_in_the_same_words(setting: dict[str, Any]) -> None:
    with pytest.raises(il.InputError) as by_build:
        il.Index.build(np.zeros((10, 4)), **setting)
    with pytest.raises(il.InputError) as by_plan:
        il.plan(10, 4, measure=False, **setting)
    assert str(by_plan.value) == str(by_build.value)


@pytest.mark.parametrize(
    ("arguments", "setting", "facts"),
    [
        ((0, 4), {}, ("n", 0)),
        ((-5, 4), {}, ("n", "-5")),
        ((1.5, 4), {}, ("n", "1.5")),
        ((10, 0), {}, ("dim", 0)),
        ((10, 4), {"ids": "uuid"}, ("ids", "default", "int64", "string", "'uuid'")),
        ((10, 4), {"ids": [1, 2]}, ("ids", "default", "int64", "string")),
    ],
)
def test_bad_input_is_named(arguments: tuple[Any, Any], setting: dict[str, Any], facts: Facts) -> None:
    with raises(il.InputError, *facts):
        il.plan(*arguments, **setting)


def test_numbers_of_rows_may_be_whole_floats() -> None:
    whole = il.plan(1e6, 16, n_bytes=8, layout="subspace", measure=False)
    assert whole == il.plan(1_000_000, 16, n_bytes=8, layout="subspace", measure=False)
    assert type(whole.rows) is int
    for wrong in (1.5, float("nan"), float("inf"), -1e6, 0.0):
        with raises(il.InputError, "n", "integer"):
            il.plan(wrong, 16, n_bytes=8, measure=False)


@pytest.mark.parametrize(
    "given", [(spread(30, 4),), (spread(30, 4), 8), ([[1.0, 2.0]], 2)], ids=["x", "x, dim", "list"]
)
def test_vectors_in_place_of_their_number_are_refused_without_printing_them(given: tuple[Any, ...]) -> None:
    with raises(il.InputError, "n", "plan_recall") as refused:
        il.plan(*given, measure=False)
    assert len(str(refused.value)) < 300
    with raises(il.InputError, "dim", "(30, 4)") as refused:
        il.plan(30, spread(30, 4), measure=False)
    assert "[" not in str(refused.value)
    with raises(il.InputError, "dim", "None"):
        il.plan(30, measure=False)
