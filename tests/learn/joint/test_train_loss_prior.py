"""L_P: equal to `interlace.learn.prior`, by value and by slope, and what it does to variances and Theta."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlace import InputError
from interlace.learn.prior import SIGMA1_FLOOR, SIGMA2_FLOOR, Prior, fit_em, start_prior
from raising import raises

torch = pytest.importorskip("torch", reason="the train extra is not installed")

from interlace.learn.joint.losses import PriorLoss  # noqa: E402
from loss_checks import SCALES, check_gradient, value_and_gradients  # noqa: E402

TWO = np.r_[np.full(6, 5.0), np.full(10, 0.2)] * np.random.default_rng(0).uniform(0.8, 1.2, 16)
SPECTRA = {
    "two groups": TWO,
    "exponential": np.exp(-np.arange(16) / 4),
    "power": 1.0 / (1 + np.arange(64)),
    "rank 8": np.r_[np.linspace(4, 1, 8), np.zeros(8)],
    "one dimension": np.array([3.0]),
    "constant": np.full(16, 0.3),
    "zeros": np.zeros(5),
    "one huge": np.r_[1e6, np.ones(63)],
}
THETA = st.tuples(st.floats(0.11, 3), st.floats(0.26, 5), st.floats(0.1, 9))


def prior_of(theta, pi2=0.4, alpha2=-10.0, scale=1.0):
    sigma1, sigma2, mu2 = theta
    return Prior(0.0, sigma1, mu2, sigma2, alpha2, 1 - pi2, pi2, scale)


def loss_of(prior, **options):
    loss = PriorLoss(pi2=prior.pi2, alpha2=prior.alpha2, **options)
    loss.set_prior(prior)
    return loss


def unit_of(variances):
    """The mean, or a quarter of the largest: where few of many dimensions have all, the mean says nothing of them."""
    return max(float(np.mean(variances)), float(np.max(variances)) / 4) or 1.0


def tensor(variances, dtype=torch.float64):
    return torch.tensor(np.asarray(variances), dtype=dtype)


def plain_modes(prior, variance):
    z1, z2 = variance / prior.sigma1, (variance - prior.mu2) / prior.sigma2
    phi1, phi2 = (math.exp(-z * z / 2) / math.sqrt(2 * math.pi) for z in (z1, z2))
    skew_normal = 2 / prior.sigma2 * phi2 * 0.5 * math.erfc(-prior.alpha2 * z2 / math.sqrt(2))
    return prior.pi1 * phi1 / prior.sigma1, prior.pi2 * skew_normal


def plain(prior, variances, robustness):
    total = high_sum = 0.0
    for variance in variances:
        low, high = plain_modes(prior, variance)
        total -= math.log(low + high)
        high_sum += high
    return total - robustness * math.log(high_sum)


# --- values


@settings(max_examples=80, deadline=None)
@given(
    theta=st.tuples(st.floats(0.5, 3), st.floats(1, 5), st.floats(1, 4)),
    pi2=st.floats(0.05, 0.95),
    alpha2=st.floats(-5, 0),
    robustness=st.sampled_from([0.0, 1.0, 2.5]),
    seed=st.integers(0, 999),
)
def test_equals_a_plain_loop(theta, pi2, alpha2, robustness, seed):
    variances = np.random.default_rng(seed).uniform(0, 4, 12)
    prior, mean = prior_of(theta, pi2, alpha2), sum(variances.tolist()) / 12
    standard = loss_of(prior, robustness=robustness).double()
    raw = loss_of(prior, robustness=robustness, raw=True).double()
    expected = plain(prior, [v / mean for v in variances.tolist()], robustness) / 12
    assert standard(tensor(variances)).item() == pytest.approx(expected, rel=1e-5, abs=1e-5)
    assert raw(tensor(variances)).item() == pytest.approx(plain(prior, variances.tolist(), robustness), rel=1e-5)


@settings(max_examples=80, deadline=None)
@given(
    name=st.sampled_from(sorted(SPECTRA)),
    theta=THETA,
    pi2=st.floats(0.01, 0.99),
    alpha2=st.sampled_from([-100.0, -10.0, -1.0, 0.0]),
    robustness=st.sampled_from([0.0, 1.0, 10.0]),
)
def test_equals_the_prior_of_the_quantizers(name, theta, pi2, alpha2, robustness):
    variances = SPECTRA[name]
    prior = prior_of(theta, pi2, alpha2, unit_of(variances))
    expected = -prior.log_likelihood(variances, robustness=robustness) / len(variances)
    for dtype in (torch.float64, torch.float32):
        loss = loss_of(prior, robustness=robustness)
        value, _ = value_and_gradients(loss, tensor(variances, dtype))
        assert value == pytest.approx(expected, rel=1e-5 if dtype == torch.float64 else 1e-3, abs=1e-5), dtype


# --- gradients


@pytest.mark.parametrize("name", ["two groups", "exponential", "power", "rank 8"])
def test_slopes_equal_finite_differences_of_the_quantizers_prior(name):
    variances = SPECTRA[name] + 0.01
    loss = PriorLoss().double()
    loss.start(variances)
    _, (gradient,) = value_and_gradients(loss, tensor(variances))

    def height(v):
        return -loss.to_prior(unit_of(v)).log_likelihood(v, robustness=1.0) / len(v)

    for i in range(len(variances)):
        unit = np.eye(len(variances))[i] * 1e-5
        numeric = (height(variances + unit) - height(variances - unit)) / 2e-5
        assert gradient[i].item() == pytest.approx(numeric, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("raw", [False, True])
def test_gradients_by_variances_and_theta(raw):
    loss = PriorLoss(raw=raw).double()
    loss.set_prior(prior_of((0.7, 1.5, 3.0)))
    names = [name for name, _ in loss.named_parameters()]
    assert sorted(names) == ["_mu2", "_sigma1", "_sigma2"]

    def value(variances, *theta):
        return torch.func.functional_call(loss, dict(zip(names, theta, strict=True)), (variances,))

    variances = tensor(np.linspace(0.1, 3.0, 7))
    check_gradient(value, variances, *(p.detach() for _, p in loss.named_parameters()))


@pytest.mark.parametrize("name", SPECTRA)
def test_the_gradient_is_at_right_angles_to_scaling(name):
    """So that L_P cannot lower itself by shrinking the embedding."""
    variances, loss = tensor(SPECTRA[name]), PriorLoss().double()
    loss.start(SPECTRA[name])
    _, (gradient,) = value_and_gradients(loss, variances)
    along = float((gradient * variances).sum())
    assert abs(along) <= 1e-9 * max(1.0, float((gradient * variances).abs().sum()))


def test_descent_pulls_the_modes_apart():
    """The point of the loss: a few variances go up, the others down, while Theta follows."""
    start = np.array([3.0, 2.5, 2.2, 1.8, 0.9, 0.7, 0.6, 0.5, 0.4, 0.3])
    logs, loss = tensor(np.log(start)).requires_grad_(), PriorLoss().double()
    loss.start(start)
    optimiser = torch.optim.Adam([{"params": [logs], "lr": 0.01}, {"params": loss.parameters(), "lr": 0.02}])
    values = []
    for _ in range(300):
        optimiser.zero_grad()
        value = loss(logs.exp())
        value.backward()
        optimiser.step()
        values.append(value.item())
    end = logs.detach().exp().numpy()
    high = loss.high(tensor(end)).numpy()
    assert high.tolist() == [True] * 4 + [False] * 6
    assert end[high].min() / end[~high].max() > 2 * start[3] / start[4]
    assert values[-1] < values[0]
    assert loss.collapsed(tensor(end)) is None


# --- scales


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", SPECTRA)
def test_the_unit_of_the_data_does_not_matter(name, scale):
    variances = tensor(SPECTRA[name], torch.float32)
    loss = PriorLoss()
    loss.start(variances)
    theta = [p.item() for p in loss.parameters()]
    expected, (gradient,) = value_and_gradients(loss, variances)
    scaled = variances * scale**2
    value, (scaled_gradient,) = value_and_gradients(loss, scaled)
    assert value == pytest.approx(expected, rel=1e-3, abs=1e-5)
    if variances.sum() > 0:
        size = float(gradient.abs().max())
        torch.testing.assert_close(scaled_gradient * scale**2, gradient, rtol=1e-2, atol=1e-2 * size + 1e-5)
    loss.start(scaled)
    assert [p.item() for p in loss.parameters()] == pytest.approx(theta, rel=1e-3, abs=1e-3)


def test_the_number_of_dimensions_does_not_matter():
    loss = PriorLoss(robustness=0.0).double()
    loss.start(TWO)
    assert loss(tensor(np.tile(TWO, 8))).item() == pytest.approx(loss(tensor(TWO)).item(), rel=1e-9)


def test_the_paper_as_written_is_finite_off_scale_but_not_the_same():
    """Why raw is not the default: Theta of one unit, data of another."""
    loss = PriorLoss(raw=True)
    loss.start(TWO)
    first = loss(tensor(TWO)).item()
    for scale in (1e4, 1e-4):
        variances = tensor(TWO * scale).requires_grad_()
        found = loss(variances)
        found.backward()
        assert math.isfinite(found.item())
        assert bool(variances.grad.isfinite().all())
        assert all(bool(parameter.grad.isfinite()) for parameter in loss.parameters())
        assert abs(found.item() - first) > 1


def test_raw_sigmas_are_positive_whatever_the_optimiser_does():
    loss = PriorLoss(raw=True)
    for value in (-20.0, -1.0, 0.0, 20.0):
        with torch.no_grad():
            for parameter in (loss._sigma1, loss._sigma2):
                parameter.fill_(value)
        assert min(loss.sigma1.item(), loss.sigma2.item()) > 0


# --- to and from the prior


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("name", SPECTRA)
def test_priors_go_there_and_back(name, raw):
    prior = fit_em(SPECTRA[name])
    loss = loss_of(prior, raw=raw).double()
    loss.set_prior(prior)
    back = loss.to_prior(prior.scale)
    for key, value in prior.to_dict().items():  # off a floor by a thousandth
        assert getattr(back, key) == pytest.approx(value, rel=2e-3, abs=2e-3), key
    assert (back.high(SPECTRA[name]) == prior.high(SPECTRA[name])).all()


@pytest.mark.parametrize("raw", [False, True])
def test_start_and_em_set_theta_in_place(raw):
    loss = PriorLoss(pi2=0.3, alpha2=-5.0, robustness=2.0, raw=raw)
    parameters = list(loss.parameters())
    unit = TWO.mean() if raw else 1.0
    assert loss.start(tensor(TWO)) == start_prior(TWO, pi2=0.3, alpha2=-5.0)
    assert loss.mu2.item() == pytest.approx(TWO.max() / TWO.mean() * unit, rel=1e-5)
    first = loss(tensor(TWO)).item()
    expected = fit_em(TWO, pi2=0.3, alpha2=-5.0, robustness=2.0)
    assert loss.fit_em(tensor(TWO)) == expected
    assert loss.sigma2.item() == pytest.approx(expected.sigma2 * unit, rel=2e-3)
    assert loss(tensor(TWO)).item() < first
    assert all(a is b for a, b in zip(parameters, loss.parameters(), strict=True))


def test_em_and_gradient_end_at_the_same_theta():
    loss = PriorLoss().double()
    loss.start(TWO)
    optimiser = torch.optim.Adam(loss.parameters(), 0.05)
    for _ in range(600):
        optimiser.zero_grad()
        loss(tensor(TWO)).backward()
        optimiser.step()
    expected = fit_em(TWO)
    assert loss.mu2.item() == pytest.approx(expected.mu2, rel=0.05)
    assert loss.sigma2.item() == pytest.approx(expected.sigma2, rel=0.15)
    best = -expected.log_likelihood(TWO, robustness=1.0) / len(TWO)
    assert loss(tensor(TWO)).item() == pytest.approx(best, abs=0.02)


@given(raw=st.lists(st.floats(-30, 30, width=32), min_size=3, max_size=3))
@settings(max_examples=30, deadline=None)
def test_floors_hold_whatever_the_optimiser_does(raw):
    loss = PriorLoss()
    with torch.no_grad():
        for parameter, value in zip(loss.parameters(), raw, strict=True):
            parameter.fill_(value)
    assert loss.sigma1.item() >= SIGMA1_FLOOR * (1 - 1e-6)
    assert loss.sigma2.item() >= SIGMA2_FLOOR
    assert loss.mu2.item() >= 0
    value_and_gradients(loss, tensor(TWO, torch.float32))


# --- psi and its failures


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("name", SPECTRA)
def test_psi_is_that_of_the_prior(name, raw):
    variances = tensor(SPECTRA[name]).requires_grad_()
    loss = PriorLoss(raw=raw).double()
    prior = loss.fit_em(variances)
    high = loss.high(variances)
    assert high.dtype == torch.bool
    assert high.tolist() == prior.high(SPECTRA[name]).tolist()
    by_rule = [high > low for low, high in (plain_modes(prior, v / prior.scale) for v in SPECTRA[name].tolist())]
    assert loss.high_by_rule(variances).tolist() == by_rule


def test_a_good_split_is_no_collapse():
    for raw in (False, True):
        loss = PriorLoss(raw=raw)
        loss.fit_em(TWO)
        assert loss.collapsed(tensor(TWO)) is None
    loss = PriorLoss()
    loss.fit_em(SPECTRA["rank 8"])  # sigma1 at its floor: the low mode is empty space, as it should be
    assert loss.sigma1.item() < 1.01 * SIGMA1_FLOOR
    assert loss.collapsed(tensor(SPECTRA["rank 8"])) is None


def collapse_of(variances, theta, **options):
    return loss_of(prior_of(theta), **options).collapsed(tensor(variances))


def test_collapses_are_named():
    spread = np.linspace(0.5, 1.5, 10)
    assert "the high mode is empty: none of 10 dimensions" in collapse_of(spread, (1.0, 0.3, 40.0))
    assert "the low mode is empty: all 10 dimensions" in collapse_of(spread, (0.1, 3.0, 2.0))
    assert "spike on one dimension" in collapse_of(SPECTRA["one huge"], (0.9, 0.25, 4.0))
    assert "a sigma ran to 0" in collapse_of(spread, (1e-4, 1.0, 1.0), raw=True)
    assert "a sigma ran to 0" in collapse_of(spread, (1.0, 1e-5, 1.0), raw=True)
    assert "not finite" in collapse_of(np.r_[spread, np.nan], (1.0, 1.0, 2.0))
    loss = PriorLoss(raw=True)
    with torch.no_grad():
        loss._sigma1.fill_(math.nan)
    assert "not finite" in loss.collapsed(tensor(spread))
    with torch.no_grad():
        loss._sigma1.fill_(-30.0)
    assert "a sigma ran to 0" in loss.collapsed(tensor(spread))
    with raises(InputError, "sigma1"):
        loss.high(tensor(spread))


def test_a_variance_past_the_high_mode_is_of_it():
    past = np.r_[np.full(3, 5.0), np.full(9, 0.2)]
    mean = past.mean()
    loss = loss_of(prior_of((0.3, 0.3, 2.0)))  # the high mode is at twice the mean, three are at 3.5
    assert past.max() / mean > 3
    assert not loss.high_by_rule(tensor(past)).any()  # as written they would be given back to the low mode
    assert loss.collapsed(tensor(past)) is None
    assert loss.high(tensor(past)).tolist() == [True] * 3 + [False] * 9
    raw = loss_of(prior_of((0.3 * mean, 0.3 * mean, 2 * mean)), raw=True)
    text = raw.collapsed(tensor(past))
    assert "the high mode is empty" in text
    assert "the largest variance, 5, is above its peak at 2." in text


def test_collapse_does_not_depend_on_the_unit():
    loss = PriorLoss()
    loss.start(TWO)
    for scale in SCALES:
        assert loss.collapsed(tensor(TWO * scale**2)) is None


def test_bad_input():
    with pytest.raises(InputError, match="pi2"):
        PriorLoss(pi2=0.0)
    with pytest.raises(InputError, match="alpha2"):
        PriorLoss(alpha2=3.0)
    with pytest.raises(InputError, match="robustness"):
        PriorLoss(robustness=-1.0)
    with raises(InputError, "mu1", 0, "pi2", "0.4"):
        PriorLoss().set_prior(prior_of((1, 1, 1), pi2=0.3))
    for bad in (torch.zeros(0), torch.zeros(2, 2), np.ones(3)):
        with raises(InputError, "variances", "[dim]"):
            PriorLoss()(bad)
        with raises(InputError, "variances", "[dim]"):
            PriorLoss().high(bad)
