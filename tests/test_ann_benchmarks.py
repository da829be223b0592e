"""The module for ann-benchmarks on a small HDF5 file, called as the runner calls it; the runner itself needs Docker."""

from __future__ import annotations

import importlib
import itertools
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
    def get_additional(self): return {}
    def get_memory_usage(self): return None
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


def written(path, metric):
    """A small file as ann-benchmarks writes them: train, test, neighbors, and the distance as an attribute."""
    h5py = pytest.importorskip("h5py", reason="the io extra is not installed")
    x = clustered(820, 12, seed=1)
    train, test = x[:800], x[800:]
    a, b = (
        (train, test)
        if metric == "euclidean"
        else (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (train, test))
    )
    truth = np.argsort(((b[:, None] - a[None]) ** 2).sum(2), axis=1)[:, :10]
    with h5py.File(path, "w") as file:
        file.attrs["distance"] = metric
        for name, value in (("train", train), ("test", test), ("neighbors", truth)):
            file[name] = value
    return h5py.File(path)


def definitions(metric):
    """Arguments of the constructor, and the groups of query arguments, as the runner makes them of config.yml."""
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    (group,) = yaml.safe_load((FOLDER / "config.yml").read_text())["float"]["any"]
    assert (group["constructor"], group["module"]) == ("Interlace", "ann_benchmarks.algorithms.interlace")
    base = [metric if argument == "@metric" else argument for argument in group["base_args"]]
    for run_group in group["run_groups"].values():
        for built in itertools.product(*run_group["args"]):
            yield [*base, *built], list(itertools.product(*run_group["query_args"]))


def run(algorithm, arguments, query_groups, file, count, *, batch, runs=2):
    """What ``run`` of ann_benchmarks/runner.py calls, in its order; name and answers for each group."""
    made = algorithm(*arguments)
    train, test = np.array(file["train"]), np.array(file["test"])
    found = []
    try:
        before = made.get_memory_usage()
        made.fit(train)
        assert made.get_memory_usage() - before > 0
        for group in query_groups:
            made.set_query_arguments(*group)
            for _ in range(runs):
                if batch:
                    made.batch_query(test, count)
                    answers = made.get_batch_results()
                else:
                    answers = [made.query(v, count) for v in test]
                for candidates in answers:
                    assert len(candidates) == len(set(candidates)) <= count
                    assert all(0 <= int(row) < len(train) for row in candidates)
            assert made.get_additional() == {}
            found.append((str(made), np.array(answers)))
    finally:
        made.done()
    return found


@pytest.mark.parametrize("metric", ["euclidean", "angular"])
def test_the_module_finds_the_neighbours_of_a_small_file(algorithm, metric, tmp_path):
    with written(tmp_path / "small.hdf5", metric) as file:
        arguments, groups = next(definitions(file.attrs["distance"]))
        single = run(algorithm, arguments, groups, file, 10, batch=False)
        together = run(algorithm, arguments, groups, file, 10, batch=True)
        truth = np.array(file["neighbors"])
    assert len({name for name, _ in single}) == len(groups) == 7  # results are stored by name
    assert all("n_bytes=8" in name for name, _ in single)
    for (name, ids), (same_name, same_ids) in zip(single, together, strict=True):
        assert name == same_name
        assert np.array_equal(ids, same_ids)
    recalls = [np.mean([len(np.intersect1d(f, t)) / 10 for f, t in zip(ids, truth, strict=True)]) for _, ids in single]
    assert recalls[-1] > 0.99
    assert recalls[-1] >= recalls[0] > 0.5


def test_all_arguments_of_the_configuration_build_an_index(algorithm, tmp_path):
    with written(tmp_path / "small.hdf5", "euclidean") as file:
        made = [
            run(algorithm, arguments, groups[-1:], file, 3, batch=True, runs=1)
            for arguments, groups in definitions("euclidean")
        ]
    assert [name for ((name, _),) in made] == [f"Interlace(n_bytes={n}, rerank=640)" for n in (8, 16, 32)]


def test_other_metrics_are_refused(algorithm):
    with pytest.raises(NotImplementedError, match="hamming"):
        algorithm("hamming", {"n_bytes": 8})
