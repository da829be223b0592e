"""SQ in the protocol of its paper: codes with labels, codebooks of the library, a floor that it must not fall below."""

from __future__ import annotations

import math

import numpy as np
import pytest

import interlace as il
from interlace.quantizers import ClosedFormSQ, load
from joint_data import labelled
from raising import raises

X, Y = labelled(600, seed=0)
QUERIES, WANTED = labelled(200, seed=1)


def fitted(**settings):
    return ClosedFormSQ(**{"n_books": 4, "n_words": 16, "rounds": 4, "threads": 1, "progress": False} | settings).fit(
        X, Y
    )


def test_it_finds_rows_of_the_class():
    model = fitted()
    assert model.score(QUERIES, WANTED, at=None) > 0.97  # a floor: .99 when it was written, .25 by chance
    assert model.codes_.shape == (600, 4)
    assert model.codebooks_.n_books == 4
    assert model.history_[-1]["objective"] < model.history_[0]["objective"]
    assert fitted().codebooks_ == model.codebooks_
    assert fitted(seed=1).codebooks_ != model.codebooks_


def test_a_floor_on_digits():
    pytest.importorskip("sklearn")
    digits = il.data.digits()
    model = ClosedFormSQ(n_books=4, n_words=64, rounds=8, threads=1, progress=False).fit(digits.x, digits.labels)
    assert model.score(digits.queries, digits.query_labels, at=None) > 0.88
    without = model.score(digits.queries, digits.query_labels, digits.x, digits.labels, at=None)
    assert without < model.score(digits.queries, digits.query_labels, at=None)  # codes of rows without their labels


def test_codes_of_the_database_are_chosen_with_labels_or_without():
    model, rows = fitted(), fitted(codes="rows")
    assert rows.codebooks_ == model.codebooks_
    np.testing.assert_array_equal(rows.codes_, rows.encode(X))
    assert (model.codes_ != rows.codes_).any()
    np.testing.assert_array_equal(model.encode(X), rows.codes_)


def test_the_index_ranks_by_the_words_and_one_constant():
    model = fitted(mu=10.0)
    index = il.Index.from_codes(model.codebooks_, model.codes_)
    z = model.embed(QUERIES[:5]).astype(np.float64)
    found = index.search(z.astype(np.float32), len(X), margin=math.inf)
    words = [model.codebooks_.books[k].words[model.codes_[:, k]].astype(np.float64) for k in range(4)]
    decoded, later = sum(words), words[1:]
    terms = sum((a * b).sum(1) for a in later for b in later if a is not b)
    for i in range(5):
        expected = ((z[i] - decoded) ** 2).sum(1) - terms + terms.mean()
        np.testing.assert_allclose(found.distances[i], np.maximum(expected, 0)[found.ids[i]], atol=1e-3)


@pytest.mark.parametrize("n_books", [1, 2, 3])
def test_few_books(n_books):
    model = fitted(n_books=n_books)
    assert model.codebooks_.n_books == n_books
    assert len(model.codebooks_.norms) == (n_books > 2)
    assert model.score(QUERIES, WANTED, at=None) > 0.9


def test_files_and_constant_features(tmp_path):
    model = fitted().save(tmp_path / "m.icq") or fitted()
    again = load(tmp_path / "m.icq")
    assert again.codebooks_ == model.codebooks_
    wide = np.c_[X, np.full(len(X), 7.0, np.float32)]
    other = ClosedFormSQ(n_books=2, n_words=8, rounds=2, threads=1, progress=False).fit(wide, Y)
    moved = wide.copy()
    moved[:, -1] = 1e6  # a feature that was constant means nothing
    np.testing.assert_allclose(other.embed(moved), other.embed(wide))


@pytest.mark.parametrize(
    ("settings", "facts"),
    [
        ({"n_books": 65}, ("n_books", "64", "65")),
        ({"n_words": 1}, ("n_words", "1")),
        ({"gamma": 0}, ("gamma", "0")),
        ({"mu": -1.0}, ("mu", "-1.0")),
        ({"ridge": "a"}, ("ridge", "'a'")),
        ({"codes": "both"}, ("codes", "labels, rows", "'both'")),
        ({"embedding": "mlp"}, ("linear", "'mlp'")),
        ({"rounds": 0}, ("rounds", "0")),
    ],
)
def test_bad_parameters(settings, facts):
    with raises(il.InputError, *facts):
        fitted(**settings)


def test_labels_are_needed():
    with raises(il.InputError, "pass y"):
        ClosedFormSQ().fit(X)
    with raises(il.InputError, "two classes", "one class"):
        ClosedFormSQ().fit(X, np.zeros(len(X), int))
