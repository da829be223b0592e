"""il.Neighbors: scikit-learn's own checks, plain-loop oracles on what the codes stand for, life in pipelines."""

from __future__ import annotations

import copy
import io
import math
import pickle
import sys
import warnings

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import config_context
from sklearn.base import clone
from sklearn.cluster import DBSCAN
from sklearn.datasets import load_digits
from sklearn.manifold import Isomap
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks

import interlace as il
from helpers import METRICS, clustered
from interlace.estimators import neighbors
from interlace.index.matches import Matches
from interlace.inputs.arrays import Rows
from raising import raises

DIM = 6
N = 400
X = clustered(N, DIM)
Q = clustered(15, DIM, seed=1)
COARSE = {"n_bytes": 2, "max_train_rows": 40, "threads": 1}  # few words: codes are far from the vectors


@pytest.fixture(scope="module")
def models():
    """A fitted estimator for each metric."""
    return {metric: il.Neighbors(metric=metric, **COARSE).fit(X) for metric in METRICS}


# ------------------------------------------------------------------------------------------------ scikit-learn's checks

CHECKED = [il.Neighbors(), il.Neighbors(metric="cosine", n_bytes=4, margin="exact"), il.Neighbors(layout="subspace")]


def expected_failures(estimator):
    if estimator.metric == "cosine":
        return {
            "check_estimators_dtypes": "its rows of zeros have no direction; refused here, 1 from all in scikit-learn"
        }
    return {}


with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "Estimator Neighbors does not inherit from `sklearn.base.BaseEstimator`")
    checks = estimator_checks.parametrize_with_checks(
        CHECKED, expected_failed_checks=expected_failures, xfail_strict=True
    )


@checks
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("name", ["get_feature_names_out", "get_feature_names_out_pandas"])
def test_checks_of_names_that_are_not_among_them(name):
    getattr(estimator_checks, f"check_transformer_{name}")("Neighbors", il.Neighbors())


def test_check_of_data_frames():
    pytest.importorskip("pandas")
    estimator_checks.check_dataframe_column_names_consistency("Neighbors", il.Neighbors())


# ------------------------------------------------------------------------------------------------------------- oracles


def distance(metric, a, b, s=1.0):
    """Of two vectors, in scikit-learn's sense; b is what a code stands for, not of length 1 for cosine."""
    a, b = a.astype(float), b.astype(float)
    if metric == "l2":
        return math.sqrt(sum((u - v) ** 2 for u, v in zip(a, b, strict=True)))
    if metric == "ip":
        return -sum(u * v for u, v in zip(a, b, strict=True))
    length = math.sqrt(sum(u * u for u in a))
    product = sum(u * v for u, v in zip(a, b, strict=True)) / length
    return min(2.0, max(0.0, 1 - product + (sum(v * v for v in b) - 1) / (2 * s)))


def coded(model):
    """All at once, as the estimator does it: the last bit of a decoded vector may depend on those beside it."""
    return model.index_.reconstruct(np.arange(len(model.index_)))


def all_distances(model, queries):
    s = model.index_.codebooks.metric_type.query_length
    return np.array([[distance(model.metric, q, row, s) for row in coded(model)] for q in queries])


def ranked(model, q):
    """Every row by the index's own exhaustive scan: numbers, and distances as the estimator gives them."""
    rows, distances = model.index_.search(q, len(model.index_), margin=math.inf, threads=1)
    d = distances.astype(float)
    return rows, {"l2": np.sqrt(np.maximum(d, 0)), "cosine": np.clip(d, 0, 2), "ip": d}[model.metric]


TOLERANCE = 2e-3  # the root of what int16 cell terms and float32 leave of a squared distance near 0


