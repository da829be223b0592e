"""Search with an offset, by id, and why a row was not found: for an index, and for a store."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import interlace as il
from books import LAYOUTS, index_of, index_with, random_codebooks, random_codes, stopping_rule
from helpers import ID_KINDS, METRICS, build, clustered, ids_of, small_index
from interlace import _native, reference
from interlace.engine import margins
from interlace.engine.explaining import explain_row
from interlace.engine.margins import EVERYTHING, EXACT, Rule
from interlace.store import Limits
from raising import raises

NEVER = Limits(removed_share=None)


def store_of(folder: Path, index: il.Index, *, remove: int = 0) -> il.Store:
    """A store of the same rows in several pieces, some of its rows removed."""
    store = il.create(folder, index, limits=NEVER)
    if remove:
        store.remove(store.ids[:: max(1, len(store) // remove)])
    return store


# -------------------------------------------------------------------------------------------------------------- offset


@settings(max_examples=40, deadline=None)
@given(
    k=st.integers(1, 30),
    offset=st.integers(0, 70),
    margin=st.sampled_from(["exact", math.inf, 0.99, "paper"]),
    filtered=st.booleans(),
)
def test_an_offset_leaves_the_first_hits_out(k: int, offset: int, margin: Any, filtered: bool) -> None:
    index = small_index(n=60)
    q = clustered(5, 4, seed=7)
    how: dict[str, Any] = {"margin": margin, "threads": 1, "filter": np.arange(0, 60, 2) if filtered else None}
    found, whole = index.search(q, k, offset=offset, **how), index.search(q, k + offset, **how)
    assert np.array_equal(found.ids, whole.ids[:, offset:])
    assert np.array_equal(found.distances, whole.distances[:, offset:])
    assert found.counts.tolist() == np.maximum(whole.counts - offset, 0).tolist()
    assert found.stats.margin == whole.stats.margin
    one = index.search(q[2], k, offset=offset, **how)
    assert np.array_equal(one.ids, found.ids[2])
    assert one.counts == found.counts[2]


def test_an_offset_of_a_store(tmp_path: Path) -> None:
    store = store_of(tmp_path / "s", build(200, 6, ids="string"), remove=60)
    q = clustered(3, 6, seed=9)
    whole = store.search(q, 40, margin="exact")
    for holder in (store, store.snapshot):
        page = holder.search(q, 10, offset=30, margin="exact")
        assert np.array_equal(page.ids, whole.ids[:, 30:])
    end = store.search(q, 5, offset=10**6, margin="exact")
    assert end.ids.tolist() == [[None] * 5] * 3
    assert end.counts.tolist() == [0, 0, 0]


def test_bad_offsets() -> None:
    index = small_index()
    for offset in (-1, 1.5, True, "2", None):
        with raises(il.InputError, "offset", 0):
            index.search(np.zeros(4), 2, offset=offset)
    with pytest.raises(il.InputError, match=r"\(k=10 \+ offset=9223372036854775807\)"):
        index.search(np.zeros((2, 4)), 10, offset=2**63 - 1)


# --------------------------------------------------------------------------------------------------------------- by id


@pytest.mark.parametrize("kind", ID_KINDS)
@pytest.mark.parametrize("metric", METRICS)
def test_neighbours_of_rows_that_are_here(tmp_path: Path, kind: str, metric: str) -> None:
    index = build(120, 6, ids=kind, metric=metric)
    store = store_of(tmp_path / "s", index, remove=30)
    for holder, vectors in ((index, index.reconstruct), (store, store.get)):
        some = holder.ids[[3, 40, 3, 77]]
        for offset in (0, 4):
            found = holder.search_by_id(some, 7, offset=offset, margin="exact", threads=1)
            whole = holder.search(vectors(some), len(holder), margin="exact", threads=1)
            for i, own in enumerate(some):
                others = [(v, d) for v, d in zip(whole.ids[i], whole.distances[i], strict=True) if v != own]
                expected = others[offset : offset + 7]
                assert found.ids[i].tolist() == [v for v, _ in expected]
                assert found.distances[i].tolist() == [d for _, d in expected]
                assert found.counts[i] == len(expected)
        itself = holder.search_by_id(some, 7, exclude_self=False, margin="exact", threads=1)
        assert np.array_equal(itself.ids, whole.ids[:, :7])
        one = holder.search_by_id(some.tolist()[1], 7, margin="exact", threads=1)
        assert one.ids.shape == (7,)
        assert one.ids.tolist() == holder.search_by_id(some, 7, margin="exact").ids[1].tolist()
        assert holder.search_by_id(some[:0], 3).ids.shape == (0, 3)


def test_twins_are_neighbours_and_few_rows_are_padded() -> None:
    codebooks = small_index().codebooks
    index = il.Index.from_codes(codebooks, np.zeros((5, codebooks.n_bytes), np.uint8), list("abcde"))
    found = index.search_by_id(["d", "a"], 3)
    assert found.ids.tolist() == [["a", "b", "c"], ["b", "c", "d"]]  # d itself is not among the first three
    many = index.search_by_id("c", 9)
    assert many.ids.tolist() == ["a", "b", "d", "e", None, None, None, None, None]
    assert many.counts == 4
    assert index.search_by_id("c", 9, filter=["a", "c"]).ids.tolist()[:2] == ["a", None]


@pytest.mark.parametrize("dim", [8, 13, 32])
def test_neighbours_do_not_depend_on_the_other_ids(dim: int) -> None:
    """Vectors are decoded one by one: products of matrices of other sizes round differently."""
    index = il.Index.build(clustered(300, dim), n_bytes=4, n_words=16, layout="subspace", iterations=1, threads=1)
    assert index.codebooks.rotation is not None
    vectors = index.reconstruct(index.ids)
    for i in range(20):
        assert index.reconstruct(i).tolist() == vectors[i].tolist()
        for n in (2, 3, 7):
            assert index.reconstruct(list(range(i, i + n)))[0].tolist() == vectors[i].tolist()
    together = index.search_by_id(index.ids, 5)
    for i in range(20):
        alone = index.search_by_id(i, 5)
        assert alone.ids.tolist() == together.ids[i].tolist()
        assert alone.distances.tolist() == together.distances[i].tolist()


def test_bad_ids() -> None:
    index = small_index()
    with raises(il.UnknownIdError, "id 99"):
        index.search_by_id([1, 99])
    with raises(il.InputError, "exclude_self", 1):
        index.search_by_id(1, exclude_self=1)
    with raises(il.InputError, "k", "integer"):
        index.search_by_id(1, 0)


# ------------------------------------------------------------------------------------------------------------- explain


@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_explanations_are_true(layout: str, data: Any) -> None:
    """Every row of a small index: what the search returned was found, and everything else is lost for a reason."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    metric = data.draw(st.sampled_from(METRICS))
    codebooks = random_codebooks(rng, layout, n_words=8, metric=metric, integers=data.draw(st.booleans()))
    codes = random_codes(rng, codebooks, 90)
    cut = data.draw(st.sampled_from([0, 30]))
    index = index_of(codebooks, codes[:cut], codes[cut:])
    q = rng.normal(size=(1, codebooks.dim)).astype(np.float32)
    rule = data.draw(
        st.sampled_from(
            [
                EXACT,
                Rule(_native.Rule.with_share(share=0.5), "calibrated", "share"),
                EVERYTHING,
                Rule(_native.Rule.paper(sigma=0.1), "paper", "paper"),
                stopping_rule("cells", share=0.4, weight=0.5, stop=0.7, least=0.5, reach=1e6),
            ]
        )
    )
    k = data.draw(st.sampled_from([1, 5, 20]))
    allowed = rng.random(90) < 0.6 if data.draw(st.booleans()) else None
    hits, survivors = reference.search(codebooks, codes, q[0], k, rule, allowed, (cut,))
    everything, _ = reference.search(codebooks, codes, q[0], 90, EVERYTHING, allowed, (cut,))
    ranks = {hit.row: rank for rank, hit in enumerate(everything, 1)}
    by_row = {hit.row: hit for hit in everything}

    def shown(computed: np.float32) -> np.float32:
        return np.float32(codebooks.metric_type.reported(float(computed)))

    compared = 0
    for row in range(90):
        mask = None if allowed is None else index.engine.allow(allowed.view(np.uint8))
        told = explain_row(index.engine, q, row, k, lambda filtered: rule, mask)
        if allowed is not None and not allowed[row]:
            assert told.lost == "filter"
            continue
        found = row in [hit.row for hit in hits]
        assert (told.lost == "found") == found
        assert told.rank == ranks[row]
        assert told.distance == shown(by_row[row].distance)
        assert np.float32(told.crude) == shown(by_row[row].crude)
        assert np.float32(told.floor) == shown(by_row[row].floor)
        assert told.cell == codes[row, 0]
        assert told.kth_distance == (shown(everything[k - 1].distance) if k <= len(everything) else math.inf)
        assert (told.lost == "beyond k") == (told.rank > k and not found)
        passed = told.visited and not told.value > told.limit
        compared += passed
        if told.rank <= k and not found:
            assert told.value > told.limit
            assert told.by == pytest.approx(told.value - told.limit, abs=1e-5)
            assert told.lost in ("cell not visited", "cell passed over", "crude step")
            assert told.visited == (told.lost == "crude step")
        assert told.verdict in str(told)
    assert compared == survivors


