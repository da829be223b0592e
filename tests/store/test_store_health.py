"""Errors of rows as they come, against a plain loop; what health says; one warning when books no longer fit."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_helpers import BOOKS, LARGE, FloatArray, decoded, filled, vectors

import interlace as il
from helpers import clustered
from interlace.codec.book import is_long
from interlace.index.health import CELLS_GROWTH
from interlace.learn.settings import Settings, rows_per_cell_aim
from interlace.store import Health, Limits, drift
from interlace.store.drift import Drift, ErrorSum


def errors(x: FloatArray) -> list[float]:
    """Of each row, by a plain loop."""
    return [
        sum((float(a) - float(b)) ** 2 for a, b in zip(*pair, strict=True)) for pair in zip(x, decoded(x), strict=True)
    ]


def learned(tmp_path: Path, **settings: object) -> tuple[il.Store, FloatArray]:
    """A store of 3,000 rows and 9,000 more of their kind."""
    x = clustered(12_000, 8, seed=1, clusters=40)
    index = il.Index.build(x[:3000], n_bytes=4, layout="subspace", max_train_rows=1500, threads=1, **settings)
    return index.to_store(tmp_path / "s"), x[3000:]


def test_errors_are_summed_up_exactly(tmp_path: Path) -> None:
    """One row, a block, replaced rows, a batch; through the log, checkpoints, another process's eyes."""
    store = il.create(tmp_path / "s", BOOKS, limits=LARGE)
    x = vectors(60) + np.float32(0.25)
    store.add(x[:1])
    store.add(x[1:20])
    with store.batch():
        store.upsert(x[20:30], np.arange(5, 15))
        store.remove([0])
        store.add(x[30:60])
    expected = sum(errors(x))
    assert store.health().added == 60  # rows that were removed again count
    assert store.snapshot.drift.added.error == pytest.approx(expected, rel=1e-6)
    assert store.health().added_error == pytest.approx(expected / 60, rel=1e-6)
    reader = il.open(tmp_path / "s")
    assert reader.snapshot.drift == store.snapshot.drift
    store.compact()
    assert reader.refresh()
    assert reader.snapshot.drift == store.snapshot.drift
    assert reader.snapshot.drift.added.error == pytest.approx(expected, rel=1e-6)
    store.close()
    with il.open(tmp_path / "s", mode="a") as again:
        again.add(x[:7])
        assert again.snapshot.drift.added.error == pytest.approx(expected + sum(errors(x[:7])), rel=1e-6)


def test_a_write_that_fails_counts_nothing(tmp_path: Path) -> None:
    store, _ = filled(tmp_path / "s")
    before = store.snapshot.drift
    with pytest.raises(il.DuplicateIdError):
        store.add(vectors(1), [4])
    assert store.snapshot.drift == before


def test_a_large_block_is_measured_by_a_sample(tmp_path: Path) -> None:
    store, more = learned(tmp_path)
    store.add(more[:5000], threads=1)
    books = store.codebooks
    measured = store.snapshot.drift.recent
    exact = ((more[:5000] - store.get(np.arange(3000, 8000))) ** 2).sum(1, dtype=np.float64)
    assert measured.rows == 5000
    step = math.ceil(5000 / drift.SAMPLE)
    assert measured.error == pytest.approx(exact[::step].mean() * 5000, rel=1e-4)
    assert measured.mean == pytest.approx(exact.mean(), rel=0.1)
    assert books.dim == 8


@pytest.mark.parametrize("metric", ["l2", "cosine", "ip"])
def test_rows_of_the_same_kind_do_not_drift(tmp_path: Path, metric: str) -> None:
    store, more = learned(tmp_path, metric=metric)
    found = store.health()
    assert "held out of learning" in found.training_from
    assert (found.drift, found.relearn) == (None, False)
    store.add(more[:4000], threads=1)
    found = store.health()
    assert found.drift == pytest.approx(1, abs=0.15)
    assert not found.relearn


def test_one_warning_when_rows_no_longer_fit(tmp_path: Path) -> None:
    store, more = learned(tmp_path)
    store.add(more[:900], threads=1)  # no warning: warnings are errors here
    far = more + np.float32(3)
    with pytest.warns(il.RelearnWarning, match=r"the last 1,900 rows .* times .*limit 1\.5.*relearn\(\)") as said:
        store.add(far[:1000], threads=1)
    assert len(said) == 1
    assert said[0].filename == __file__
    assert store.health().relearn
    store.add(far[1000:2000], threads=1)  # told once
    store.close()
    with il.open(tmp_path / "s", mode="a") as again:  # and not again by who comes later: it is no news
        again.add(far[2000:2100], threads=1)
        assert again.health().relearn
        assert "above the limit of 1.5" in str(again.health())


def test_the_warning_of_a_batch_comes_when_it_is_written(tmp_path: Path) -> None:
    store, more = learned(tmp_path)

    def write() -> None:
        with store.batch():
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                store.add(more[:2000] + np.float32(3), threads=1)
            store.upsert(more[0], 7)

    with pytest.warns(il.RelearnWarning):
        write()
    assert store.get(7).shape == (8,)


