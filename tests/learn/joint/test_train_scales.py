"""Data of any scale and shape: the same answers, and a prior that says nothing is told."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

torch = pytest.importorskip("torch", reason="the train extra is not installed")


import interlace as il  # noqa: E402
from interlace import Recipe  # noqa: E402
from joint_data import SHORT, caught, icq, labelled  # noqa: E402

X, Y = labelled()


def test_the_scale_of_the_data_changes_nothing():
    queries, labels = labelled(200, seed=1)
    scores = []
    for scale in (1.0, 0.01, 100.0):
        model = icq(recipe="default").fit(X * scale, Y)
        assert all(math.isfinite(v) for row in model.history_ for v in row.values() if isinstance(v, float))
        scores.append(model.score(queries * scale, labels, at=None))
    assert scores[0] > 0.95
    assert_allclose(scores, scores[0], atol=0.02)


@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("settings", [{}, {"theta": "em"}])
def test_the_method_as_written_warns_and_goes_on(scale, settings):
    model, found = caught(lambda: icq(Recipe.paper(**SHORT, **settings), n_books=8).fit(X * scale, Y))
    assert {*found} <= {il.PriorCollapsedWarning, il.DegeneratePsiWarning}  # and no batch is skipped
    assert len(found) == len({*found})
    assert np.isfinite(model.embed(X * scale)).all()
    assert 0.2 < model.score(X * scale, Y) <= 1


@pytest.mark.parametrize("embedding", ["linear", "identity"])
@pytest.mark.parametrize("recipe", [Recipe(**SHORT), Recipe(**SHORT, theta="em"), Recipe.paper(**SHORT)])
@pytest.mark.parametrize("kind", ["equal", "one", "two", "constant", "constant far out", "one of them varies"])
def test_psi_is_never_empty_or_everything_without_a_warning(kind, recipe, embedding):
    dim = {"one": 1, "two": 2}.get(kind, 6)
    x = np.random.default_rng(0).permuted(np.tile(np.linspace(-1, 1, 300)[:, None], (1, dim)), axis=0)
    if kind == "equal":
        x = np.tile(np.concatenate([np.eye(6), -np.eye(6)]), (25, 1))  # white, to the last bit
    x = {"constant": 0 * x, "constant far out": 0 * x + 1e6, "one of them varies": x * (np.arange(dim) == 2)}.get(
        kind, x
    )
    model, found = caught(lambda: icq(recipe, embedding=embedding).fit(x, Y[:300]))
    psi = model.codebooks_.crude_dims
    assert (0 < len(psi) < dim) or il.PriorCollapsedWarning in found
    told = {il.EmbeddingCollapsedWarning} if kind.startswith("constant") else set()
    told |= {RuntimeWarning} if kind == "constant far out" else set()  # which the paper's recipe does not standardize
    assert {*found} <= {il.PriorCollapsedWarning, il.DegeneratePsiWarning, *told}
    assert np.isfinite(model.embed(x)).all()
    assert np.isfinite(model.embed(x + 1)).all()
    assert model.index(x).search(x[:3], 5, margin=math.inf).ids.shape == (3, 5)


def test_one_or_two_books_need_no_prior():
    for n_books in (1, 2):
        model, found = caught(lambda n=n_books: icq(n_books=n, dim=1).fit(X, Y))
        assert not found
        assert model.prior_ is None
        assert [row["phase"] for row in model.history_] == ["warm-up", "learn", "learn"]


@pytest.mark.parametrize("scale", [1.0, 1e3])
def test_a_wide_output_starts_with_distances_that_the_loss_can_tell_apart(scale):
    class Wide(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(12, 400)
            torch.nn.init.normal_(self.layer.weight, std=scale, generator=torch.Generator().manual_seed(0))

        def forward(self, x):
            return self.layer(x)

    # All steps are the same size, so the loss of the first epoch tells where it began: without the bound thousands.
    recipe = {"warm_up": 1, "shape": 0, "epochs": 0, "rate_warm_up": 1e-6}
    model = icq(recipe, embedding=Wide()).fit(X, Y)
    assert model.history_[0]["embedding"] < 40


def test_an_embedding_that_is_one_point_is_told_once():
    class Dead(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(12, 4)
            torch.nn.init.constant_(self.layer.bias, -1e6)

        def forward(self, x):
            return torch.relu(self.layer(x)) + 1

    model, found = caught(lambda: icq(embedding=Dead()).fit(X, Y))
    assert found.count(il.EmbeddingCollapsedWarning) == 1
    assert np.isfinite(model.embed(X)).all()


def test_books_of_many_dimensions_learn_in_steps_that_fit_them():
    """At one rate for all, words of 1,024 short coordinates would be thrown about."""
    rows = np.random.default_rng(0).normal(size=(400, 1024)).astype(np.float32)
    rows += 3 * np.random.default_rng(1).normal(size=(4, 1024)).astype(np.float32)[Y[:400]]
    recipe = Recipe(warm_up=0, shape=0, epochs=4, patience=9)
    history = icq(recipe, embedding="identity", n_books=4).fit(rows, Y[:400]).history_
    errors = [row["quantization"] / recipe.error for row in history]
    assert max(errors) < 0.17  # of a total variance of 1; at the full rate .27