def lost_index() -> tuple[il.Index, np.ndarray]:
    """Calibrated so tightly that hits are lost, both to cells and to rows."""
    rng = np.random.default_rng(5)
    codebooks = random_codebooks(rng, "hybrid", n_words=16, n_books=4, n_crude=2)
    index = index_of(codebooks, random_codes(rng, codebooks, 400))
    shape = (len(margins.KS), len(margins.TARGETS))
    cells = np.tile(np.float32([0.5, 1.2]), (*shape, 1))
    slacks, farthest = np.full(shape, -np.inf, np.float32), np.full(len(margins.KS), np.inf, np.float32)
    shares = np.full(shape, 0.3, np.float32)
    strays = np.ones(shape, np.float32)
    made = margins.Calibration(400, shares, cells, slacks, strays, farthest, 0.5, 1e6, 5000)
    index = index_with(codebooks, index.engine.segments, index.ids_of_rows, made)
    return index, rng.normal(size=(40, codebooks.dim)).astype(np.float32)


def explained(holder: Any, queries: np.ndarray, **how: Any) -> dict[str, tuple[Any, np.ndarray]]:
    """One explanation of each kind, over the true neighbours of some queries."""
    seen: dict[str, tuple[Any, np.ndarray]] = {}
    for q in queries:
        for value in holder.search(q, 12, margin="exact", threads=1).ids.tolist():
            told = holder.explain(q, value, 10, **how)
            seen.setdefault(told.lost, (told, q))
    return seen


