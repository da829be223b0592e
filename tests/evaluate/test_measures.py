"""Error, operations, effective length and time against plain loops and counted by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import interlace as il
from helpers import clustered, hand_made
from interlace import evaluate, reference
from interlace.engine import margins
from interlace.estimators.fitted import Fitted
from interlace.evaluate import measures
from interlace.quantizers import SQ
from raising import raises

SEEDS = st.integers(0, 2**32 - 1)


def plain_error(vectors, decoded):
    """Mean squared error, and its share of the mean squared distance from the mean."""
    n, dim = vectors.shape
    mean = [math.fsum(float(v[d]) for v in vectors) / n for d in range(dim)]
    error = spread = 0.0
    for v, w in zip(vectors.tolist(), decoded.tolist(), strict=True):
        error += sum((a - b) ** 2 for a, b in zip(v, w, strict=True)) / n
        spread += sum((a - m) ** 2 for a, m in zip(v, mean, strict=True)) / n
    return error, error / spread if spread else None


def fitted(codebooks):
    model = il.ICQ(n_books=3, threads=1)
    model.set_fitted(Fitted(codebooks, np.zeros(0, np.int64), 0))
    return model


@given(
    seed=SEEDS,
    n=st.integers(2, 30),
    metric=st.sampled_from(["l2", "ip", "cosine"]),
    offset=st.sampled_from([0.0, 1e3]),
    block=st.integers(1, 40),
)
@settings(max_examples=50, deadline=None)
def test_the_error_equals_the_plain_loop(seed, n, metric, offset, block):
    codebooks = hand_made(metric=metric)
    x = np.random.default_rng(seed).normal(size=(n, 4)).astype(np.float32) + np.float32(offset)
    vectors = x
    if metric == "cosine":
        vectors = (x / np.sqrt((x.astype(float) ** 2).sum(1, keepdims=True))).astype(np.float32)
    model = fitted(codebooks)  # has an encoder of its own, which tries more than the codebooks ask for
    of_books = plain_error(vectors, codebooks.decode(reference.encode(codebooks, vectors)))
    of_model = plain_error(vectors, model.transform(x))
    saved = measures.BLOCK_ROWS
    try:
        measures.BLOCK_ROWS = block
        by_books = evaluate.quantization_error(codebooks, x, threads=1)
        by_model = evaluate.quantization_error(model, x)
    finally:
        measures.BLOCK_ROWS = saved
    for found, expected in ((by_books, of_books), (by_model, of_model)):
        assert found.error == pytest.approx(expected[0], rel=1e-5)
        assert found.relative == pytest.approx(expected[1], rel=1e-5)


def test_the_share_of_one_word_at_the_mean_is_1_and_words_at_the_rows_leave_0():
    x = clustered(50, 4)
    mean = x.mean(0, keepdims=True)
    one = il.Codebooks([il.Book(mean, np.arange(4, dtype=np.uint32))], dim=4, n_crude=1)
    found = evaluate.quantization_error(one, x)
    assert found.relative == pytest.approx(1, rel=1e-6)
    assert found.error == pytest.approx(x.var(0, dtype=float).sum(), rel=1e-5)
    own = il.Codebooks([il.Book(x, np.arange(4, dtype=np.uint32))], dim=4, n_crude=1)
    assert evaluate.quantization_error(own, x) == (0.0, 0.0)
    assert evaluate.quantization_error(own, np.repeat(x[:1], 3, 0)) == (0.0, None)  # nothing varies


def test_it_is_what_an_index_says_of_itself():
    x = clustered(600, 8)
    index = il.Index.build(x, n_bytes=4, threads=1)
    told = index.evaluate(x=x, sample=600, threads=1)
    found = evaluate.quantization_error(index.codebooks, x)
    assert found.error == pytest.approx(told.quantization_error, rel=1e-5)
    assert found.relative == pytest.approx(told.relative_error, rel=1e-5)


@pytest.mark.parametrize(
    ("model", "x", "facts"),
    [
        ("nothing", np.eye(4), ("model", "Codebooks")),
        (hand_made(), np.empty((0, 4)), ("at least one row",)),
        (hand_made(), np.eye(5), (5,)),
        (hand_made(), np.full((2, 4), np.nan), ("x[0, 0]", "nan")),
    ],
)
def test_bad_input_to_the_error_is_named(model, x, facts):
    with raises(il.InputError, *facts):
        evaluate.quantization_error(model, x)


def test_a_quantizer_that_was_not_fitted_says_so():
    with pytest.raises(il.NotFittedError):
        evaluate.quantization_error(SQ("pq"), np.eye(4))


@pytest.mark.parametrize("margin", ["exact", "paper", math.inf])
def test_ops_are_those_that_a_plain_search_counts(margin):
    codebooks = hand_made(n_words=5)
    x, q = clustered(70, 4), clustered(6, 4, seed=3)
    codes = reference.encode(codebooks, x)
    index = il.Index.from_codes(codebooks, codes)
    found = index.search(q, 3, margin=margin, threads=1)
    rule = margins.rule_of(margin, k=3, n=70, calibration=None, sigma=codebooks.residual_variance)
    additions = 0
    for query in q:
        survivors = reference.search(codebooks, codes, query, 3, rule)[1]
        additions += 70 * codebooks.n_crude + survivors * (codebooks.n_books - codebooks.n_crude)
    ops = evaluate.ops_per_vector(found, codebooks)
    assert ops == pytest.approx(additions / (6 * 70))
    assert evaluate.ops_per_vector(found.stats, codebooks) == ops
    if margin == math.inf:
        assert ops == codebooks.n_books
    stats = found.stats
    rest = len(codebooks.columns) - codebooks.n_crude_columns
    in_cells = stats.cells + stats.scanned * codebooks.n_crude_columns + stats.survivors * rest
    assert evaluate.ops_per_vector(found) == pytest.approx(in_cells / (6 * 70))


def test_a_first_book_of_one_word_is_not_counted():
    books = [il.Book(np.zeros((1, 1), np.float32), np.zeros(1, np.uint32)), *hand_made().books[1:]]
    codebooks = il.Codebooks(books, dim=4, n_crude=2)
    index = il.Index.from_codes(codebooks, reference.encode(codebooks, clustered(20, 4)))
    assert evaluate.ops_per_vector(index.search(clustered(3, 4), 2, margin=math.inf), codebooks) == 2
    pruned = index.search(clustered(3, 4), 2, margin="exact")
    assert pruned.stats.survivors < 3 * 20
    assert evaluate.ops_per_vector(pruned, codebooks) == 1 + pruned.stats.survivors / (3 * 20)


def test_ops_need_a_search():
    with raises(il.InputError, "work", "SearchStats"):
        evaluate.ops_per_vector(3.0)


@given(bits=st.integers(8, 512), ops=st.floats(0.01, 100), reference_ops=st.floats(0.01, 100))
def test_the_effective_length_is_the_papers(bits, ops, reference_ops):
    found = evaluate.effective_length(bits, ops, reference_ops)
    assert found == pytest.approx(bits * (ops / reference_ops))
    assert evaluate.effective_length(bits, ops, ops) == pytest.approx(bits)  # as fast, as long
    assert evaluate.effective_length(2 * bits, ops, reference_ops) == pytest.approx(2 * found)


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        ((0, 1, 1), ("bits", 0)),
        ((64, -1.0, 1), ("ops", 0)),
        ((64, 1, math.inf), ("ops_reference", 0)),
        ((64, math.nan, 1), ("ops", 0)),
        (("64", 1, 1), ("bits", 0)),
        ((True, 1, 1), ("bits", 0)),
    ],
)
def test_bad_lengths_are_named(arguments, facts):
    with raises(il.InputError, *facts):
        evaluate.effective_length(*arguments)


class Machine:
    """A clock that calls move on, slower and slower."""

    def __init__(self, seconds, drift=0.0):
        self.now, self.seconds, self.drift, self.calls = 0.0, seconds, drift, ""

    def call(self, which):
        def run():
            self.now += self.seconds[which].pop(0) * (1 + self.drift * len(self.calls))
            self.calls += which

        return run

    def clock(self):
        return self.now


@given(seed=SEEDS, rounds=st.integers(1, 8))
@settings(max_examples=40, deadline=None)
def test_the_ratio_is_that_of_medians_in_turns(seed, rounds):
    rng = np.random.default_rng(seed)
    seconds = {which: rng.uniform(0.1, 2, rounds + 1).tolist() for which in "ab"}
    timed = {which: values[1:] for which, values in seconds.items()}  # the first is not timed
    machine = Machine({which: list(values) for which, values in seconds.items()})
    found = evaluate.time_ratio(machine.call("a"), machine.call("b"), rounds, clock=machine.clock)
    assert machine.calls == "ab" + ("abba" * rounds)[: 2 * rounds]
    assert_allclose(found[1:], [np.median(timed["a"]), np.median(timed["b"])])
    assert found.ratio == pytest.approx(np.median(timed["a"]) / np.median(timed["b"]))


def test_a_machine_that_slows_down_favours_neither():
    machine = Machine({which: [1.0] * 20 for which in "ab"}, drift=0.05)
    found = evaluate.time_ratio(machine.call("a"), machine.call("b"), 18, clock=machine.clock)
    assert found.ratio == pytest.approx(1, abs=0.02)


def test_the_real_clock_is_read():
    x = np.random.default_rng(0).normal(size=(300, 300))
    found = evaluate.time_ratio(lambda: [x @ x for _ in range(20)], lambda: x.sum(), 3)
    assert found.seconds_a > 0
    assert found.seconds_b > 0
    assert found.ratio == pytest.approx(found.seconds_a / found.seconds_b)


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        ((1, print), ("a must be a function without arguments",)),
        ((print, None), ("b", "arguments")),
        ((print, print, 0), ("rounds", "integer")),
    ],
)
def test_bad_timings_are_named(arguments, facts, capsys):
    with raises(il.InputError, *facts):
        evaluate.time_ratio(*arguments)
