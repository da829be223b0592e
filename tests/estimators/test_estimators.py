"""The base of estimators: parameters, names of columns, containers, errors; with and without scikit-learn."""

from __future__ import annotations

import pickle
import sys
import types
import warnings

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError as TheirError
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

import interlace as il
from frames import FakeFrame
from helpers import FakeTensor, run_python
from interlace.errors import not_fitted
from interlace.estimators.base import Transformer
from interlace.estimators.features import NotNumbersError, read_features
from interlace.files.storage import from_bytes, to_bytes

X = np.arange(12.0).reshape(4, 3)


class Shift(Transformer):
    """A dense transformer: takes off the mean, and may hold another estimator."""

    def __init__(self, by=1.0, *, other=None, text="a"):
        self.by = by
        self.other = other
        self.text = text

    def fit(self, X, y=None):  # noqa: N803
        rows, names = read_features(X)
        self.mean_ = np.asarray(rows, float).mean(0)
        self._record_features(rows.shape[1], names)
        return self

    def transform(self, X):  # noqa: N803
        rows = self._read_like_fit(X)
        return self._wrap_output(np.asarray(rows, float) - self.mean_ * self.by, X)

    def _n_features_out(self):
        return self.n_features_in_


# --------------------------------------------------------------------------------------------------------- parameters


@given(st.fixed_dictionaries({}, optional={"by": st.floats(), "other": st.none() | st.lists(st.integers())}))
def test_parameters_come_back_as_the_objects_they_are(params):
    made, changed = Shift(**params), Shift().set_params(**params)
    for estimator in (made, changed, clone(made)):
        found = estimator.get_params()
        assert [*found] == ["by", "other", "text"]
        assert all(repr(found[name]) == repr(value) for name, value in params.items())
    assert all(made.get_params()[name] is value for name, value in params.items())
    defaults = {"by": 1.0, "other": None}
    shown = [
        f"{name}={params[name]!r}"
        for name in defaults
        if repr(params.get(name, defaults[name])) != repr(defaults[name])
    ]
    assert repr(made) == f"Shift({', '.join(shown)})"


def test_estimators_inside_are_reached():
    outer = Shift(other=Shift(by=2.0))
    assert outer.get_params()["other__by"] == 2.0
    assert "other__by" not in outer.get_params(deep=False)
    inner = Shift()
    outer.set_params(other__text="b", other=inner)  # the new one gets the text
    assert inner.text == "b"
    assert repr(outer) == "Shift(other=Shift(text='b'))"
    copy = clone(outer)
    assert copy.other is not inner
    assert copy.other.text == "b"
    theirs = Shift(other=NearestNeighbors()).set_params(other__n_neighbors=3)
    assert theirs.other.n_neighbors == 3


class Frozen:
    """Parameters that cannot be changed, only replaced."""

    def __init__(self, size=1):
        if size < 0:
            raise il.InputError(f"size must be at least 0, got {size}")
        self.size = size

    def get_params(self, deep=True):
        return {"size": self.size}

    def with_params(self, **changes):
        return Frozen(**changes)


def test_what_is_frozen_is_replaced():
    first = Frozen(2)
    outer = Shift(other=first)
    assert outer.get_params()["other__size"] == 2
    outer.set_params(other__size=3, by=2.0)
    assert (outer.other.size, first.size, outer.by) == (3, 2, 2.0)
    assert clone(outer).other.size == 3


@pytest.mark.parametrize(
    "bad", [{"other__size": -1}, {"other__no": 1}, {"text__x": 1}, {"other__size": 5, "text__x": 1}]
)
def test_parameters_are_set_all_or_none(bad):
    outer = Shift(by=1.0, other=Frozen(2), text="a")
    before = dict(vars(outer))
    with pytest.raises((il.InputError, TypeError)):
        outer.set_params(by=7.0, **bad)
    assert vars(outer) == before


def test_estimators_inside_are_put_back_after_an_error():
    inner = Shift(by=2.0, other=Shift(text="deep"))
    outer = Shift(other=inner)
    with pytest.raises(il.InputError, match=r"text has no parameters to set \(x\), it is 'a'"):
        outer.set_params(other__by=5.0, other__other__text="b", text__x=1)
    assert outer.other is inner
    assert (inner.by, inner.other.text) == (2.0, "deep")
    with pytest.raises(il.InputError, match="Invalid parameter 'bi'"):
        outer.set_params(by=3.0, other__bi=1)
    assert outer.by == 1.0


def test_an_unknown_parameter_changes_nothing():
    estimator = Shift()
    with pytest.raises(
        il.InputError, match=r"Invalid parameter 'bi' for estimator Shift\(\).*\['by', 'other', 'text'\]"
    ):
        estimator.set_params(by=3.0, bi=2)
    assert estimator.by == 1.0