def test_late_rows_do_not_drown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only those of one or two windows count, however many came before."""
    monkeypatch.setattr(drift, "WINDOW", 1500)
    store, more = learned(tmp_path)
    limits = Limits(rows=500)
    store.close()
    store = il.open(tmp_path / "s", mode="a", limits=limits)
    for first in range(0, 6000, 500):
        store.add(more[first : first + 500], threads=1)
    assert store.health().added == 6000
    assert store.health().recent <= 3500
    calm = store.health()
    with pytest.warns(il.RelearnWarning):
        store.add((more[first : first + 500] + np.float32(3) for first in range(6000, 9000, 500)), threads=1)
    found = store.health()
    assert found.drift > 1.9 * calm.drift
    assert found.added_error < found.recent_error


def test_without_held_out_rows_the_first_ones_are_compared_with(tmp_path: Path) -> None:
    x = clustered(8000, 8, seed=1, clusters=40)
    books = il.Index.build(x[:1900], n_bytes=4, layout="subspace", threads=1).codebooks  # too few to hold some out
    store = il.create(tmp_path / "s", books)
    assert store.health().training_error is None
    assert "first 1,000 rows are the reference, and 0 were added" in str(store.health())
    x = x[2000:]  # rows that were learned from would look too good
    store.add(x[:600], threads=1)
    assert store.health().drift is None
    store.add(x[600:1200], threads=1)
    store.compact()
    found = store.health()
    assert (found.training_from, found.drift, found.added) == ("the first 1,200 rows of this store", None, 1200)
    store.add(x[1200:2400], threads=1)
    assert store.health().drift == pytest.approx(1, abs=0.2)
    assert store.health().added == 2400
    few = il.create(tmp_path / "few", books)
    few.add(x[:300], threads=1)
    few.compact()
    assert " of the first 300 rows of this store (1,000 are needed)\n" in str(few.health())


def test_an_index_keeps_its_held_out_error(tmp_path: Path) -> None:
    store, more = learned(tmp_path)
    error = store.health().training_error
    index = store.snapshot.to_index()
    assert index.codebooks.error == pytest.approx(error)
    store.to_file(tmp_path / "i")
    again = il.open(tmp_path / "i")
    assert again.codebooks.error == index.codebooks.error
    again.calibrate(more[:400], threads=1)
    assert again.to_store(tmp_path / "t").health().training_error == pytest.approx(error)
    store.calibrate(more[:400], threads=1)
    assert store.health().training_error == pytest.approx(error)


def test_learned_from_all_rows_there_is_none() -> None:
    """Their error would look too good."""
    index = il.Index.build(clustered(300, 8), n_bytes=4, threads=1)
    assert math.isnan(index.codebooks.error)
    assert math.isnan(index.calibration.error)


def test_what_health_says(tmp_path: Path) -> None:
    store, more = learned(tmp_path)
    store.add(more[:200], threads=1)
    store.remove(np.arange(10))
    found = store.health()
    assert (found.rows, found.removed, found.segments, found.log_rows) == (3190, 10, 1, 200)
    assert found.bytes == sum(p.stat().st_size for p in (tmp_path / "s").iterdir() if p.name != "LOCK")
    assert found.calibrated
    assert found.calibration.startswith("valid for targets up to 0.99 at k = 10: made for 3,000 rows with ")
    assert found.calibration.endswith("; searches with the default margin (0.999) run exactly")
    assert not found.default_calibrated
    (advice,) = found.advice
    assert advice.startswith(
        "calibrate(queries), with 3,944 queries or more: until then searches with the default margin"
    )
    assert store.search(more[0]).stats.is_exact  # as it says
    text = str(found)
    assert text.startswith("3,190 rows in 1 segment and 200 in the log\n")
    assert "10 rows not compacted yet (0.3%)" in text
    assert "drift        unknown: it needs 1,000 recent rows" in text
    assert f"to do        {advice}" in text
    store.add(np.concatenate([more[:3000]] * 2), threads=1)
    found = store.health()
    assert not found.calibrated
    assert found.calibration.startswith("not valid: 0.999 was calibrated for 3,000 rows, there are 9,190: ")
    assert found.advice[0].startswith("calibrate(queries)")
    store.calibrate(more[:400], threads=1)
    assert store.health().calibrated
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.rows = 3
    store.close()
    with pytest.raises(il.StoreError, match="closed"):
        store.health()


def test_health_of_a_new_store_and_of_one_full_of_removed_rows(tmp_path: Path) -> None:
    store = il.create(tmp_path / "s", BOOKS, limits=LARGE)
    assert store.health().calibration == "none"
    assert store.health().advice == []
    store.add(vectors(100))
    store.compact()
    store.remove(np.arange(40))
    found = store.health()
    assert found.removed_share == pytest.approx(0.4)
    assert [text.partition(":")[0] for text in found.advice] == ["calibrate(queries)", "compact()"]
    assert isinstance(found, Health)


@pytest.mark.parametrize("originals", [None, "float16"])
def test_rows_that_outgrow_their_cells_ask_for_more_cells(tmp_path: Path, originals: str | None) -> None:
    """Two cells, which suit 500 rows, of 2,000 and more; of an index and of a store."""
    x = clustered(2200, 8, seed=1, clusters=40)
    index = il.Index.build(x[:500], n_bytes=4, layout="hybrid", cells=2, effort="fastest", threads=1)
    with il.create(tmp_path / "s", index.codebooks, originals=originals) as store:
        for first, last, outgrown in ((0, 2000, False), (2000, 2200, True)):
            index = il.Index(index.codebooks) if first == 0 else index
            index.add(x[first:last], threads=1)
            store.add(x[first:last], threads=1)
            for found in (store.health(), index.health()):
                assert (found.cells, found.rows_per_cell) == (2, last / 2)
                assert found.rows_per_cell_limit == 1000
                assert found.outgrown == outgrown
                advised = [text for text in found.advice if "cells='auto'" in text]
                assert len(advised) == outgrown
                assert ("above the limit of 1,000" in str(found)) == outgrown
            assert isinstance(index.health(), il.IndexHealth)
        assert "relearn(cells='auto')" in store.health().advice[0]
        if originals is not None:
            store.relearn(cells="auto", effort="fastest", threads=1)
            assert store.codebooks.n_cells == 256
            assert not store.health().outgrown


def test_a_store_that_learns_by_itself_asks_for_more_cells_than_its_plan_has(tmp_path: Path) -> None:
    learning = {"n_bytes": 3, "layout": "hybrid", "cells": 2, "effort": "fastest", "threads": 1}
    with il.create(tmp_path / "s", dim=8, relearn="manual", learn_at=500, **learning) as store:
        store.add(clustered(2200, 8, seed=1, clusters=40), threads=1)
        assert not store.health().outgrown
        store.relearn()
        assert store.health().advice[0].startswith("relearn(cells='auto'),")


def test_the_limit_of_rows_per_cell_follows_the_rule_that_chooses_cells(tmp_path: Path) -> None:
    for n_bytes, n, layout in ((8, 10**5, "hybrid"), (8, 10**7, "residual"), (32, 10**6, "hybrid")):
        chosen = Settings(n_bytes=n_bytes).checked().for_rows(n, layout).n_cells
        long = is_long(n_bytes, 0)
        limit = CELLS_GROWTH * rows_per_cell_aim(n, long=long)
        assert n / chosen < limit / 2
        assert n / (chosen / 8) > limit
    index = il.Index.build(clustered(300, 8), n_bytes=4, layout="subspace", n_words=16, threads=1)
    assert index.health().rows_per_cell_limit is None  # learning again makes no more cells
    assert il.create(tmp_path / "s", dim=8).health().cells == 0


def test_a_calibration_that_counts_is_one_that_search_uses(tmp_path: Path) -> None:
    """Health and search agree, below and beyond the limit."""
    store, more = learned(tmp_path)
    for first in range(0, 5000, 1000):
        with contextlib.nullcontext() if first <= 3000 else pytest.warns(il.CalibrationWarning, match="3,000 rows"):
            used = store.search(more[0], margin=0.99, threads=1).stats.rule == "calibrated"
        assert store.health().calibrated == used
        store.add(more[first : first + 1000], threads=1)
    assert not store.health().calibrated


COUNTS = st.tuples(st.integers(0, 30_000), st.floats(0, 1e9))


@settings(max_examples=60)
@given(st.lists(st.tuples(COUNTS, st.booleans()), max_size=12), st.booleans())
def test_nothing_is_lost_by_windows(steps: list[tuple[tuple[int, float], bool]], held_out: bool) -> None:
    found = Drift.of_learning(2.0, 500) if held_out else Drift()
    rows, error = 0, 0.0
    for (n, e), checkpoint in steps:
        found = found.adding(n, e)
        rows, error = rows + n, error + e
        found = found.at_checkpoint() if checkpoint else found
        assert found.adding(5, math.nan) == found
    assert found.added.rows == rows
    assert found.added.error == pytest.approx(error)
    assert Drift.stored(json.loads(json.dumps(dataclasses.asdict(found)))) == found
    if found.ratio is not None:
        assert found.due == (found.ratio > (drift.DUE if held_out else drift.DUE_BY_FIRST_ROWS))
        assert found.recent.rows >= drift.LEAST


@pytest.mark.parametrize(
    "bad", [{"rows": -1, "error": 0}, {"rows": 1, "error": -1}, {"rows": True, "error": 0}, {"rows": 1, "error": "x"}]
)
def test_sums_that_cannot_be(bad: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="sum of errors"):
        ErrorSum.stored(bad)


def test_codes_that_are_exact_do_not_divide_by_zero() -> None:
    assert Drift.of_learning(0.0, 100).adding(2000, 0.0).ratio == 1.0
    assert Drift.of_learning(0.0, 100).adding(2000, 1.0).ratio == math.inf
