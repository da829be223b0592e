"""The usual protocols: splits by class, kernel features, text vectors with labels."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import interlace as il
from interlace.paper import sources
from interlace.paper.datasets import sets
from interlace.paper.datasets.sets import DataSet
from interlace.paper.datasets.splits import standard_split
from interlace.paper.sizes import SIZES
from raising import raises


def made(n: int = 300, classes: int = 3) -> DataSet:
    x = np.arange(n + 60, dtype=np.float32)[:, None]
    labels = np.arange(n + 60) % classes
    return DataSet("made", x[:n], x[n:], labels=labels[:n], query_labels=labels[n:])


@pytest.mark.parametrize("with_learned", [True, False])
def test_the_standard_split(with_learned: bool) -> None:
    learn, base = standard_split(made(), 1, queries=5, learn=20, with_learned=with_learned)
    queries, learned, rows = ({*part[:, 0].tolist()} for part in (learn.queries, learn.x, base.x))
    assert (len(queries), len(learned), len(rows)) == (15, 60, 360 - 15 - (0 if with_learned else 60))
    assert not queries & learned
    assert not queries & rows
    assert (learned <= rows) == with_learned
    for part in (learn, base):
        assert part.labels is not None
        assert part.query_labels is not None
        assert (part.x[:, 0] % 3 == part.labels).all()
        assert (part.queries[:, 0] % 3 == part.query_labels).all()
        assert np.bincount(part.query_labels).tolist() == [5] * 3
    again = standard_split(made(), 1, queries=5, learn=20, with_learned=with_learned)[0]
    np.testing.assert_array_equal(again.x, learn.x)
    assert (standard_split(made(), 2, queries=5, learn=20)[0].x != learn.x).any()
    with raises(il.InputError, "120 rows", "100 + 500"):
        standard_split(made())
    with raises(il.InputError, "labels", "'bare'"):
        standard_split(DataSet("bare", np.zeros((3, 1)), np.zeros((3, 1))))


def test_the_standard_protocols_of_cifar(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 255, (900, 3, 8, 8)).astype(np.uint8)
    labels = np.arange(900) % 10
    whole = DataSet("cifar10", x[:800], x[800:], labels=labels[:800], query_labels=labels[800:])
    monkeypatch.setattr(sources.cifar, "cifar10", lambda: whole)
    for name, rows in (("cifar10-54k", 860 - 30 - 200), ("cifar10-59k", 860 - 30)):
        found = sources.load(name, 0, SIZES["tiny"], tmp_path)
        assert (len(found.x), len(found.queries), len(found.searched[0])) == (200, 30, rows)
        assert found.name == name


def test_kernel_features_are_similarities_to_rows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 255, (50, 6)).astype(np.uint8)
    labels = np.arange(50) % 3
    whole = DataSet("mnist", x[:40], x[40:], labels=labels[:40], query_labels=labels[40:])
    monkeypatch.setattr(sources.sets, "mnist", lambda: whole)
    found = sources.load("mnist-kernel", 3, SIZES["full"], tmp_path)
    anchors = x[:40][np.random.default_rng(3).choice(40, 40, replace=False)].astype(float)
    distances = np.array([[((a - b) ** 2).sum() for b in anchors] for a in x.astype(float)])
    width = 2 * 0.3 * distances[:40].mean()
    np.testing.assert_allclose(found.x, np.exp(-distances[:40] / width), atol=1e-4)
    np.testing.assert_allclose(found.queries, np.exp(-distances[40:] / width), atol=1e-4)


def test_text_vectors_with_labels(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    labels = np.r_[rng.integers(-1, 4, 500), 9].astype(np.int16)  # one class has a single row
    arrays: dict[str, Any] = {
        "base": rng.normal(size=(400, 8)).astype(np.float16),
        "query": rng.normal(size=(101, 8)).astype(np.float16),
        "labels": labels[:400],
        "query_labels": labels[400:],
    }
    (tmp_path / "text128k").mkdir()
    file = io.BytesIO()
    np.savez(file, **arrays)
    (tmp_path / "text128k" / "text128k.npz").write_bytes(file.getvalue())
    monkeypatch.setattr(sets, "check", lambda *_: None)
    monkeypatch.setattr(sets, "TEXT_QUERIES", 50)
    found = sets.text(tmp_path)
    assert found.labels is not None
    assert found.query_labels is not None
    assert len(found.queries) == 50
    assert len(found.x) == (labels >= 0).sum() - 1 - 50
    assert {*found.labels.tolist()} == {0, 1, 2, 3}
    everything = np.concatenate([arrays["base"], arrays["query"]]).astype(np.float32)
    for vector, label in zip(found.x[:20], found.labels[:20], strict=True):
        (row,) = np.flatnonzero((everything == vector).all(1))
        assert labels[row] == label