def test_each_way_to_be_lost(tmp_path: Path) -> None:
    index, queries = lost_index()
    seen = explained(index, queries)
    assert set(seen) >= {"found", "beyond k", "cell not visited", "crude step"}
    told, q = seen["found"]
    assert str(told).startswith(f"id {told.id}, k = 10, margin 0.999 (share 0.3000, cells 0.5/1.200): not lost: rank ")
    assert told.id in index.search(q, 10).ids
    assert told.by == 0
    told, q = seen["beyond k"]
    assert told.verdict.startswith(f"beyond k: rank {told.rank} by code, farther than the k-th row by ")
    assert 10 < told.rank <= 12
    assert told.by == pytest.approx(told.distance - told.kth_distance)
    assert f"rank {told.rank} of the exhaustive scan; the 10th has {told.kth_distance:.6g}" in str(told)
    told, q = seen["cell not visited"]
    assert told.verdict.startswith(f"cell {told.cell} was not visited: its base is {told.value:.6g} above the smallest")
    assert not told.visited
    assert told.id not in index.search(q, 10).ids
    assert told.id in index.search(q, 10, margin="exact").ids
    told, q = seen["crude step"]
    assert told.verdict.startswith(f"ruled out by the crude step: crude distance {told.crude:.6g} is above the limit ")
    assert f"crude distance {told.crude:.6g}, limit {told.limit:.6g} when the row was compared" in str(told)
    assert told.id not in index.search(q, 10).ids

    told = index.explain(queries[0], 7, filter=np.arange(100, 200))
    assert (told.lost, told.verdict) == ("filter", "left out by the filter")
    assert told.margin == "exact (0.999 has no rule for filters)"
    nearer = index.range_search(queries[0], told.distance, filter=np.arange(100, 200))
    assert told.rank == 1 + nearer.counts[0]

    store = store_of(tmp_path / "s", index)
    store.remove([7])
    assert store.explain(queries[0], 7).verdict == "removed"
    assert str(store.explain(queries[0], 7, filter=[1, 2])).splitlines()[0].endswith(": removed")
    store.upsert(np.zeros(index.dim), 7)
    assert store.explain(queries[0], 7).lost != "removed"
    store.remove([9])
    store.compact()
    with raises(il.UnknownIdError, "id 9"):
        store.explain(queries[0], 9)


