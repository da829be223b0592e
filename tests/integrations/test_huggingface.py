"""Columns of datasets as indexes, and folders that hold an index or a model."""

from __future__ import annotations

import json

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import interlace as il
from helpers import build, clustered
from interlace.integrations.huggingface import from_pretrained, index_column, save_pretrained
from raising import raises

X = clustered(300, 6)


def test_a_column_of_vectors_becomes_the_index_of_its_array():
    datasets = pytest.importorskip("datasets.arrow_dataset", reason="datasets is not installed")
    names = [f"row {i}" for i in range(300)]
    data = datasets.Dataset.from_dict({"name": names, "vector": X.tolist(), "text": names})
    settings = {"n_bytes": 4, "threads": 1, "progress": False}
    made = index_column(data, "vector", ids="name", **settings)
    assert made.to_bytes() == il.Index.build(X, ids=names, **settings).to_bytes()
    assert len(index_column(data.select(range(100)), "vector", **settings)) == 100
    with raises(il.InputError, "vectors", "text"):
        index_column(data, "vectors")
    with raises(il.InputError, "text"):
        index_column(data, "text")
    with raises(il.InputError, "dataset", "ndarray"):
        index_column(X, "vector")
    uneven = datasets.Dataset.from_dict({"vector": [*X[:50].tolist(), [1.0]]})
    with raises(il.InputError, 6, 1):
        index_column(uneven, "vector", **settings)
    with raises(il.InputError, "rows"):
        index_column(data.select([]), "vector")


def test_folders_of_an_index_and_of_a_model(tmp_path):
    index = build(80, 6)
    save_pretrained(index, tmp_path / "index")
    again = from_pretrained(tmp_path / "index")
    assert_array_equal(again.search(X[:5]).ids, index.search(X[:5]).ids)
    assert "library_name: interlace" in (tmp_path / "index" / "README.md").read_text()
    model = il.ICQ(n_bytes=4, threads=1, progress=False).fit(X)
    save_pretrained(model, tmp_path / "model")
    assert_array_equal(from_pretrained(tmp_path / "model").encode(X), model.encode(X))


def test_what_is_no_such_folder(tmp_path):
    with raises(il.NotAnIndexError, "config.json"):
        from_pretrained("organisation/name")
    with raises(il.InputError, "save_pretrained", "ndarray"):
        save_pretrained(np.zeros(3), tmp_path)
    for text, error in (
        ("{", il.DamagedFileError),
        ("[]", il.NotAnIndexError),
        (json.dumps({"library_name": "transformers"}), il.NotAnIndexError),
        (json.dumps({"library_name": "interlace", "kind": "index", "file": "../x"}), il.DamagedFileError),
    ):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(error):
            from_pretrained(tmp_path)
