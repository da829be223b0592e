"""DQN, DPQ and PQN: the trainer of ICQ and SQ with the loss and the books of each paper."""

from __future__ import annotations

import math
import pickle
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import interlace as il
from helpers import same_index
from interlace import Recipe
from interlace.cli.inputs import load_model
from interlace.evaluate import map_of_ranking
from interlace.quantizers import DPQ, DQN, PQN, SQ, method
from joint_data import SHORT, icq, labelled
from raising import raises

pytest.importorskip("torch", reason="the train extra is not installed")

X, Y = labelled()
QUERIES, WANTED = labelled(150, seed=1)

NAMES = ("DQN", "DPQ", "PQN", "PQN+CQ")
LOSSES = {"DQN": "pairwise", "DPQ": "soft_hard", "PQN": "soft_triplet", "PQN+CQ": "soft_triplet"}


def make(name: str, **settings: Any) -> Any:
    return method(name).make(**{"n_books": 4, "n_words": 16, "threads": 1, "recipe": Recipe(**SHORT)} | settings)


@cache
def fitted(name: str) -> Any:
    return make(name).fit(X, Y)


@pytest.mark.parametrize("name", NAMES)
def test_what_a_fit_leaves(name: str) -> None:
    model = fitted(name)
    books = model.codebooks_
    assert (books.n_books, books.n_bytes, books.dim) == (4, 4, 12)
    assert books.layout == ("composite" if name == "PQN+CQ" else "product")
    supports = [set(book.support.tolist()) for book in books.books]
    if name == "PQN+CQ":
        assert supports == [set(range(12))] * 4
    else:
        assert sum(len(s) for s in supports) == len(set.union(*supports)) == 12
    assert model.fit_info_["loss"] == LOSSES[name]
    assert model.fit_info_["kind"] == ("cq" if name == "PQN+CQ" else "pq")
    assert model.prior_ is None
    assert [row["phase"] for row in model.history_] == ["warm-up", "learn", "learn"]
    assert_array_equal(model.encode(X), model.codes_)


@pytest.mark.parametrize("name", NAMES)
def test_rows_of_a_class_are_found_by_their_codes(name: str) -> None:
    model = fitted(name)
    shuffled = model.decode(np.random.default_rng(0).permutation(model.codes_))
    by_chance = map_of_ranking(model.embed(QUERIES), shuffled, WANTED, Y)["map"]
    assert by_chance < 0.35
    assert model.score(QUERIES, WANTED, at=None) > 0.8


@pytest.mark.parametrize("name", NAMES)
def test_the_scale_of_the_data_changes_nothing(name: str) -> None:
    expected = fitted(name).score(QUERIES, WANTED, at=None)
    for scale in (0.01, 100.0):
        model = make(name).fit(X * scale, Y)
        assert all(math.isfinite(v) for row in model.history_ for v in row.values() if isinstance(v, float))
        assert model.score(QUERIES * scale, WANTED, at=None) == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize("name", NAMES)
def test_files(name: str, tmp_path: Path) -> None:
    model = fitted(name)
    model.save(tmp_path / "m")
    for again in (type(model).load(tmp_path / "m"), load_model(str(tmp_path / "m")), pickle.loads(pickle.dumps(model))):
        assert type(again) is type(model)
        assert again.codebooks_ == model.codebooks_
        assert again.get_params() == model.get_params()
        assert again.score(QUERIES, WANTED) == model.score(QUERIES, WANTED)
        assert same_index(again.index(X), model.index(X))
    with pytest.raises(il.NotAnIndexError, match=f"holds a model of '?{model.name_in_files}"):
        SQ.load(tmp_path / "m")


class Stop:
    """A progress callback that kills the run at its n-th call."""

    def __init__(self, at: int) -> None:
        self.at = at

    def __call__(self, what: str, done: float) -> None:
        self.at -= 1
        if self.at < 0:
            raise SystemExit


