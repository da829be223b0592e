"""Filtered searches: what few allowed rows cost less, they must not answer differently."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from books import LAYOUTS, index_of, random_codebooks, random_codes, stopping_rule, with_segments
from interlace import DamagedFileError, InputError, _native, reference
from interlace.engine.hits import WORK
from interlace.engine.margins import EVERYTHING, EXACT, Rule
from interlace.engine.segments import Segment

RULES = [
    EXACT,
    EVERYTHING,
    Rule(_native.Rule.with_share(share=0.7), "calibrated", "share"),
    Rule(_native.Rule.paper(sigma=1.5), "paper", "paper"),
    stopping_rule("cells", share=0.8, weight=0.5, stop=1.0, least=0.5, reach=1e6),
]
many = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def searched(index, filters, q, k, rule, traced):
    """Everything but the rows passed over, which depend on how they are stored."""
    rows, distances = np.empty((len(q), k), np.int64), np.empty((len(q), k), np.float32)
    counts, work = np.empty(len(q), np.int64), np.empty((len(q), WORK), np.uint64)
    trace = np.empty((2, len(q), k), np.float32) if traced else None
    native = [s.native for s in index.engine.segments]
    _native.search(index.codebooks.native, native, filters, q, rule.native, 1, rows, distances, counts, work, trace)
    return [a.tobytes() for a in (rows, distances, counts, *((work[:, [0, 2]], trace) if traced else ()))]


def filters(index, mask):
    bounds = np.cumsum([0, *(s.n_rows for s in index.engine.segments)])
    return [
        _native.Filter(index.codebooks.native, s.native, mask[a:b])
        for s, a, b in zip(index.engine.segments, bounds[:-1], bounds[1:], strict=True)
    ]


@pytest.mark.parametrize("layout", LAYOUTS)
@many
@given(data=st.data())
def test_a_copy_of_the_allowed_rows_is_searched_like_an_index_of_them(simd, layout, data):
    """Few rows: looked up one after the other. More: scanned cell by cell. All rules; with and without a trace."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    codebooks = random_codebooks(
        rng,
        layout,
        n_books=data.draw(st.sampled_from([2, 4, 8])),
        n_words=data.draw(st.sampled_from([1, 8, 64])),
        metric=data.draw(st.sampled_from(["l2", "ip", "cosine"])),
        integers=data.draw(st.booleans()),
        scale=(scale := data.draw(st.sampled_from([1e-9, 1.0, 1e8]))),
    )
    codes = random_codes(rng, codebooks, 6000)
    index = index_of(codebooks, codes[:5000], codes[5000:])
    share = data.draw(st.sampled_from([0.0, 0.0005, 0.01, 0.15, 0.24]))
    chosen = np.sort(rng.choice(6000, int(share * 6000), replace=False))
    mask = np.zeros(6000, np.uint8)
    mask[chosen] = rng.integers(1, 256, len(chosen))
    made = filters(index, mask)
    assert sum(f.n_allowed for f in made) == len(chosen)
    assert all(f.copied for f in made)
    cut = int((chosen < 5000).sum())
    alone = index_of(codebooks, codes[chosen[:cut]], codes[chosen[cut:]])
    q = (rng.normal(size=(3, codebooks.dim)) * scale).astype(np.float32)
    k = data.draw(st.sampled_from([1, 10, 100]))
    for rule in (EXACT, EVERYTHING):
        found, expected = np.frombuffer(searched(index, made, q, k, rule, False)[0], np.int64), None
        rows, *others = searched(alone, [], q, k, rule, False)
        expected = np.frombuffer(rows, np.int64)
        assert (found == np.where(expected < 0, -1, chosen[expected] if len(chosen) else -1)).all()
        assert searched(index, made, q, k, rule, False)[1:] == others
    marked = [f for f in filters(index, np.ones(6000, np.uint8)) if f.copied]  # the small one only
    assert len(marked) == 1


