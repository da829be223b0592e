"""No method may rot: each one stays above a floor on digits, a small real set."""

from __future__ import annotations

from typing import Any

import pytest

import interlace as il
from interlace.data import digits
from interlace.estimators.baselines.registry import method, methods
from interlace.evaluate.measures import quantization_error

pytest.importorskip("sklearn", reason="scikit-learn has the digits")

#: MAP of the whole ranking of the test digits, .10 by chance: .03 below the worse of two seeds.
WITH_LABELS = {
    "ICQ": 0.83,
    "SQ+CQ": 0.82,
    "SQ+PQ": 0.785,
    "SQ": 0.865,
    "DQN": 0.735,
    "DPQ": 0.695,
    "PQN": 0.765,
    "PQN+CQ": 0.77,
}
#: Share of the variance that codes of test digits lose, at most: a twentieth above the worse of two seeds.
WITHOUT_LABELS = {"PQ": 0.23, "OPQ": 0.215, "CKMeans": 0.215, "LOPQ": 0.22, "CQ": 0.203, "MSQ": 0.27}


def test_every_method_has_a_floor() -> None:
    assert set(methods(labels=True)) == set(WITH_LABELS)
    assert set(methods(labels=False)) == set(WITHOUT_LABELS)


@pytest.mark.parametrize("name", WITH_LABELS)
def test_codes_learned_with_labels(name: str) -> None:
    pytest.importorskip("torch", reason="the train extra is not installed")
    found = digits()
    recipe = il.Recipe(warm_up=4, shape=1, epochs=4)
    settings: dict[str, Any] = {} if name == "SQ" else {"recipe": recipe, "dim": 16}
    made = method(name).make(n_books=4, n_words=64, seed=0, threads=1, progress=False, **settings)
    model = made.fit(found.x, found.labels)
    assert model.score(found.queries, found.query_labels, at=None) >= WITH_LABELS[name]


@pytest.mark.parametrize("name", WITHOUT_LABELS)
def test_codes_learned_without_labels(name: str) -> None:
    found = digits()
    model = method(name).make(n_books=4, n_words=64, seed=0, threads=1, progress=False).fit(found.x)
    assert quantization_error(model, found.queries)[1] <= WITHOUT_LABELS[name]
