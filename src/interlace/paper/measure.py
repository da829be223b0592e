"""Measures of a run. All numbers in tables and figures come from here; docs/measures.md has definitions."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..estimators.models import Model
from ..evaluate.answers import recall
from .figures import KNOWN, RANDOM, TOPLINE
from .judge import LIST, float_map, judge, random_codes, topline
from .problem import Problem

#: Rows for calibration and for the quantization error; held out of learning if there are enough.
HELD_OUT_ROWS = 5_000
RECALLS = (1, 10, 100)

Measures = dict[str, Any]


def measure(model: Model, problem: Problem) -> Measures:
    """Measures of a fitted model: MAP by labels or recall of true neighbours, quantization error, operations."""
    rows, labels = problem.searched
    held_out = np.setdiff1d(np.arange(len(problem.x)), model.sample_)
    # If too few rows are held out, training rows are used as well.
    inputs = problem.x[np.concatenate([held_out, model.sample_])[:HELD_OUT_ROWS]]
    coded = problem.database is None and hasattr(model, "codes_")  # the fit has encoded the database
    database = (None, None) if coded else (rows, labels)
    found = judge(model, problem.queries, problem.query_labels, inputs, *database, full=True, clock=time.process_time)
    found["bytes"] = model.encode(inputs[:1]).shape[1]
    if labels is not None:
        return found | {"float": float_map(model, rows, labels, problem.queries, problem.query_labels)}
    index = model.index(rows)
    return found | _recalls(index.search(problem.queries, min(LIST, len(rows)), margin=math.inf).ids, problem.truth)


def _recalls(found: NDArray[Any], truth: NDArray[Any]) -> Measures:
    return {f"recall@{k}": recall(found, truth, k) for k in RECALLS if k <= truth.shape[1]}


def baseline(name: str, problem: Problem, seed: int) -> Measures:
    """Measures of a baseline: a search by predicted or known classes, or a random ranking."""
    rows, labels = problem.searched
    if labels is None:
        if name != RANDOM:
            raise InputError(f"the baseline {name!r} needs labels, {problem.name} has none")
        rng = np.random.default_rng(seed)
        return _recalls(np.stack([rng.permutation(len(rows))[:LIST] for _ in problem.queries]), problem.truth)
    if name in (TOPLINE, KNOWN):
        x, queries, database = _standardized(problem.x, problem.queries, rows)
        known = name == KNOWN
        return dict(topline(x, problem.labels, queries, problem.query_labels, database, labels, known=known))
    return dict(random_codes(rows, labels, problem.queries, problem.query_labels, seed))


def _standardized(x: NDArray[Any], *others: NDArray[Any]) -> list[NDArray[np.float32]]:
    """Flat rows, standardized by the mean and deviation of ``x``, for faster convergence of the classifier."""
    flat = [np.asarray(part, np.float32).reshape(len(part), -1) for part in (x, *others)]
    mean, deviation = flat[0].mean(0), flat[0].std(0)
    deviation[deviation == 0] = 1.0
    return [(part - mean) / deviation for part in flat]
