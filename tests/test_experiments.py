"""The experiments on learning from labels: the pages are what the results say, and the judge counts what it says."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import interlace as il
from interlace.models import Fitted

EXPERIMENTS = Path(__file__).resolve().parent.parent / "experiments"


@pytest.fixture(autouse=True)
def _on_path(monkeypatch):
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    yield
    for name in ("judge", "joint", "joint_report"):
        sys.modules.pop(name, None)


def test_the_pages_are_what_the_results_say():
    import joint_report

    assert joint_report.main(["--check"]) == 0


def model(n_books=4, dim=6, n=700, n_words=16, seed=0):
    """Two groups of overlapping books, as a fit with labels leaves them; labels by the first code."""
    rng = np.random.default_rng(seed)
    halves = (np.arange(3, dtype=np.uint32), np.arange(3, 6, dtype=np.uint32))
    books = []
    for k in range(n_books):
        scale = (3.0, 1.0, 0.5, 0.3)[k]
        books.append(il.Book(rng.normal(0, scale, (n_words, 3)).astype(np.float32), halves[k // 2]))
    norm = il.Norm(np.zeros(1, np.float32), (2, 3))
    codebooks = il.Codebooks(books, dim=dim, n_crude=1, norms=[norm], residual_variance=1.0)
    codes = rng.integers(0, n_words, (n, n_books)).astype(np.uint8)
    made = il.ICQ(n_books=n_books, threads=1)
    made._take(Fitted(codebooks, np.arange(n), n, codes=codes, labels=codes[:, 0] % 3))
    return made


def test_the_flat_index_ranks_by_the_sum_of_tables_in_the_order_of_rows():
    import judge

    made = model()
    codebooks, codes = made.codebooks_, made.codes_
    q = np.random.default_rng(1).normal(0, 2, (5, 6)).astype(np.float32)
    flat = judge._flat_index(codebooks, codes)
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
        expected = ((q[i] - decoded) ** 2).sum(1) + cross
        assert_allclose(found.distances[i], expected[found.ids[i]], rtol=1e-3, atol=1e-2)
    assert flat.search(q, 5, margin="exact").stats.scanned == 5 * len(codes)  # one cell: every row is looked at
    assert_array_equal(flat.search(q, 5, margin="exact").ids, found.ids[:, :5])


def test_the_judge_counts_every_crude_book_of_every_row():
    import judge

    made = model()
    rng = np.random.default_rng(2)
    result = judge.judge(made, rng.normal(0, 2, (20, 6)), rng.integers(0, 3, 20), rng.normal(0, 2, (50, 6)))
    for search in result["searches"].values():
        assert 1 <= search["ops"] <= 4
        assert 0 <= search["ops_in_cells"] <= 4.5
    assert result["searches"]["two-step, exact"]["agreement"] == 1.0
    assert result["searches"]["crude order, exact"]["agreement"] == 1.0


def test_a_run_is_written_once_and_left_out_then(tmp_path, monkeypatch, capsys):
    pytest.importorskip("torch", reason="the train extra is not installed")
    import joint

    monkeypatch.setattr(joint, "RESULTS", tmp_path / "joint")
    one = [joint.Run("synthetic", "synthetic3", "ICQ")]
    monkeypatch.setattr(joint, "runs", lambda: iter(one))
    assert joint.main(["--quick", "--threads", "1"]) == 0
    written = json.loads((tmp_path / "quick" / "joint" / f"{one[0].name}.json").read_text())
    assert 0.1 < written["map"] < 1
    assert written["random"]["map"] < written["map"]
    capsys.readouterr()
    assert joint.main(["--quick"]) == 0
    assert one[0].name not in capsys.readouterr().err
    assert joint.main(["--quick", "--list"]) == 0
    assert "there" in capsys.readouterr().out