# ---------------------------------------------------------------------------------------------------------- kneighbors


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("margin", [0.999, "exact", math.inf])
def test_kneighbors_is_the_search(models, metric, margin):
    model = copy.copy(models[metric]).set_params(margin=margin)
    distances, rows = model.kneighbors(Q, 7)
    matches = model.index_.search(Q, 7, margin=margin)
    np.testing.assert_array_equal(rows, matches.ids)
    wide = matches.distances.astype(np.float64)
    expected = {"l2": np.sqrt(np.maximum(wide, 0)), "cosine": np.clip(wide, 0, 2), "ip": wide}[metric]
    np.testing.assert_array_equal(distances, expected)
    assert distances.dtype == np.float64
    assert rows.dtype == np.int64
    np.testing.assert_array_equal(model.kneighbors(Q, 7, return_distance=False), rows)
    assert model.kneighbors(Q)[0].shape == (15, 5)
    np.testing.assert_allclose(
        distances, np.take_along_axis(all_distances(model, Q), rows, 1), atol=TOLERANCE, rtol=1e-3
    )


@pytest.mark.parametrize("metric", ["l2", "cosine"])
def test_where_codes_are_exact_it_is_scikit_learn(metric):
    x, q = X[:100], Q  # as many words as rows: each row is a word
    ours = il.Neighbors(metric=metric, n_bytes=4, margin="exact").fit(x)
    theirs = NearestNeighbors(metric=metric, algorithm="brute").fit(x)
    np.testing.assert_allclose(
        ours.index_.reconstruct([3])[0], x[3] / (1 if metric == "l2" else np.linalg.norm(x[3])), atol=1e-5
    )
    for queries in (q, None):
        (d, rows), (e, expected) = ours.kneighbors(queries), theirs.kneighbors(queries)
        np.testing.assert_allclose(d, e, atol=TOLERANCE)
        assert (rows == expected).mean() > 0.98  # but for ties
        limit = float(np.median(e))
        ours_in, theirs_in = (m.radius_neighbors(queries, limit, return_distance=False) for m in (ours, theirs))
        assert np.mean([{*a} == {*b} for a, b in zip(ours_in, theirs_in, strict=True)]) > 0.9
    graphs = [m.kneighbors_graph(q, mode="distance") for m in (ours, theirs)]
    np.testing.assert_allclose(graphs[0].sum(1), graphs[1].sum(1), atol=5 * TOLERANCE)


@pytest.mark.parametrize("metric", METRICS)
@settings(max_examples=15, deadline=None)
@given(k=st.integers(1, N - 1))
def test_training_rows_are_not_their_own_neighbours(models, metric, k):
    model = copy.copy(models[metric]).set_params(margin="exact")
    distances, rows = model.kneighbors(n_neighbors=k)
    assert rows.shape == distances.shape == (N, k)
    for i in (0, 1, k, N - 1):
        by_scan, d = ranked(model, coded(model)[i])
        others = by_scan != i
        np.testing.assert_array_equal(rows[i], by_scan[others][:k])
        np.testing.assert_array_equal(distances[i], d[others][:k])


