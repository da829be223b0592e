"""Learning with the score-aware loss."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import interlace as il
from interlace.codec.encode import encode
from interlace.codec.limits import shortest_direction
from interlace.inputs.arrays import Rows
from interlace.learn.fit import learn_codebooks
from interlace.learn.refit import parallel_targets, refit
from interlace.learn.settings import Settings
from interlace.progress import silent
from raising import raises


def rows(n: int = 3000, dim: int = 16, seed: int = 0) -> np.ndarray:
    """Rows of different lengths whose mean is not 0."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, dim)) * np.linspace(2, 0.3, dim) + 0.5
    return np.asarray(x * rng.lognormal(0, 0.3, (n, 1)), np.float32)


def learned(x: np.ndarray, weight: float, **settings: object) -> il.Codebooks:
    given = {"n_bytes": 4, "n_words": 32, "metric": "ip", "threads": 1, "iterations": 4, **settings}
    return learn_codebooks(Rows(x), Settings(parallel_weight=weight, **given).checked(), silent).codebooks


def losses(codebooks: il.Codebooks, x: np.ndarray) -> tuple[float, float]:
    """Mean squared error, and that along the rows."""
    errors = x - codebooks.decode(encode(codebooks, x, 1))
    along = (errors * x).sum(1) / np.linalg.norm(x, axis=1)
    return float((errors**2).sum(1).mean()), float((along**2).mean())


def loss_of(books: list[il.Book], y: np.ndarray, codes: np.ndarray, origin: np.ndarray, weight: float) -> float:
    """The loss by its formula, row by row."""
    total = 0.0
    for row, numbers in zip(y.astype(np.float64), codes, strict=True):
        decoded = np.zeros(len(row))
        for book, word in zip(books, numbers, strict=True):
            decoded[book.support] += book.words[word]
        error, whole = row - decoded, row + origin
        total += float(error @ error + (weight - 1) * (error @ whole) ** 2 / (whole @ whole))
    return total


@pytest.mark.parametrize("weight", [1.25, 2.0, 4.0])
def test_each_refit_to_the_targets_lowers_the_loss(weight):
    rng = np.random.default_rng(3)
    y, origin = rows(800, 10), rng.normal(size=10).astype(np.float32)
    supports = (np.arange(10), np.arange(6), np.arange(4, 10))
    books = [il.Book(rng.normal(size=(12, len(s))).astype(np.float32), s) for s in supports]
    codes, targets, found = rng.integers(12, size=(800, 3)).astype(np.uint8), np.empty_like(y), []
    for _ in range(6):
        found.append(parallel_targets(books, y, list(codes.T), origin, weight, targets))
        assert found[-1] == pytest.approx(loss_of(books, y, codes, origin, weight), rel=1e-4)
        books, _ = refit(books, targets, codes, 1)
    assert all(after < before * (1 + 1e-5) for before, after in itertools.pairwise(found))
    assert found[-2] - found[-1] < 0.05 * (found[0] - found[-1])  # converged


def test_rows_too_short_for_a_direction_count_by_their_squared_error():
    """As in the encoder: next to long words, the direction of such a row is rounding."""
    rng = np.random.default_rng(5)
    books = [il.Book(1000 * rng.normal(size=(4, 6)).astype(np.float32), np.arange(6))]
    origin, shortest = np.zeros(6, np.float32), shortest_direction(np.zeros(6, np.float32), books)
    y = np.ones((2, 6), np.float32) * np.array([[0.1], [10.0]], np.float32) * np.float32(shortest)
    codes, targets, plain = [np.zeros(2, np.int64)], np.empty_like(y), np.empty_like(y)
    losses = [parallel_targets(books, y, codes, origin, weight, out) for weight, out in ((3.0, targets), (1.0, plain))]
    decoded = np.repeat(books[0].words[:1], 2, axis=0)
    np.testing.assert_array_equal(targets[0], decoded[0] + np.float32(0.5) * (y[0] - decoded[0]))  # 2 / (1 + 3)
    along = ((y[1] - decoded[1]).astype(np.float64) @ y[1]) ** 2 / (y[1].astype(np.float64) @ y[1])
    assert losses[0] == pytest.approx(losses[1] + 2 * along, rel=1e-5)  # only the second row has a direction