def test_a_cell_that_is_passed_over() -> None:
    """The paper's rule may leave a cell whose rows are near by their whole codes."""
    rng = np.random.default_rng(0)
    for seed in range(30):
        codebooks = random_codebooks(np.random.default_rng(seed), "hybrid", n_words=16, n_crude=1)
        index = index_of(codebooks, random_codes(rng, codebooks, 300))
        object.__setattr__(codebooks, "residual_variance", 0.01)
        seen = explained(index, rng.normal(size=(5, codebooks.dim)).astype(np.float32), margin="paper")
        if "cell passed over" in seen:
            told, q = seen["cell passed over"]
            assert told.verdict.startswith(f"cell {told.cell} was passed over: no crude distance in it is below ")
            assert told.id not in index.search(q, 10, margin="paper").ids
            return
    raise AssertionError("no cell was passed over")


@pytest.mark.parametrize("removed", [0, 5, 150, 390])
@pytest.mark.filterwarnings("ignore::interlace.errors.CalibrationWarning")  # few of its 400 rows are left
def test_explanations_of_a_store_with_removed_rows(tmp_path: Path, removed: int) -> None:
    """More hits are asked for, or there is a mask: what is explained is what search does."""
    index, queries = lost_index()
    store = store_of(tmp_path / "s", index, remove=removed)
    for q in queries[:10]:
        answer = store.search(q, 10, threads=1).ids.tolist()
        exact = store.search(q, 30, margin="exact", threads=1).ids.tolist()
        for rank, value in enumerate(exact, 1):
            if value == -1:
                break
            told = store.snapshot.explain(q, value)
            assert told.rank == rank
            assert (told.lost == "found") == (value in answer)


def test_explain_with_string_ids_and_an_embedding() -> None:
    from interlace.codec.embedding import Linear

    rng = np.random.default_rng(2)
    embedding = Linear(rng.normal(size=(4, 7)), rng.normal(size=4))
    index = il.Index(small_index().codebooks, embedding)
    raw = rng.normal(size=(30, 7)).astype(np.float32)
    index.add(raw, ids_of("string", 30))
    value = index.search(raw[0], 3).ids[2]
    told = index.explain(raw[0], value, 3)
    assert (told.id, told.rank, told.lost) == (value, 3, "found")
    assert index.explain(embedding(raw[:1]), value, 3, embedded=True) == told
    assert f"id {value!r}, k = 3" in str(told)
    with pytest.raises(dataclasses.FrozenInstanceError):
        told.rank = 1  # type: ignore[misc]


def test_bad_input_of_explain() -> None:
    index = small_index()
    for call, facts in (
        (lambda: index.explain(np.zeros((2, 4)), 1), ("explain", 2)),
        (lambda: index.explain(np.zeros(4), [1]), ("id must be an integer or a string",)),
        (lambda: index.explain(np.zeros(4), True), ("id must be an integer or a string",)),
        (lambda: index.explain(np.zeros(4), 1, 0), ("k", "integer")),
        (lambda: index.explain(np.zeros(4), 1, margin=2), ("margin",)),
        (lambda: index.explain(np.zeros(4), 1, filter=np.ones(3, bool)), (9,)),
    ):
        with raises(il.InputError, *facts):
            call()
    with raises(il.UnknownIdError, "id 99"):
        index.explain(np.zeros(4), 99)
    assert str(index.explain(np.zeros((1, 4)), 1, 9)).startswith("id 1, k = 9, margin exact")
