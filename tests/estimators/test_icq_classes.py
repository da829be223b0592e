"""`UnsupervisedICQ` and `SupervisedICQ`: they share their parameters, results and files' contents with `ICQ`."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest
from numpy.testing import assert_array_equal

import interlace as il
from interlace.quantizers import load, methods
from joint_data import SHORT, labelled

X, Y = labelled()
QUICK: dict[str, Any] = {"n_books": 3, "n_words": 16, "threads": 1}
SUPERVISED: dict[str, Any] = QUICK | {"recipe": il.Recipe(**SHORT)}


def test_icq_has_the_parameters_of_both_with_their_defaults() -> None:
    both = il.UnsupervisedICQ.parameter_defaults() | il.SupervisedICQ.parameter_defaults()
    assert both | {"supervised": True} == il.ICQ.parameter_defaults()
    shared = il.UnsupervisedICQ.parameter_defaults().keys() & il.SupervisedICQ.parameter_defaults().keys()
    assert shared == {"n_bytes", "n_books", "n_words", "n_crude", "cross", "seed", "threads", "progress"}


@pytest.mark.parametrize(("kind", "name"), [(il.UnsupervisedICQ, "loss"), (il.SupervisedICQ, "layout")])
def test_parameters_of_the_other_class_are_refused(kind: Any, name: str) -> None:
    with pytest.raises(TypeError, match=name):
        kind(**{name: "auto"})
    with pytest.raises(il.InputError, match=f"'{name}'"):
        kind().set_params(**{name: "auto"})


def check_persistence(model: Any, path: Path) -> None:
    model.save(path)
    for again in (type(model).load(path), load(path), pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert type(again) is type(model)
        assert again.get_params(deep=False) | {"progress": 0} == model.get_params(deep=False) | {"progress": 0}
        assert_array_equal(again.encode(X), model.encode(X))
    with pytest.raises(il.NotAnIndexError, match=rf"{type(model).__name__}.* ICQ: interlace\.quantizers\.load"):
        il.ICQ.load(path)


def test_without_labels(tmp_path: Path) -> None:
    model = il.UnsupervisedICQ(**QUICK, layout="hybrid", iterations=2).fit(X, Y)
    same = il.ICQ(**QUICK, layout="hybrid", iterations=2).fit(X)
    assert model.codebooks_ == same.codebooks_
    assert model.choice_ == same.choice_
    assert model.embedding_ is None
    assert_array_equal(model.sample_, same.sample_)
    assert model.n_samples_fit_ == len(X)
    check_persistence(model, tmp_path / "m")


def test_with_labels(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the train extra is not installed")
    model = il.SupervisedICQ(**SUPERVISED, loss="triplet").fit(X, Y)
    same = il.ICQ(**SUPERVISED, loss="triplet").fit(X, Y)
    assert model.codebooks_ == same.codebooks_
    assert model.embedding_ is not None
    assert same.embedding_ is not None
    assert model.embedding_.fingerprint == same.embedding_.fingerprint
    assert model.score(X, Y) == same.score(X, Y)
    check_persistence(model, tmp_path / "m")
    with pytest.raises(il.InputError, match="labels"):
        il.SupervisedICQ(**SUPERVISED).fit(X)


def test_tables_compare_icq_once() -> None:
    assert [name for name in methods() if "ICQ" in name] == ["ICQ"]
