"""Filters: text means what it says, and a filtered search finds what an exhaustive search of those rows finds."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_helpers import BOOKS, LARGE, filled, vectors

import interlace as il
from helpers import run_python
from interlace.store import filters
from interlace.store.columns import Columns
from interlace.store.filter_cache import FilterCache
from interlace.store.filters import as_expression, columns_of, qualifying
from raising import raises

pa = pytest.importorskip("pyarrow", reason="the io extra is not installed")
pc = pytest.importorskip("pyarrow.compute")

COLUMNS = Columns.of({"i": "int16", "f": "float32", "s": "string", "b": "bool", "t": "timestamp[s]", "u": "uint64"})
VALUES: dict[str, list[Any]] = {
    "i": [None, -3, 0, 1, 2, 300],
    "f": [None, -1.5, 0.0, 0.1, 2.0, math.inf],
    "s": [None, "", "a", "b", "é'\"", "null"],
    "b": [None, True, False],
    "t": [None, "1970-01-01 00:00:00", "2024-02-29 12:00:00"],
    "u": [None, 0, 2**63, 2**64 - 1],
}
EVERY = [
    {name: VALUES[name][(row * 7 + place * row // 3) % len(VALUES[name])] for place, name in enumerate(VALUES)}
    for row in range(60)
]

# --- a small language, and what it means: true, false, or neither (None)

Meaning = Any  # a function of a row


def _text(value: Any) -> str:
    return "inf" if value == math.inf else repr(value)


LITERALS = {name: [v for v in values if v is not None and v != math.inf] for name, values in VALUES.items()}
LITERALS["i"] += [0.5, -2.5, 2.0, 1e300, -(10**30), 32767, 32768, -32768, -32768.5, 32767.5]
LITERALS["u"] += [-1, 2**64, 0.5, -0.5, 2**70, 2.0**63]
SIGNS = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


@st.composite
def comparisons(draw: st.DrawFn) -> tuple[str, Meaning]:
    name = draw(st.sampled_from(["i", "f", "s", "t", "u"]))
    value = draw(st.sampled_from(LITERALS[name]))
    sign = draw(st.sampled_from(sorted(SIGNS)))
    compare = SIGNS[sign]
    exact = np.float32(value) if name == "f" else value

    def meaning(row: Any) -> bool | None:
        return None if row[name] is None else bool(compare(np.float32(row[name]) if name == "f" else row[name], exact))

    if draw(st.booleans()):
        turned = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(sign, sign)
        return f"{value!r} {turned} {name}", meaning
    return f"{name} {sign} {value!r}", meaning


@st.composite
def memberships(draw: st.DrawFn) -> tuple[str, Meaning]:
    name = draw(st.sampled_from(["i", "f", "s", "t", "u"]))
    values = draw(st.lists(st.sampled_from(LITERALS[name]), min_size=1, max_size=3))
    inverted = draw(st.booleans())
    exact = [np.float32(v) if name == "f" else v for v in values]

    def meaning(row: Any) -> bool | None:
        if row[name] is None:
            return None
        return ((np.float32(row[name]) if name == "f" else row[name]) in exact) != inverted

    return f"{name} {'not ' * inverted}in [{', '.join(map(repr, values))}]", meaning


@st.composite
def nulls(draw: st.DrawFn) -> tuple[str, Meaning]:
    name, inverted = draw(st.sampled_from(sorted(VALUES))), draw(st.booleans())
    word = draw(st.sampled_from(["null", "None", "NULL"]))
    return f"{name} is {'not ' * inverted}{word}", lambda row: (row[name] is None) != inverted


def _not(a: bool | None) -> bool | None:
    return None if a is None else not a


def _and(a: bool | None, b: bool | None) -> bool | None:
    return False if a is False or b is False else None if a is None or b is None else True


def _or(a: bool | None, b: bool | None) -> bool | None:
    return _not(_and(_not(a), _not(b)))


def _joined(children: Any) -> Any:
    pairs = st.tuples(children, children)
    return st.one_of(
        pairs.map(lambda p: (f"({p[0][0]}) and ({p[1][0]})", lambda row: _and(p[0][1](row), p[1][1](row)))),
        pairs.map(lambda p: (f"({p[0][0]}) or {p[1][0]}", lambda row: _or(p[0][1](row), p[1][1](row)))),
        children.map(lambda p: (f"not ({p[0]})", lambda row: _not(p[1](row)))),
    )


LEAVES = st.one_of(
    comparisons(),
    memberships(),
    nulls(),
    st.sampled_from(
        [("b", lambda row: row["b"]), ("b == true", lambda row: row["b"]), ("b != True", lambda row: _not(row["b"]))]
    ),
    st.just(("-3 <= i < 2", lambda row: None if row["i"] is None else -3 <= row["i"] < 2)),
    st.just(("i < f", lambda row: None if row["i"] is None or row["f"] is None else row["i"] < row["f"])),
    st.just(("i in (1, 2.0, 2.5, 70000)", lambda row: None if row["i"] is None else row["i"] in (1, 2))),
    st.just(("i > 0.5", lambda row: None if row["i"] is None else row["i"] > 0.5)),
)


def table_of(rows: list[dict[str, Any]]) -> Any:
    """Times come as text here, which a store would not take."""
    columns = {name: pa.array([row[name] for row in rows]) for name in VALUES if name not in ("t", "u")}
    columns["t"] = pa.array([row["t"] for row in rows], pa.string()).cast(pa.timestamp("s"))
    columns["u"] = pa.array([row["u"] for row in rows], pa.uint64())
    columns["i"] = columns["i"].cast(pa.int16())
    return COLUMNS.table(columns, len(rows))


TABLE = table_of(EVERY)


@settings(max_examples=300, deadline=None)
@given(st.recursive(LEAVES, _joined, max_leaves=6))
def test_text_means_what_it_says(expression: tuple[str, Meaning]) -> None:
    text, meaning = expression
    found = qualifying(as_expression(text, COLUMNS), TABLE)
    assert found.tolist() == [meaning(row) is True for row in EVERY], text


REFUSED = {
    "f < ": "cannot be read",
    "f = 3": "cannot be read at character 3; write comparisons like price < 10",
    "f < 3 AND i < 3": "cannot be read",
    "": "cannot be read",
    "f < 3\0": "cannot be read",
    "price < 3": r"names 'price', .*no such column.*the store has 'i' \(int16\), 'f' \(float\)",
    "f < 'a'": r"compares 'f' \(float\) with 'a' \(str\)",
    "s < 3": r"compares 's' \(string\) with 3 \(int\)",
    "b == 1": r"compares 'b' \(bool\) with 1 \(int\)",
    "i == True": r"compares 'i' \(int16\) with True \(bool\)",
    "s in (1, 2)": r"compares 's' \(string\) with 1",
    "i == s": r"compares 'i' \(int16\) with 's' \(string\)",
    "t > 'yesterday'": r"compares 't' \(timestamp\[s\]\) with 'yesterday': ",
    "i == null": "compares 'i' with null; write i is null",
    "i in (1, null)": "compares 'i' with null",
    "i in ()": "may use 'in' only as in: tag in",
    "i in s": "may use 'in' only as in",
    "1 in i": "may use 'in' only as in",
    "i is 3": "may use 'is' only as in",
    "1 is null": "may use 'is' only as in",
    "i": r"uses 'i' \(int16\)",
    "1 < 2": "compares two values",
    "true": "names 'true', .*no such column",
    "3": "has '3'; use only columns",
    "i + 1 < 3": r"has 'i \+ 1'; use only columns",
    "i < 2 ** 1000": "use only columns",
    "len(s) < 3": "use only columns",
    "s.upper() == 'A'": "use only columns",
    "__import__('os').system('true')": "use only columns",
    "(lambda: i)() == 1": "use only columns",
    "[x for x in (1,)] == i": "use only columns",
    "f'{i}' == s": "use only columns",
    "i < 3 if b else 2": "use only columns",
    "(i := 3) == 3": "use only columns",
    "i < 1j": "use only columns",
    "i < ...": "use only columns",
    "i == -'a'": "use only columns",
    "not " * 60 + "b": "nested too deeply",
    "(" * 300 + "b" + ")" * 300: "cannot be read|nested too deeply",
    "f < " + "9" * 400: r"compares 'f' \(float\) with 9+",
    "s == '" + "x" * (16 << 20) + "'": "16777216",
    " or ".join(["i == 1"] * 12_000): "more than 10000 comparisons.*i*n.*mask or ids",
    "i" + " < i" * 20_000: "more than 10000 comparisons",
    "i in (" + "1," * 600_000 + ")": "more than 500000 names and values",
}


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text[:40])
def test_text_that_means_nothing(text: str) -> None:
    with pytest.raises(il.InputError, match=REFUSED[text]):
        as_expression(text, COLUMNS)


def test_many_conditions_are_no_deep_tree() -> None:
    """A chain of thousands would overflow the stack of whoever walks it."""
    text = " or ".join(f"i == {i}" for i in range(5000))
    assert qualifying(as_expression(text, COLUMNS), TABLE).tolist() == [
        (r["i"] or -1) in range(5000) or r["i"] == 0 for r in EVERY
    ]


DEEP = """
import functools, operator, sys, threading
import pyarrow as pa, pyarrow.compute as pc
import interlace as il
from interlace.store.columns import Columns
from interlace.store.filters import as_expression, columns_of, qualifying
columns = Columns.of({"n": "int64", "s": "string", "b": "bool"})
table = pa.table({"n": [1, 2, None], "s": ["a", "b", None], "b": [True, False, None]})
terms = [pc.field("n") == i for i in range(30_000)]
def balanced(parts):
    while len(parts) > 1:
        parts = [a | b for a, b in zip(parts[::2], parts[1::2])] + parts[len(parts) & ~1 :]
    return parts[0]
