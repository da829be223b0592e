"""An index and a store with more than 256 cells: searches, files, growth."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import interlace as il
from raising import raises

N_CELLS = 700


def rows(n: int, seed: int = 0, dim: int = 10) -> np.ndarray:
    rng, centres = np.random.default_rng(seed), np.random.default_rng(7).normal(size=(100, dim)) * 3
    return (centres[rng.integers(100, size=n)] + rng.normal(size=(n, dim))).astype(np.float32)


def built(layout: str, metric: str = "l2", n: int = 4000, **settings: object) -> il.Index:
    given = {"n_bytes": 4, "layout": layout, "metric": metric, "cells": N_CELLS, "effort": "fast", "progress": False}
    return il.Index.build(rows(n), **given | settings)


def same(a: il.Matches, b: il.Matches) -> bool:
    return a.ids.tobytes() == b.ids.tobytes() and a.distances.tobytes() == b.distances.tobytes()


@pytest.mark.parametrize("metric", ["l2", "ip", "cosine"])
@pytest.mark.parametrize("layout", ["hybrid", "residual"])
def test_exact_is_exhaustive_at_every_level(simd, layout, metric):
    index, q = built(layout, metric), rows(20, seed=1)
    assert 500 < index.codebooks.n_cells <= N_CELLS
    for k in (1, 10, 100):
        exact, everything = index.search(q, k=k, margin="exact"), index.search(q, k=k, margin=float("inf"))
        assert same(exact, everything)
        assert exact.stats.scanned <= everything.stats.scanned


def test_a_file_keeps_them(tmp_path):
    index, q = built("residual"), rows(30, seed=1)
    index.save(tmp_path / "many.il")
    again = il.Index.open(tmp_path / "many.il")
    again.verify()
    for other in (again, pickle.loads(pickle.dumps(index)), copy.deepcopy(index)):
        assert same(other.search(q), index.search(q))


def test_codes_and_vectors_come_back():
    index, x = built("hybrid"), rows(4000)
    codes = index.codes
    assert codes.shape == (4000, 2 + 3)
    assert same(
        il.Index.from_codes(index.codebooks, codes).search(x[:9], margin="exact"), index.search(x[:9], margin="exact")
    )
    assert_array_equal(index.reconstruct([5, 7]), index.codebooks.decode(codes[[5, 7]]))
    with raises(il.InputError, "codes", 5):
        il.Index.from_codes(index.codebooks, codes[:, 1:])


def test_rows_are_added_and_found(tmp_path):
    index, more = built("residual"), rows(500, seed=2)
    index.add(more)
    assert len(index) == 4500
    found = index.search(index.reconstruct(np.arange(4000, 4500)), k=1, margin="exact")
    error = index.distance_error(more).max()
    assert (found.distances[:, 0] <= error).all()


def test_filters_range_and_explain():
    index, q = built("hybrid"), rows(5, seed=3)
    allowed = np.arange(0, 4000, 3)
    found = index.search(q, k=10, filter=index.allow(allowed))
    every = index.search(q, k=4000, margin=float("inf"))
    for ids, of_query in zip(found.ids, every.ids, strict=True):
        assert_array_equal(ids, of_query[np.isin(of_query, allowed)][:10])
    near = index.range_search(q[0], float(every.distances[0, 20]))
    assert set(every.ids[0, :21].tolist()) <= set(near.ids.tolist())
    assert "cell" in str(index.explain(q[0], int(every.ids[0, 0]), k=10))


def test_a_store_has_them_through_log_checkpoint_and_relearning(tmp_path):
    index, x, q = built("residual"), rows(4000), rows(20, seed=4)
    with il.create(tmp_path / "store", index.codebooks, originals="float16") as store:
        ids = store.add(x[:3000])
        before = store.search(q, margin="exact")
        store.add(x[3000:])
        store.remove(ids[::2])
        store.compact()
        with il.open(tmp_path / "store") as reader:
            assert same(reader.search(q, margin="exact"), store.search(q, margin="exact"))
            assert not same(before, reader.search(q, margin="exact"))
            reader.verify()
        store.relearn(cells=400, effort="fast")
        assert 300 < store.codebooks.n_cells <= 400
        exact, every = store.search(q, margin="exact"), store.search(q, margin=float("inf"))
        assert same(exact, every)


def test_plan_counts_their_bytes():
    plans = [
        il.plan(10**6, 128, n_bytes=8, layout="residual", cells=cells, measure=False) for cells in (256, 1024, 4096)
    ]
    per_row = [(plan.codes + plan.row_numbers) / 10**6 for plan in plans]
    assert per_row[0] < per_row[1] < per_row[2] < per_row[0] + 0.6  # two bits for each factor of four, and bounds
    assert plans[2].tables < 4096 * 7 * 256 * 2  # no terms for each cell
    with raises(il.InputError, "max_memory"):
        il.plan(10**7, 128, n_bytes=8, cells=65_536, max_memory="100MB", measure=False)
    report = built("residual", n=4000).report()
    planned = il.plan(4000, 10, n_bytes=4, layout="residual", cells=N_CELLS, effort="fast", measure=False)
    assert planned.codes == report.codes
    assert planned.row_numbers == pytest.approx(report.row_numbers, rel=0.1)


@pytest.mark.parametrize("cells", ["many", 10**30, 0, -1, 1.5, None, True, [300]])
def test_other_numbers_of_cells_are_refused(cells):
    with raises(il.InputError, "cells", 65536):
        il.plan(100_000, 8, cells=cells, measure=False)


def test_numbers_of_cells_of_any_integer_type_are_taken():
    assert str(il.plan(10_000, 8, cells=np.int32(300), measure=False)) == str(
        il.plan(10_000, 8, cells=300, measure=False)
    )
