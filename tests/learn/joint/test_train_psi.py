"""psi that holds little of the variance: where it came from, the second fit, and the warning."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the train extra is not installed")

import interlace as il  # noqa: E402
from interlace.learn.joint.batches import Data  # noqa: E402
from interlace.learn.joint.losses.prior import PriorLoss  # noqa: E402
from interlace.learn.joint.networks import build  # noqa: E402
from interlace.learn.joint.phases import FULL_RATE_DIMS, Phases, optimizer_for  # noqa: E402
from interlace.learn.joint.state import TrainingState  # noqa: E402
from joint_data import caught, icq, labelled  # noqa: E402

X, Y = labelled(dim=40)


def test_a_degenerate_psi_is_fitted_again_and_then_reported(monkeypatch):
    """Only the smallest variance is in psi, whatever Theta is."""
    fits = []
    monkeypatch.setattr(PriorLoss, "fit_em", lambda self, v, _fit=PriorLoss.fit_em: fits.append(1) or _fit(self, v))
    smallest = lambda self, v: torch.arange(len(v)) == v.argmin()  # noqa: E731
    monkeypatch.setattr(PriorLoss, "high", smallest)
    model, found = caught(lambda: icq(n_books=8).fit(X, Y))
    assert found.count(il.DegeneratePsiWarning) == 1
    assert len(fits) == 1
    assert (model.fit_info_["psi"], model.fit_info_["psi_share"] < 0.5) == (1, True)


def test_a_psi_that_loses_its_variance_while_learning_is_reported(monkeypatch):
    monkeypatch.setattr("interlace.learn.joint.fit._share", lambda codebooks: 0.3)
    _, found = caught(lambda: icq(n_books=8).fit(X, Y))
    assert found.count(il.DegeneratePsiWarning) == 1
    monkeypatch.setattr("interlace.learn.joint.fit._share", lambda codebooks: None)  # no split
    assert il.DegeneratePsiWarning not in caught(lambda: icq(n_books=8).fit(X, Y))[1]


def test_theta_that_lags_behind_is_no_reason_to_warn(monkeypatch):
    fitted = []
    real = PriorLoss.high

    def high(self, variances):
        return real(self, variances) if fitted else torch.arange(len(variances)) == variances.argmin()

    monkeypatch.setattr(PriorLoss, "high", high)
    monkeypatch.setattr(PriorLoss, "fit_em", lambda self, v, _fit=PriorLoss.fit_em: fitted.append(1) or _fit(self, v))
    model, found = caught(lambda: icq(n_books=8).fit(X, Y))
    assert il.DegeneratePsiWarning not in found
    assert model.fit_info_["psi_share"] >= 0.5


def test_the_share_of_psi_is_on_the_card():
    model = icq(n_books=8).fit(X, Y)
    variances = model.codebooks_.variances.astype(np.float64)
    expected = sum(variances[i] for i in model.codebooks_.crude_dims) / variances.sum()
    assert model.fit_info_["psi_share"] == pytest.approx(expected)
    assert model.fit_info_["psi"] == len(model.codebooks_.crude_dims)
    two = icq(n_books=2).fit(X, Y)
    assert (two.fit_info_["psi"], two.fit_info_["psi_share"]) == (0, None)


def checked(**settings):
    return replace(il.SupervisedICQ(n_books=8, **settings).checked_settings(), device="cpu")


@pytest.mark.parametrize("dim", [16, 64, 512])
def test_wide_embeddings_are_shaped_in_smaller_steps(dim):
    settings = checked(dim=dim)
    network = build("linear", input_shape=(40,), dim=dim)
    state = TrainingState(network, 4, settings)
    rate = optimizer_for("shape", state).param_groups[0]["rate"]
    assert rate == pytest.approx(settings.recipe.rate_shape * min(1.0, (FULL_RATE_DIMS / dim) ** 0.5))
    assert optimizer_for("warm-up", state).param_groups[0]["rate"] == settings.recipe.rate_warm_up


def test_the_cap_at_the_number_of_classes():
    data = Data(X, Y)
    for cap, most in ((True, 3), (False, 15)):
        settings = checked(dim=16, recipe=il.Recipe(cap=cap))
        state = TrainingState(build("linear", input_shape=(40,), dim=16), data.n_classes, settings)
        assert Phases(state, data)._most_leading == most