refused = [
    " or ".join(["n==1"] * 12_000), " and ".join(["n==1"] * 30_000), "n" + "<n" * 20_000,
    *(("not " * n + "b") for n in (51, 3000, 100_000)), *(("n == " + "-" * n + "1") for n in (60, 3000, 100_000)),
    *(("(" * n + "b" + ")" * n) for n in (60, 199, 100_000)), *(("(b or " * n + "b" + ")" * n) for n in (60, 190)),
    *(("(not " * n + "b" + ")" * n) for n in (30, 190)), "b if b else " * 30_000 + "b", "lambda: " * 30_000 + "b",
    "n == " + "2**" * 30_000 + "1", "n == " + "1+" * 30_000 + "1", "b" + ".b" * 30_000, "b" + "()" * 30_000,
    "f'" + "{not " * 90 + "b" + "}" * 90 + "' == s", "s == f\\"'\\" " + "not " * 30_000 + "'", "~" * 30_000 + "b",
    "s in (" + "'" * 30_000, "s == " + 3 * "'" + "a" * 10**6, "[" * 10**6, " " * (17 << 20),
    functools.reduce(operator.or_, terms), functools.reduce(operator.and_, terms), balanced(terms),
    functools.reduce(lambda a, _: ~a, terms, pc.field("b")), functools.reduce(lambda a, _: a + 1, terms, terms[0]),
]
wanted = [
    (" or ".join(f"n == {i}" for i in range(9000)), [True, True, False]),
    (" and ".join(["n < 2"] * 9999), [True, False, False]),
    ("(b or n == 5 and " * 25 + "b" + ")" * 25, [True, False, False]),
    ("(" + "b or (" * 40 + "n == 1" + ")" * 41, [True, False, False]),
    ("n in (" + ", ".join(map(str, range(2, 100_002))) + ")", [False, True, False]),
    ("s in [" + ", ".join(f"'{i:036}'" for i in range(100_000)) + ", 'b']", [False, True, False]),
    (" and ".join(["(" + " or ".join(["n == 1"] * 60) + ")"] * 60), [True, False, False]),
    (functools.reduce(operator.or_, terms[:500]), [True, True, False]),
    (balanced(terms[:500]), [True, True, False]),
    (pc.field("n").isin(list(range(2, 100_000))), [False, True, False]),
]
def run():
    for given in refused:
        try:
            as_expression(given, columns)
        except il.InputError:
            continue
        raise AssertionError(repr(given)[:99] if isinstance(given, str) else type(given))
    for given, expected in wanted:
        expression = as_expression(given, columns)
        columns_of(expression, columns)
        assert qualifying(expression, table).tolist() == expected, repr(given)[:99]
    done.append(1)