def test_tags():
    tags = get_tags(Shift())
    assert not tags.target_tags.required
    assert not tags.input_tags.sparse
    assert not tags.input_tags.allow_nan
    assert not tags.non_deterministic
    assert tags.requires_fit
    assert tags.transformer_tags.preserves_dtype == ["float64"]


# ------------------------------------------------------------------------------------------------------------- fitted


def test_what_is_not_fitted_says_so_to_everyone():
    for kind in (il.NotFittedError, il.InterlaceError, TheirError, ValueError, AttributeError):
        with pytest.raises(kind, match="This Shift is not fitted yet"):
            Shift().transform(X)
    with pytest.raises(TheirError):
        check_is_fitted(Shift())
    check_is_fitted(Shift().fit(X))


def test_the_joint_error_can_be_pickled():
    error = not_fitted("no")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert again.args == ("no",)


def test_without_scikit_learn():
    code = """
import json, pickle, sys
import numpy as np
import interlace as il
model = il.Neighbors(3, n_bytes=2, threads=1)
try:
    model.kneighbors(np.ones((1, 4)))
except il.NotFittedError as error:
    plain = type(error) is il.NotFittedError
distances, rows = model.fit(np.random.default_rng(0).normal(size=(300, 4))).kneighbors()
print(json.dumps([plain, rows.shape, repr(model), sorted({"sklearn", "scipy", "pandas"} & {*sys.modules})]))
"""
    assert run_python(code) == [True, [300, 3], "Neighbors(n_neighbors=3, n_bytes=2, threads=1)", []]


# --------------------------------------------------------------------------------------------------- names of columns


def frame(columns, values=X):
    return FakeFrame({name: values[:, i] for i, name in enumerate(columns)})


def table(columns, values=X):
    return pa.table({name: values[:, i] for i, name in enumerate(columns)})


@pytest.mark.parametrize("make", [frame, table])
def test_names_are_kept_and_compared(make):
    model = Shift().fit(make("abc"))
    assert model.n_features_in_ == 3
    assert model.feature_names_in_.dtype == object
    assert [*model.feature_names_in_] == ["a", "b", "c"]
    np.testing.assert_array_equal(model.transform(make("abc")), X - X.mean(0))
    start = "The feature names should match those that were passed during fit.\n"
    for columns, text in [
        ("cab", "Feature names must be in the same order as they were in fit.\n"),
        ("abd", "Feature names unseen at fit time:\n- d\nFeature names seen at fit time, yet now missing:\n- c\n"),
        ("ab", "Feature names seen at fit time, yet now missing:\n- c\n"),
        ("abcdefghi", "Feature names unseen at fit time:\n- d\n- e\n- f\n- g\n- h\n- ...\n"),
    ]:
        with pytest.raises(il.InputError) as caught:
            model.transform(make(columns, np.ones((2, len(columns)))))
        assert str(caught.value) == start + text
    with pytest.warns(
        UserWarning, match="X does not have valid feature names, but Shift was fitted with feature names"
    ):
        model.transform(X)
    model.fit(X)
    assert not hasattr(model, "feature_names_in_")
    with pytest.warns(UserWarning, match="X has feature names, but Shift was fitted without feature names"):
        model.transform(make("abc"))


def test_columns_without_names():
    assert not hasattr(Shift().fit(frame([0, 1, 2])), "feature_names_in_")
    with pytest.raises(TypeError, match=r"all input features have string names, but X has \['int', 'str'\]"):
        read_features(frame(["a", 1, "c"]))
    lists = pa.table({"v": pa.FixedSizeListArray.from_arrays(X.ravel(), 3)})
    rows, names = read_features(lists)
    assert rows.shape == (4, 3)
    assert names is None
    labelled = table("abc").append_column("label", pa.array(["x"] * 4))  # no number, so no dimension
    assert [*read_features(labelled)[1]] == ["a", "b", "c"]


def test_names_out():
    model = Shift().fit(frame("abc"))
    assert [*model.get_feature_names_out()] == ["shift0", "shift1", "shift2"]
    assert [*model.get_feature_names_out(["a", "b", "c"])] == ["shift0", "shift1", "shift2"]
    with pytest.raises(il.InputError, match="input_features is not equal to feature_names_in_"):
        model.get_feature_names_out(["a", "b", "x"])
    with pytest.raises(
        il.InputError, match=r"input_features should have length equal to number of features \(3\), got 2"
    ):
        model.get_feature_names_out(["a", "b"])
    with pytest.raises(il.NotFittedError):
        Shift().get_feature_names_out()


