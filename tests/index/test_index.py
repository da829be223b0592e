"""Building, growing, searching and describing an index."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest

import interlace as il
from interlace.evaluate.answers import exact_neighbours, recall

LAYOUTS = ("subspace", "hybrid", "residual")


def sample(n=3000, dim=16, seed=0):
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(40, dim)) * 2
    return (centres[rng.integers(40, size=n)] + rng.normal(size=(n, dim)) * np.linspace(1, 0.1, dim)).astype(np.float32)


@pytest.mark.parametrize("metric", ["l2", "ip", "cosine"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_finds_most_true_neighbours(layout, metric):
    x = sample()
    x, q = x[:-50], x[-50:]
    index = il.Index.build(x, n_bytes=8, layout=layout, metric=metric, max_train_rows=2000)
    truth = exact_neighbours(x, q, 10, metric)[0]
    assert recall(index.search(q, 10, margin="exact").ids, truth, 10) > 0.5  # chance is .003
    assert index.codebooks.n_bytes == 8
    assert index.metric == metric


@pytest.mark.parametrize("layout", LAYOUTS)
def test_same_seed_same_bytes_for_any_number_of_threads(layout, tmp_path):
    x = sample(1500)
    for name, threads in (("a", 1), ("b", 2)):
        il.Index.build(x, n_bytes=4, layout=layout, seed=3, threads=threads).save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    il.Index.build(x, n_bytes=4, layout=layout, seed=4).save(tmp_path / "c")
    assert (tmp_path / "a").read_bytes() != (tmp_path / "c").read_bytes()


@pytest.mark.parametrize("dim", [1, 2, 3, 7, 13, 97, 300])
@pytest.mark.parametrize("layout", ["auto", *LAYOUTS])
def test_any_dimension(layout, dim):
    x = np.random.default_rng(dim).normal(size=(400, dim)).astype(np.float32)
    index = il.Index.build(x, n_bytes=8, layout=layout, max_train_rows=300)
    found = index.search(x[:5], 3, margin="exact")
    assert (found.distances == index.search(x[:5], 3, margin=math.inf).distances).all()
    index.verify()


@pytest.mark.parametrize("n_bytes", [1, 2, 3, 5, 8, 16, 33])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_number_of_bytes(layout, n_bytes):
    x = sample(300, 40)
    index = il.Index.build(x, n_bytes=n_bytes, layout=layout, max_train_rows=200)
    assert index.codebooks.n_bytes == n_bytes
    assert (index.search(x[:5], 3, margin="exact").ids == index.search(x[:5], 3, margin=math.inf).ids).all()


def test_n_books_leaves_the_norm_column_out():
    x = sample(300)
    assert il.Index.build(x, n_books=4, layout="residual", cross="byte").codebooks.n_bytes == 5
    assert il.Index.build(x, n_books=4, layout="residual").codebooks.n_bytes == 4  # its cross terms take no byte
    assert il.Index.build(x, n_books=4, layout="hybrid").codebooks.n_bytes == 4


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1.0, 1e3, 1e6])
def test_scale_changes_distances_and_nothing_else(scale):
    x = sample(1000)
    one, other = il.Index.build(x, n_bytes=4), il.Index.build(x * np.float32(scale), n_bytes=4)
    a, b = one.search(x[:20], 5, margin="exact"), other.search(x[:20] * np.float32(scale), 5, margin="exact")
    assert (a.ids == b.ids).mean() > 0.9  # rounding may move a word
    assert np.isfinite(b.distances).all()
    same = other.search(x[:20] * np.float32(scale), 5, margin=math.inf)
    assert (b.ids == same.ids).all()


def test_fewer_rows_than_words_shrinks_the_books():
    x = sample(20)
    index = il.Index.build(x, n_bytes=4)
    assert max(len(b.words) for b in index.codebooks.books) <= 20
    assert (index.search(x, 1, margin="exact").ids[:, 0] == np.arange(20)).all()


def test_a_single_row_constant_columns_and_equal_rows():
    one = il.Index.build(np.ones((1, 5), np.float32))
    assert one.search(np.ones(5, np.float32), 3).ids.tolist() == [0, -1, -1]
    x = sample(200)
    x[:, ::2] = 7
    assert len(il.Index.build(x, n_bytes=4).search(x[0], 5).ids) == 5
    same = il.Index.build(np.full((300, 4), 2.5, np.float32), n_bytes=4)
    assert same.search(np.full(4, 2.5, np.float32), 4, margin="exact").ids.tolist() == [0, 1, 2, 3]


def test_add_gives_the_same_answers_as_building_at_once():
    x = sample(1000)
    whole = il.Index.build(x, n_bytes=4)
    grown = il.Index(whole.codebooks)
    for start, stop in ((0, 1), (1, 64), (64, 300), (300, 301), (301, 1000)):
        grown.add(x[start:stop])
    assert len(grown) == 1000
    a, b = whole.search(x[:30], 7, margin="exact"), grown.search(x[:30], 7, margin="exact")
    assert (a.ids == b.ids).all()
    assert a.distances.tobytes() == b.distances.tobytes()
    grown.verify()


def test_many_small_adds_keep_few_segments():
    x = sample(600)
    index = il.Index(il.Index.build(x, n_bytes=4).codebooks)
    for row in x:
        index.add(row[None])
    assert len(index.engine.segments) <= 10
    assert (index.ids == np.arange(600)).all()


def test_a_grown_index_falls_back_to_exact_until_it_is_calibrated_again():
    x = sample(5000)
    index = il.Index.build(x[:2000], n_bytes=4, layout="residual")
    assert index.search(x[0], margin=0.99).stats.rule == "calibrated"
    index.add(x[2000:], recalibrate=False)
    with pytest.warns(il.CalibrationWarning, match="2,000 rows, there are 5,000"):
        assert index.search(x[0], margin=0.99).stats.rule == "exact"
    index.calibrate(x[:500])
    assert index.search(x[0], margin=0.99).stats.rule == "calibrated"
    index.calibrate()
    assert index.search(x[0]).stats.margin


@pytest.mark.parametrize("originals", [None, "float16"])
@pytest.mark.parametrize("size", [600, 5000], ids=["few rows at a time", "many rows at once"])
def test_a_growing_index_is_calibrated_again_by_itself(size, originals):
    x = sample(8000)
    index = il.Index.build(x[:1500], n_bytes=4, layout="residual", originals=originals)
    held_out = index.calibration.error_rows, index.calibration.error
    for start in range(1500, 8000, size):
        before = index.calibration.n
        index.add(x[start : start + size])
        assert index.calibration.n == (before if len(index) <= 1.5 * before else len(index))
        assert index.search(x[0], margin=0.99).stats.rule == "calibrated"
    assert (index.calibration.error_rows, index.calibration.error) == held_out
    assert bool(index.calibration.recalls.found) == (originals is not None)
    exact, found = (index.search(x[:400], 10, margin=margin).ids for margin in ("exact", 0.99))
    assert np.mean([len(np.intersect1d(a, b)) for a, b in zip(exact, found, strict=True)]) >= 9.9


def test_an_index_without_a_calibration_gets_none_by_growing():
    index = il.Index(il.Index.build(sample(2000), n_bytes=2).codebooks)
    index.add(sample(3000))
    assert index.calibration is None


def test_empty_index_and_empty_queries():
    codebooks = il.Index.build(sample(100), n_bytes=2).codebooks
    empty = il.Index(codebooks)
    found = empty.search(np.zeros((2, 16), np.float32), 3)
    assert (found.ids == -1).all()
    assert found.counts.tolist() == [0, 0]
    assert empty.search(np.zeros((0, 16), np.float32), 3).ids.shape == (0, 3)
    empty.add(np.zeros((0, 16), np.float32))
    assert len(empty) == 0


def test_k_beyond_the_rows_pads():
    index = il.Index.build(sample(30), n_bytes=2)
    found = index.search(sample(30)[:2], 50)
    assert found.ids.shape == (2, 50)
    assert (found.counts == 30).all()
    assert (np.sort(found.ids[:, :30]) == np.arange(30)).all()


def test_report_counts_what_is_stored():
    x = sample(5000)
    index = il.Index.build(x, n_bytes=8, layout="hybrid", max_train_rows=3000)
    report = index.report()
    assert report.rows == 5000
    assert 8 < report.code_bytes_per_vector < 9.5  # 256 cells of 20 rows: the bounds still count
    assert report.ids == 0
    assert "code bytes per vector" in str(report)


def test_build_reports_progress_to_the_end():
    seen = []
    il.Index.build(sample(300), n_bytes=3, progress=lambda what, done: seen.append((what, done)))
    shares = [done for _, done in seen]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_an_index_tells_why_it_has_its_layout():
    index = il.Index.build(sample(300), n_bytes=2, iterations=1)
    assert index.choice.layout == index.codebooks.layout
    assert index.choice.why
    model = il.ICQ(2, iterations=1).fit(sample(300))
    assert model.index(sample(300)).choice == model.choice_ == index.choice
    assert il.Index(index.codebooks).choice is None


def test_an_index_is_opened_in_a_with_block_like_a_store(tmp_path):
    il.Index.build(sample(50), n_bytes=2, iterations=1).save(tmp_path / "i")
    with il.open(tmp_path / "i") as index:
        assert len(index) == 50
    assert len(index.search(sample(50)[0], 3).ids) == 3


def test_stats_tell_the_threads_that_had_work():
    index = il.Index.build(sample(300), n_bytes=2)
    assert index.search(sample(300)[0], threads=8).stats.threads == 1
    assert index.search(sample(300)[:17], threads=8).stats.threads == 3


def test_an_answer_that_cannot_fit_is_refused():
    index = il.Index.build(sample(300), n_bytes=2)
    with pytest.raises(il.InputError, match="answers"):
        index.search(sample(300)[:2], 10**12)


def test_rows_are_held_out_of_learning_for_the_calibration(monkeypatch):
    seen = {}
    original = il.Index.of_learned

    def spy(learned, rows, *others, **named):
        seen["trained"], seen["n"] = len(learned.sample), len(rows)
        return original(learned, rows, *others, **named)

    monkeypatch.setattr(il.Index, "of_learned", spy)
    il.Index.build(sample(3000), n_bytes=2)
    assert seen == {"trained": 2700, "n": 3000}
    il.Index.build(sample(500), n_bytes=2)
    assert seen == {"trained": 500, "n": 500}


def test_codes_are_what_from_codes_takes():
    x = sample(300)
    index = il.Index.build(x, n_bytes=3, layout="subspace")
    index.add(x[:5])  # a second segment
    again = il.Index.from_codes(index.codebooks, index.codes)
    assert index.codes.shape == (305, 3)
    np.testing.assert_array_equal(again.search(x[:9], 5).ids, index.search(x[:9], 5, margin="exact").ids)
    np.testing.assert_array_equal(again.codes, index.codes)
    assert (index.ids_of_rows.kind, again.ids_of_rows.kind) == ("default", "default")
    assert il.Index.from_codes(index.codebooks, index.codes[:2], ["a", "b"]).ids_of_rows.kind == "string"
    assert il.Index.from_codes(index.codebooks, index.codes[:2], [7, 9]).ids_of_rows.kind == "int64"
    assert again.calibration is None
    again.calibrate()
    assert again.calibration is not None
    assert again.calibration.n == 305


def test_a_single_search_takes_few_python_calls() -> None:
    """Each costs about half a microsecond, and a single query takes some fifty: count them, whatever the machine."""
    index = il.Index.build(sample(600), n_bytes=4, layout="hybrid", threads=1, originals="int8")
    index.calibrate(sample(400), threads=1)
    query = np.ones(index.dim, np.float32)

    def profile(frame, event, argument):
        if event == "call":
            calls.append(frame.f_code.co_name)

    for most, options in (
        (18, {"margin": 0.99}),
        (24, {"margin": 0.99, "rerank": 50}),
        (18, {"margin": "exact"}),
        (25, {}),
    ):
        index.search(query, **options)  # what is made once is made now
        calls: list[str] = []
        sys.setprofile(profile)
        try:
            index.search(query, **options)
        finally:
            sys.setprofile(None)
        assert len(calls) <= most, calls