done = []
threading.stack_size(int(sys.argv[1]) << 10)
thread = threading.Thread(target=run)
thread.start()
thread.join()
print(len(done))
"""


def test_no_filter_overflows_the_stack() -> None:
    """Not even in a thread that has a sixteenth of the usual stack, in kilobytes."""
    assert run_python(DEEP, "512") == 1


def test_limits_of_expressions_are_stated() -> None:
    deep = pc.field("b")
    for _ in range(2000):
        deep = ~deep
    for columns in (COLUMNS, None):
        with raises(il.InputError, 2000, 1000):
            as_expression(deep, columns)


EXPRESSIONS = {
    "unknown": (lambda: pc.field("x") < 3, "does not fit the columns 'i'"),
    "types": (lambda: pc.field("s") < 3, "does not fit the columns 'i'"),
    "no condition": (lambda: pc.field("i") + pc.field("i"), "type int16"),
    "place": (lambda: pc.field(17) < 3, "does not fit the columns"),
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_expressions_of_arrow_that_do_not_fit(name: str) -> None:
    make, match = EXPRESSIONS[name]
    with pytest.raises(il.InputError, match=match):
        as_expression(make(), COLUMNS)


def test_expressions_of_arrow() -> None:
    expression = as_expression((pc.field("i") > 0) & ~pc.field("s").is_null(), COLUMNS)
    assert qualifying(expression, TABLE).tolist() == [(r["i"] or 0) > 0 and r["s"] is not None for r in EVERY]
    assert columns_of(expression, COLUMNS) == ["i", "s"]
    by_place = as_expression(pc.field(1) < 3, COLUMNS)
    assert columns_of(by_place, COLUMNS) == ["i", "f", "s", "b", "t", "u"]
    assert qualifying(by_place, TABLE).tolist() == [r["f"] is not None and r["f"] < 3 for r in EVERY]
    assert not qualifying(as_expression(pc.scalar(None), COLUMNS), TABLE).any()


def test_what_fails_on_the_rows_is_named() -> None:
    expression = as_expression(pc.divide(pc.field("i"), pc.field("i")) == 1, COLUMNS)
    with raises(il.InputError, "fails", "zero"):
        qualifying(expression, TABLE)


# --- searches


@pytest.mark.parametrize("selectivity", [1e-5, 1e-3, 0.05, 0.5, 1.0])
def test_k_hits_come_back_whenever_k_rows_qualify(tmp_path: Path, selectivity: float) -> None:
    """Against an exhaustive search of the rows that qualify, in a store of segments, a log and removed rows."""
    rng = np.random.default_rng(0)
    n = 100_000
    numbers = rng.permutation(n)
    store = il.create(tmp_path / "s", BOOKS, columns={"number": "int64"}, limits=LARGE)
    x = rng.integers(-3, 4, (n, 4)).astype(np.float32)
    for a, b in ((0, 70_000), (70_000, 95_000), (95_000, n)):
        store.add(x[a:b], payload={"number": numbers[a:b]}, threads=1)
    gone = rng.choice(n, 10_000, replace=False)
    store.remove(gone)
    below = max(1, int(selectivity * n))
    there = np.setdiff1d(np.flatnonzero(numbers < below), gone)
    q = vectors(3, 5)
    for k in (1, 10):
        found = store.search(q, k, margin="exact", filter=f"number < {below}", threads=1)
        again = store.search(q, k, margin="exact", filter=pc.field("number") < below, threads=1)
        by_ids = store.search(q, k, margin="exact", filter=there, threads=1)
        if len(there):
            codes = store.get(there)
            away = ((codes[None] - q[:, None]) ** 2).sum(2)
            order = np.argsort(away, axis=1, kind="stable")[:, :k]  # ids ascend with the rows
            width = order.shape[1]
            assert np.array_equal(found.ids[:, :width], there[order])
            assert np.array_equal(found.distances[:, :width], np.take_along_axis(away, order, axis=1))
        assert (found.counts == min(k, len(there))).all()
        for other in (again, by_ids):
            assert np.array_equal(other.ids, found.ids)
            assert np.array_equal(other.distances, found.distances)


def test_answers_to_filters_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, _ = filled(tmp_path / "s", rich=True)
    store.close()
    store = il.open(tmp_path / "s", mode="a")
    counted: list[int] = []
    real = filters._projected

    def projected(expression: Any, table: Any) -> Any:
        counted.append(table.num_rows)
        return real(expression, table)

    monkeypatch.setattr(filters, "_projected", projected)
    before = store.search(np.zeros(4), 5, filter="n < 3")
    assert sum(counted) == store.snapshot.rows.ids.n  # every row once
    counted.clear()
    assert np.array_equal(store.search(np.zeros(4), 5, filter="n < 3").ids, before.ids)
    assert counted == []
    store.upsert(vectors(1), [12345], payload={"n": [1]})  # a new state: only the rows of its log are looked at
    store.search(np.zeros(4), 5, filter="n < 3")
    assert sum(counted) == store.snapshot.rows.tail.n
    counted.clear()
    store.search(np.zeros(4), 5, filter=pc.field("n") < pa.scalar(3))
    assert sum(counted) <= store.snapshot.rows.ids.n


def test_only_named_columns_are_read(tmp_path: Path) -> None:
    store, _ = filled(tmp_path / "s", rich=True)
    store.search(np.zeros(4), 5, filter="n < 3")
    assert [part.payload._validated for part in store.snapshot.rows.parts] == [{"n"}] * len(store.snapshot.rows.parts)


def test_the_last_few_are_kept() -> None:
    kept = FilterCache(2)
    a, b = pc.field("a") < 3, pc.field("b") < 3
    kept.put(a, 1)
    kept.put("a < 3", 2)
    assert (kept.get(pc.field("a") < 3), kept.get("a < 3"), kept.get("b < 3"), kept.get(b)) == (1, 2, None, None)
    assert kept.get(a) == 1
    kept.put(b, 3)
    assert (kept.get(a), kept.get("a < 3"), kept.get(b)) == (1, None, 3)


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(n=st.sampled_from([1, 32_767, 32_769, 100_001]), chunk=st.sampled_from([1000, 50_000, 10**9]))
def test_the_order_of_many_rows_is_kept(n: int, chunk: int) -> None:
    """Arrow goes through a table in batches of its own."""
    numbers = np.random.default_rng(n).integers(0, 1000, n)
    batches = pa.table({"i": numbers}).to_batches(max_chunksize=chunk)
    found = qualifying(pc.field("i") < 100, pa.Table.from_batches(batches))
    assert np.array_equal(found, numbers < 100)


def test_filters_as_before(tmp_path: Path) -> None:
    """Masks and ids, of a store with columns too; what is no filter at all is said to be none."""
    for rich in (False, True):
        store, model = filled(tmp_path / f"{rich}", rich=rich)
        ids = list(model.rows)
        for allowed in (ids[:2], ids[::2], ids):
            expected, _ = model.search(np.zeros(4, np.float32), 5, allowed)
            mask = np.array([i in allowed for i in ids])
            for form in (allowed, np.array(allowed), mask, mask.tolist()):
                found = store.search(np.zeros(4), 5, margin="exact", filter=form)
                assert found.ids.tolist()[: found.counts] == expected
        assert store.search(np.zeros(4), 5, filter=[]).counts == 0
        for wrong, facts in (
            (np.ones((2, 2)), ("1-D",)),
            (3, ("1-D",)),
            ([10**7], ("id 10000000",)),
        ):
            with raises(il.InterlaceError, *facts):
                store.search(np.zeros(4), filter=wrong)


def test_other_searches_take_expressions_too(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    store = il.create(tmp_path / "s", BOOKS, columns={"number": "int64"}, originals="float16", limits=LARGE)
    x = rng.integers(-3, 4, (600, 4)).astype(np.float32)
    store.add(x, payload={"number": np.arange(600)})
    store.remove(np.arange(0, 600, 7))
    text, mask = "number < 300", store.ids < 300
    for expected, found in (
        (store.range_search(x[:4], 9.0, filter=mask), store.range_search(x[:4], 9.0, filter=text)),
        (store.search_by_id([8, 9], 5, filter=mask), store.search_by_id([8, 9], 5, filter=text)),
        (store.search(x[:4], 5, rerank=50, filter=mask), store.search(x[:4], 5, rerank=50, filter=text)),
        (store.search(x[:4], 5, filter=store.allow(mask)), store.search(x[:4], 5, filter=store.allow(text))),
    ):
        assert len(found.ids)
        assert np.array_equal(expected.ids, found.ids)
        assert np.array_equal(expected.distances, found.distances)
    assert "filter" in str(store.explain(x[0], 400, filter=text))
    whole = store.search(x[:4], 8, rerank=100, filter=text)
    later = store.search(x[:4], 5, offset=3, rerank=100, filter=text)
    assert np.array_equal(whole.ids[:, 3:], later.ids)
    single = store.search(x[0], 5, offset=3, rerank=100, filter=text)
    assert (single.counts, single.ids.tolist()) == (5, later.ids[0].tolist())
