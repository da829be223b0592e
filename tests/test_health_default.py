"""What health says of a search that gives neither margin nor rerank nor recall is what such a search does."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import interlace as il
from helpers import clustered
from interlace.engine.margins import DEFAULT
from interlace.engine.recall import DEFAULT_RECALL

FORMATS = (None, "float16", "int8")
BY_VECTORS = f"recall={DEFAULT_RECALL:g}"


def built(originals: str | None, rows: int, n_bytes: int) -> il.Index:
    x = clustered(rows, 8, seed=rows, clusters=40)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return il.Index.build(
            x, n_bytes=n_bytes, n_words=16, layout="subspace", originals=originals, effort="fastest", threads=1
        )


@given(
    originals=st.sampled_from(FORMATS),
    rows=st.sampled_from((300, 2_500)),
    n_bytes=st.integers(1, 4),
    more=st.floats(0, 2),
)
@settings(max_examples=25, deadline=None)
def test_health_says_what_a_search_by_default_does(originals: str | None, rows: int, n_bytes: int, more: float) -> None:
    index = built(originals, rows, n_bytes)
    x = clustered(int(rows * more) + 1, 8, seed=7, clusters=40)
    index.add(x, recalibrate=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stats = index.search(x[:1]).stats
    health = index.health()
    said = f"supports {health.default}, the default"
    assert health.default == (f"margin={DEFAULT:g}" if originals is None else BY_VECTORS)
    if originals is None:
        as_asked = stats.fallback is None
    else:
        as_asked = stats.fallback is None and stats.chosen == f"{BY_VECTORS} by default"
    assert health.default_calibrated == as_asked
    assert (said in health.calibration) == (as_asked and originals is not None)
    if originals is not None:
        assert "default margin" not in str(health)
        if not as_asked and stats.fallback is None:
            assert health.calibration.endswith(f"; a search by default is {stats.chosen}")
    assert bool(health.advice) == (not (health.calibrated and as_asked))


@pytest.mark.parametrize("originals", ["float16", "int8"])
def test_a_default_that_is_supported_needs_nothing_more(originals: Any) -> None:
    """Rows that support 0.99 but not 0.999 support the recall: nothing is left to do."""
    health = built(originals, 3_000, 4).health()
    assert health.calibrated
    assert health.default_calibrated
    assert health.calibration.endswith(f"; supports {BY_VECTORS}, the default")
    assert health.advice == []


def test_codes_that_do_not_reach_the_recall_are_named() -> None:
    x = np.random.default_rng(0).normal(size=(20_000, 32)).astype(np.float32)
    index = il.Index.build(
        x, n_bytes=2, n_words=256, layout="subspace", originals="float16", effort="fastest", threads=1
    )
    health = index.health()
    assert health.calibrated
    assert not health.default_calibrated
    assert "; a search by default is the deepest measured (recall " in health.calibration
    (advice,) = health.advice
    assert advice.startswith("calibrate(queries), or use codes of more bytes: ")
    assert health.calibration.endswith(f"; a search by default is {index.search(x[0]).stats.chosen}")
