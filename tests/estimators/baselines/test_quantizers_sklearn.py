"""scikit-learn's own checks, for one quantizer of each kind."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from helpers import clustered
from interlace.quantizers import CQ, LOPQ, MSQ, PQ

pytest.importorskip("sklearn")
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks


class _Scored:
    """A score needs a database, which scikit-learn's checks do not pass."""

    def score(self, X: Any, y: Any) -> float:  # noqa: N803
        return float(super().score(X, y, X, y))  # type: ignore[misc]


class ScoredPQ(_Scored, PQ):
    pass


class ScoredCQ(_Scored, CQ):
    pass


class ScoredLOPQ(_Scored, LOPQ):
    pass


class ScoredMSQ(_Scored, MSQ):
    pass


with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "Estimator .* does not inherit from `sklearn.base.BaseEstimator`")
    checks = estimator_checks.parametrize_with_checks(
        [
            ScoredPQ(2, iterations=2, threads=1),
            ScoredCQ(3, iterations=1, threads=1),
            ScoredLOPQ(2, n_cells=3, iterations=1, threads=1),
            ScoredMSQ(3, n_levels=3, iterations=1, threads=1),
        ]
    )


@checks
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def test_a_pipeline_passes_labels() -> None:
    x = clustered(300, 6)
    y = np.arange(300) % 2
    pipeline = make_pipeline(StandardScaler(), LOPQ(3, n_words=16, n_cells=4, iterations=1, threads=1))
    out = pipeline.fit_transform(x, y)
    assert out.shape == x.shape
    assert [*pipeline[-1].get_feature_names_out()] == [f"lopq{i}" for i in range(6)]