# -------------------------------------------------------------------------------------------------------------- input


@pytest.mark.parametrize(
    ("x", "kind", "text"),
    [
        (np.ones(3), ValueError, "Expected 2D array, got 1D array instead.*Reshape your data"),
        ([1.0, 2.0], ValueError, "Expected 2D array, got 1D array instead"),
        (np.ones((1, 2, 3)), ValueError, "Expected 2D array, got 3D"),
        (np.empty((0, 3)), ValueError, r"0 sample\(s\) \(shape=\(0, 3\)\) while a minimum of 1 is required"),
        (np.empty((3, 0)), ValueError, r"0 feature\(s\) \(shape=\(3, 0\)\) while a minimum of 1 is required"),
        (np.ones((2, 2), complex), ValueError, "Complex data not supported"),
        (np.array([[1, {}]], object), TypeError, "not numbers: float.. argument must be a string or a real number"),
        (np.array([[1, "a"]], object), ValueError, "not numbers: could not convert string to float"),
        ("vectors.npy", ValueError, "is a path"),
    ],
)
def test_input_that_scikit_learn_refuses(x, kind, text):
    with pytest.raises(kind, match=text) as caught:
        read_features(x)
    assert isinstance(caught.value, il.InputError)
    assert isinstance(caught.value, NotNumbersError) == (kind is TypeError)


def test_input_is_passed_on_unconverted_where_it_can_be():
    blocks = iter([X])
    tensor = FakeTensor(X)
    for x in (X, X.astype(np.int8), blocks, tensor):
        assert read_features(x)[0] is x
    read_features(of_names := frame("abc"))
    assert of_names.largest == 0
    for x in (X.tolist(), X.astype(object)):
        rows, names = read_features(x)
        np.testing.assert_array_equal(rows, X)
        assert rows.dtype == np.float64
        assert names is None


# --------------------------------------------------------------------------------------------------------- containers


def library(name):
    """Stands in for pandas or polars: remembers how its frame was made."""
    module = types.ModuleType(name)
    module.DataFrame = lambda data, **how: (name, data, how)
    return module


def test_set_output(monkeypatch):
    for name in ("pandas", "polars"):
        monkeypatch.setitem(sys.modules, name, library(name))
    model = Shift().fit(X)
    np.testing.assert_array_equal(model.transform(X), X - X.mean(0))
    assert model.set_output(transform="pandas") is model
    assert model.set_output() is model  # no change
    for estimator in (model, clone(model).fit(X)):
        kind, data, how = estimator.transform(X)
        assert kind == "pandas"
        np.testing.assert_array_equal(data, X - X.mean(0))
        assert [*how["columns"]] == ["shift0", "shift1", "shift2"]
        assert how["index"] is None
    x = frame("abc")
    x.index = ["r", "s", "t", "u"]
    assert model.fit(x).transform(x)[2]["index"] is x.index
    kind, data, how = model.fit(X).set_output(transform="polars").transform(X)
    assert (kind, how) == ("polars", {"schema": ["shift0", "shift1", "shift2"], "orient": "row"})
    assert isinstance(model.set_output(transform="default").transform(X), np.ndarray)
    with pytest.raises(il.InputError, match="transform must be one of default, pandas, polars or None, got 'arrow'"):
        model.set_output(transform="arrow")


def test_scikit_learns_own_setting_counts_where_there_is_no_other(monkeypatch):
    sklearn = pytest.importorskip("sklearn")
    monkeypatch.setitem(sys.modules, "polars", library("polars"))
    model = Shift().fit(X)
    with sklearn.config_context(transform_output="polars"):
        assert model.transform(X)[0] == "polars"
        assert isinstance(model.set_output(transform="default").transform(X), np.ndarray)


def test_a_library_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(il.InputError, match=r"set_output\(transform='polars'\) needs polars: pip install 'polars'"):
        Shift().fit(X).set_output(transform="polars").transform(X)


# -------------------------------------------------------------------------------------------------------------- bytes


@given(st.binary(max_size=50))
def test_bytes_of_a_file_and_back(data):
    def save(path):
        with open(path, "wb") as file:
            file.write(data)

    def read(path):
        with open(path, "rb") as file:
            return file.read()

    assert to_bytes(save) == data
    assert from_bytes(data, read) == data


def test_warnings_point_at_the_caller():
    x = np.random.default_rng(0).normal(size=(20, 3))
    model = il.Neighbors(n_bytes=2, threads=1).fit(frame("abc", x))
    for call in (model.kneighbors, model.radius_neighbors_graph, model.transform):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call(x)
        assert [w.filename for w in caught] == [__file__]
