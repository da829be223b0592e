"""The native search against the NumPy reference, and the properties that make it trustworthy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from books import LAYOUTS, index_of, random_codebooks, random_codes, stopping_rule
from interlace import Codebooks, Norm, _native, reference
from interlace.engine.hits import RowHits
from interlace.engine.margins import EVERYTHING, EXACT, Rule
from interlace.engine.scan import search_rows
from interlace.errors import DamagedFileError

SIZES = [0, 1, 2, 7, 8, 63, 64, 65, 127, 128, 129, 300]
RULES = [
    EXACT,
    EVERYTHING,
    Rule(_native.Rule.with_share(share=0.6), "calibrated", "share"),
    Rule(_native.Rule.with_share(share=0.9), "calibrated", "share"),
    Rule(_native.Rule.paper(sigma=1.5), "paper", "paper"),
    stopping_rule("cells by rank", share=0.8, weight=0.0, stop=1.2, least=0.5, reach=1e6),
    stopping_rule("cells by gap", share=1.0, weight=2.0, stop=1.5, least=0.5, reach=1e6),
    stopping_rule("near queries only", share=0.7, weight=0.5, stop=1.0, least=0.5, reach=3.0),  # some queries are far
    stopping_rule("outer queries only", share=0.7, weight=0.5, stop=1.0, least=0.5, reach=1e6, inner=9.0),
]
many = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def native_search(index, queries, k, rule, threads=1, mask=None, trace=False):
    n_rows = index.engine.n_rows
    traced = np.empty((2, len(queries), max(1, min(k, n_rows))), np.float32) if trace else None
    filters = () if mask is None else index.engine.allow(mask).filters
    found = search_rows(index.codebooks, index.engine.segments, queries, k, rule, threads, filters, traced)
    return (*found, traced) if trace else found


def bits(values):
    return np.array(values, np.float32).tobytes()


def assert_equals_reference(index, codes, queries, k, rule, mask=None, cut=0):
    rows, distances, counts, work, (excess, floors) = native_search(index, queries, k, rule, mask=mask, trace=True)
    for i, q in enumerate(queries):
        hits, survivors = reference.search(
            index.codebooks, codes, q, k, rule, None if mask is None else mask.astype(bool), (cut,)
        )
        n = len(hits)
        assert counts[i] == n
        assert rows[i, :n].tolist() == [h.row for h in hits]
        assert distances[i, :n].tobytes() == bits([h.distance for h in hits])
        assert excess[i, :n].tobytes() == bits([h.crude - h.crude_floor for h in hits])
        assert floors[i, :n].tobytes() == bits([h.floor for h in hits])
        assert (rows[i, n:] == -1).all()
        assert np.isinf(distances[i, n:]).all()
        assert work[i, 2] == survivors


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("rule", RULES, ids=lambda r: f"{r.label}{r.native.share}")
@many
@given(data=st.data())
def test_equals_the_reference_to_the_last_bit(simd, layout, rule, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    n_books = data.draw(st.integers(1, 6))
    codebooks = random_codebooks(
        rng,
        layout,
        dim=data.draw(st.integers(n_books, 20)),
        n_books=n_books,
        n_words=data.draw(st.sampled_from([1, 3, 16, 256])),
        n_crude=data.draw(st.integers(1, n_books)),
        metric=data.draw(st.sampled_from(["l2", "ip", "cosine"])),
        integers=data.draw(st.booleans()),
        scale=(scale := data.draw(st.sampled_from([1e-9, 1.0, 1.0, 1e8]))),
    )
    codes = random_codes(rng, codebooks, data.draw(st.sampled_from(SIZES)))
    cut = data.draw(st.integers(0, len(codes)))
    index = index_of(codebooks, codes[:cut], codes[cut:])
    far = data.draw(st.sampled_from([0.01, 1.0, 30.0]))
    queries = (rng.normal(size=(2, codebooks.dim)) * scale * far).astype(np.float32)
    mask = (rng.random(len(codes)) < 0.3).astype(np.uint8) if data.draw(st.booleans()) else None
    k = data.draw(st.sampled_from([1, 2, 10, 100]))
    assert_equals_reference(index, codes, queries, k, rule, mask, cut)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_exact_equals_exhaustive_on_a_larger_index(simd, layout):
    rng = np.random.default_rng(1)
    codebooks = random_codebooks(rng, layout, dim=32, n_books=8, n_words=256, n_crude=5)
    index = index_of(codebooks, random_codes(rng, codebooks, 12_000), random_codes(rng, codebooks, 3_001))
    queries = rng.normal(size=(20, 32)).astype(np.float32)
    for k in (1, 10, 100):
        exact, all_rows = native_search(index, queries, k, EXACT), native_search(index, queries, k, EVERYTHING)
        assert exact[0].tobytes() == all_rows[0].tobytes()
        assert exact[1].tobytes() == all_rows[1].tobytes()
        assert exact[3][:, 3].sum() < all_rows[3][:, 3].sum()  # and it did less work


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_level_gives_the_same_bits(layout):
    rng = np.random.default_rng(2)
    codebooks = random_codebooks(rng, layout, dim=24, n_books=6, n_words=200, n_crude=4)
    index = index_of(codebooks, random_codes(rng, codebooks, 5_000))
    queries = rng.normal(size=(9, 24)).astype(np.float32)
    before = _native.simd_level()
    answers = []
    for level in _native.simd_levels():
        _native.force_simd_level(level)
        answers.append([b"".join(a.tobytes() for a in native_search(index, queries, 10, rule)) for rule in RULES])
    _native.force_simd_level(before)
    assert len(answers) >= 2
    assert all(answer == answers[0] for answer in answers)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("rule", RULES, ids=lambda r: f"{r.label}{r.native.share}")
def test_same_answer_for_any_batch_and_threads(layout, rule):
    rng = np.random.default_rng(3)
    codebooks = random_codebooks(rng, layout, dim=16, n_books=5, n_words=64, n_crude=3)
    index = index_of(codebooks, random_codes(rng, codebooks, 2_000), random_codes(rng, codebooks, 100))
    queries = rng.normal(size=(37, 16)).astype(np.float32)
    whole = native_search(index, queries, 10, rule)
    for threads in (2, 3, 8):
        again = native_search(index, queries, 10, rule, threads=threads)
        assert all(a.tobytes() == b.tobytes() for a, b in zip(whole, again, strict=True))
    for batch in (1, 3, 5, 36):
        parts = [native_search(index, queries[i : i + batch], 10, rule) for i in range(0, 37, batch)]
        assert all(
            np.concatenate(a).tobytes() == b.tobytes() for a, b in zip(zip(*parts, strict=True), whole, strict=True)
        )


@many
@given(seed=st.integers(0, 2**32), k=st.integers(1, 40), layout=st.sampled_from(LAYOUTS))
def test_top_k_is_a_prefix_of_top_2k(seed, k, layout):
    rng = np.random.default_rng(seed)
    codebooks = random_codebooks(rng, layout, integers=bool(rng.integers(2)))
    index = index_of(codebooks, random_codes(rng, codebooks, 150))
    queries = rng.normal(size=(3, codebooks.dim)).astype(np.float32)
    short, long = native_search(index, queries, k, EXACT), native_search(index, queries, 2 * k, EXACT)
    assert (short[0] == long[0][:, :k]).all()
    assert short[1].tobytes() == np.ascontiguousarray(long[1][:, :k]).tobytes()


@pytest.mark.parametrize("metric", ["l2", "ip", "cosine"])
@pytest.mark.parametrize("layout", ["subspace", "hybrid", "additive"])
def test_distances_are_those_to_the_decoded_vectors(layout, metric):
    rng = np.random.default_rng(4)
    codebooks = random_codebooks(rng, layout, dim=16, n_books=5, n_words=64, metric=metric)
    codes = random_codes(rng, codebooks, 200)
    index = index_of(codebooks, codes)
    q = rng.normal(size=(1, 16)).astype(np.float32)
    rows, distances, _, _ = native_search(index, q, 200, EXACT)
    expected = reference.distance_to_decoded(codebooks, codes, q[0])
    steps = 0.0  # half a step of the int16 cell terms per column
    if metric != "ip":
        steps = len(codebooks.columns) * reference.cell_terms(codebooks).step / 2
        # Words are rounded by half a step per dimension, and the square of their sum is as long as all of them.
        lengths = sum(np.sqrt(reference.squares(book).max()) for book in codebooks.books[1:])
        unit = np.sqrt(reference.dense_words(codebooks).unit)
        steps += 2 * lengths * len(codebooks.columns) * np.sqrt(16) * unit / 2
        assert steps < 0.2
        assert np.median(np.abs(distances[0] - expected[rows[0]])) < 0.005
    assert np.allclose(distances[0], expected[rows[0]], rtol=1e-6, atol=steps + 1e-4)
    assert np.allclose(np.sort(expected), expected[rows[0]], atol=2 * steps + 1e-3)


def test_a_constant_stands_for_all_cross_terms():
    rng = np.random.default_rng(12)
    additive = random_codebooks(rng, "additive", dim=8, n_books=4, n_words=8)
    settings = {"dim": 8, "n_crude": 2, "mean": additive.mean, "rotation": additive.rotation}
    constant = Codebooks(additive.books, norms=[Norm([1.25], (1, 2, 3))], **settings)
    assert constant.columns == additive.columns
    codes = random_codes(rng, additive, 100)
    q = rng.normal(size=(1, 8)).astype(np.float32)
    found = [native_search(index_of(books, codes), q, 100, EXACT) for books in (additive, constant)]
    exact, held = ({row: d for row, d in zip(rows[0], distances[0], strict=True)} for rows, distances, *_ in found)
    one, two, three = (additive.books[b].words[codes[:, b]] for b in (1, 2, 3))
    cross = 2 * (one * two + (one + two) * three).sum(1)
    gap = [exact[row] - held[row] - (cross[row] - 1.25) for row in range(100)]
    assert np.abs(gap).max() < 1e-2
    assert np.ptp(cross) > 1


def test_residual_distances_differ_by_the_rounding_of_the_norm_only():
    rng = np.random.default_rng(5)
    codebooks = random_codebooks(rng, "residual", dim=16, n_books=5, n_words=64, beam=4)
    x = rng.normal(size=(300, 16)).astype(np.float32)
    codes = reference.encode(codebooks, x[:60])
    index = index_of(codebooks, codes)
    q = rng.normal(size=(1, 16)).astype(np.float32)
    rows, distances, _, _ = native_search(index, q, 60, EXACT)
    gap = np.abs(distances[0] - reference.distance_to_decoded(codebooks, codes, q[0])[rows[0]])
    values = codebooks.norms[0].values
    assert gap.max() <= max(np.diff(values).max(), np.abs(values).max()) + 30  # codes beyond the last value clip


def test_ties_go_to_the_earlier_row_across_cells_and_segments():
    rng = np.random.default_rng(6)
    codebooks = random_codebooks(rng, "subspace", dim=4, n_books=2, n_words=2, n_crude=1, integers=True)
    codes = random_codes(rng, codebooks, 500)
    index = index_of(codebooks, codes[:200], codes[200:210], codes[210:])
    rows, distances, _, _ = native_search(index, np.zeros((1, 4), np.float32), 500, EXACT)
    order = np.lexsort((rows[0], distances[0]))
    assert (order == np.arange(500)).all()
    assert len(np.unique(distances[0])) < 10  # the test is about ties


def test_all_rows_equal():
    codebooks = random_codebooks(np.random.default_rng(7), "hybrid")
    index = index_of(codebooks, np.zeros((1000, 1 + len(codebooks.columns)), np.uint8))
    rows, _, counts, _ = native_search(index, np.ones((1, codebooks.dim), np.float32), 20, EXACT)
    assert rows[0].tolist() == list(range(20))
    assert counts[0] == 20


@pytest.mark.parametrize("layout", ["hybrid", "additive"])
def test_stats_add_up(layout):
    rng = np.random.default_rng(8)
    codebooks = random_codebooks(rng, layout, dim=16, n_books=6, n_words=64, n_crude=3)
    index = index_of(codebooks, random_codes(rng, codebooks, 3_000))
    q = rng.normal(size=(5, 16)).astype(np.float32)
    whole = index.search(q, margin=math.inf).stats
    assert whole.scanned == whole.survivors == 5 * 3_000
    cross = layout == "additive"  # its cross term counts as one look-up
    assert whole.lookups == whole.cells + whole.scanned * (len(codebooks.columns) + cross)
    stats = index.search(q, margin="exact").stats
    n_crude = codebooks.n_crude_columns
    n_rest = len(codebooks.columns) - n_crude + cross
    assert stats.lookups == stats.cells + stats.scanned * n_crude + stats.survivors * n_rest
    assert stats.ops_per_vector == stats.lookups / (5 * 3_000)
    assert 0 < stats.survivors <= stats.scanned <= 5 * 3_000


@pytest.mark.parametrize("selectivity", [0.0, 0.001, 0.05, 0.5, 1.0])
def test_filter_returns_as_many_as_are_allowed(simd, selectivity):
    rng = np.random.default_rng(9)
    codebooks = random_codebooks(rng, "hybrid", dim=16, n_books=6, n_words=64, n_crude=3)
    codes = random_codes(rng, codebooks, 3_000)
    index = index_of(codebooks, codes[:1_900], codes[1_900:])
    mask = rng.random(3_000) < selectivity
    q = rng.normal(size=(4, 16)).astype(np.float32)
    found = index.search(q, k=10, margin="exact", filter=mask)
    everything = index.search(q, k=3_000, margin=math.inf)
    for i in range(4):
        expected = [row for row in everything.ids[i] if mask[row]][:10]
        assert found.ids[i, : found.counts[i]].tolist() == expected
        assert found.counts[i] == min(10, int(mask.sum()))
    assert found.stats.scanned <= 4 * int(mask.sum())


def test_search_from_many_threads_at_once():
    from concurrent.futures import ThreadPoolExecutor

    rng = np.random.default_rng(10)
    codebooks = random_codebooks(rng, "hybrid", dim=16, n_books=6, n_words=64, n_crude=3)
    index = index_of(codebooks, random_codes(rng, codebooks, 5_000))
    q = rng.normal(size=(50, 16)).astype(np.float32)
    expected = index.search(q, margin="exact", threads=1).ids
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda t: index.search(q, margin="exact", threads=t).ids, [1, 2, 3, 4] * 6))
    assert all((a == expected).all() for a in answers)


def test_search_after_fork():
    import multiprocessing
    import warnings

    rng = np.random.default_rng(11)
    codebooks = random_codebooks(rng, "hybrid", dim=16, n_books=6, n_words=64, n_crude=3)
    index = index_of(codebooks, random_codes(rng, codebooks, 500))
    q = rng.normal(size=(20, 16)).astype(np.float32)
    expected = index.search(q, threads=2).ids  # the pool has threads now
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads is what is tested
        context = multiprocessing.get_context("fork")
        parent, child = context.Pipe()
        process = context.Process(target=lambda: child.send(index.search(q, threads=2).ids))
        process.start()
    assert parent.poll(30)
    assert (parent.recv() == expected).all()
    process.join(30)
    assert process.exitcode == 0


def test_a_row_that_is_found_twice_is_damage():
    hits = RowHits(np.array([[3, 3, 5]]), np.zeros((1, 3), np.float32), np.array([3]), None)
    with pytest.raises(DamagedFileError, match="not unique"):
        hits.without(np.array([3]))
