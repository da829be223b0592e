"""Data of the figures: cut to a size, told by a checksum; classes left out; features of a shared network."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import interlace as il
from interlace.data import DataSet
from interlace.paper import networks, sources
from interlace.paper.measure import baseline, measure
from interlace.paper.problem import Problem
from interlace.paper.sizes import SIZES
from interlace.paper.sources import load
from raising import raises

pytest.importorskip("sklearn", reason="the sets are made by scikit-learn")
FULL, QUICK, TINY = SIZES["full"], SIZES["quick"], SIZES["tiny"]
RNG = np.random.default_rng(0)


def problem(n: int = 60, dim: int = 4, **changes: Any) -> Problem:
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 3, n + 10)
    x = (4 * rng.normal(size=(3, dim))[labels] + rng.normal(size=(n + 10, dim))).astype(np.float32)
    return replace(Problem("made", x[:n], x[n:], labels[:n], labels[n:]), **changes)


@pytest.fixture(autouse=True)
def no_sift(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> Any:
        raise FileNotFoundError("not here")

    monkeypatch.setattr(sources.sets, "sift300k", absent)


class TestProblem:
    def test_any_change_of_the_data_changes_the_checksum(self) -> None:
        whole = problem()
        changed = [
            problem(x=whole.x * np.float32(1.001)),
            problem(labels=whole.labels[::-1]),
            problem(queries=whole.queries[::-1]),
            problem(database=whole.x, database_labels=whole.labels),
            problem(x=whole.x.astype(np.float64)),
        ]
        sums = [one.description["sha256"] for one in (whole, problem(), *changed)]
        assert sums[0] == sums[1]
        assert len(set(sums)) == 1 + len(changed)

    def test_true_neighbours_are_those_of_brute_force(self) -> None:
        one = problem()
        distances = ((one.queries[:, None, :] - one.x[None]) ** 2).sum(2)
        assert_array_equal(one.truth[:, :5], np.argsort(distances, 1, kind="stable")[:, :5])

    def test_the_database_is_what_was_learned_from_unless_it_is_given(self) -> None:
        assert problem().searched[0] is not None
        rows = np.zeros((5, 4), np.float32)
        assert problem(database=rows, database_labels=np.zeros(5, int)).searched[0] is rows


class TestLoad:
    def test_a_size_takes_the_first_rows(self, tmp_path: Path) -> None:
        whole, part = (load("synthetic3", 1, size, tmp_path) for size in (FULL, TINY))
        assert whole.x.shape == (10_000, 64)
        assert_array_equal(part.x, whole.x[:800])
        assert_array_equal(part.query_labels, whole.query_labels[:60])
        assert not np.array_equal(load("synthetic3", 2, TINY, tmp_path).x, part.x)

    def test_vectors_are_generated_where_sift_is_not_there(self, tmp_path: Path) -> None:
        found = load("vectors", 0, TINY, tmp_path)
        assert found.name == "generated"
        assert found.labels is None
        assert found.x.shape == (800, 64)
        assert_array_equal(found.x, load("vectors", 0, TINY, tmp_path).x)

    def test_sift_where_it_is(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sources.sets, "sift300k", lambda: DataSet("s", np.zeros((9, 2)), np.ones((3, 2))))
        assert load("vectors", 0, TINY, tmp_path).name == "sift"

    def test_classes_left_out_are_searched_and_never_learned(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sources.sets, "mnist", il.data.digits)
        drawn = set()
        for seed in (0, 1):
            found = load("mnist-unseen", seed, FULL, tmp_path)
            seen, left = set(found.labels.tolist()), set(found.database_labels.tolist())
            assert len(left) == 3
            assert not seen & left
            assert set(found.query_labels.tolist()) == left
            assert len(found.x) + len(found.database) == 1500
            drawn.add(frozenset(left))
        assert len(drawn) == 2

    def test_unknown_data_are_told(self, tmp_path: Path) -> None:
        with raises(il.InputError, "data", "synthetic1", "synthetic2", "'imagenet'"):
            load("imagenet", 0, FULL, tmp_path)


class TestNetworks:
    def test_a_network_is_trained_once_and_its_features_are_kept(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pytest.importorskip("torch", reason="the train extra is not installed")
        labels = RNG.integers(0, 3, 340)
        images = (RNG.normal(size=(3, 1, 16, 16))[labels] + RNG.normal(size=(340, 1, 16, 16))).astype(np.float32)
        given = Problem("digits", images[:300], images[300:], labels[:300], labels[300:])
        found = networks.features("mnist-lenet", given, TINY, tmp_path / "networks", 1)
        assert found.x.shape == (300, 512)
        assert found.queries.shape == (40, 512)
        assert (found.x >= 0).all()  # what comes before the last layer has gone through relu
        (file,) = (tmp_path / "networks").glob("*.icq")
        network = il.quantizers.SQ.load(file).embedding_
        assert network is not None
        weight, bias = network.weights["out.weight"], network.weights["out.bias"]
        assert_allclose(found.x[:20] @ weight.T + bias, network(images[:20]), rtol=1e-3, atol=1e-4)
        monkeypatch.setattr(il.quantizers.SQ, "fit", lambda *_: pytest.fail("trained again"))
        again = networks.features("mnist-lenet", given, TINY, tmp_path / "networks", 1)
        assert_array_equal(again.x, found.x)
        assert not list((tmp_path / "networks").glob("*.checkpoint"))
        assert not list((tmp_path / "networks").glob("*.tmp"))


class TestMeasure:
    def test_baselines(self) -> None:
        one = problem(300)
        topline, random = baseline("class topline", one, 0), baseline("random codes", one, 0)
        assert topline["map"] > 0.9
        assert random["map"] < 0.5
        assert baseline("random codes", one, 1) != random
        vectors = problem(300, labels=None, query_labels=None)
        assert baseline("random codes", vectors, 0)["recall@100"] < 0.5
        with raises(il.InputError, "'class topline'"):
            baseline("class topline", vectors, 0)

    def test_vectors_without_labels(self) -> None:
        vectors = problem(300, 8, labels=None, query_labels=None)
        model = il.ICQ(n_books=4, n_words=16, layout="residual", threads=1).fit(vectors.x)
        found = measure(model, vectors)
        assert found["bytes"] == 4
        decoded = model.decode(model.encode(vectors.x))
        ids = np.argsort(((vectors.queries[:, None] - decoded[None]) ** 2).sum(2), 1)[:, :10]
        hits = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(ids, vectors.truth[:, :10], strict=True)])
        assert found["recall@10"] == pytest.approx(hits, abs=0.02)  # cross terms are rounded
        assert found["searches"]["crude order, exact"]["agreement"] == 1.0
        assert "map" not in found

    def test_a_database_that_was_not_learned_from(self) -> None:
        pytest.importorskip("torch", reason="the train extra is not installed")
        one = problem(300, 8)
        other = problem(300, 8, x=one.x[:200], labels=one.labels[:200], database=one.x[200:])
        other = replace(other, database_labels=one.labels[200:])
        recipe = il.Recipe(warm_up=1, shape=0, epochs=1)
        model = il.quantizers.SQ("pq", n_books=2, n_words=16, threads=1, recipe=recipe).fit(other.x, other.labels)
        found = measure(model, other)
        expected = model.score(other.queries, other.query_labels, other.database, other.database_labels, at=None)
        assert found["map"] == pytest.approx(expected)
