"""Numbers at the ends of what float32 holds work, or are refused by name."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import interlace as il
from helpers import clustered, hand_made, run_python, small_index
from interlace import _native
from interlace.codec.encode import encode
from interlace.engine.hits import WORK
from interlace.files import storage
from raising import Facts, raises

LARGE = 3e37  # finite, and the square of no float32


def books(scale: float) -> list[il.Book]:
    rng = np.random.default_rng(0)
    return [il.Book((rng.normal(size=(5, 4)) * scale).astype(np.float32), np.arange(4)) for _ in range(3)]


@pytest.mark.parametrize(
    ("changes", "facts"),
    [
        ({"books": books(LARGE)}, ("words", "down")),
        ({"books": books(1e18)}, ("words", "large")),
        ({"books": books(1e-20)}, ("words", "vectors")),
        ({"books": [il.Book(np.full((2, 4), 1e-20), np.arange(4))], "n_crude": 1}, ("words", "small")),
        ({"mean": np.full(4, LARGE)}, ("mean", "large")),
        ({"norms": [il.Norm([-1e38, 1e38], (1, 2))]}, ("norm", 0, "1e+38")),
        ({"residual_variance": 1e60}, ("residual_variance", "finite")),
        (
            {"books": [il.Book(np.ones((1, 16_500)), np.arange(16_500))] * 256, "dim": 16_500},
            (256, 16500),
        ),
    ],
)
def test_books_out_of_range_are_refused(changes: dict[str, Any], facts: Facts) -> None:
    with raises(il.InputError, *facts):
        il.Codebooks(**{"books": books(1.0), "dim": 4, "n_crude": 2, **changes})


def test_books_of_zeros_are_no_small_books() -> None:
    codebooks = il.Codebooks([il.Book(np.zeros((2, 4)), np.arange(4))] * 3, dim=4, n_crude=2)
    index = il.Index(codebooks)
    index.add(np.ones((3, 4)))
    assert index.search(np.ones(4), 3).distances.tolist() == [4.0] * 3


DAMAGED = """
import json, sys
import numpy as np
import interlace as il
try:
    index = il.Index.open(sys.argv[1])
    index.add(np.ones((300, 4)))
    index.search(np.ones((20, 4)))
    said = "nothing"
except il.DamagedFileError as error:
    said = str(error)
print(json.dumps(said))
"""


@pytest.mark.parametrize("value", [LARGE, -LARGE, 3e38])
@pytest.mark.parametrize("section", ["codebooks.words.1", "codebooks.words.0", "codebooks.mean"])
def test_a_file_with_right_checksums_and_words_out_of_range_is_damaged(
    tmp_path: Path, section: str, value: float
) -> None:
    arrays, description = small_index(cross=True).to_arrays()
    arrays[section] = np.full_like(arrays[section], value)
    storage.write(tmp_path / "i", arrays, description)
    said = run_python(DAMAGED, str(tmp_path / "i"))
    assert "codebooks" in said
    assert "too large" in said


def native_books(words: float) -> _native.Books:
    codebooks = hand_made(cross=True)
    return _native.Books(
        dim=4,
        metric=0,
        mean=codebooks.mean,
        rotation=None,
        words=[np.full_like(book.words, words) for book in codebooks.books],
        supports=[book.support for book in codebooks.books],
        norm_values=[],
        norm_covers=[],
        ignored=[],
        constant=0.0,
        columns=list(codebooks.columns),
        n_crude=codebooks.n_crude_columns,
        folded=False,
    )


def test_native_code_checks_for_itself() -> None:
    """Arrays may change after Python checked them."""
    for words in (LARGE, math.nan, math.inf):
        with raises(ValueError, "words", "large"):
            native_books(words)
    codebooks, index = hand_made(cross=True), small_index(cross=True)
    segments = [s.native for s in index.engine.segments]
    for value in (math.nan, math.inf, LARGE):
        x = np.ones((40, 4), np.float32)
        x[17, 2] = value
        with pytest.raises(ValueError, match="not finite, or too large"):
            encode(codebooks, x, 1)
        with pytest.raises(ValueError, match="not finite, or too large"):
            _native.range_search(
                codebooks.native,
                segments,
                [],
                x,
                np.ones(40, np.float32),
                _native.Rule.exact(),
                2,
                np.zeros(40, np.int64),
                np.zeros((40, WORK), np.uint64),
            )
        with pytest.raises(ValueError, match="not finite, or too large"):
            _native.nearest(x, np.full((3, 4), value, np.float32), 1, np.zeros(40, np.int32), np.zeros(40, np.float32))


@pytest.mark.parametrize("exponent", [-40, 38, 50])
@pytest.mark.parametrize(
    "settings",
    [
        {"layout": "subspace"},
        {"layout": "hybrid"},
        {"layout": "residual"},
        {"layout": "residual", "cross": "byte"},
        {"layout": "subspace", "cross": "byte"},
    ],
    ids=lambda s: "-".join(s.values()),
)
def test_a_power_of_two_changes_nothing_but_the_unit(settings: dict[str, Any], exponent: int) -> None:
    """From 1e-12 to 1e15: the same codes, and distances that differ by the square of the factor, exactly."""
    x, scale = clustered(200, 6), np.float32(2.0**exponent)
    one, other = (
        il.Index.build(rows, n_bytes=4, n_words=32, iterations=1, threads=1, **settings) for rows in (x, x * scale)
    )
    rows = np.arange(200)
    assert np.array_equal(one.engine.codes_of(rows), other.engine.codes_of(rows))
    ours, theirs = one.search(x[:20], 7, threads=1), other.search(x[:20] * scale, 7, threads=1)
    assert np.array_equal(ours.ids, theirs.ids)
    assert np.array_equal(ours.distances * scale * scale, theirs.distances)


@pytest.mark.parametrize("layout", ["subspace", "hybrid", "residual"])
@pytest.mark.parametrize("metric", ["l2", "ip"])
def test_vectors_too_small_for_float32_are_refused(layout: str, metric: str) -> None:
    with pytest.raises(il.InputError, match="too small.*scale the vectors up"):
        il.Index.build(clustered(100, 6) * np.float32(1e-20), n_bytes=4, layout=layout, metric=metric, threads=1)


def test_directions_of_tiny_vectors_are_as_good_as_any() -> None:
    x = clustered(100, 6)
    one, other = (
        il.Index.build(rows, n_bytes=4, metric="cosine", layout="hybrid", threads=1) for rows in (x, x * 2.0**-70)
    )
    assert np.array_equal(one.search(x[:9]).ids, other.search(x[:9] * 2.0**-70).ids)
