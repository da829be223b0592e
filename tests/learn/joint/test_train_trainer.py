"""Joint learning: what it reaches, phase by phase."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

torch = pytest.importorskip("torch", reason="the train extra is not installed")

from torch import nn  # noqa: E402

import interlace as il  # noqa: E402
from interlace.learn.joint.losses.prior import PriorLoss  # noqa: E402
from interlace.learn.joint.passes import Passes  # noqa: E402
from interlace.learn.joint.trainer import Trainer  # noqa: E402
from interlace.learn.recipe import LOSSES  # noqa: E402
from joint_data import icq, labelled, module, same, small  # noqa: E402
from raising import raises  # noqa: E402

X, Y = labelled()


@small
@pytest.mark.parametrize("optimize", ["joint", "alternate"])
@pytest.mark.parametrize("loss", LOSSES)
def test_losses_fall_and_rows_of_a_class_are_found(loss, optimize):
    # Fewer dimensions than the input has, or regression would have nothing to learn.
    recipe = {"warm_up": 3, "shape": 2, "epochs": 3}
    model = icq(recipe, loss=loss, optimize=optimize, dim=5).fit(X[:400], Y[:400])
    phases = {name: [row for row in model.history_ if row["phase"] == name] for name in ("warm-up", "shape", "learn")}
    assert [len(phase) for phase in phases.values()] == [3, 2, 3]
    assert [row["epoch"] for row in model.history_] == [*range(8)]
    assert phases["warm-up"][-1]["embedding"] < phases["warm-up"][0]["embedding"]
    parts = {"embedding", "quantization", "cross", "interleaving", "prior"}
    assert parts | {"epoch", "phase", "psi", "map", "seconds"} == set(phases["learn"][0])
    totals = [sum(row[part] for part in parts) for row in phases["learn"]]
    assert totals[-1] < totals[0]
    assert model.score(*labelled(200, seed=1)) > 0.75  # by chance 0.25; cross-entropy takes longer than the others


@small
def test_the_same_seed_gives_the_same_arrays():
    before = torch.random.get_rng_state()
    assert same(icq(embedding="mlp").fit(X, Y), icq(embedding="mlp").fit(X, Y))
    assert icq(seed=1).fit(X, Y).codebooks_ != icq().fit(X, Y).codebooks_
    assert same(icq(embedding=module()).fit(X, Y), icq(embedding=module()).fit(X, Y))
    assert_array_equal(torch.random.get_rng_state(), before)
    icq(seed=2**63 - 1).fit(X, Y)


@small
def test_a_users_module_is_left_as_it_was():
    mine = module()
    before = {name: value.clone() for name, value in mine.state_dict().items()}
    model = icq(embedding=mine)
    first = model.fit(X, Y).codebooks_
    assert all(torch.equal(before[name], value) for name, value in mine.state_dict().items())
    assert model.fit(X, Y).codebooks_ == first  # and a second fit starts from the same
    assert mine.training
    assert model.embedding_.module is not mine
    assert model.codebooks_.dim == 6

    class Alone(nn.Linear):
        def __deepcopy__(self, memo):
            raise RuntimeError("there is one of me")

    with raises(il.InputError, "Alone", "copy.deepcopy"):
        icq(embedding=Alone(12, 4)).fit(X, Y)


@small
def test_inputs_of_a_module_and_of_identity_are_not_standardised():
    seen = []

    class Spy(nn.Linear):
        def forward(self, x):
            seen.append(x.detach().numpy().copy())
            return super().forward(x)

    x = X * 5 + 3
    icq(embedding=Spy(12, 4)).fit(x, Y)
    assert max(np.abs(block).max() for block in seen) == np.abs(x).max()
    model = icq(embedding="identity").fit(x, Y)
    z = model.embed(x).astype(np.float64)
    ratio = ((z[1:] - z[:-1]) ** 2).sum(1) / ((x[1:] - x[:-1]).astype(np.float64) ** 2).sum(1)
    assert_allclose(ratio, ratio.mean(), rtol=1e-3)  # distances are those of the input


@pytest.mark.parametrize("theta", ["em", "gradient"])
def test_theta(theta, monkeypatch):
    fits = []
    monkeypatch.setattr(PriorLoss, "fit_em", lambda self, v, _fit=PriorLoss.fit_em: fits.append(1) or _fit(self, v))
    model = icq({"theta": theta, "shape": 3}).fit(X, Y)
    assert len(fits) == (3 + 1 + 2 if theta == "em" else 0)  # each epoch, and at the start of the books
    assert 0 < model.codebooks_.crude_dims.size < 12
    assert model.prior_.high(model.codebooks_.variances).any()
    assert model.score(X, Y) > 0.9


def test_early_stopping_and_the_best_epoch(monkeypatch):
    scores, weights = iter([0.5, 0.9, 0.2, 0.9, 0.3, 1.0]), []

    def scripted(self):
        weights.append(self.state.network.out.weight.detach().numpy().copy())
        return next(scores)

    monkeypatch.setattr(Trainer, "validate", scripted)
    model = icq({"epochs": 6, "patience": 3, "standardize": False}).fit(X, Y)
    assert [row.get("map") for row in model.history_] == [None, None, 0.5, 0.9, 0.2, 0.9, 0.3]
    assert_array_equal(model.embedding_.layers[0][0], weights[1])
    assert not np.array_equal(weights[1], weights[-1])
    assert model.fit_info_["validation_map"] == 0.9


def test_a_run_that_stopped_early_is_not_taken_further(tmp_path):
    still = {"rate_embedding": 0, "rate_books": 0, "rate_theta": 0, "epochs": 9, "patience": 2}
    first = icq(still, checkpoint=tmp_path / "c").fit(X, Y)
    assert len(first.history_) == 1 + 1 + 1 + 2
    assert same(first, icq(still, checkpoint=tmp_path / "c").fit(X, Y))


@pytest.mark.parametrize("phases", [*itertools.product([0, 1], repeat=3)])
def test_phases_may_be_left_out(phases):
    warm_up, shape, epochs = phases
    model = icq({"warm_up": warm_up, "shape": shape, "epochs": epochs}).fit(X, Y)
    assert [row["phase"] for row in model.history_] == ["warm-up"] * warm_up + ["shape"] * shape + ["learn"] * epochs
    assert model.score(X, Y) > 0.6


def test_psi_is_told_for_every_epoch():
    model = icq({"shape": 3}).fit(X, Y)
    psi = [row.get("psi") for row in model.history_]
    assert psi[0] is None
    assert all(psi[1:])
    assert psi[4:] == [model.codebooks_.crude_dims.tolist()] * 2  # the books have it, and keep it
    assert psi[3] == psi[4]  # on these rows the prior says it at the end of its phase
    assert all(isinstance(i, int) for i in psi[-1])
    assert not any("psi" in row for row in icq(n_books=2).fit(X, Y).history_)


@pytest.mark.filterwarnings("ignore")
def test_psi_of_a_prior_that_collapsed_is_empty(monkeypatch):
    monkeypatch.setattr(PriorLoss, "collapsed", lambda self, variances: "on purpose")
    psi = [row.get("psi") for row in icq().fit(X, Y).history_]
    assert psi[1] == []
    assert psi[2]  # made of the largest variances all the same


def test_turns_move_one_part_at_a_time(monkeypatch):
    def parts(state):
        found = {"embedding": state.network, "theta": state.prior, "books": state.books}
        return {name: torch.cat([p.detach().flatten().clone() for p in m.parameters()]) for name, m in found.items()}

    moved = []

    def watched(self, phase, _pass=Passes.run, **settings):
        if phase != "learn":
            return _pass(self, phase, **settings)
        before = parts(self.state)
        result = _pass(self, phase, **settings)
        moved.append({name for name, value in parts(self.state).items() if not torch.equal(value, before[name])})
        return result

    monkeypatch.setattr(Passes, "run", watched)
    icq(optimize="alternate").fit(X, Y)
    assert moved == [{"embedding", "theta"}, {"books"}] * 2
    moved.clear()
    icq().fit(X, Y)
    assert moved == [{"embedding", "theta", "books"}] * 2
