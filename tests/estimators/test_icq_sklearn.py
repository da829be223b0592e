"""ICQ to scikit-learn: its own checks on the class itself, with labels and without, clones and pipelines."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import interlace as il
from helpers import clustered

pytest.importorskip("sklearn", reason="scikit-learn is not installed")
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks

X = clustered(700, 8, seed=1)
QUICK: dict[str, Any] = {"n_bytes": 4, "iterations": 2, "threads": 1}
#: Labels are integers or strings. The check passes floats to a fit that is to succeed, and they are refused.
FLOATS = {"check_estimators_nan_inf": "float labels are refused"}


class Unlabelled(il.ICQ):
    """A fit without labels keeps no rows to search, so a score is given them: the checks call it with X and y alone."""

    def score(self, X: Any, y: Any) -> float:  # type: ignore[override]  # noqa: N803
        return super().score(X, y, X, y)


class Unsupervised(il.UnsupervisedICQ):
    """The same for the class that never looks at labels."""

    def score(self, X: Any, y: Any) -> float:  # type: ignore[override]  # noqa: N803
        return super().score(X, y, X, y)


with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "Estimator .* does not inherit from `sklearn.base.BaseEstimator`")
    checks = estimator_checks.parametrize_with_checks(
        [
            il.ICQ(2, n_words=8, threads=1),
            Unlabelled(2, iterations=1, threads=1, supervised=False),
            Unsupervised(3, layout="residual", iterations=1, threads=1),
        ],
        expected_failed_checks=lambda estimator: FLOATS if type(estimator) is il.ICQ else {},
    )


@checks
def test_scikit_learns_checks(estimator: Any, check: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if type(estimator) is il.ICQ:
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
