"""``interlace plan`` and ``interlace evaluate`` as a user meets them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import interlace as il
from helpers import clustered
from interlace import evaluate

Run = Callable[..., tuple[int, str, str]]
X, QUERIES = clustered(300, 8), clustered(12, 8, seed=1)
TRUTH = evaluate.exact_neighbours(X, QUERIES, 20)[0]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Vectors, queries, truth and an index of two bytes."""
    path = tmp_path_factory.mktemp("cli")
    np.save(path / "x.npy", X)
    np.savez(path / "more.npz", x=X, q=QUERIES, truth=TRUTH)
    np.save(path / "q.npy", QUERIES)
    np.save(path / "truth.npy", TRUTH)
    index = il.Index(il.ICQ(2, layout="subspace", threads=1).fit(X[:20]).codebooks_)
    index.add(X, threads=1)
    index.save(path / "x.index")
    return path


class TestPlan:
    def test_the_table(self, run: Run) -> None:
        code, out, err = run("plan", "--rows", 1_000_000, "--dim", 128, "--bytes", 8)
        assert (code, err) == (0, "")
        plan = il.plan(1_000_000, 128, n_bytes=8, measure=False)
        for line in str(plan).splitlines():
            assert line in out
        assert "CPU seconds" in out

    def test_every_option_arrives(self, run: Run) -> None:
        args = ("--layout", "residual", "--metric", "ip", "--ids", "string", "--books", 5, "--no-times", "--threads", 1)
        args += ("--max-memory", "99MB", "--n-words", 32, "--json")
        code, out, _ = run("plan", "--rows", 50_000, "--dim", 200, *args)
        settings = {"n_books": 5, "layout": "residual", "metric": "ip", "n_words": 32}
        settings |= {"max_memory": "99MB", "threads": 1}
        expected = il.plan(50_000, 200, ids="string", measure=False, **settings)
        assert code == 0
        assert expected.n_train < 48_000
        assert json.loads(out) == expected.as_dict() | {"tried": []}

    @pytest.mark.parametrize(
        ("args", "code", "message"),
        [
            (("--dim", 8), 1, "--rows is required"),
            (("--rows", 0, "--dim", 8), 2, "positive integer, got '0'"),
            (("--rows", 5, "--dim", 8, "--bytes", 8, "--books", 8), 2, "not allowed with"),
            (("--rows", 5, "--dim", 8, "--bytes", 129), 1, "n_bytes must be at most 128, got 129"),
        ],
    )
    def test_wrong_usage(self, run: Run, args: tuple[object, ...], code: int, message: str) -> None:
        found, out, err = run("plan", *args)
        assert (found, out) == (code, "")
        assert message in err


class TestEvaluate:
    def test_the_table(self, run: Run) -> None:
        code, out, err = run("evaluate", "x.index", "--vectors", "x.npy", "--margin", "exact", "--sample", 50)
        assert (code, err) == (0, "")
        expected = il.open("x.index").evaluate(x=X, margin="exact", sample=50)
        assert f"recall@10          {expected.recall[10]:.4f}" in out
        assert "50 queries (rows of x, each one's own row left out), k=10" in out

    @pytest.mark.parametrize(
        "args",
        [
            ("--vectors", "x.npy", "--queries", "q.npy"),
            ("--queries", "q.npy", "--truth", "truth.npy"),
            ("--vectors", "more.npz", "--vectors-key", "x", "--queries", "more.npz", "--queries-key", "q"),
            ("--queries", "q.npy", "--truth", "more.npz", "--truth-key", "truth"),
        ],
    )
    def test_truth_is_found_or_given(self, run: Run, args: tuple[str, ...]) -> None:
        code, out, err = run("evaluate", "x.index", *args, "--k", 12, "--margin", "inf", "--json")
        assert (code, err) == (0, "")
        told = json.loads(out)
        found = il.open("x.index").search(QUERIES, 12, margin="exact")
        for j in (1, 10, 12):
            assert told[f"recall@{j}"] == evaluate.recall(found, TRUTH, j)
        assert told["recall@12"] < 1
        assert (told["index"], told["queries"], told["margin"], told["agreement"]) == ("x.index", 12, "inf", 1.0)

    def test_without_vectors(self, run: Run) -> None:
        code, out, _ = run("evaluate", "x.index", "--seed", 3, "--threads", 1)
        assert code == 0
        assert "no true neighbours" in out

    def test_errors_are_one_line(self, run: Run) -> None:
        for args, message in (
            (("--truth", "truth.npy"), "truth requires queries"),
            (("--vectors", "q.npy"), "300 expected, got 12"),
            (("--vectors", "nowhere.npy"), "nowhere.npy"),
        ):
            code, out, err = run("evaluate", "x.index", *args)
            assert (code, out, err.count("\n")) == (1, "", 1)
            assert message in err
