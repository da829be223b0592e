"""Epochs are scored by the search itself, not by decoded vectors."""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the train extra is not installed")

import interlace as il  # noqa: E402
from interlace.codec.encode import encode  # noqa: E402
from interlace.evaluate.squares import row_squares  # noqa: E402
from interlace.learn.joint.scores import search_map  # noqa: E402
from interlace.quantizers import SQ  # noqa: E402
from joint_data import SHORT, icq, labelled  # noqa: E402
from raising import raises  # noqa: E402

X, Y = labelled()


def by_loop(index, queries, labels, wanted):
    """MAP of the whole ranking, one query after the other."""
    total = 0.0
    for query, own in zip(queries, wanted, strict=True):
        found = index.search(query[None], len(labels), margin=math.inf).ids[0]
        hits, precisions = 0, []
        for place, row in enumerate(found, 1):
            if labels[row] == own:
                hits += 1
                precisions.append(hits / place)
        total += sum(precisions) / max(1, len(precisions))
    return total / len(queries)


@pytest.mark.parametrize("cross", ["constant", "byte", "exact"])
@pytest.mark.parametrize("kind", ["icq", "cq", "pq"])
def test_the_score_is_that_of_the_index(kind, cross):
    recipe = il.Recipe(**SHORT | {"epochs": 1})
    settings = {"n_books": 4, "n_words": 16, "threads": 1, "recipe": recipe, "cross": cross}
    model = (il.ICQ(**settings) if kind == "icq" else SQ(kind, **settings)).fit(X, Y)
    held = np.setdiff1d(np.arange(len(X)), model.sample_)
    rows, labels = model.embed(X[model.sample_]), Y[model.sample_]
    index = il.Index.from_codes(model.codebooks_, encode(model.codebooks_, rows, 1))
    expected = by_loop(index, model.embed(X[held]), labels, Y[held])
    assert model.history_[-1]["map"] == pytest.approx(expected, abs=1e-6)
    assert model.fit_info_["validation_map"] == model.history_[-1]["map"]
    assert search_map(model.codebooks_, rows, labels, model.embed(X[held]), Y[held]) == pytest.approx(
        expected, abs=1e-6
    )


def test_squares_hold_the_constants_of_the_cross_terms():
    model = SQ("cq", n_books=4, n_words=16, threads=1, recipe=il.Recipe(**SHORT | {"cross": 0.0})).fit(X, Y)
    index = il.Index.from_codes(model.codebooks_, model.codes_)
    squares, decoded = row_squares(index.engine), model.decode(model.codes_).astype(np.float64)
    q = model.embed(X[:1]).astype(np.float64)[0]
    found = index.search(q[None].astype(np.float32), len(X), margin=math.inf)
    for row, distance in zip(found.ids[0], found.distances[0], strict=True):
        assert distance == pytest.approx(max(0.0, (q**2).sum() - 2 * q @ decoded[row] + squares[row]), abs=1e-3)
    assert np.abs(squares - (decoded**2).sum(1)).max() > 0.05  # which decoded vectors do not know of


def test_scoring_leaves_the_state_as_it_is():
    scored = icq({"hard_end": False, "epochs": 3}).fit(X, Y)
    silent = icq({"hard_end": False, "epochs": 3, "patience": 100}).fit(X, Y)
    assert scored.codebooks_ == silent.codebooks_


def test_sigma_is_that_of_the_paper_or_of_the_codes():
    ours, papers = (icq({"sigma_rule": rule}, n_books=8).fit(X, Y) for rule in ("codes", "variances"))
    psi = set(papers.codebooks_.crude_dims.tolist())
    variances = papers.embed(X[papers.sample_]).astype(np.float64).var(0)
    expected = sum(float(v) for i, v in enumerate(variances) if i not in psi)
    assert papers.codebooks_.residual_variance == pytest.approx(expected, rel=1e-4)
    codes, total = encode(ours.codebooks_, ours.embed(X[ours.sample_]), 1), 0.0
    rest = np.zeros((len(codes), ours.codebooks_.dim))
    for k in range(ours.codebooks_.n_crude, 8):
        book = ours.codebooks_.books[k]
        rest[:, book.support] += book.words[codes[:, k]]
    total = float(rest.var(0).sum())
    assert ours.codebooks_.residual_variance == pytest.approx(total, rel=1e-2)
    assert (ours.codebooks_.with_sigma(7.0).residual_variance, ours.codebooks_.n_books) == (7.0, 8)
    doubled = icq({"sigma": 2.0}, n_books=8).fit(X, Y).codebooks_
    assert doubled.residual_variance == pytest.approx(2 * papers.codebooks_.residual_variance)
    without = SQ("cq", n_books=4, n_words=16, threads=1, recipe=il.Recipe(**SHORT)).fit(X, Y).codebooks_
    assert 0 < without.residual_variance < variances.sum()  # it has no psi: the variance of what its last books add
    with raises(il.InputError, "sigma_rule", "variances, codes", "'psi'"):
        il.Recipe(sigma_rule="psi")