@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=3, deadline=None)
@given(data=st.data())
def test_copied_and_marked_rows_are_those_of_the_reference_for_every_rule(layout, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    codebooks = random_codebooks(rng, layout, n_words=8, metric=data.draw(st.sampled_from(["l2", "ip", "cosine"])))
    codes = random_codes(rng, codebooks, 4200)
    index = index_of(codebooks, codes)
    mask = (rng.random(4200) < data.draw(st.sampled_from([0.1, 0.3, 0.9]))).astype(np.uint8)
    [made] = filters(index, mask)
    assert made.copied == (4 * made.n_allowed <= 4200)
    q = rng.normal(size=(1, codebooks.dim)).astype(np.float32)
    for rule in RULES:
        hits, survivors = reference.search(codebooks, codes, q[0], 10, rule, mask.astype(bool))
        rows, distances, counts, work, _ = searched(index, [made], q, 10, rule, True)
        assert np.frombuffer(rows, np.int64)[: len(hits)].tolist() == [h.row for h in hits]
        assert np.frombuffer(distances, np.float32)[: len(hits)].tolist() == [h.distance for h in hits]
        assert np.frombuffer(counts, np.int64)[0] == len(hits)
        assert np.frombuffer(work, np.uint64)[1] == survivors
        assert searched(index, [made], q, 10, rule, False) == [rows, distances, counts]


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), n=st.sampled_from([1, 63, 500, 5000]), n_words=st.sampled_from([1, 2, 16, 256]))
def test_few_rows_are_found_in_their_cells(seed, n, n_words):
    """So few that they are looked for, not decoded; the oracle is their codes."""
    rng = np.random.default_rng(seed)
    codebooks = random_codebooks(rng, "subspace", n_words=n_words)
    codes = random_codes(rng, codebooks, n)
    index = index_of(codebooks, codes)
    for few in {1, n // (12 * n_words + 1), n // 20, n // 5}:
        chosen = np.sort(rng.choice(n, max(1, min(few, n)), replace=False))
        mask = np.zeros(n, bool)
        mask[chosen] = True
        found = index.search(np.zeros(codebooks.dim), len(chosen), filter=mask, margin=math.inf, threads=1)
        assert sorted(found.ids.tolist()) == chosen.tolist()
        alone = index_of(codebooks, codes[chosen]).search(
            np.zeros(codebooks.dim), len(chosen), margin=math.inf, threads=1
        )
        assert found.distances.tobytes() == alone.distances.tobytes()
        assert chosen[alone.ids].tolist() == found.ids.tolist()


@pytest.mark.parametrize("selectivity", [1e-4, 1e-3, 1e-2, 0.1, 0.5])
@pytest.mark.parametrize("n_queries", [1, 40])
def test_as_many_as_asked_for_at_a_cost_that_falls(selectivity, n_queries):
    rng = np.random.default_rng(9)
    codebooks = random_codebooks(rng, "hybrid", dim=16, n_books=6, n_words=64, n_crude=3)
    codes = random_codes(rng, codebooks, 30_000)
    index = index_of(codebooks, codes[:25_000], codes[25_000:])
    mask = rng.random(30_000) < selectivity
    mask[[7, 29_999]] = True
    q = rng.normal(size=(n_queries, 16)).astype(np.float32)
    found = index.search(q, 10, margin="exact", filter=mask, threads=1)
    alone = index_of(codebooks, codes[mask]).search(q, 10, margin="exact", threads=1)
    rows = np.flatnonzero(mask)
    assert np.array_equal(found.ids, np.where(alone.ids < 0, -1, rows[alone.ids]))
    assert np.array_equal(found.distances, alone.distances)
    assert (found.counts == min(10, mask.sum())).all()
    assert found.stats.scanned <= n_queries * mask.sum()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_few_rows_are_looked_up_whichever_segments_have_them(layout):
    """All of them are compared, in one pass, and that is what the stats say; more are scanned in two steps."""
    rng = np.random.default_rng(2)
    codebooks = random_codebooks(rng, layout, n_words=64)
    index = index_of(codebooks, *(random_codes(rng, codebooks, n) for n in (5000, 6000, 30)))
    q = rng.normal(size=(3, codebooks.dim)).astype(np.float32)
    for rows in (range(7), range(5990, 6010), range(100, 11_030, 50)):
        stats = index.search(q, 5, margin="exact", filter=np.array(rows), threads=1).stats
        assert stats.scanned == stats.survivors == 3 * len(rows)
    stats = index.search(q, 5, margin="exact", filter=np.arange(9000), threads=1).stats
    assert stats.survivors < stats.scanned


def test_filters_that_do_not_fit():
    rng = np.random.default_rng(3)
    codebooks = random_codebooks(rng)
    index, other = (index_of(codebooks, random_codes(rng, codebooks, 50)) for _ in range(2))
    with pytest.raises(ValueError, match="one entry per row"):
        _native.Filter(codebooks.native, index.engine.segments[0].native, np.ones(49, np.uint8))
    with pytest.raises(ValueError, match="does not fit the books"):
        _native.Filter(random_codebooks(rng, n_books=3).native, index.engine.segments[0].native, np.ones(50, np.uint8))
    q = np.zeros((1, codebooks.dim), np.float32)
    with pytest.raises(ValueError, match="another segment"):
        searched(index, filters(other, np.ones(50, np.uint8)), q, 1, EXACT, False)
    with pytest.raises(ValueError, match="one filter for each segment"):
        searched(index, filters(index, np.ones(50, np.uint8)) * 2, q, 1, EXACT, False)


@pytest.mark.parametrize("n", [500, 5000])
def test_a_filter_keeps_its_segment(n):
    rng = np.random.default_rng(4)
    codebooks = random_codebooks(rng)
    index = index_of(codebooks, random_codes(rng, codebooks, n))
    made = filters(index, np.ones(n, np.uint8))
    expected = index.search(np.zeros(codebooks.dim), 10, margin="exact").ids
    natives = [s.native for s in index.engine.segments]
    index = with_segments(index, ())
    del natives[:]
    index = index_of(codebooks, random_codes(np.random.default_rng(4), codebooks, n))
    assert len(expected) == 10
    assert made[0].n_allowed == n
    with pytest.raises(ValueError, match="another segment"):  # the old one is still there, and not taken for the new
        searched(index, made, np.zeros((1, codebooks.dim), np.float32), 1, EXACT, False)


@pytest.mark.parametrize("by", ["mask", "ids"])
def test_a_filter_made_ready_serves_many_calls(by):
    rng = np.random.default_rng(6)
    codebooks = random_codebooks(rng)
    index = index_of(codebooks, random_codes(rng, codebooks, 6000))
    mask = rng.random(6000) < 0.02
    given = mask if by == "mask" else np.flatnonzero(mask)
    ready = index.allow(given)
    assert len(ready) == mask.sum()
    assert repr(ready) == f"Allowed({mask.sum()} of 6000 rows)"
    assert index.allow(ready) is ready
    q = rng.normal(size=(5, codebooks.dim)).astype(np.float32)
    for margin in ("exact", 0.99, math.inf, "paper"):
        found, expected = (index.search(q, 10, margin=margin, filter=f) for f in (ready, given))
        assert np.array_equal(found.ids, expected.ids)
        assert found.stats.margin == expected.stats.margin
    assert np.array_equal(index.range_search(q, 5.0, filter=ready).ids, index.range_search(q, 5.0, filter=given).ids)
    assert np.array_equal(index.search_by_id([1, 2], filter=ready).ids, index.search_by_id([1, 2], filter=given).ids)
    assert [ready.has(row) for row in range(6000)] == mask.tolist()
    row = int(np.flatnonzero(~mask)[0])
    assert index.explain(q[0], row, filter=ready) == index.explain(q[0], row, filter=given)
    mask[:] = True  # it has a copy
    assert len(index.search(q[0], 200, margin=math.inf, filter=ready)) == 200
    assert index.search(q[0], 200, margin=math.inf, filter=ready).counts == len(ready)
    index.add(np.zeros((1, codebooks.dim)))
    with pytest.raises(InputError, match=r"call allow\(\) again"):
        index.search(q, filter=ready)


def test_a_filter_of_a_store_is_for_its_rows_of_now(tmp_path):
    rng = np.random.default_rng(7)
    codebooks = random_codebooks(rng)
    store = index_of(codebooks, random_codes(rng, codebooks, 300)).to_store(tmp_path / "s")
    store.remove([3, 4])
    ready = store.allow([1, 2, 5])
    q = np.zeros(codebooks.dim)
    assert sorted(store.search(q, 3, filter=ready).ids.tolist()) == [1, 2, 5]
    before = store.snapshot
    store.remove([5])
    with pytest.raises(InputError, match=r"call allow\(\) again"):
        store.search(q, 3, filter=ready)
    assert sorted(before.search(q, 3, filter=ready).ids.tolist()) == [1, 2, 5]


@pytest.mark.parametrize(
    ("name", "value", "share"),
    [("high", 0, 0.001), ("high", 0, 0.05), ("high", 2**64 - 1, 0.05), ("low", 2**64 - 1, 0.05)],
)
def test_damaged_row_numbers_are_named(name, value, share):
    rng = np.random.default_rng(5)
    codebooks = random_codebooks(rng, n_words=4)
    index = index_of(codebooks, random_codes(rng, codebooks, 5000))
    arrays = index.engine.segments[0].arrays
    mask = np.zeros(5000, bool)
    mask[: int(5000 * share)] = True
    index = with_segments(index, (Segment({**arrays, name: np.full_like(arrays[name], value)}),))
    with pytest.raises(DamagedFileError, match="row numbers"):
        index.search(np.zeros((300, codebooks.dim), np.float32), filter=mask)
