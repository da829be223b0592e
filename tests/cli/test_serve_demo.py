"""The collection of ``interlace serve --demo``."""

from __future__ import annotations

import base64
import io
import sys

import numpy as np
import pytest

import interlace as il
from interlace.cli import demo_store
from interlace.cli.demo_store import build, data_url, digit_images


@pytest.fixture(autouse=True)
def without_files(monkeypatch):
    """No MNIST, as in a fresh clone."""

    def missing():
        raise FileNotFoundError("mnist was not found")

    monkeypatch.setattr(demo_store.data, "mnist", missing)


def test_build_makes_a_searchable_store_with_images_and_labels(tmp_path):
    pytest.importorskip("pyarrow")
    path, what = build(tmp_path / "stores", 1_000)
    assert "1,000" in what
    store = il.open(path)
    assert len(store) == 1_000
    assert store.health().added == 50
    matches = store.search_by_id(7, 5, rerank=50)
    table = store.payload(matches.ids)
    assert all(url.startswith("data:image/png;base64,") for url in table.column("image").to_pylist())
    same = [label == store.payload([7]).column("label").to_pylist()[0] for label in table.column("label").to_pylist()]
    assert sum(same) >= 3
    assert [each.name for each in (tmp_path / "stores").iterdir()] == [demo_store.NAME]


def test_an_unfinished_store_is_replaced(tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / ".digits-unfinished").mkdir()
    (tmp_path / ".digits-unfinished" / "rest").write_text("of a killed process")
    path, _ = build(tmp_path, 600)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_images_without_scikit_learn_are_drawn(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    images, labels, what = digit_images(200)
    assert "drawn" in what
    assert images.shape == (200, 8, 8)
    assert images.dtype == np.uint8
    assert set(labels.tolist()) == set(range(10))
    means = np.array([images[labels == digit].mean(0).ravel() for digit in range(10)])
    assert np.linalg.norm(means[:, None] - means[None], axis=-1)[~np.eye(10, dtype=bool)].min() > 50


def test_data_urls_are_png_images():
    image = np.arange(35, dtype=np.uint8).reshape(5, 7) * 7
    url = data_url(image)
    content = base64.b64decode(url.partition(",")[2])
    pillow = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    np.testing.assert_array_equal(np.asarray(pillow.open(io.BytesIO(content))), image)
