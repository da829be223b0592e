"""The judge counts what it says, for any database, with labels and without, and for indexes of any kind."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import interlace as il
from helpers import clustered, hand_made
from interlace import evaluate
from interlace.codec.encode import encode
from interlace.paper import judge
from interlace.quantizers import Fitted, Model

N_WORDS = 16
RNG = np.random.default_rng(2)
QUERIES, QUERY_LABELS = RNG.normal(0, 2, (20, 6)).astype(np.float32), RNG.integers(0, 3, 20)
HELD_OUT = RNG.normal(0, 2, (50, 6)).astype(np.float32)
DATABASE, DATABASE_LABELS = RNG.normal(0, 2, (300, 6)).astype(np.float32), RNG.integers(0, 3, 300)


def model(n=700, seed=0):
    """Two groups of overlapping books, as a fit with labels leaves them; labels by the first code."""
    rng = np.random.default_rng(seed)
    halves = (np.arange(3, dtype=np.uint32), np.arange(3, 6, dtype=np.uint32))
    scales = (3.0, 1.0, 0.5, 0.3)
    books = [il.Book(rng.normal(0, scales[k], (N_WORDS, 3)).astype(np.float32), halves[k // 2]) for k in range(4)]
    norm = il.Norm(np.zeros(1, np.float32), (2, 3))
    codebooks = il.Codebooks(books, dim=6, n_crude=1, norms=[norm], residual_variance=1.0)
    codes = rng.integers(0, N_WORDS, (n, 4)).astype(np.uint8)
    made = il.ICQ(n_books=4, threads=1)
    made.set_fitted(Fitted(codebooks, np.arange(n), n, codes=codes, labels=codes[:, 0] % 3))
    return made


def test_the_flat_index_ranks_by_the_sum_of_tables_in_the_order_of_rows():
    made = model()
    codebooks, codes = made.codebooks_, made.codes_
    q = np.random.default_rng(1).normal(0, 2, (5, 6)).astype(np.float32)
    flat = judge.flat_index(codebooks, codes)
    found = flat.search(q, len(codes), margin=float("inf"))
    decoded = codebooks.decode(codes)
    cross = np.zeros(len(codes))
    for pair in ((0, 1), (2, 3)):
        words = [np.zeros((len(codes), 6)) for _ in pair]
        for w, k in zip(words, pair, strict=True):
            w[:, codebooks.books[k].support] = codebooks.books[k].words[codes[:, k]]
        term = 2 * (words[0] * words[1]).sum(1)
        cross += term.mean() - term  # the constant stands for the term
    for i in range(len(q)):
        expected = np.maximum(((q[i] - decoded) ** 2).sum(1) + cross, 0)
        assert_allclose(found.distances[i], expected[found.ids[i]], rtol=1e-3, atol=1e-2)
    assert flat.search(q, 5, margin="exact").stats.scanned == 5 * len(codes)  # one cell: every row is looked at
    assert_array_equal(flat.search(q, 5, margin="exact").ids, found.ids[:, :5])


@pytest.mark.parametrize("layout", ["subspace", "residual", "hybrid"])
@pytest.mark.parametrize("metric", ["l2", "ip", "cosine"])
def test_the_flat_index_of_books_without_constants_has_the_distances_of_the_decoded(layout, metric):
    x = clustered(400, 8) + np.float32(3)
    books = il.ICQ(n_books=4, n_words=16, layout=layout, metric=metric, threads=1, iterations=2).fit(x)
    codes, q = books.encode(x), clustered(4, 8, seed=1) + np.float32(3)
    flat = judge.flat_index(books.codebooks_, codes)
    assert flat.codebooks.n_cells == 1
    found = flat.search(q, 400, margin=math.inf)
    whole = evaluate.distances_of(books.decode(codes), q, np.tile(np.arange(400), (4, 1)))
    if metric == "ip":
        whole = -(q @ books.decode(codes).T)
    if metric == "cosine":  # decoded vectors are not normalised again
        unit = q / np.sqrt((q**2).sum(1, keepdims=True))
        whole = books.codebooks_.metric_type.distances(unit, books.decode(codes))
    assert_allclose(found.distances, np.take_along_axis(whole, found.ids, 1), rtol=1e-2, atol=1e-2)
    again = judge.flat_index(flat.codebooks, flat.engine.codes_of(np.arange(400)))  # nothing to do
    assert again.codebooks is flat.codebooks


@pytest.mark.parametrize("kind", ["norms", "cross"])
def test_stored_and_computed_cross_terms_are_computed_in_the_flat_index(kind):
    codebooks = hand_made(**{kind: True})
    codes = encode(codebooks, clustered(60, 4), 1)
    q = clustered(3, 4, seed=1)
    found = judge.flat_index(codebooks, codes).search(q, 60, margin=math.inf)
    whole = ((q[:, None].astype(float) - codebooks.decode(codes)) ** 2).sum(2)
    assert_allclose(found.distances, np.take_along_axis(whole, found.ids, 1), rtol=1e-2, atol=1e-2)


def test_the_judge_counts_every_crude_book_of_every_row():
    result = judge.judge(model(), QUERIES, QUERY_LABELS, HELD_OUT)
    assert list(result) == ["map", "map@100", "map@1000", "two-step map", "n_crude", "n_psi", "searches"]
    assert list(result["searches"]) == [
        f"{order}, {margin}" for order in ("two-step", "crude order") for margin in (0.999, "exact", "paper")
    ]
    for search in result["searches"].values():
        assert list(search) == ["ops", "ops_in_cells", "agreement", "map@100"]
        assert 1 <= search["ops"] <= 4
        assert 0 <= search["ops_in_cells"] <= 4.5
    assert result["searches"]["two-step, exact"]["agreement"] == 1.0
    assert result["searches"]["crude order, exact"]["agreement"] == 1.0


def list_map(index, margin, labels):
    """MAP@100 of the lists of a search, one query after the other."""
    total = 0.0
    for query, own in zip(QUERIES, QUERY_LABELS, strict=True):
        hits, precisions = 0, []
        for place, row in enumerate(index.search(query[None], 100, margin=margin).ids[0], 1):
            if labels[row] == own:
                hits += 1
                precisions.append(hits / place)
        total += sum(precisions) / max(1, len(precisions))
    return total / len(QUERIES)


def test_map_and_operations_of_a_point_come_from_one_index():
    made = model()
    result = judge.judge(made, QUERIES, QUERY_LABELS, HELD_OUT)
    indexes = {
        "two-step": judge.flat_index(made.codebooks_, made.codes_),
        "crude order": il.Index.from_codes(made.codebooks_, made.codes_),
    }
    for order, index in indexes.items():
        search = result["searches"][f"{order}, exact"]
        assert search["map@100"] == pytest.approx(list_map(index, "exact", made.labels_))
        stats = index.search(QUERIES, 100, margin="exact").stats
        assert search["ops"] == pytest.approx(1 + 3 * stats.survivors / (20 * 700))
    assert result["map@100"] == pytest.approx(result["searches"]["crude order, exact"]["map@100"])
    whole = [indexes["two-step"].search(q[None], 700, margin=math.inf).ids[0] for q in QUERIES]
    hits = np.array([made.labels_[ids] == own for ids, own in zip(whole, QUERY_LABELS, strict=True)])
    assert result["two-step map"] == pytest.approx(evaluate.average_precision(hits).mean(), abs=1e-4)


def test_a_clock_times_every_search():
    ticks = iter(range(10_000))
    result = judge.judge(model(), QUERIES, QUERY_LABELS, HELD_OUT, clock=lambda: float(next(ticks)))
    assert {search["seconds"] for search in result["searches"].values()} == {1 / 20}  # one tick for 20 queries
    assert result["exhaustive_seconds"] == {"two-step": 1 / 20, "crude order": 1 / 20}


def test_both_sigmas():
    x = clustered(500, 6)
    books = il.ICQ(n_books=4, n_words=16, layout="subspace", threads=1, iterations=2).fit(x).codebooks_
    codes, psi = encode(books, x, 1), books.crude_dims.tolist()
    assert 0 < len(psi) < 6
    rest = np.zeros((500, 6))
    for k in range(books.n_crude, 4):
        rest[:, books.books[k].support] += books.books[k].words[codes[:, k]]
    found = judge.sigmas(books, codes)
    assert list(found) == ["paper", "paper, codes"]
    assert found["paper"] == pytest.approx(sum(float(v) for i, v in enumerate(books.variances) if i not in psi))
    assert found["paper, codes"] == pytest.approx(rest.var(0).sum())
    assert list(judge.sigmas(model().codebooks_, model().codes_)) == ["paper"]  # of books without psi
    labels = np.arange(500) % 4
    made = il.ICQ(n_books=4, n_words=16, layout="subspace", threads=1, iterations=2).fit(x)
    searches = judge.judge(made, x[:9], labels[:9], x[100:200], x, labels)["searches"]
    direct = il.Index.from_codes(made.codebooks_.with_sigma(found["paper"]), made.encode(x))
    truth = direct.search(x[:9], 100, margin=math.inf)
    expected = evaluate.agreement(direct.search(x[:9], 100, margin="paper").ids, truth.ids)
    assert searches["crude order, paper"]["agreement"] == expected
    assert "two-step, paper, codes" in searches


def test_the_factor_of_the_recipe_reaches_the_margin():
    """Regression: the sweep of sigma was measured with the factor 1 throughout."""
    x = clustered(500, 6)
    made = il.ICQ(n_books=4, n_words=16, layout="subspace", threads=1, iterations=2).fit(x)
    codes = made.encode(x)
    plain, wide = judge.sigmas(made.codebooks_, codes), judge.sigmas(made.codebooks_, codes, 4.0)
    assert wide == {name: pytest.approx(4 * value) for name, value in plain.items()}
    assert judge.sigma_factor(made) == 1.0  # no recipe
    agreements = []
    for factor in (0.0, 1.0, 1e4):
        made.fit_info_ = {**made.fit_info_, "recipe": {"sigma": factor}}
        found = judge.judge(made, x[:50], np.arange(50) % 4, x[100:200], x, np.arange(500) % 4)["searches"]
        agreements.append((found["crude order, paper"]["ops"], found["crude order, paper"]["agreement"]))
    assert agreements[0] < agreements[1] < agreements[2]
    assert agreements[2][1] == 1.0


def test_another_database_is_coded_and_searched():
    made = model()
    result = judge.judge(made, QUERIES, QUERY_LABELS, HELD_OUT, DATABASE, DATABASE_LABELS, full=True)
    for at, key in ((None, "map"), (100, "map@100"), (1000, "map@1000")):
        expected = made.score(QUERIES, QUERY_LABELS, DATABASE, DATABASE_LABELS, at=at)
        assert result[key] == pytest.approx(expected)
    index = il.Index.from_codes(made.codebooks_, made.encode(DATABASE))
    found = index.search(QUERIES, 100, margin=math.inf)
    shares = [np.mean([DATABASE_LABELS[i] == y for i in ids]) for ids, y in zip(found.ids, QUERY_LABELS, strict=True)]
    assert result["precision@100"] == pytest.approx(np.mean(shares))
    exact = index.search(QUERIES, 100, margin="exact").stats
    assert result["searches"]["crude order, exact"]["ops"] == pytest.approx(1 + 3 * exact.survivors / (20 * 300))
    assert result["searches"]["crude order, exact"]["ops_in_cells"] == exact.ops_per_vector
    error = evaluate.quantization_error(made, HELD_OUT)
    assert (result["error"], result["relative_error"]) == error
    assert result["exhaustive_ops"] == 4
    assert len(made.codes_) == 700  # the model is as it was
    own = judge.judge(made, QUERIES, QUERY_LABELS, HELD_OUT, full=True)
    assert own["map"] != result["map"]


def test_the_cascade_is_the_calibrated_search_beside_the_scan():
    judged = judge.judge(model(), QUERIES, QUERY_LABELS, HELD_OUT, full=True)
    found = judge.cascade(judged)
    calibrated = judged["searches"]["crude order, 0.999"]
    assert found == {"ops": calibrated["ops"], "exhaustive_ops": 4.0, "agreement": calibrated["agreement"]}
    with pytest.raises(il.InputError, match="exhaustive_ops.*full=True"):
        judge.cascade(judge.judge(model(), QUERIES, QUERY_LABELS, HELD_OUT))


def test_models_that_learn_without_labels():
    x = clustered(500, 6)
    made = il.ICQ(n_books=4, n_words=16, layout="subspace", threads=1, iterations=2).fit(x)
    labels = np.arange(500) % 4
    result = judge.judge(made, x[:9], labels[:9], x[100:200], x, labels, full=True)
    assert 0 < result["map@100"] <= 1
    silent = judge.judge(made, x[:9], None, x[100:200], x, full=True)
    assert not [key for key in silent if key.startswith(("map", "precision"))]
    for name, search in silent["searches"].items():
        assert search == {key: value for key, value in result["searches"][name].items() if key != "map@100"}
    assert silent["error"] == result["error"]


class Halves:
    """An index in two parts, each row in one of them: only what a judge may ask for."""

    def __init__(self, parts):
        self.parts, self.calibrated = parts, 0

    def calibrate(self, queries):
        self.calibrated = len(queries)

    def search(self, q, k, *, margin):
        both = [part.search(q, k, margin=margin, threads=1) for part in self.parts]
        ids = np.concatenate([both[0].ids, np.where(both[1].ids < 0, -1, both[1].ids + len(self.parts[0]))], 1)
        distances = np.concatenate([one.distances for one in both], 1)
        order = np.argsort(distances, axis=1, kind="stable")[:, :k]
        work = {
            name: sum(getattr(one.stats, name) for one in both)
            for name in ("rows", "cells", "scanned", "survivors", "lookups", "seconds")
        }
        stats = il.SearchStats(queries=len(q), margin=str(margin), threads=1, simd="", **work)
        ids, distances = np.take_along_axis(ids, order, 1), np.take_along_axis(distances, order, 1)
        return il.Matches(ids, distances, (ids >= 0).sum(1), stats, "l2")


class InHalves(il.ICQ):
    """Books as ever, an index of its own."""

    def index(self, X, ids=None):  # noqa: N803
        halves = np.split(X, [len(X) // 2])
        self.made = Halves([il.Index.from_codes(self.codebooks_, self.encode(half)) for half in halves])
        return self.made


def test_an_index_of_another_kind_is_searched_as_it_is():
    x, labels = clustered(500, 6), np.arange(500) % 4
    whole = il.ICQ(n_books=4, n_words=16, layout="subspace", threads=1, iterations=2).fit(x)
    halves = InHalves(n_books=4, n_words=16, layout="subspace", threads=1, iterations=2).fit(x)
    a = judge.judge(whole, x[:9], labels[:9], x[50:450], x, labels, full=True)
    b = judge.judge(halves, x[:9], labels[:9], x[50:450], x, labels, full=True)
    assert halves.made.calibrated == 400
    for key in ("map", "map@100", "map@1000", "precision@100", "error"):
        assert b[key] == pytest.approx(a[key], abs=2e-3)  # the same codes; near ties may change places
    assert [*b["searches"]] == ["crude order, 0.999", "crude order, exact", "crude order, paper"]
    for search in b["searches"].values():
        assert 1 <= search["ops"] <= 4
    assert b["searches"]["crude order, exact"]["agreement"] == 1.0
    assert b["exhaustive_ops"] == 4
    assert judge.cascade(b)["exhaustive_ops"] == b["exhaustive_ops"]


def test_missing_arguments_are_refused():
    made = model()
    unlabelled = il.ICQ(n_books=2, n_words=8, layout="subspace", threads=1, iterations=1).fit(clustered(100, 6))
    halves = InHalves(n_books=2, n_words=8, layout="subspace", threads=1, iterations=1).fit(clustered(100, 6))
    for call, message in (
        (lambda: judge.judge(made, QUERIES, QUERY_LABELS, HELD_OUT, DATABASE), "pass database_labels"),
        (lambda: judge.judge(made, QUERIES, QUERY_LABELS, HELD_OUT, None, DATABASE_LABELS), "needs database:"),
        (lambda: judge.judge(unlabelled, QUERIES, QUERY_LABELS, HELD_OUT), "ICQ has no codes.*pass database"),
        (lambda: judge.judge(halves, QUERIES, QUERY_LABELS, HELD_OUT), "InHalves is built from rows: pass database"),
        (lambda: judge.topline(DATABASE, DATABASE_LABELS, QUERIES, QUERY_LABELS, DATABASE), "and database_labels"),
    ):
        with pytest.raises(il.InputError, match=message):
            call()


def separated(n, seed, classes=(0, 1, 2)):
    rng = np.random.default_rng(seed)
    labels = rng.choice(classes, n)
    return (np.eye(6)[labels] * 4 + rng.normal(size=(n, 6)) * 0.5).astype(np.float32), labels


def test_baselines_stand_where_they_should():
    pytest.importorskip("sklearn")
    x, labels = separated(200, 0)
    queries, query_labels = separated(30, 1)
    top = judge.topline(x, labels, queries, query_labels)
    random = judge.random_codes(x, labels, queries, query_labels, 0)
    assert top["map"] > 0.95
    assert random["map"] < 0.5
    assert random == judge.random_codes(x, labels, queries, query_labels, 0)
    made = il.ICQ(n_books=2, n_words=8, layout="subspace", threads=1, iterations=1).fit(x)
    direct = evaluate.map_of_ranking(queries, x, query_labels, labels, at=100)
    assert judge.float_map(made, x, labels, queries, query_labels) == direct
    images = x.reshape(-1, 2, 3)
    assert judge.topline(images, labels, queries.reshape(-1, 2, 3), query_labels) == top


def test_the_topline_ranks_by_the_probability_of_the_same_class():
    linear = pytest.importorskip("sklearn.linear_model")
    rng = np.random.default_rng(5)
    labels, query_labels = rng.integers(0, 3, 300), rng.integers(0, 3, 40)
    x = (np.eye(6)[labels] + rng.normal(size=(300, 6)) * 0.8).astype(np.float32)
    queries = (np.eye(6)[query_labels] + rng.normal(size=(40, 6)) * 0.8).astype(np.float32)
    found = {known: judge.topline(x, labels, queries, query_labels, known=known) for known in (False, True)}
    classifier = linear.LogisticRegression(C=found[False]["strength"], max_iter=5000).fit(x, labels)
    of_queries, of_rows = classifier.predict_proba(queries), classifier.predict_proba(x)
    for known, rows in ((False, of_rows), (True, np.eye(3)[labels])):
        total = 0.0
        for q, own in zip(of_queries, query_labels, strict=True):
            order = np.argsort(-(rows @ q), kind="stable")
            hits = labels[order] == own
            total += (hits * hits.cumsum() / np.arange(1, 301)).sum() / hits.sum()
        assert found[known]["map"] == pytest.approx(total / 40, abs=2e-3)
    assert found[True]["map"] > found[False]["map"]
    assert found[True]["accuracy"] == pytest.approx((of_queries.argmax(1) == query_labels).mean())
    assert 1 < found[True]["steps"] < 5000  # converged
    # Rows by their predicted class alone are a worse list: within a class their order is arbitrary.
    hard = evaluate.map_of_ranking(
        of_queries.astype(np.float32), np.eye(3, dtype=np.float32)[of_rows.argmax(1)], query_labels, labels, at=100
    )
    assert found[False]["map@100"] > hard["map@100"]


def test_the_topline_of_classes_it_has_not_seen():
    pytest.importorskip("sklearn")
    x, labels = separated(200, 0)
    database, database_labels = separated(100, 2, classes=(3, 4))
    queries, query_labels = separated(30, 3, classes=(3, 4))
    found = judge.topline(x, labels, queries, query_labels, database, database_labels)
    assert 0.3 < found["map"] < 1  # it predicts classes that it knows
    assert judge.topline(x, labels, queries, query_labels, queries, query_labels).keys() == found.keys()


def test_the_topline_without_scikit_learn(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "sklearn.linear_model", None)
    with pytest.raises(il.InputError, match=r"pip install 'interlace\[sklearn\]'"):
        judge.topline(DATABASE, DATABASE_LABELS, QUERIES, QUERY_LABELS)


def test_it_is_a_part_of_the_package():
    assert il.judge.judge is judge.judge
    assert issubclass(InHalves, Model)


def test_without_a_crude_step_every_row_pays_for_every_book():
    rng = np.random.default_rng(0)
    books = [il.Book(rng.normal(0, scale, (N_WORDS, 6)).astype(np.float32), np.arange(6)) for scale in (3.0, 1.0)]
    codes = rng.integers(0, N_WORDS, (700, 2)).astype(np.uint8)
    made = il.ICQ(n_books=2, threads=1)
    codebooks = il.Codebooks(books, dim=6, n_crude=2, residual_variance=1.0)
    made.set_fitted(Fitted(codebooks, np.arange(700), 700, codes=codes, labels=codes[:, 0] % 3))
    result = judge.judge(made, QUERIES, QUERY_LABELS, HELD_OUT)
    assert result["n_crude"] == 2
    for margin in judge.MARGINS:
        search = result["searches"][f"two-step, {margin}"]
        assert (search["ops"], search["agreement"]) == (2.0, 1.0)
    assert result["searches"]["crude order, exact"]["ops"] == 2.0
    assert result["searches"]["crude order, exact"]["ops_in_cells"] < 2.0
