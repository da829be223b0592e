"""The module for ann-benchmarks on a small HDF5 file, called as the runner calls it, which needs Docker."""

from __future__ import annotations

import importlib
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from helpers import clustered

FOLDER = Path(__file__).parents[1] / "benchmarks" / "ann_benchmarks" / "interlace"
BASE = """
class BaseANN:
    def done(self): pass
    def query(self, q, n): return []
    def batch_query(self, X, n): self.res = [self.query(q, n) for q in X]
    def get_batch_results(self): return self.res
"""


@pytest.fixture
def algorithm(tmp_path, monkeypatch):
    """The class, in a package with the parts of ann-benchmarks that it imports."""
    package = tmp_path / "annb" / "algorithms"
    (package / "base").mkdir(parents=True)
    for folder in (tmp_path / "annb", package, package / "base"):
        (folder / "__init__.py").touch()
    (package / "base" / "module.py").write_text(BASE)
    shutil.copytree(FOLDER, package / "interlace")
    (package / "interlace" / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("annb.algorithms.interlace.module").Interlace
    for name in [name for name in sys.modules if name.partition(".")[0] == "annb"]:
        del sys.modules[name]


@pytest.mark.parametrize("metric", ["euclidean", "angular"])
def test_the_module_finds_the_neighbours_of_a_small_file(algorithm, metric, tmp_path):
    h5py = pytest.importorskip("h5py", reason="the io extra is not installed")
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    x = clustered(820, 12, seed=1)
    train, test = x[:800], x[800:]
    a, b = (
        (train, test)
        if metric == "euclidean"
        else (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (train, test))
    )
    truth = np.argsort(((b[:, None] - a[None]) ** 2).sum(2), axis=1)[:, :10]
    with h5py.File(tmp_path / "small.hdf5", "w") as file:
        file.attrs["distance"] = metric
        for name, value in (("train", train), ("test", test), ("neighbors", truth)):
            file[name] = value
    (group,) = yaml.safe_load((FOLDER / "config.yml").read_text())["float"]["any"]
    assert group["constructor"] == "Interlace"
    codes = group["run_groups"]["codes"]
    with h5py.File(tmp_path / "small.hdf5") as file:
        made = algorithm(file.attrs["distance"], codes["args"][0][0])
        made.fit(np.array(file["train"]))
        recalls = []
        for depth in (codes["query_args"][0][0], codes["query_args"][0][-1]):
            made.set_query_arguments(depth)
            found = [made.query(v, 10) for v in file["test"]]
            made.batch_query(np.array(file["test"]), 10)
            assert np.array_equal(made.get_batch_results(), np.array(found))
            pairs = zip(found, np.array(file["neighbors"]), strict=True)
            recalls.append(np.mean([len(np.intersect1d(f, t)) / 10 for f, t in pairs]))
    assert recalls[1] > 0.99
    assert recalls[1] >= recalls[0] > 0.5
    assert made.get_memory_usage() > 0
    assert "n_bytes=8" in str(made)


def test_other_metrics_are_refused(algorithm):
    with pytest.raises(NotImplementedError, match="hamming"):
        algorithm("hamming", {"n_bytes": 8})