@pytest.mark.parametrize("optimize", ["joint", "alternate"])
@pytest.mark.parametrize("name", NAMES)
def test_a_killed_run_goes_on_as_if_nothing_had_been(name: str, optimize: str, tmp_path: Path) -> None:
    whole = make(name, optimize=optimize).fit(X, Y)
    with pytest.raises(SystemExit):
        make(name, optimize=optimize, checkpoint=tmp_path / "c", progress=Stop(2)).fit(X, Y)
    again = make(name, optimize=optimize, checkpoint=tmp_path / "c").fit(X, Y)
    assert again.codebooks_ == whole.codebooks_
    assert_array_equal(again.codes_, whole.codes_)
    assert whole.score(QUERIES, WANTED) > 0.8


@pytest.mark.parametrize("loss", ["pairwise", "soft_hard", "soft_triplet"])
def test_icq_and_sq_take_their_losses(loss: str) -> None:
    recipe = Recipe(**SHORT, central=1.0)  # two epochs are few: classes are drawn together more than by default
    for model in (icq(loss=loss, recipe=recipe), SQ("cq", n_books=4, n_words=16, threads=1, loss=loss, recipe=recipe)):
        assert model.fit(X, Y).score(QUERIES, WANTED) > 0.85
        assert all(math.isfinite(v) for row in model.history_ for v in row.values() if isinstance(v, float))


def test_they_are_sq_with_their_loss() -> None:
    """The same trainer: DQN is nothing but SQ with product books and pairs."""
    ours = fitted("DQN")
    theirs = SQ("pq", n_books=4, n_words=16, threads=1, loss="pairwise", recipe=Recipe(**SHORT)).fit(X, Y)
    assert ours.codebooks_ == theirs.codebooks_
    defaults = SQ().get_params()
    for model in (DQN(), DPQ(), PQN()):
        params = model.get_params()
        assert params.keys() | {"quantizer", "loss"} == defaults.keys()
        assert {n: v for n, v in params.items() if n != "quantizer"} == {
            n: defaults[n] for n in params if n != "quantizer"
        }
        assert "loss" not in params
    assert PQN().quantizer == "pq"


@pytest.mark.parametrize("name", ["softness", "central", "gini"])
def test_weights_of_the_recipe_are_used(name: str) -> None:
    recipe = Recipe(**SHORT, **{name: 3.0})
    changed = make("DPQ", recipe=recipe).fit(X[:200], Y[:200])
    plain = make("DPQ").fit(X[:200], Y[:200])
    assert changed.codebooks_ != plain.codebooks_
    pairs = [make("DQN", recipe=r).fit(X[:200], Y[:200]).codebooks_ for r in (recipe, Recipe(**SHORT))]
    assert pairs[0] == pairs[1]


def test_bad_input() -> None:
    with pytest.raises(il.InputError, match="quantizer.*pq, cq.*'opq'"):
        PQN("opq").fit(X, Y)
    for made in (DQN, DPQ, PQN):
        with pytest.raises(il.InputError, match="labels are missing"):
            made().fit(X)
        with raises(il.InputError, 20, "dim=5"):
            made(n_books=20, dim=5).fit(X, Y)
    with pytest.raises(TypeError, match="loss"):
        DQN(loss="contrastive")  # type: ignore[call-arg]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_digits_as_good_as_with_the_contrastive_loss(name: str) -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    assert_allclose(digits_score(name), digits_score("SQ+PQ"), atol=0.05)


@cache
def digits_score(name: str) -> float:
    data = il.data.digits()
    # DPQ's soft and hard codes want more of the embedding than the default rate gives in so few epochs.
    recipe = Recipe(warm_up=5, epochs=6, rate_embedding=1e-3)
    model = method(name).make(n_books=4, n_words=64, dim=16, threads=1, recipe=recipe).fit(data.x, data.labels)
    return model.score(data.queries, data.query_labels)