def test_targets_with_a_weight_of_1_are_the_rows():
    y, books = rows(50, 4), [il.Book(np.ones((2, 4)), np.arange(4))]
    targets = np.empty_like(y)
    parallel_targets(books, y, [np.zeros(50, np.int64)], np.zeros(4, np.float32), 1.0, targets)
    np.testing.assert_allclose(targets, y, atol=1e-6)


@pytest.mark.parametrize(
    "settings",
    [
        {"layout": "residual"},
        {"layout": "hybrid"},
        {"layout": "subspace"},
        {"layout": "subspace", "cross": "exact"},
        {"layout": "residual", "cells": 80},
        {"layout": "hybrid", "cells": 80, "effort": "best"},
    ],
    ids=str,
)
def test_errors_along_the_row_are_smaller(settings):
    x, fresh = rows(), rows(500, seed=1)
    plain, aware = (losses(learned(x, weight, **settings), fresh) for weight in (1.0, 3.0))
    assert aware[1] < 0.8 * plain[1]
    assert aware[0] + 2 * aware[1] < plain[0] + 2 * plain[1]


@pytest.mark.parametrize("layout", ["hybrid", "residual"])
def test_the_same_seed_gives_the_same_bytes_for_any_number_of_threads(layout):
    x = rows()
    first = learned(x, 2.0, layout=layout)
    assert first == learned(x, 2.0, layout=layout, threads=2) != learned(x, 2.0, layout=layout, seed=1)


@pytest.mark.parametrize("metric", ["l2", "ip", "cosine"])
def test_a_weight_of_1_is_the_default(metric):
    x = rows()
    assert learned(x, 1, metric=metric) == learned(x, 1.0, metric=metric)
    assert learned(x, 1.0, metric=metric).parallel_weight == 1


def test_an_index_keeps_the_weight_for_rows_to_come(tmp_path):
    x, more = rows(), rows(300, seed=2)
    index = il.Index.build(x, n_bytes=4, n_words=32, metric="ip", parallel_weight=1.5, threads=1, progress=False)
    index.save(tmp_path / "index")
    opened = il.Index.open(tmp_path / "index")
    assert opened.codebooks.parallel_weight == 1.5
    for each in (index, opened):
        each.add(more, threads=1)
    assert_array_equal(index.reconstruct(index.ids), opened.reconstruct(opened.ids))
    plain = il.Codebooks.from_arrays(
        index.codebooks.to_arrays()[0], index.codebooks.to_arrays()[1] | {"parallel_weight": 1}
    )
    assert (encode(plain, more, 1) != encode(index.codebooks, more, 1)).any()


def test_a_model_keeps_it_and_its_card_names_it(tmp_path):
    model = il.ICQ(4, n_words=32, metric="ip", parallel_weight=2, threads=1, progress=False).fit(rows())
    model.save(tmp_path / "model")
    loaded = il.ICQ.load(tmp_path / "model")
    assert loaded.codebooks_ == model.codebooks_
    assert loaded.get_params()["parallel_weight"] == 2
    assert "2 times along the vector" in model.card()


def test_a_store_learns_again_with_the_weight_it_has(tmp_path):
    x = rows(1500)
    index = il.Index.build(
        x, n_bytes=4, n_words=32, metric="ip", parallel_weight=1.5, originals="float16", threads=1, progress=False
    )
    with il.create(tmp_path / "store", index) as store:
        store.relearn(n_words=16, threads=1, progress=False)
        assert store.codebooks.parallel_weight == 1.5
        store.relearn(parallel_weight=1, threads=1, progress=False)
        assert store.codebooks.parallel_weight == 1


@pytest.mark.parametrize("metric", ["l2", "cosine"])
def test_metrics_of_distances_refuse_it(metric):
    with raises(il.InputError, "parallel_weight", "1.5", "ip", metric):
        Settings(metric=metric, parallel_weight=1.5).checked()


@pytest.mark.parametrize("weight", [0.5, -1, float("nan"), 17, "2", None, True])
def test_bad_weights_are_refused(weight):
    with raises(il.InputError, "parallel_weight", 16):
        il.Index.build(rows(50), metric="ip", parallel_weight=weight)
