"""More hits than there are rows, and row numbers that cannot be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import interlace as il
from books import with_segments
from helpers import build, clustered, small_index
from interlace.engine import scan
from interlace.engine.segments import Segment
from raising import raises


@pytest.mark.parametrize("k", [2**31, 2**40, 2**62])
def test_a_k_far_beyond_all_rows_is_refused_before_memory_is_asked_for(tmp_path: Path, k: int) -> None:
    index = build(60)
    store = index.to_store(tmp_path / "s")
    store.remove(store.ids[:7])
    q = clustered(3, 6)
    for searched in (index, store):
        for call in (
            lambda s: s.search(q[0], k),
            lambda s: s.search(q, 1, offset=k),
            lambda s: s.search(q[0], k, filter=np.arange(20, 30)),
            lambda s: s.search_by_id(20, k),
            lambda s: s.explain(q[0], 20, k),
        ):
            with pytest.raises(il.InputError, match=r"answers"):
                call(searched)


def test_the_refusal_says_how_many_rows_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    index, q = small_index(n=9), clustered(4, 4)
    monkeypatch.setattr(scan, "MAX_PADDED", 40)
    assert index.search(q, 10, threads=1).ids.shape == (4, 10)
    assert index.search(q, 9).counts.tolist() == [9] * 4  # no padding, no limit
    with raises(il.InputError, 4, 11, 9):
        index.search(q, 11)


def test_a_padded_answer_is_as_wide_as_asked_for() -> None:
    index = small_index(n=9)
    found = index.search(clustered(2, 4), 1000)
    assert found.ids.shape == found.distances.shape == (2, 1000)
    assert (found.ids[:, 9:] == -1).all()
    assert np.isinf(found.distances[:, 9:]).all()


@pytest.mark.parametrize("own", [False, True])
def test_calibrating_on_damaged_row_numbers(own: bool) -> None:
    """Whatever bit is wrong: a calibration, or DamagedFileError."""
    index, rng = small_index(n=60), np.random.default_rng(0)
    whole, damaged = index.engine.segments[0].arrays, 0
    for _ in range(150):
        arrays = {name: np.array(array) for name, array in whole.items()}
        part = arrays[str(rng.choice(["low", "high", "samples"]))].view(np.uint8).ravel()
        part[rng.integers(len(part))] ^= np.uint8(1 << rng.integers(8))
        index = with_segments(index, (Segment(arrays),))
        try:
            index.calibrate(None if own else clustered(400, 4, seed=1), threads=1)
        except il.DamagedFileError:
            damaged += 1
    assert damaged > 30


def test_codes_of_words_that_are_not_there() -> None:
    index = small_index(n=9)
    arrays = {name: np.array(array) for name, array in index.engine.segments[0].arrays.items()}
    arrays["rest"][:] = 3  # books have 3 words
    index = with_segments(index, (Segment(arrays),))
    for call in (index.calibrate, lambda: index.reconstruct(0)):
        with pytest.raises(il.DamagedFileError, match="a word that its book does not have"):
            call()


def test_codes_of_rows_that_are_not_there() -> None:
    index = small_index(n=9)
    with raises(il.DamagedFileError, "row 9", 9):
        index.engine.codes_of(np.array([0, 9]))
