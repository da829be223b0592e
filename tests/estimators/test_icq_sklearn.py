"""ICQ to scikit-learn: its own checks on the class itself, with labels and without, clones and pipelines."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import interlace as il
from helpers import clustered
from raising import raises

pytest.importorskip("sklearn", reason="scikit-learn is not installed")
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks

X = clustered(700, 8, seed=1)
QUICK: dict[str, Any] = {"n_bytes": 4, "iterations": 2, "threads": 1}
FAST: dict[str, Any] = {"iterations": 1, "threads": 1}
with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "Estimator .* does not inherit from `sklearn.base.BaseEstimator`")
    checks = estimator_checks.parametrize_with_checks(
        [
            il.ICQ(2, n_words=8, threads=1),
            il.ICQ(2, iterations=1, threads=1, supervised=False),
            il.UnsupervisedICQ(3, layout="residual", iterations=1, threads=1),
            il.quantizers.PQ(2, iterations=1, threads=1),
        ]
    )


@checks
def test_scikit_learns_checks(estimator: Any, check: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if type(estimator) is il.ICQ and estimator.supervised:
        pytest.importorskip("torch", reason="the train extra is not installed")
        short = il.Recipe(warm_up=1, shape=1, epochs=1)  # the default, but quick
        monkeypatch.setattr(il.Recipe, "named", classmethod(lambda cls, recipe: short))
    check(estimator)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_is_told_before_labels_are_judged(value: float) -> None:
    pytest.importorskip("torch", reason="the train extra is not installed")
    x, y = X.copy(), np.arange(len(X)) % 2.0
    x[0, 0] = value
    with pytest.raises(il.InputError, match=rf"\[0, 0\] is {value}"):
        il.ICQ(2, n_words=8).fit(x, y)


def test_clone_and_pipeline() -> None:
    model = il.ICQ(**QUICK, layout="hybrid").fit(X)
    fresh = clone(model)
    assert fresh.get_params() == model.get_params()
    assert not hasattr(fresh, "codebooks_")
    pipeline = make_pipeline(StandardScaler(), fresh)
    out = pipeline.fit_transform(X)
    assert out.shape == X.shape
    assert [*fresh.get_feature_names_out()] == [f"icq{i}" for i in range(8)]
    assert ((out - StandardScaler().fit_transform(X)) ** 2).mean() < 0.2


@pytest.mark.parametrize("model", [il.ICQ(**QUICK), il.quantizers.PQ(4, iterations=2, threads=1)])
def test_a_grid_search_without_labels_chooses_the_smaller_error(model: Any) -> None:
    search = GridSearchCV(model, {"n_words": [2, 16, 4]}, cv=2, error_score="raise").fit(X)
    assert search.best_params_ == {"n_words": 16}
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.score(X) == clone(model).set_params(n_words=16).fit(X).score(X) < 0


IGNORING = [il.UnsupervisedICQ(4, **FAST), il.ICQ(4, supervised=False, **FAST), il.quantizers.PQ(4, **FAST)]


@pytest.mark.parametrize("model", IGNORING, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("y", [np.arange(700) % 3, np.linspace(0, 1, 700), ["a", "b"] * 350, np.full(700, np.nan)])
def test_a_y_that_fit_ignores_is_ignored_by_score(model: Any, y: Any) -> None:
    fitted = clone(model).fit(X, y)
    assert fitted.codebooks_ == clone(model).fit(X).codebooks_
    assert fitted.score(X, y) == fitted.score(X) < 0
    search = GridSearchCV(model, {"n_words": [2, 16]}, cv=2, error_score="raise").fit(X, y)
    assert search.best_params_ == {"n_words": 16}


def test_labels_are_used_where_there_is_a_database_with_labels() -> None:
    y = (X[:, 0] > 0).astype(int)
    for model in IGNORING:
        assert 0.5 < clone(model).fit(X).score(X[:50], y[:50], X, y) <= 1
    model = il.ICQ(4, **FAST).fit(X)  # which would have used labels
    with raises(il.InputError, "X_database"):
        model.score(X, y)


def test_whole_floats_are_the_labels_that_they_stand_for() -> None:
    pytest.importorskip("torch", reason="the train extra is not installed")
    y = (X[:, 0] > 0).astype(int) + 1
    recipe = il.Recipe(warm_up=1, shape=1, epochs=1)
    models = [
        il.ICQ(2, n_words=8, threads=1, recipe=recipe).fit(X, labels) for labels in (y, y.astype(float), [*y / 1.0])
    ]
    models.append(il.quantizers.ClosedFormSQ(n_books=2, n_words=8, rounds=2, threads=1).fit(X, y.astype(np.float32)))
    for model in models:
        assert model.labels_.dtype.kind == "i"
        np.testing.assert_array_equal(model.labels_, y)
        assert model.score(X, y) == model.score(X, y.astype(float)) > 0.5
    ranked = y[:20].reshape(4, 5)
    for form in (np.asarray, lambda labels: labels.astype(float)):
        assert il.evaluate.mean_average_precision(form(ranked), form(y[:4])) == il.evaluate.mean_average_precision(
            ranked, y[:4]
        )
        found = il.evaluate.map_of_ranking(X[:9], X, form(y[:9]), form(y))
        assert found == il.evaluate.map_of_ranking(X[:9], X, y[:9], y)
    with raises(il.InputError, "query_labels[0]"):
        il.evaluate.precision_at(ranked, y[:4] - 0.5, 2)
    with raises(il.InputError, "ranked_labels.ravel()[0]"):
        il.evaluate.precision_at(ranked - 0.5, y[:4], 2)
