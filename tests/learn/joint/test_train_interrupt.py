"""Ctrl-C at any time: the best model so far, or the estimator as it was."""

from __future__ import annotations

import signal

import pytest
from numpy.testing import assert_array_equal

torch = pytest.importorskip("torch", reason="the train extra is not installed")

import interlace as il  # noqa: E402
from interlace.estimators import joint  # noqa: E402
from interlace.learn.joint import fit  # noqa: E402
from interlace.learn.joint.passes import Passes  # noqa: E402
from interlace.learn.joint.trainer import Trainer  # noqa: E402
from interlace.quantizers import SQ  # noqa: E402
from joint_data import SHORT, Stop, icq, labelled  # noqa: E402
from raising import raises  # noqa: E402

X, Y = labelled()


@pytest.fixture(autouse=True)
def _ctrl_c_is_heard():
    """A process that was started in the background may ignore the signal."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("at", [0, 1])
def test_ctrl_c_before_there_are_books(at):
    model = icq(progress=Stop(at, KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    assert not [name for name in vars(model) if name.endswith("_")]
    model.progress = False
    model.fit(X, Y)
    before, model.progress = dict(vars(model)), Stop(at, KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[:100], Y[:100] > 1)
    assert vars(model) | {"progress": False} == before
    assert model.score(X, Y) > 0.9


@pytest.mark.parametrize("optimize", ["joint", "alternate"])
def test_ctrl_c_while_all_is_learned_keeps_the_best(optimize, monkeypatch):
    scores, weights = iter([0.5, 0.9, 0.2]), []

    def scripted(self):
        weights.append(self.state.network.out.weight.detach().numpy().copy())
        return next(scores)

    monkeypatch.setattr(Trainer, "validate", scripted)
    model = icq({"epochs": 9, "standardize": False}, optimize=optimize, progress=Stop(4, KeyboardInterrupt))
    with pytest.warns(il.FitInterruptedWarning, match="the best epoch so far is kept") as found:
        model.fit(X, Y)
    assert found[0].filename == __file__
    assert_array_equal(model.embedding_.layers[0][0], weights[1])
    assert len(model.history_) == model.fit_info_["epochs"] == 5
    assert model.fit_info_["interrupted"] is True
    assert model.score(X, Y) > 0.9


def test_ctrl_c_within_the_first_epoch_with_books(monkeypatch):
    calls = []

    def interrupted(self, z, st, labels, _loss=Passes._losses):
        calls.append(1)
        if len(calls) > 2 * 6 + 2:  # six batches an epoch
            raise KeyboardInterrupt
        return _loss(self, z, st, labels, None)

    monkeypatch.setattr(
        Passes, "_losses", lambda self, phase, z, labels, rows, **_: interrupted(self, phase, z, labels)
    )
    with pytest.warns(il.FitInterruptedWarning, match="learning was interrupted"):
        model = icq().fit(X, Y)
    assert [row["phase"] for row in model.history_] == ["warm-up", "shape"]
    assert model.fit_info_["validation_map"] is None
    assert model.score(X, Y) > 0.9


# --- after learning: nothing of it may be lost ------------------------------------------------------------------------

CODING = "interrupted while rows were encoded; the model .* has no codes_ and labels_"


def sq(**settings):
    return SQ("pq", n_books=4, n_words=16, threads=1, recipe=il.Recipe(**SHORT), **settings)


def pressed(function, times=1):
    """The function, with Ctrl-C (the signal itself) in its first calls."""
    calls = []

    def call(*arguments, **settings):
        calls.append(1)
        if len(calls) <= times:
            signal.raise_signal(signal.SIGINT)
        return function(*arguments, **settings)

    return call


def same_but_for_codes(model, whole):
    assert model.codebooks_ == whole.codebooks_
    assert model.embedding_.fingerprint == whole.embedding_.fingerprint
    assert model.fit_info_["validation_map"] == whole.fit_info_["validation_map"]
    assert (model.fit_info_["interrupted"], whole.fit_info_["interrupted"]) == (True, False)
    assert_array_equal(model.encode(X), whole.codes_)
    return True


@pytest.mark.parametrize("how", ["callback", "signal"])
@pytest.mark.parametrize("make", [icq, sq])
def test_ctrl_c_while_rows_are_coded(how, make, monkeypatch, tmp_path):
    whole = make().fit(X, Y)
    if how == "signal":
        monkeypatch.setattr(joint, "encode", pressed(joint.encode))
    model = make(progress=Stop(len(whole.history_), KeyboardInterrupt) if how == "callback" else False)
    with pytest.warns(UserWarning, match=CODING) as found:
        assert model.fit(X, Y) is model
    assert [w.filename for w in found] == [__file__]
    assert same_but_for_codes(model, whole)
    assert not hasattr(model, "codes_")
    assert not hasattr(model, "labels_")
    with raises(il.InputError, "X_database", "y_database"):
        model.score(X, Y)
    assert model.score(X, Y, X, Y) == whole.score(X, Y)
    model.save(tmp_path / "m")
    again = type(model).load(tmp_path / "m")
    assert again.fit_info_["interrupted"] is True
    assert_array_equal(again.index(X).search(X[:5], 3).ids, whole.index(X).search(X[:5], 3).ids)


def test_ctrl_c_when_all_rows_are_coded(monkeypatch):
    whole = icq().fit(X, Y)
    monkeypatch.setattr(joint, "_operations", pressed(joint._operations))
    with pytest.warns(il.FitInterruptedWarning, match="the best epoch so far is kept"):
        model = icq().fit(X, Y)
    assert same_but_for_codes(model, whole)
    assert_array_equal(model.codes_, whole.codes_)
    assert "ops" not in model.fit_info_


def test_ctrl_c_while_codebooks_are_made(monkeypatch):
    whole = icq().fit(X, Y)
    finish = fit.finish
    monkeypatch.setattr(fit, "finish", pressed(finish))
    with pytest.warns(il.FitInterruptedWarning, match="the best epoch so far is kept"):
        model = icq().fit(X, Y)
    assert same_but_for_codes(model, whole)
    assert_array_equal(model.codes_, whole.codes_)
    monkeypatch.setattr(fit, "finish", pressed(finish, 2))  # twice is meant
    before = dict(vars(model))
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    assert vars(model) == before


def test_ctrl_c_twice_is_told_once(monkeypatch):
    monkeypatch.setattr(joint, "encode", pressed(joint.encode))
    with pytest.warns(UserWarning, match=CODING) as found:
        model = icq({"epochs": 9}, progress=Stop(4, KeyboardInterrupt)).fit(X, Y)
    assert len(found) == 1
    assert len(model.history_) == 5