def test_a_row_with_many_twins_still_gets_as_many_neighbours():
    x = np.repeat(clustered(4, 3), 20, axis=0)  # twenty rows of one code: a row may be missing from its own hits
    model = il.Neighbors(3, n_bytes=2, threads=1).fit(x)
    distances, rows = model.kneighbors()
    assert rows.shape == (80, 3)
    assert not (rows == np.arange(80)[:, None]).any()
    assert (rows // 20 == np.arange(80)[:, None] // 20).all()
    np.testing.assert_allclose(distances, 0, atol=TOLERANCE)


def test_a_margin_that_loses_hits_does_not_leave_holes(models, monkeypatch):
    model = copy.copy(models["l2"])
    exact = il.Index.search

    def lossy(self, q, k=10, *, margin=0.999, **how):
        found = exact(self, q, k, margin=margin, **how)
        if margin == "exact":
            return found
        ids, distances = found
        ids[::2, -1], distances[::2, -1], found.counts[::2] = -1, np.inf, k - 1
        return Matches(ids, distances, found.counts, found.stats, found.metric)

    expected = model.set_params(margin="exact").kneighbors(Q)
    monkeypatch.setattr(il.Index, "search", lossy)
    for ours, theirs in zip(model.set_params(margin=0.99).kneighbors(Q), expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_too_few_rows():
    model = il.Neighbors(n_bytes=2, threads=1).fit(X[:5])
    assert model.kneighbors(X[:5])[1].shape == (5, 5)
    assert model.kneighbors(n_neighbors=4)[1].shape == (5, 4)
    text = "Expected n_neighbors {} n_samples_fit, but n_neighbors = {}, n_samples_fit = 5, n_samples = {}"
    for call, values in [
        (lambda: model.kneighbors(), ("<", 5, 5)),
        (lambda: model.kneighbors(X[:2], 6), ("<=", 6, 2)),
        (lambda: model.kneighbors_graph(n_neighbors=7), ("<", 7, 5)),
        (lambda: model.transform(X[:2]), ("<=", 6, 2)),
        (lambda: clone(model).fit_transform(X[:5]), ("<", 5, 5)),
    ]:
        with pytest.raises(il.InputError) as caught:
            call()
        assert str(caught.value) == text.format(*values)


# -------------------------------------------------------------------------------------------------------------- radius


@pytest.mark.parametrize("metric", METRICS)
@settings(max_examples=12, deadline=None)
@given(share=st.floats(0, 1), own=st.booleans())
def test_radius_neighbors_are_all_within_and_no_others(models, metric, share, own):
    """From no hit to all of them; the radius is the very distance of some hit, which is then within."""
    model = models[metric]
    chosen = [0, 1, 17, N - 1]
    queries = coded(model)[chosen] if own else Q
    found = [ranked(model, q) for q in queries]
    limit = float(found[0][1][int(share * (N - 1))])
    distances, rows = model.radius_neighbors(None if own else Q, limit)
    by_loop = all_distances(model, queries)
    for i, (by_scan, d) in enumerate(found):
        at = chosen[i] if own else i
        inside = (d <= limit) & (by_scan != (at if own else -1))
        np.testing.assert_array_equal(rows[at], by_scan[inside])
        np.testing.assert_array_equal(distances[at], d[inside])
        members = {*rows[at].tolist()} | ({at} if own else set())
        assert all(row in members for row in np.flatnonzero(by_loop[i] < limit - TOLERANCE))
        assert all(by_loop[i][row] <= limit + TOLERANCE for row in rows[at])


def test_radius_zero_and_infinity(models):
    model = models["l2"]
    distances, rows = model.radius_neighbors(Q, math.inf)
    assert rows.dtype == distances.dtype == object
    assert rows.shape == (15,)
    assert all(sorted(r.tolist()) == [*range(N)] for r in rows)
    assert all((np.diff(d) >= 0).all() for d in distances)
    assert all(len(r) == 0 for r in model.radius_neighbors(Q + 100, 0, return_distance=False))
    assert all(len(r) == N - 1 for r in model.radius_neighbors(radius=math.inf, return_distance=False))
    narrow = copy.copy(model).set_params(radius=0.2)
    for ours, theirs in zip(narrow.radius_neighbors(Q), model.radius_neighbors(Q, 0.2), strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("metric", METRICS)
def test_answers_do_not_depend_on_blocks(models, metric, monkeypatch):
    model, limit = models[metric], float(np.median(ranked(models[metric], Q[0])[1]))

    def answers(x):
        return [*model.kneighbors(x), *(np.concatenate([*ragged]) for ragged in model.radius_neighbors(x, limit))]

    whole, own, blocks = answers(Q), model.kneighbors()[0], Rows.blocks
    monkeypatch.setattr(neighbors, "BLOCK_ROWS", 7)
    monkeypatch.setattr(Rows, "blocks", lambda self: blocks(self, 7))
    for a, b in zip(whole, answers(Q), strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_allclose(model.kneighbors()[0], own, atol=TOLERANCE)
    assert all(at not in found for at, found in enumerate(model.radius_neighbors(None, limit)[1]))


def test_the_margin_is_that_of_the_search_but_exact_for_a_radius(models, monkeypatch):
    seen, search = [], il.Index.search

    def spy(self, q, k=10, *, margin=0.999, **how):
        seen.append(margin)
        return search(self, q, k, margin=margin, **how)

    monkeypatch.setattr(il.Index, "search", spy)
    model = copy.copy(models["l2"]).set_params(margin="paper")
    for call in (model.kneighbors, model.kneighbors_graph, model.transform):
        call(Q)
        assert {*seen} == {"paper"}
    expected = copy.copy(model).set_params(margin=math.inf).radius_neighbors(Q)
    for ours, theirs in zip(model.radius_neighbors(Q), expected, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True))


# -------------------------------------------------------------------------------------------------------------- graphs


def test_graphs_are_the_neighbours(models):
    model = models["l2"]
    for x, n in ((Q, 15), (None, N)):
        distances, rows = model.kneighbors(x, 4)
        d_in, r_in = model.radius_neighbors(x, 0.5)
        for mode in ("connectivity", "distance"):
            graph = model.kneighbors_graph(x, 4, mode)
            near = model.radius_neighbors_graph(x, 0.5, mode, sort_results=True)
            assert graph.shape == near.shape == (n, N)
            assert graph.format == near.format == "csr"
            for i in range(n):
                for found, r, d in ((graph, rows[i], distances[i]), (near, r_in[i], d_in[i])):
                    part = slice(found.indptr[i], found.indptr[i + 1])
                    np.testing.assert_array_equal(found.indices[part], r)
                    np.testing.assert_array_equal(found.data[part], d if mode == "distance" else np.ones(len(d)))


@pytest.mark.parametrize("metric", ["l2", "cosine"])
def test_the_graph_of_the_training_rows(metric):
    model = il.Neighbors(6, metric=metric, margin="exact", **COARSE)
    graph = model.fit_transform(X)
    assert graph.shape == (N, N)
    rows, distances = graph.indices.reshape(N, 7), graph.data.reshape(N, 7)
    np.testing.assert_array_equal(rows[:, 0], np.arange(N))  # explicit, though 0: estimators look for it
    assert (distances[:, 0] == 0).all()
    assert (np.diff(distances) >= 0).all()
    for i in (0, 5, N - 1):
        by_scan, d = ranked(model, X[i])  # the vector itself, not what its code stands for
        others = by_scan != i
        np.testing.assert_array_equal(rows[i, 1:], by_scan[others][:6])
        np.testing.assert_array_equal(distances[i, 1:], d[others][:6])
    assert model.transform(X).diagonal().mean() > 0.01  # a row is not where its code is
    np.testing.assert_array_equal(model.transform(Q).toarray(), model.kneighbors_graph(Q, 7, mode="distance").toarray())
    assert [*model.get_feature_names_out()[:2]] == ["neighbors0", "neighbors1"]
    assert len(model.get_feature_names_out()) == N


def test_inner_products_are_no_distances(models):
    model = models["ip"]
    for call in (lambda: model.transform(Q), lambda: clone(model).fit_transform(X)):
        with raises(il.InputError, "metric", "'ip'"):
            call()
    distances, _ = model.kneighbors(Q)
    assert (distances < 0).any()
    assert model.kneighbors_graph(Q, mode="distance").data.min() == distances.min()
    assert all((d <= -1).all() for d in model.radius_neighbors(Q, -1.0)[0])


def test_a_graph_has_no_place_in_a_data_frame():
    model = il.Neighbors(**COARSE).set_output(transform="pandas")
    with pytest.raises(il.InputError, match="the output of Neighbors is sparse, which a pandas frame cannot hold"):
        model.fit_transform(X)
    with config_context(transform_output="polars"), raises(il.InputError, "polars", "hold"):
        il.Neighbors(**COARSE).fit_transform(X)
    model.set_output(transform="default").transform(Q)


def test_graphs_need_scipy(models, monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.sparse", None)
    with raises(il.InputError, "scipy", "'interlace[sklearn]'"):
        models["l2"].kneighbors_graph(Q)


# ---------------------------------------------------------------------------------------------------------- parameters


@pytest.mark.parametrize(
    ("params", "facts"),
    [
        ({"n_neighbors": 0}, ("n_neighbors", 0)),
        ({"n_neighbors": 2.0}, ("n_neighbors", "2.0")),
        ({"radius": -1}, ("radius", 0, "-1")),
        ({"radius": math.nan}, ("radius", 0, "nan")),
        ({"radius": "1"}, ("radius", 0, "'1'")),
        ({"radius": True}, ("radius", 0, "True")),
        ({"radius": math.nan, "metric": "ip"}, ("radius", "nan")),
        ({"n_bytes": 0}, ("n_bytes", "integer")),
        ({"layout": "flat"}, ("layout",)),
        ({"metric": "l1"}, ("metric", "l2", "ip", "cosine", "'l1'")),
        ({"margin": 1.5}, ("margin", 0, 1)),
        ({"seed": -1}, ("seed", 0)),
        ({"max_train_rows": 0}, ("max_train_rows", "integer")),
        ({"threads": 0}, ("threads", "None")),
    ],
)
def test_parameters_are_checked_by_fit(params, facts):
    model = il.Neighbors(**params)
    with raises(il.InputError, *facts):
        model.fit(X)
    with pytest.raises(il.NotFittedError):
        model.kneighbors(Q)


def test_a_fit_that_fails_leaves_the_one_before():
    model = il.Neighbors(**COARSE).fit(X)
    before = model.kneighbors(Q)
    with raises(il.InputError, "X[1, 2]", "nan"):
        model.fit(np.where(np.indices((9, 3)).sum(0) == 3, np.nan, 1.0))
    assert model.n_features_in_ == DIM
    for a, b in zip(model.kneighbors(Q), before, strict=True):
        np.testing.assert_array_equal(a, b)


def test_wrong_calls(models):
    model = models["l2"]
    for call, facts in [
        (lambda: model.kneighbors(Q, 0), ("n_neighbors", 0)),
        (lambda: model.kneighbors(Q[0]), ("2D", "1D")),
        (lambda: model.kneighbors(Q[:, :2]), ("X", 2, 6)),
        (lambda: model.kneighbors(iter([Q[:, :2]])), ("block 0", "row 0", 2, 6)),
        (lambda: model.kneighbors(np.full((2, DIM), np.nan)), ("X[0, 0]", "nan")),
        (lambda: model.kneighbors_graph(Q, mode="weights"), ("'weights'",)),
        (lambda: model.radius_neighbors_graph(Q, mode=None), ("None",)),
        (lambda: model.radius_neighbors(Q, -1.0), ("radius", 0, "-1.0")),
        (lambda: model.radius_neighbors(Q, return_distance=False, sort_results=True), ("return_distance", "True")),
    ]:
        with raises(il.InputError, *facts):
            call()


def test_other_inputs_are_the_same_rows(models):
    expected = models["l2"].kneighbors(Q)
    for x, q in ((X.tolist(), Q.tolist()), (iter([X[:100], X[100:]]), iter([Q[:4], Q[4:]]))):
        model = il.Neighbors(**COARSE).fit(x)
        assert model.n_features_in_ == DIM
        for a, b in zip(model.kneighbors(q), expected, strict=True):
            np.testing.assert_array_equal(a, b)


def test_tables_have_names(models):
    def table(x, names="abcdef"):
        return pa.table({name: x[:, i] for i, name in enumerate(names)})

    model = il.Neighbors(**COARSE).fit(table(X))
    assert [*model.feature_names_in_] == [*"abcdef"]
    for again in (model, pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(again.kneighbors(table(Q))[1], models["l2"].kneighbors(Q)[1])
        with pytest.raises(il.InputError, match="Feature names must be in the same order"):
            again.radius_neighbors(table(Q, "fedcba"))
    assert model.fit_transform(table(X)).shape == (N, N)


# ------------------------------------------------------------------------------------------------------------ pickling


class OnlyOurs(pickle.Unpickler):
    """Finds the class and nothing else: no function is called on the way."""

    def find_class(self, module, name):
        if (module, name) in {("interlace.estimators.neighbors", "Neighbors"), ("copyreg", "__newobj__")}:
            return super().find_class(module, name)
        raise AssertionError(f"{module}.{name} has no place in this pickle")


@pytest.mark.parametrize("metric", METRICS)
def test_pickles_hold_the_file_and_nothing_to_run(models, metric, tmp_path):
    model = models[metric]
    data = pickle.dumps(model)
    model.index_.save(tmp_path / "saved")
    assert (tmp_path / "saved").read_bytes() in data
    for again in (OnlyOurs(io.BytesIO(data)).load(), copy.deepcopy(model)):
        again.index_.verify()
        assert again.get_params() == model.get_params()
        assert again.index_ is not model.index_
        for call in (lambda m: m.kneighbors(Q), lambda m: m.kneighbors()):
            for a, b in zip(call(again), call(model), strict=True):
                np.testing.assert_array_equal(a, b)


def test_what_is_not_fitted_is_pickled_too():
    model = pickle.loads(pickle.dumps(il.Neighbors(3, metric="cosine")))
    assert repr(model) == "Neighbors(n_neighbors=3, metric='cosine')"
    with pytest.raises(il.NotFittedError, match="This Neighbors is not fitted yet"):
        model.kneighbors(Q)


# ----------------------------------------------------------------------------------------------------------- pipelines


@pytest.fixture(scope="module")
def digits():
    x, y = load_digits(return_X_y=True)
    return x[:600], y[:600]


def test_grid_search(digits):
    """Eight words in all are poor codes: the search must see the difference between its candidates."""
    pipeline = make_pipeline(
        StandardScaler(), il.Neighbors(5, threads=1), KNeighborsClassifier(5, metric="precomputed")
    )
    candidates = [{"neighbors__n_bytes": [1], "neighbors__max_train_rows": [8]}, {"neighbors__n_bytes": [8]}]
    grid = GridSearchCV(pipeline, candidates, cv=3).fit(*digits)
    assert grid.best_params_ == {"neighbors__n_bytes": 8}
    poor, good = grid.cv_results_["mean_test_score"]
    assert poor < good - 0.05
    plain = cross_val_score(make_pipeline(StandardScaler(), KNeighborsClassifier(5)), *digits, cv=3).mean()
    assert good > plain - 0.03
    assert "n_bytes=8" not in repr(grid.best_estimator_["neighbors"])  # the default


def test_estimators_take_the_graph(digits):
    x, y = digits
    graph = il.Neighbors(30, threads=1).fit_transform(x)
    labels = DBSCAN(eps=22.0, min_samples=4, metric="precomputed").fit_predict(graph)
    theirs = DBSCAN(eps=22.0, min_samples=4).fit_predict(x)
    together = (labels[:, None] == labels) == (theirs[:, None] == theirs)
    assert together.mean() > 0.9
    embedded = Isomap(n_neighbors=10, metric="precomputed").fit_transform(graph)
    found = KNeighborsClassifier().fit(embedded[:400], y[:400]).score(embedded[400:], y[400:])
    assert found > 0.5  # ten classes in two dimensions
