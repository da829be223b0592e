"""Rankings that codes are compared with: the embedding without codes, predicted classes, known classes, chance."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..estimators.models import Model
from ..evaluate.ranking import map_of_ranking

LIST = 100
#: Steps of the classifier, at most; it is fitted until it converges.
MOST_STEPS = 5_000
#: Strengths of its regularization (scikit-learn's C), of which rows that are held out choose one.
STRENGTHS = (1e-3, 1e-2, 1e-1, 1.0)
#: Share of the training rows that is held out for that, and rows that are learned from for the choice, at most.
HELD_OUT, CHOICE_ROWS = 0.1, 10_000


def float_map(model: Model, x: Any, labels: Any, queries: Any, query_labels: Any) -> dict[str, float]:
    """MAP of the embedding without codes; ``x`` with its ``labels`` is the database."""
    return map_of_ranking(model.embed(queries), model.embed(x), query_labels, labels, at=LIST)


def topline(
    x: Any,
    labels: Any,
    queries: Any,
    query_labels: Any,
    database: Any = None,
    database_labels: Any = None,
    *,
    known: bool = False,
) -> dict[str, float]:
    """MAP of a logistic regression: rows are ranked by the probability that they have the class of the query.

    It learns from ``x`` with its ``labels`` until it converges; its regularization is chosen on a tenth of these rows.
    The database is ``x``, or ``database`` with ``database_labels``. Its rows have predicted classes, or with ``known``
    their true ones, which no code of a row without its label can exceed with this classifier of queries. Rows of
    classes that were not learned then have a probability of 0.

    The result also has ``accuracy`` (of the queries), ``strength`` (scikit-learn's C) and ``steps``.
    """
    if (database is None) != (database_labels is None):
        raise InputError("database and database_labels must be passed together")
    rows, own = (x, labels) if database is None else (database, database_labels)
    classifier, strength = _classifier(_flat(x), np.asarray(labels))
    of_queries = classifier.predict_proba(_flat(queries)).astype(np.float32)
    classes = classifier.classes_
    if known:
        of_rows = (np.asarray(own)[:, None] == classes).astype(np.float32)
    else:
        of_rows = classifier.predict_proba(_flat(rows)).astype(np.float32)
    # P(same class) is the inner product: the ranking by distance with the same square for every row.
    found = map_of_ranking(of_queries, of_rows, query_labels, own, at=LIST, squares=np.zeros(len(of_rows)))
    accuracy = float((classes[of_queries.argmax(1)] == np.asarray(query_labels)).mean())
    return found | {"accuracy": accuracy, "strength": strength, "steps": float(np.max(classifier.n_iter_))}


def _classifier(x: NDArray[Any], labels: NDArray[Any]) -> tuple[Any, float]:
    """A converged logistic regression, and the strength that was best on rows held out of the choice."""
    try:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression
    except ImportError as error:
        raise InputError("topline needs scikit-learn: pip install 'interlace[sklearn]'") from error
    order = np.random.default_rng(0).permutation(len(x))
    held = max(1, int(HELD_OUT * len(x)))
    test, learn = order[:held], order[held : held + CHOICE_ROWS]
    if len(np.unique(labels[learn])) < 2:  # a handful of rows
        return LogisticRegression(max_iter=MOST_STEPS).fit(x, labels), 1.0

    def score(strength: float) -> float:
        with warnings.catch_warnings():  # the choice needs no converged fits
            warnings.simplefilter("ignore", ConvergenceWarning)
            trial = LogisticRegression(C=strength * len(x) / len(learn), max_iter=200).fit(x[learn], labels[learn])
        return float(trial.score(x[test], labels[test]))

    best = max(STRENGTHS, key=score)
    return LogisticRegression(C=best, max_iter=MOST_STEPS).fit(x, labels), best


def random_codes(x: Any, labels: Any, queries: Any, query_labels: Any, seed: int) -> dict[str, float]:
    """MAP of a random ranking for every query."""
    rng = np.random.default_rng(seed)
    database, points = rng.normal(size=(len(x), 16)), rng.normal(size=(len(queries), 16))
    return map_of_ranking(points.astype(np.float32), database.astype(np.float32), query_labels, labels, at=LIST)


def _flat(x: Any) -> NDArray[Any]:
    """Images as flat rows."""
    array = np.asarray(x)
    return array.reshape(len(array), -1)
