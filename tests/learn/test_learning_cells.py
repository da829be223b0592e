"""Learning more cells than a book has words."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import interlace as il
from interlace import Codebooks, FewRowsWarning, InputError
from interlace.codec.encode import encode
from interlace.inputs.arrays import Rows
from interlace.learn.cells import cell_sample, in_tables, learn_cells, sample_size
from interlace.learn.fit import learn_codebooks
from interlace.learn.kmeans import nearest
from interlace.learn.settings import Settings
from interlace.progress import silent
from raising import has_fact, raises


def blobs(n: int, dim: int = 8, seed: int = 0) -> np.ndarray:
    rng, centres = np.random.default_rng(seed), np.random.default_rng(7).normal(size=(300, dim)) * 4
    return (centres[rng.integers(300, size=n)] + rng.normal(size=(n, dim))).astype(np.float32)


def learned(x: np.ndarray, **settings: object) -> Codebooks:
    return learn_codebooks(Rows(x), Settings(**settings).checked(), silent).codebooks


@pytest.mark.parametrize("n_words", [1, 255, 256, 257, 1000, 5000])
def test_tables_hold_the_same_words_and_near_ones_together(n_words):
    words = blobs(n_words, seed=n_words)
    found = in_tables(words)
    assert_array_equal(np.sort(found, axis=0), np.sort(words, axis=0))
    assert len(np.unique(found, axis=0)) == len(np.unique(words, axis=0))
    if n_words > 256:
        spread = [found[i : i + 256].var(0).sum() for i in range(0, n_words, 256)]
        assert np.mean(spread) < 0.8 * words.var(0).sum()


def test_words_of_thousands_of_cells_are_better_than_those_of_256():
    x = blobs(20_000)

    def error(words):
        return float((nearest(x, words, 2)[1] + (x**2).sum(1)).mean())

    errors = []
    for n_cells in (256, 1024, 5000):
        words = learn_cells(x, n_cells, rng=np.random.default_rng(0), threads=2, progress=silent)
        assert 0.9 * n_cells <= len(words) <= n_cells
        errors.append(error(words))
    assert errors[0] > 1.2 * errors[1] > 1.2 * 1.2 * errors[2]


def test_rows_among_many_tables_nearly_always_get_their_nearest_word():
    x = blobs(20_000)
    words = learn_cells(
        x, 6000, rng=np.random.default_rng(0), threads=2, progress=silent
    )  # 24 tables, of which 8 are read
    fresh = blobs(2000, seed=1)
    best = ((fresh[:, None, :] - words[None]) ** 2).sum(2).argmin(1)
    assert (nearest(fresh, words, 1)[0] == best).mean() > 0.97


@pytest.mark.parametrize("layout", ["hybrid", "residual"])
def test_the_same_seed_gives_the_same_books_for_any_number_of_threads(layout):
    x = blobs(6000)
    books = [learned(x, n_bytes=4, layout=layout, cells=600, threads=threads, effort="fast") for threads in (1, 2)]
    assert books[0] == books[1]
    assert 500 < books[0].n_cells <= 600
    assert books[0] != learned(x, n_bytes=4, layout=layout, cells=600, seed=1, effort="fast")


def test_more_cells_make_better_codes():
    x, fresh = blobs(12_000), blobs(1000, seed=1)

    def error(codebooks):
        return float(((codebooks.decode(encode(codebooks, fresh, 2)) - fresh) ** 2).sum(1).mean())

    few, many = (learned(x, n_bytes=4, layout="residual", cells=cells) for cells in (256, 2000))
    assert error(many) < error(few)


def test_the_number_of_cells_follows_the_rows():
    auto = Settings().checked()
    assert [auto.for_rows(n).n_cells for n in (1, 1000, 60_000)] == [256] * 3
    assert [auto.for_rows(n).n_cells for n in (100_000, 300_000, 10**6, 10**7)] == [512, 1024, 4096, 16_384]
    assert [auto.for_rows(n).n_cells for n in (10**8, 10**9)] == [32_768, 65_536]
    long = Settings(n_bytes=32).checked()
    assert [long.for_rows(n).n_cells for n in (1, 10_000, 40_000, 100_000, 10**6)] == [32, 32, 64, 256, 2048]
    assert Settings(n_bytes=32, n_words=16).checked().for_rows(1000).n_cells == 16
    assert Settings(layout="subspace").checked().for_rows(10**7).n_cells == 256
    assert Settings(cells=100).checked().for_rows(10**7).n_cells == 100
    assert Settings(n_words=16).checked().for_rows(1000).n_cells == 16
    assert auto.for_rows(10**7).layouts() == ("hybrid", "residual")


def test_a_sample_of_their_own_is_bounded():
    assert sample_size(10**6, 65_536, 1024) == 65_536
    assert sample_size(10**7, 65_536, 16_384) == 524_288
    assert sample_size(10**9, 65_536, 65_536) == 2**20
    sample = np.arange(100)
    assert cell_sample(1000, sample, 2, np.random.default_rng(0)) is sample
    more = cell_sample(1000, sample, 10, np.random.default_rng(0))
    assert len(more) == 320
    assert (np.diff(more) > 0).all()


@pytest.mark.parametrize(
    ("settings", "facts"),
    [
        ({"cells": 0}, ("cells", 0)),
        ({"cells": -3}, ("cells", -3)),
        ({"cells": 1.5}, ("cells", "1.5")),
        ({"cells": 65_537}, ("cells", 65_536, 65_537)),
        ({"cells": 300, "layout": "subspace"}, ("cells", 300, "subspace")),
        ({"cells": 300, "n_bytes": 1}, ("cells", 300, "n_bytes")),
    ],
)
def test_cells_that_cannot_be(settings, facts):
    with raises(InputError, *facts):
        Settings(**settings).checked()


@pytest.mark.parametrize(("cells", "n"), [(5000, 3000), (200, 100), (256, 255), (2, 1)])
def test_more_cells_than_rows_are_refused(cells, n):
    with raises(InputError, "cells", cells, n, "auto"):
        learned(blobs(n), cells=cells)
    with raises(InputError, "cells", cells, n):
        il.plan(n, 8, cells=cells, measure=False)
    with raises(InputError, "cells", cells, n):
        il.Index.build(blobs(n), cells=cells, progress=False)


def test_more_cells_than_rows_to_learn_from_are_refused():
    with raises(InputError, "cells", 200, "max_train_rows", 199):
        learned(blobs(3000), cells=200, max_train_rows=199)
    # More cells than a book has words have a sample of their own.
    assert learned(blobs(3000), n_bytes=4, cells=2000, max_train_rows=500, effort="fastest").n_cells > 256
    assert learned(blobs(3000), n_bytes=4, max_train_rows=200, effort="fastest").n_cells <= 256  # not asked for
    with raises(InputError, "cells", 1900, 1800):  # of which a store holds some out
        learned(blobs(1800), cells=1900)
    with raises(InputError, "cells", 30_000):
        il.plan_recall(blobs(3000), rows=10**6, cells=30_000)


def test_cells_of_few_rows_warn():
    with pytest.warns(FewRowsWarning) as said:
        learned(blobs(2000), n_bytes=4, layout="residual", cells=1900, effort="fastest")
    assert len(said) == 1
    assert all(has_fact(str(said[0].message), fact) for fact in ("cells=1900", 2000, "cells=256"))
    assert learned(blobs(2000), n_bytes=4, cells=500, effort="fastest").n_cells > 400  # no warning, which would raise


def test_fewer_cells_than_words_of_a_book():
    for layout in ("subspace", "hybrid", "residual"):
        assert learned(blobs(2000), n_bytes=3, layout=layout, cells=7, effort="fast").n_cells == 7
