"""Vectors that are too small for float32: one rule, wherever a user passes them, and exact answers to all others."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import interlace as il
from helpers import LAYOUTS, METRICS, clustered
from interlace import evaluate
from interlace.inputs.arrays import LARGEST, SMALLEST, FloatArray

DIM = 6
LEARNING: dict[str, Any] = {"n_bytes": 4, "n_words": 16, "effort": "fastest", "iterations": 1, "threads": 1}
X, Q = clustered(500, DIM), clustered(5, DIM, seed=1)
PLACE, PLACE_OF_QUERY = 300, 3

Call = Callable[[Path, str, Any], Any]  # folder, metric, rows or queries


@functools.cache
def plain(metric: str) -> il.Index:
    return il.Index.build(X, layout="subspace", metric=metric, **LEARNING)


def fresh(metric: str) -> il.Index:
    return il.Index.from_bytes(plain(metric).to_bytes())


def coded(folder: Path, metric: str) -> il.Store:
    """A store with books."""
    return il.create(folder / "coded", plain(metric).codebooks, originals="int8")


def collecting(folder: Path, metric: str, **options: Any) -> il.Store:
    """A store that has not learned yet."""
    options = {"originals": None, "relearn": "manual", **LEARNING} | options
    return il.create(folder / "collecting", dim=DIM, metric=metric, **options)


def with_rows(store: il.Store, x: Any = X) -> il.Store:
    store.add(x, threads=1)
    return store


#: Calls that take rows.
ROWS: dict[str, Call] = {
    "Index.build": lambda folder, metric, x: il.Index.build(x, metric=metric, **LEARNING),
    "Index.add": lambda folder, metric, x: fresh(metric).add(x, threads=1),
    "ICQ.fit": lambda folder, metric, x: il.ICQ(4, n_words=16, metric=metric, threads=1).fit(x),
    "Store.add": lambda folder, metric, x: with_rows(coded(folder, metric), x),
    "Store.add, collecting": lambda folder, metric, x: with_rows(collecting(folder, metric), x),
    "Store.add, collecting int8": lambda folder, metric, x: with_rows(collecting(folder, metric, originals="int8"), x),
    "Store.add, blocks": lambda folder, metric, x: with_rows(collecting(folder, metric), iter([x])),
    "Store.upsert": lambda folder, metric, x: collecting(folder, metric).upsert(x, np.arange(len(x))),
    "exact_neighbours": lambda folder, metric, x: evaluate.exact_neighbours(x, Q, 3, metric),
    "distances_of": lambda folder, metric, x: evaluate.distances_of(x, Q, [[PLACE]] * len(Q), metric),
    "plan_recall": lambda folder, metric, x: il.plan_recall(np.tile(x, (4, 1)), n_bytes=4, metric=metric),
}
#: Calls that take rows, for squared distances only.
QUANTIZERS: dict[str, Call] = {
    "PQ.fit": lambda folder, metric, x: il.quantizers.PQ(2, n_words=16, threads=1).fit(x),
    "LOPQ.encode": lambda folder, metric, x: il.quantizers.LOPQ(3, n_words=16, threads=1).fit(X).encode(x),
    "kneighbors": lambda folder, metric, x: il.Neighbors(n_bytes=4, threads=1).fit(X).kneighbors(x),
}
#: Calls that take queries.
QUERIES: dict[str, Call] = {
    "Index.search": lambda folder, metric, q: plain(metric).search(q, 3),
    "Index.range_search": lambda folder, metric, q: plain(metric).range_search(q, 1.0),
    "Index.explain": lambda folder, metric, q: plain(metric).explain(q[PLACE_OF_QUERY], 0),
    "Index.evaluate": lambda folder, metric, q: plain(metric).evaluate(q, 3),
    "Index.calibrate": lambda folder, metric, q: fresh(metric).calibrate(np.tile(q, (100, 1)), threads=1),
    "Store.search": lambda folder, metric, q: with_rows(coded(folder, metric)).search(q, 3, rerank=10),
    "Store.search, collecting": lambda folder, metric, q: with_rows(collecting(folder, metric)).search(q, 3),
    "exact_neighbours": lambda folder, metric, q: evaluate.exact_neighbours(X, q, 3, metric),
}


def scaled(x: FloatArray, place: int, factor: float) -> FloatArray:
    """One of the vectors is smaller."""
    other = x.copy()
    other[place] *= np.float32(factor)
    return other


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("name", [*ROWS, *QUANTIZERS, *QUERIES])
def test_a_vector_that_is_too_small_is_refused_by_number(tmp_path: Path, name: str, metric: str) -> None:
    call = (ROWS | QUANTIZERS | QUERIES)[name]
    x, place = (Q, PLACE_OF_QUERY) if name in QUERIES else (X, PLACE)
    if metric == "cosine" and name not in QUANTIZERS:  # only directions matter
        call(tmp_path, metric, scaled(x, place, 1e-20))
        return
    for folder in ("refused", "zero", "small"):
        (tmp_path / folder).mkdir()
    number = 0 if name == "Index.explain" else place
    with pytest.raises(il.InputError, match=rf"\[{number}\] is too small: .*scale the vectors up"):
        call(tmp_path / "refused", metric, scaled(x, place, 1e-20))
    for folder, largest in (("zero", 0.0), ("small", 1.01 * SMALLEST)):
        call(tmp_path / folder, metric, scaled(x, place, largest / np.abs(x[place]).max()))


# --- whatever the magnitude: right, or refused


def float64_distances(x: FloatArray, q: FloatArray, metric: str) -> Any:
    wide, queries = x.astype(np.float64), q.astype(np.float64)
    if metric == "l2":
        return ((queries[:, None] - wide) ** 2).sum(2)
    if metric == "cosine":
        wide, queries = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (wide, queries))
    return -(queries @ wide.T)


def check_nearest(found: Any, x: FloatArray, q: FloatArray, metric: str) -> None:
    """Found rows are as near as the nearest ones, in float64, but for the rounding of distances."""
    true = float64_distances(x, q, metric)
    near = np.take_along_axis(true, found, axis=1)
    lengths = 1.0 if metric == "cosine" else np.linalg.norm(q.astype(np.float64), axis=1)[:, None]
    longest = 1.0 if metric == "cosine" else np.linalg.norm(x.astype(np.float64), axis=1).max()
    slack = 1e-5 * near if metric == "l2" else 1e-6 * lengths * longest
    assert (near <= np.sort(true, axis=1)[:, : found.shape[1]] + slack).all()


def is_taken(x: FloatArray, metric: str) -> bool:
    """The rule."""
    largest = np.abs(x).max(1)
    if (largest > LARGEST).any():
        return False
    return bool((largest > 0).all() if metric == "cosine" else ((largest == 0) | (largest >= SMALLEST)).all())


def refuses(call: Callable[[], Any]) -> bool:
    said = ""
    try:
        call()
    except il.InputError as error:
        said = str(error)
    assert not said or any(why in said for why in ("too small", "too large", "all zeros")), said
    return bool(said)


EXPONENTS = st.floats(-45, 18)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(METRICS), EXPONENTS, st.sampled_from([0.0, 0.0, 3.0]), EXPONENTS, st.integers(0, 2**32))
def test_exact_searches_are_right_at_any_magnitude_or_refused(
    tmp_path_factory: pytest.TempPathFactory, metric: str, rows: float, spread: float, queries: float, seed: int
) -> None:
    """A store that has no codes yet and ``exact_neighbours``; ``spread`` decades between the rows."""
    rng = np.random.default_rng(seed)
    x, q = rng.normal(size=(60, DIM)), rng.normal(size=(4, DIM))
    x = (x * 10 ** (rows + spread * rng.uniform(size=(60, 1)))).astype(np.float32)
    q = (q * 10**queries).astype(np.float32)
    with collecting(tmp_path_factory.mktemp("s"), metric) as store:
        refused = refuses(lambda: store.add(x))
        assert refused != is_taken(x, metric)
        assert len(store) == (0 if refused else 60)
        assert refuses(lambda: evaluate.exact_neighbours(x, x[:1], 7, metric)) == refused
        if refused:
            return
        for asked in (x[:4] * np.float32(0.75), q):
            if refuses(lambda asked=asked: store.search(asked, 7)):
                assert not is_taken(asked, metric)
                continue
            assert is_taken(asked, metric)
            check_nearest(store.search(asked, 7).ids, x, asked, metric)
            check_nearest(evaluate.exact_neighbours(x, asked, 7, metric)[0], x, asked, metric)


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(METRICS), st.sampled_from(LAYOUTS), EXPONENTS | st.floats(-15, -12), st.integers(0, 1000))
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_store_learns_from_what_it_takes_as_an_index_does(
    tmp_path_factory: pytest.TempPathFactory, metric: str, layout: str, exponent: float, seed: int
) -> None:
    x = (clustered(200, DIM, seed=seed) * 10.0**exponent).astype(np.float32)
    with collecting(tmp_path_factory.mktemp("s"), metric, layout=layout) as store:
        refused = refuses(lambda: store.add(x))
        assert refused != is_taken(x, metric)
        assert refuses(lambda: il.Index.build(x, layout=layout, metric=metric, **LEARNING)) == refused
        if not refused:
            store.relearn()
            assert store.search(x[:5], 3, margin="exact").counts.tolist() == [3] * 5
