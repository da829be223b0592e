"""Points like some examples and unlike others: a search for the average of the examples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...store import Snapshot
from ..problems import ProblemDetails, unsupported
from ..requests import ids as point_ids
from ..requests.models import Recommend
from .searching import FloatArray, as_vector, vectors_of


def recommend_of(given: Any) -> Recommend | None:
    """What a query asks for, if it asks for this."""
    if not isinstance(given, dict) or given.keys() != {"recommend"}:
        return None
    strategy = given["recommend"].get("strategy") if isinstance(given["recommend"], dict) else None
    if strategy in ("best_score", "sum_scores"):
        raise unsupported(f"the strategy {strategy!r} of recommend")
    return Recommend.model_validate(given["recommend"])


def average(snapshot: Snapshot, wanted: Recommend, dim: int, most: int) -> FloatArray:
    """The mean of the positive examples, moved away from the mean of the negative ones by their difference."""
    negative = wanted.negative or []
    if len(wanted.positive) + len(negative) > most:
        raise ProblemDetails(422, "limit", f"the limit batch is {most} examples of recommend", limit="batch")
    mean = _mean(snapshot, wanted.positive, dim, "positive")
    if negative:
        mean = 2 * mean - _mean(snapshot, negative, dim, "negative")
    vector: FloatArray = mean.astype(np.float32)
    return vector


def without_examples(filter: Any, wanted: Recommend) -> dict[str, Any]:
    """A filter of a request that also leaves the examples out."""
    ids = [each for each in (*wanted.positive, *(wanted.negative or [])) if not isinstance(each, list)]
    return {"must": [] if filter is None else [filter], "must_not": [{"has_id": ids}]}


def _mean(snapshot: Snapshot, examples: Sequence[Any], dim: int, name: str) -> NDArray[np.float64]:
    """Mean, float64 [dim], of vectors and ids of points; one vector is in memory at a time."""
    total = np.zeros(dim)
    for i, example in enumerate(examples):
        if isinstance(example, list):
            total += as_vector(example, dim, f"recommend.{name}[{i}]")
        else:
            total += vectors_of(snapshot, point_ids.to_store(example))
    return total / len(examples)
