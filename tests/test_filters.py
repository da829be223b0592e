"""Filtered searches: what few allowed rows cost less, they must not answer differently."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from books import LAYOUTS, index_of, random_codebooks, random_codes
from interlace import DamagedFileError, _native
from interlace.margins import Rule, spread_of
from interlace.segments import Segment

RULES = [
    Rule("share", 1.0, 0.0, "exact"),
    Rule("none", 1.0, 0.0, "inf"),
    Rule("share", 0.7, 0.0, "share"),
    Rule("paper", 1.0, 1.5, "paper"),
    Rule("share", 0.8, 0.0, "cells", spread_of(0.5, 1.0), 0.5, 1e6),
]
many = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def searched(index, filters, q, k, rule):
    """Everything but the rows passed over, which depend on how they are stored."""
    rows, distances = np.empty((len(q), k), np.int64), np.empty((len(q), k), np.float32)
    counts, work = np.empty(len(q), np.int64), np.empty((len(q), 4), np.uint64)
    trace = np.empty((2, len(q), k), np.float32)
    native = [s.native for s in index._segments]
    settings = (rule.kind, rule.share, rule.sigma, rule.spread, rule.least, rule.reach)
    _native.search(index.codebooks.native, native, filters, q, *settings, 1, rows, distances, counts, work, trace)
    return [a.tobytes() for a in (rows, distances, counts, work[:, [0, 2]], trace)]


def filters(index, mask, queries):
    bounds = np.cumsum([0, *(s.n_rows for s in index._segments)])
    return [
        _native.Filter(s.native, mask[a:b], queries)
        for s, a, b in zip(index._segments, bounds[:-1], bounds[1:], strict=True)
    ]


@pytest.mark.parametrize("layout", LAYOUTS)
@many
@given(data=st.data())
def test_a_copy_of_the_allowed_rows_is_searched_like_a_mask(simd, layout, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    codebooks = random_codebooks(
        rng,
        layout,
        n_words=data.draw(st.sampled_from([1, 8, 64])),
        metric=data.draw(st.sampled_from(["l2", "ip", "cosine"])),
        integers=data.draw(st.booleans()),
    )
    codes = random_codes(rng, codebooks, data.draw(st.sampled_from([1, 65, 700, 2000])))
    cut = data.draw(st.integers(0, len(codes)))
    index = index_of(codebooks, codes[:cut], codes[cut:])
    share = data.draw(st.sampled_from([0.0, 0.002, 0.02, 0.15]))
    mask = (rng.random(len(codes)) < share).astype(np.uint8) * rng.integers(1, 256, len(codes), dtype=np.uint8)
    copied, marked = filters(index, mask, 10**6), filters(index, mask, 0)
    assert sum(f.n_allowed for f in copied) == (mask > 0).sum()
    for made, segment in zip(copied, index._segments, strict=True):
        assert made.copied == (5 * made.n_allowed <= segment.n_rows) or segment.n_rows < 100
    assert not any(f.copied for f in marked if f.n_allowed)
    q = rng.normal(size=(3, codebooks.dim)).astype(np.float32)
    k = data.draw(st.sampled_from([1, 10, 100]))
    for rule in RULES:
        assert searched(index, copied, q, k, rule) == searched(index, marked, q, k, rule)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), n=st.sampled_from([1, 63, 500, 5000]), n_words=st.sampled_from([1, 2, 16, 256]))
def test_few_rows_are_found_in_their_cells(seed, n, n_words):
    """So few that they are looked for, not decoded; the oracle is their codes."""
    rng = np.random.default_rng(seed)
    codebooks = random_codebooks(rng, "subspace", n_words=n_words)
    codes = random_codes(rng, codebooks, n)
    index = index_of(codebooks, codes)
    for few in {1, int(n // (2 * n_words + 1)), int(n // 5)}:
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


def test_filters_that_do_not_fit():
    rng = np.random.default_rng(3)
    codebooks = random_codebooks(rng)
    index, other = (index_of(codebooks, random_codes(rng, codebooks, 50)) for _ in range(2))
    with pytest.raises(ValueError, match="one entry per row"):
        _native.Filter(index._segments[0].native, np.ones(49, np.uint8), 1)
    q = np.zeros((1, codebooks.dim), np.float32)
    with pytest.raises(ValueError, match="another segment"):
        searched(index, filters(other, np.ones(50, np.uint8), 1), q, 1, RULES[0])
    with pytest.raises(ValueError, match="one filter for each segment"):
        searched(index, filters(index, np.ones(50, np.uint8), 1) * 2, q, 1, RULES[0])


def test_a_filter_keeps_its_segment():
    rng = np.random.default_rng(4)
    codebooks = random_codebooks(rng)
    segment = Segment.pack(random_codes(rng, codebooks, 500), codebooks)
    made = _native.Filter(segment.native, np.ones(500, np.uint8), 1)
    native = segment.native
    del segment
    rows, distances = np.empty((1, 500), np.int64), np.empty((1, 500), np.float32)
    counts, work = np.empty(1, np.int64), np.empty((1, 4), np.uint64)
    settings = ("none", 1.0, 0.0, np.zeros(0, np.float32), 0.0, 0.0, 1)
    q = np.zeros((1, codebooks.dim), np.float32)
    _native.search(codebooks.native, [native], [made], q, *settings, rows, distances, counts, work, None)
    assert sorted(rows[0].tolist()) == list(range(500))


@pytest.mark.parametrize(
    ("name", "value", "share"),
    [("high", 0, 0.001), ("high", 0, 0.05), ("high", 2**64 - 1, 0.05), ("low", 2**64 - 1, 0.05)],
)
def test_damaged_row_numbers_are_named(name, value, share):
    rng = np.random.default_rng(5)
    codebooks = random_codebooks(rng, n_words=4)
    index = index_of(codebooks, random_codes(rng, codebooks, 5000))
    arrays = index._segments[0].arrays
    mask = np.zeros(5000, bool)
    mask[: int(5000 * share)] = True
    index._segments = (Segment({**arrays, name: np.full_like(arrays[name], value)}),)
    with pytest.raises(DamagedFileError, match="row numbers"):
        index.search(np.zeros((300, codebooks.dim), np.float32), filter=mask)
