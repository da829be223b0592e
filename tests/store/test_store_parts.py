"""The pieces of a store by themselves: tombstones, ids of many segments, rows of the log, which segments are merged."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_helpers import BOOKS, vectors

import interlace as il
from interlace.codec.encode import encode
from interlace.engine.tombstones import FEW, JoinedTombstones, Tombstones
from interlace.index.ids import Ids
from interlace.store import files
from interlace.store import ids as store_ids
from interlace.store.compaction import RATIO, plan
from interlace.store.ids import JoinedIds, joined, of_integers
from interlace.store.tail import Tail

INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)

# --- tombstones


@given(st.integers(0, 70), st.data())
def test_tombstones_are_a_set_of_rows(n: int, data: st.DataObject) -> None:
    expected: set[int] = set()
    made = Tombstones(n)
    for _ in range(3):
        left = sorted(set(range(n)) - expected)
        more = data.draw(st.lists(st.sampled_from(left), unique=True, max_size=9) if left else st.just([]))
        before = made
        made = made.adding(np.array(more, np.int64))
        assert before.count == len(expected)
        expected |= set(more)
        assert made.count == len(expected)
        assert set(np.flatnonzero(~made.kept()).tolist()) == expected
        assert [bool(b) for b in made.has(np.arange(n))] == [i in expected for i in range(n)]
        again = Tombstones.stored(n, made.bits, made.count)
        assert np.array_equal(again.kept(), made.kept())
    grown = made.adding(np.zeros(0, np.int64), n + 9)
    assert (grown.n, grown.count) == (n + 9, made.count)
    assert set(np.flatnonzero(~grown.kept()).tolist()) == expected
    if expected:
        with pytest.raises(il.InputError, match="removed before"):
            made.adding(np.array([min(expected)]))
    with pytest.raises(il.InputError, match="must lie in"):
        made.adding(np.array([n]))
    with pytest.raises(ValueError, match="expected"):
        Tombstones.stored(n, made.bits, made.count + 1)
    with pytest.raises(ValueError, match="bytes of tombstones"):
        Tombstones.stored(n + 8, made.bits, made.count)


def test_a_row_cannot_be_removed_twice_at_once() -> None:
    for rows in ([3, 3], [*range(FEW), 3]):
        with pytest.raises(il.InputError, match="removed before"):
            Tombstones(FEW + 9).adding(np.array(rows))
    with pytest.raises(ValueError, match="bytes of tombstones"):
        Tombstones.stored(3, np.array([8], np.uint8), 1)  # a bit behind the last row


def test_many_tombstones_at_once() -> None:
    rng = np.random.default_rng(0)
    gone = rng.permutation(50_001)
    made = Tombstones(50_001).adding(gone[:7]).adding(gone[7:30_000])
    assert made.count == 30_000
    assert np.array_equal(np.flatnonzero(~made.kept()), np.sort(gone[:30_000]))


@given(st.lists(st.lists(st.booleans(), max_size=20), min_size=1, max_size=5))
def test_tombstones_of_many_segments(dead: list[list[bool]]) -> None:
    parts = [Tombstones(len(d)).adding(np.flatnonzero(d)) for d in dead]
    all_dead = np.array([v for d in dead for v in d], bool)
    made = JoinedTombstones(parts)
    assert (made.n, made.count) == (len(all_dead), int(all_dead.sum()))
    assert np.array_equal(made.kept(), ~all_dead)
    if made.n:
        rows = np.random.default_rng(0).integers(0, made.n, (3, 4))
        assert np.array_equal(made.has(rows), all_dead[rows])


# --- ids


@settings(deadline=None)
@given(st.data(), st.booleans())
def test_ids_of_many_segments(data: st.DataObject, strings: bool) -> None:
    values = data.draw(st.lists(TEXT if strings else INT64, unique=True, max_size=30))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(values)), max_size=3)))
    bounds = [0, *cuts, len(values)]
    chunks = [values[a:b] for a, b in zip(bounds[:-1], bounds[1:], strict=True)]
    dead = [[data.draw(st.booleans()) for _ in chunk] for chunk in chunks]
    parts = []
    for chunk, gone in zip(chunks, dead, strict=True):
        array = np.empty(len(chunk), object) if strings else np.zeros(len(chunk), np.int64)
        array[:] = chunk
        own = (Ids.of(array) if strings else of_integers(array)) if chunk else Ids.default(0)
        parts.append((own, Tombstones(len(chunk)).adding(np.flatnonzero(gone))))
    made = JoinedIds(parts, "string" if strings else "int64")
    flat = [gone for chunk in dead for gone in chunk]
    kept = [v for v, gone in zip(values, flat, strict=True) if not gone]
    assert made.all().tolist() == kept
    assert (made.n, made.n_kept) == (len(values), len(kept))
    asked = np.empty(len(values), object) if strings else np.zeros(len(values), np.int64)
    asked[:] = values
    assert made.find(asked).tolist() == [-1 if gone else row for row, gone in enumerate(flat)]
    assert all((v in kept) == made.contains(v) for v in values)
    rows = np.array([[-1, *range(len(values))]])
    assert made.take(rows).tolist() == [[None if strings else -1, *values]]
    if kept:
        one = joined([(ids, np.flatnonzero(t.kept())) for ids, t in parts if t.count < t.n], made.kind)
        assert one.all().tolist() == kept
        assert one.find(asked).tolist() == [kept.index(v) if v in kept else -1 for v in values]
        arrays = one.sorted_section()
        again = store_ids.stored(store_ids.describe(one), one.n, dict(arrays))
        assert again.all().tolist() == kept


@pytest.mark.parametrize(
    ("values", "kind", "arrays"),
    [
        ([5, 6, 7], "run", set()),
        ([*range(100), *range(200, 300)], "int64", {"run_starts", "run_rows"}),
        ([-2, 0, 7], "int64", {"bases", "starts", "words"}),
        ([7, 5], "int64", {"bases", "starts", "words", "order"}),
        ([2**63 - 1], "run", set()),
        ([-(2**63), 2**63 - 1], "int64", {"values", "order", "sorted"}),
    ],
)
def test_integers_take_the_room_they_need(values: list[int], kind: str, arrays: set[str]) -> None:
    ids = of_integers(np.array(values, np.int64))
    assert set(ids.sorted_section()) == arrays
    assert store_ids.describe(ids)["kind"] == kind
    assert ids.find(np.array([*values, 150, -(2**63), 2**63 - 1])).tolist()[: len(values)] == list(range(len(values)))
    assert ids.find(np.array([150])).tolist() == [-1]


@pytest.mark.parametrize(
    ("description", "match"),
    [
        ({"kind": "run", "first": 2**63}, "a run of 2 ids"),
        ({"kind": "run", "first": 1.0}, "a run of 2 ids"),
        ({"kind": "ascending"}, "ids of kind 'ascending'"),
        ({"kind": "default"}, "ids of kind 'default'"),
        ({"kind": "int64"}, "int64 ids with"),
        ({"kind": [1]}, "unhashable|kind"),
    ],
)
def test_stored_ids_that_do_not_fit(description: dict[str, object], match: str) -> None:
    with pytest.raises((ValueError, TypeError), match=match):
        store_ids.stored(description, 2, {})


# --- rows of the log


def codes(n: int, seed: int) -> np.ndarray:
    return encode(BOOKS, vectors(n, seed), 1)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.integers(1, 70), st.booleans(), st.integers(0, 3)), max_size=8), st.booleans())
def test_a_tail_stays_as_it_is_while_others_grow(steps: list[tuple[int, bool, int]], strings: bool) -> None:
    """Any state may be continued in more than one way, and may be searched before or after its successors."""
    states: list[tuple[Tail, list[object], np.ndarray]] = [(Tail.empty(BOOKS), [], np.empty((0, 2), np.uint8))]
    for number, (n, search, back) in enumerate(steps):
        tail, ids, rows = states[-1 - back % len(states)]
        new = [f"{number} {i % 5}" if strings else i % 5 + 10 * (number % 2) for i in range(n)]
        array = np.empty(n, object) if strings else np.zeros(n, np.int64)
        array[:] = new
        more = codes(n, number)
        if len(ids) and isinstance(ids[0], str) != strings:
            continue
        states.append((tail.adding(array, more), ids + new, np.concatenate([rows, more])))
        if search:
            _check_tail(*states[-1])
    for state in states:
        _check_tail(*state)


def _check_tail(tail: Tail, ids: list[object], rows: np.ndarray) -> None:
    assert tail.n == len(ids)
    assert np.array_equal(tail.codes, rows)
    assert np.array_equal(np.concatenate([rows[:0], *(s.unpack() for s in tail.segments)]), rows)
    assert len(tail.segments) <= 8
    assert tail.ids.all().tolist() == ids
    if ids:
        asked = np.empty(len(ids), object) if isinstance(ids[0], str) else np.zeros(len(ids), np.int64)
        asked[:] = ids
        last = {value: row for row, value in enumerate(ids)}
        assert tail.ids.find(asked).tolist() == [last[v] for v in ids]


# --- which segments are rewritten

SIZES = st.lists(
    st.integers(0, 200).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))), min_size=1, max_size=12
)


@given(SIZES, st.sampled_from([None, 0.0, 0.3, 1.0]), st.booleans(), st.sampled_from([50, 10**9]))
def test_a_plan_keeps_all_rows_in_their_order(
    sizes: list[tuple[int, int]], share: float | None, everything: bool, most: int
) -> None:
    groups = plan(sizes, share, everything=everything, most=most)
    covered = [i for group in groups for i in range(group.first, group.stop)]
    assert covered == sorted(set(covered))
    assert {i for i, (n, dead) in enumerate(sizes) if n > dead} <= set(covered)
    for group in groups:
        kept = sum(n - dead for n, dead in sizes[group.first : group.stop])
        assert group.kept == kept > 0
        if not group.rewritten:
            (n, dead), log = sizes[group.first], len(sizes) - 1
            assert group.stop == group.first + 1 <= log
            assert dead <= (1.0 if share is None else share) * n
            assert not (everything and dead)
        elif group.stop - group.first > 1:
            assert kept <= most or all(n - dead > most for n, dead in sizes[group.first : group.stop] if n > dead)
    for before, after in zip(groups[:-1], groups[1:], strict=True):
        assert before.kept + after.kept > most or (not everything and before.kept >= RATIO * after.kept)
    if everything and sum(n - dead for n, dead in sizes) <= most:
        assert len(groups) <= 1


def test_each_row_is_written_a_few_times_only() -> None:
    """Twenty thousand rows in logs of ten: fewer than log2(2000) + 2 copies of each, and never many segments."""
    parts: list[int] = []
    written = 0
    for _ in range(2000):
        groups = plan([*((n, 0) for n in parts), (10, 0)], 0.3)
        written += sum(group.kept for group in groups if group.rewritten)
        parts = [group.kept for group in groups]
        assert len(parts) <= 12
    assert sum(parts) == 20_000
    assert written <= 13 * 20_000


# --- files


def test_parts_of_a_file_are_gathered_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    parts = [rng.bytes(int(n)) for n in rng.choice([0, 1, 50, 70_000, 30_000], 40)]
    sizes: list[int] = []

    def call(name: str, *arguments: object) -> object:
        if name == "write":
            sizes.append(len(arguments[1]))
        return getattr(os, name)(*arguments)

    monkeypatch.setattr(files, "call", call)
    files.create(str(tmp_path / "f"), [memoryview(p) if i % 2 else p for i, p in enumerate(parts)])
    assert (tmp_path / "f").read_bytes() == b"".join(parts)
    assert len(sizes) < len([p for p in parts if p])
    with pytest.raises(FileExistsError):
        files.create(str(tmp_path / "f"), [b""])
    assert (tmp_path / "f").read_bytes() == b"".join(parts)
