"""The prior on variances: densities by a plain loop, two fits that agree, and a psi for any spectrum."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlace import InputError
from interlace.learn.prior import FITS, SIGMA1_FLOOR, SIGMA2_FLOOR, Prior, fit_em, fit_gradient, start_prior
from interlace.learn.prior.em import maximize
from interlace.learn.prior.gradient import from_parameters, objective_slope, to_parameters
from interlace.learn.prior.model import objective
from interlace.learn.prior.skew_normal import skew_normal_mode
from interlace.learn.prior.start import start

EXAMPLE = Prior(mu1=0.0, sigma1=0.5, mu2=6.0, sigma2=3.0, alpha2=-10.0, pi1=0.6, pi2=0.4, scale=2.0)


def split_dimensions(variances, method="em", **options):
    prior = FITS[method](variances, **options)
    return prior.high(variances), prior


def eigenvalues(x):
    centred = x - x.mean(0)
    return np.maximum(np.linalg.eigvalsh(centred.T @ centred / len(x))[::-1], 0.0)


def spectra():
    """Descending spectra as embeddings have them, by name."""
    rng = np.random.default_rng(0)
    two = np.r_[np.full(16, 5.0), np.full(48, 0.2)] * rng.uniform(0.8, 1.2, 64)
    return {
        "exponential": np.exp(-np.arange(64) / 8),
        "slow exponential": np.exp(-np.arange(64) / 32),
        "power": 1.0 / (1 + np.arange(128)),
        "slow power": (1.0 + np.arange(64)) ** -0.5,
        "steep power": (1.0 + np.arange(64)) ** -2.0,
        "two clusters": np.sort(two)[::-1],
        "eight of sixteen": np.r_[np.linspace(3, 2, 8), np.full(8, 1e-9)],
        "rank 16": np.r_[np.linspace(4, 1, 16), np.zeros(48)],
    }


SPECTRA = spectra()
AWKWARD = {
    "one dimension": np.ones(1),
    "one dimension of zero": np.zeros(1),
    "two equal": np.ones(2),
    "constant": np.full(64, 0.3),
    "zeros": np.zeros(9),
    "denormal": np.full(5, 5e-324),
    "huge": np.array([1e308, 1e308, 1e307]),
    "one huge outlier": np.r_[1e12, np.ones(63)],
    "one outlier of 4096": np.r_[1e9, np.linspace(2, 1, 4095)],
    "4096 exponential": np.exp(-np.arange(4096) / 512),
    "4096 power": 1.0 / (1 + np.arange(4096)),
    "all range": np.logspace(150, -150, 50),
    "isotropic": eigenvalues(np.random.default_rng(1).normal(size=(1000, 32))),
}


@st.composite
def any_spectrum(draw, least=1):
    value = st.one_of(st.floats(0, 1), st.floats(0, 100), st.just(0.0), st.sampled_from([1e-6, 1.0, 1e4, 1e6]))
    return np.array(draw(st.lists(value, min_size=least, max_size=30)))


# --- densities and what follows from them


def plain_modes(prior: Prior, variance: float) -> tuple[float, float]:
    x = variance / prior.scale
    z1, z2 = (x - prior.mu1) / prior.sigma1, (x - prior.mu2) / prior.sigma2
    phi1, phi2 = (math.exp(-z * z / 2) / math.sqrt(2 * math.pi) for z in (z1, z2))
    normal = phi1 / prior.sigma1
    skew_normal = 2 / prior.sigma2 * phi2 * 0.5 * math.erfc(-prior.alpha2 * z2 / math.sqrt(2))
    return prior.pi1 * normal, prior.pi2 * skew_normal


@settings(max_examples=100, deadline=None)
@given(
    sigma1=st.floats(0.5, 3),
    mu2=st.floats(1, 8),
    sigma2=st.floats(0.5, 5),
    alpha2=st.floats(-10, 0),
    pi2=st.floats(0.05, 0.95),
    seed=st.integers(0, 2**32),
)
def test_densities_likelihood_and_responsibilities_equal_plain_loops(sigma1, mu2, sigma2, alpha2, pi2, seed):
    prior = Prior(0.0, sigma1, mu2, sigma2, alpha2, 1 - pi2, pi2, 2.0)
    variances = np.random.default_rng(seed).uniform(0, 4, 12)
    density, likelihood, high_sum, shares = [], 0.0, 0.0, []
    for variance in variances.tolist():
        low, high = plain_modes(prior, variance)
        density.append((low + high) / 2.0)
        likelihood += math.log(low + high)
        high_sum += high
        shares.append(high / (low + high))
    np.testing.assert_allclose(prior.density(variances), density, rtol=1e-9)
    np.testing.assert_allclose(prior.responsibilities(variances), shares, rtol=1e-9, atol=1e-12)
    assert prior.log_likelihood(variances) == pytest.approx(likelihood, rel=1e-9, abs=1e-9)
    robust = prior.log_likelihood(variances, robustness=2.5)
    assert robust == pytest.approx(likelihood + 2.5 * math.log(high_sum), rel=1e-9, abs=1e-9)


def test_the_density_is_one_of_the_variances_themselves():
    x = np.linspace(-40, 40, 100_001)
    assert EXAMPLE.density(x).sum() * (x[1] - x[0]) == pytest.approx(1.0, abs=1e-6)
    assert EXAMPLE.density(np.ones((2, 3))).shape == (2, 3)
    assert EXAMPLE.density([1e300, -1e300]).tolist() == [0.0, 0.0]
    variances = np.array([0.3, 4.0, 11.0])
    by_density = float(np.log(EXAMPLE.density(variances)).sum())
    assert by_density == pytest.approx(EXAMPLE.log_likelihood(variances) - 3 * math.log(EXAMPLE.scale))


def test_psi_has_no_hole_where_the_rule_of_the_paper_has_one():
    prior = Prior(mu1=0.4, sigma1=0.7, mu2=2.0, sigma2=0.9, alpha2=-10.0, pi1=0.6, pi2=0.4, scale=1.0)
    variances = np.array([2.9, 2.4, 1.9, 1.5, 0.8, 0.4, 0.1])
    by_rule = prior.responsibilities(variances) > 0.5
    assert not by_rule[0]
    assert by_rule[2:4].all()
    assert prior.high(variances).tolist() == [True, True, True, True, False, False, False]


@settings(max_examples=100, deadline=None)
@given(variances=any_spectrum(least=2), sigma1=st.floats(0.1, 3), mu2=st.floats(0, 9), sigma2=st.floats(0.25, 5))
def test_psi_is_the_papers_set_between_the_modes(variances, sigma1, mu2, sigma2):
    prior = Prior(0.0, sigma1, mu2, sigma2, -10.0, 0.6, 0.4, 1.0)
    psi, by_rule = prior.high(variances), prior.responsibilities(variances) > 0.5
    between = variances <= skew_normal_mode(mu2, sigma2, -10.0)
    if 1 < psi.sum() < len(variances) - 1:  # not cut
        assert (psi == by_rule)[between].all()


# --- the two fits


@pytest.mark.parametrize("name", SPECTRA)
def test_em_and_gradient_agree(name):
    variances = SPECTRA[name]
    em, gradient = (fit(variances) for fit in FITS.values())
    heights = [prior.log_likelihood(variances, robustness=1.0) for prior in (em, gradient)]
    assert heights[0] == pytest.approx(heights[1], rel=0.01, abs=0.001 * len(variances))
    likelihoods = [prior.log_likelihood(variances) for prior in (em, gradient)]
    assert likelihoods[0] == pytest.approx(likelihoods[1], rel=0.01, abs=0.001 * len(variances))
    assert abs(int(em.high(variances).sum()) - int(gradient.high(variances).sum())) <= 1
    assert em.pi2 == gradient.pi2 == 0.4


@settings(max_examples=60, deadline=None)
@given(
    variances=any_spectrum(least=2),
    pi2=st.floats(0.01, 0.9),
    robustness=st.sampled_from([0.0, 1.0, 30.0]),
    alpha2=st.sampled_from([-100.0, -10.0, -1.0, 0.0]),
)
def test_an_em_step_never_lowers_the_objective(variances, pi2, robustness, alpha2):
    values, prior = start(variances, pi2, alpha2)
    height, low, high = objective(prior, values, robustness)
    for _ in range(8):
        prior = maximize(prior, values, low, high)
        now, low, high = objective(prior, values, robustness)
        assert now >= height - 1e-9 * max(1.0, abs(height))
        height = now


@pytest.mark.parametrize("name", SPECTRA)
def test_more_iterations_fit_better_until_nothing_is_left(name):
    variances = SPECTRA[name]
    heights = [
        fit_em(variances, iterations=n, tol=0.0).log_likelihood(variances, robustness=1.0) for n in (1, 2, 4, 16, 999)
    ]
    assert (np.diff(heights) >= 0).all()
    assert fit_em(variances).log_likelihood(variances, robustness=1.0) == pytest.approx(heights[-1], abs=1e-3)
    slower = fit_gradient(variances, iterations=5).log_likelihood(variances, robustness=1.0)
    assert slower <= heights[-1] + 1e-6


@settings(max_examples=60, deadline=None)
@given(
    variances=any_spectrum(least=2),
    at=st.tuples(st.floats(-3, 3), st.floats(-2, 4), st.floats(-1, 1)),
    robustness=st.sampled_from([0.0, 1.0, 5.0]),
    alpha2=st.sampled_from([-10.0, -2.0]),
)
def test_gradients_equal_finite_differences(variances, at, robustness, alpha2):
    values, like = start(variances, 0.4, alpha2)
    top, at = float(values.max()), np.array(at)

    def height(parameters):
        return objective_slope(from_parameters(like, parameters, top), values, robustness, top)[0]

    _, slope = objective_slope(from_parameters(like, at, top), values, robustness, top)
    step = 1e-5
    size = max(1.0, abs(height(at)))  # differences of large numbers lose digits
    for i, unit in enumerate(np.eye(3)):
        numeric = (height(at + step * unit) - height(at - step * unit)) / (2 * step)
        assert slope[i] == pytest.approx(numeric, rel=1e-4, abs=1e-5 * size), i


def test_parameters_go_there_and_back():
    back = from_parameters(EXAMPLE, to_parameters(EXAMPLE, 7.0), 7.0)
    for name, value in EXAMPLE.to_dict().items():
        assert getattr(back, name) == pytest.approx(value), name


@pytest.mark.parametrize("name", SPECTRA)
def test_em_ends_where_the_gradient_is_flat(name):
    variances = SPECTRA[name]
    prior = fit_em(variances, tol=0.0)
    values = variances / prior.scale
    slope = objective_slope(prior, values, 1.0, float(values.max()))[1]
    assert np.abs(slope).max() < 1e-3 * len(values)


def test_a_sample_of_the_mixture_gives_its_parameters_back():
    rng = np.random.default_rng(3)
    delta = -10 / math.sqrt(101)
    skewed = delta * np.abs(rng.normal(size=800)) + math.sqrt(1 - delta**2) * rng.normal(size=800)
    sample = np.r_[np.abs(rng.normal(size=1200)) * 0.2, 9.0 + 1.5 * skewed]
    prior = fit_em(sample)
    found = np.array([prior.sigma1, prior.mu2, prior.sigma2]) * prior.scale
    np.testing.assert_allclose(found, [SIGMA1_FLOOR * prior.scale, 9.0, 1.5], rtol=0.06)
    assert prior.high(sample).tolist() == [False] * 1200 + [True] * 800


def test_the_start_is_at_the_largest_variance():
    for variances in SPECTRA.values():
        prior = start_prior(variances, pi2=0.3, alpha2=-5.0)
        assert prior.scale == pytest.approx(variances.mean())
        assert prior.mu2 == pytest.approx(variances.max() / variances.mean())
        assert (prior.mu1, prior.pi2, prior.alpha2) == (0.0, 0.3, -5.0)
        best = fit_em(variances, pi2=0.3, alpha2=-5.0)
        heights = [p.log_likelihood(variances, robustness=1.0) for p in (prior, best)]
        assert heights[0] <= heights[1]


def test_floors_hold():
    for fit in FITS.values():
        prior = fit(AWKWARD["one huge outlier"])
        assert prior.sigma1 == pytest.approx(SIGMA1_FLOOR, rel=0.01)
        assert prior.sigma2 == pytest.approx(SIGMA2_FLOOR, rel=0.01)
        assert prior.mu2 == pytest.approx(64, abs=1)


# --- psi


@pytest.mark.parametrize("method", FITS)
@pytest.mark.parametrize("name", [*AWKWARD, *SPECTRA])
def test_psi_of_awkward_spectra(name, method):
    variances = {**AWKWARD, **SPECTRA}[name]
    settings = {"iterations": 100} if len(variances) > 1000 and method == "gradient" else {}
    psi, prior = split_dimensions(variances, method=method, **settings)
    assert psi.dtype == np.bool_
    assert psi.shape == variances.shape
    assert 1 <= psi.sum() <= max(1, len(variances) - 1)
    assert psi[: psi.sum()].all()  # a prefix
    assert math.isfinite(prior.log_likelihood(variances))
    assert np.isfinite(prior.responsibilities(variances)).all()


@pytest.mark.parametrize("method", FITS)
def test_psi_is_what_one_would_draw(method):
    sizes = {name: int(split_dimensions(SPECTRA[name], method=method)[0].sum()) for name in SPECTRA}
    assert sizes["two clusters"] == 16
    assert sizes["eight of sixteen"] == 8
    assert sizes["rank 16"] == 16
    assert split_dimensions(AWKWARD["one huge outlier"], method=method)[0].sum() == 1


@settings(max_examples=60, deadline=None)
@given(variances=any_spectrum(), pi2=st.floats(0.01, 0.99))
def test_psi_holds_the_largest_for_any_spectrum(variances, pi2):
    psi, prior = split_dimensions(variances, pi2=pi2)
    assert 1 <= psi.sum() <= max(1, len(variances) - 1)
    assert variances[psi].min() >= variances[~psi].max(initial=0.0)
    assert prior.sigma1 >= SIGMA1_FLOOR
    assert prior.sigma2 >= SIGMA2_FLOOR * (1 - 1e-12)
    descending = np.sort(variances)[::-1]
    in_order = prior.high(descending)
    assert in_order[: in_order.sum()].all()
    assert in_order.sum() == psi.sum()


@pytest.mark.parametrize("method", FITS)
@pytest.mark.parametrize("name", SPECTRA)
def test_psi_does_not_depend_on_the_unit_of_the_data(name, method):
    variances = SPECTRA[name]
    psi, prior = split_dimensions(variances, method=method)
    for factor in (1e-6, 1e-3, 7.0, 1e6) if method == "em" else (1e-6, 1e6):
        scaled_variances = variances * factor**2
        scaled_psi, scaled = split_dimensions(scaled_variances, method=method)
        assert (psi == scaled_psi).all(), factor
        assert scaled.scale == pytest.approx(prior.scale * factor**2)
        assert scaled.mu2 == pytest.approx(prior.mu2, rel=1e-3)
        assert scaled.log_likelihood(scaled_variances) == pytest.approx(prior.log_likelihood(variances), abs=1e-2)


@settings(max_examples=40, deadline=None)
@given(variances=any_spectrum(least=2), exponent=st.integers(-40, 40))
def test_a_power_of_two_changes_nothing_but_the_scale(variances, exponent):
    variances[variances < 1e-200] = 0.0  # the smallest floats lose digits when they are scaled
    prior, scaled = fit_em(variances), fit_em(variances * 2.0**exponent)
    if variances.any():
        assert scaled == replace(prior, scale=prior.scale * 2.0**exponent)
    else:
        assert scaled == prior


def test_the_order_of_dimensions_does_not_matter():
    for variances in SPECTRA.values():
        order = np.random.default_rng(2).permutation(len(variances))
        assert (split_dimensions(variances[order])[0] == split_dimensions(variances)[0][order]).all()


@pytest.mark.parametrize("name", SPECTRA)
def test_five_samples_of_one_distribution_give_one_psi(name):
    spread = np.sqrt(SPECTRA[name])
    sizes = []
    for seed in range(5):
        variances = eigenvalues(np.random.default_rng(seed).normal(size=(10_000, len(spread))) * spread)
        sizes.append([int(split_dimensions(variances, method=method)[0].sum()) for method in FITS])
    assert (np.ptp(sizes, axis=0) <= 1).all(), sizes


@pytest.mark.parametrize("method", FITS)
def test_digits(method):
    images = pytest.importorskip("sklearn.datasets").load_digits().data
    variances = eigenvalues(images)
    psi, prior = split_dimensions(variances, method=method)
    assert 17 <= psi.sum() <= 19
    assert variances[psi].sum() > 0.8 * variances.sum()
    assert prior.mu2 == pytest.approx(variances[0] / variances.mean(), rel=0.1)
    halves = [int(split_dimensions(eigenvalues(images[start::2]), method=method)[0].sum()) for start in (0, 1)]
    assert abs(halves[0] - halves[1]) <= 1
    # As pixels, not principal axes: the border is dark, psi is scattered over the image.
    pixels = images.var(0)
    scattered, _ = split_dimensions(pixels, method=method)
    assert pixels[scattered].min() > pixels[~scattered].max()
    assert not scattered.reshape(8, 8)[:, [0, 7]].any()


def test_a_larger_pi2_makes_psi_larger():
    for name in ("slow exponential", "power", "slow power"):
        sizes = [int(split_dimensions(SPECTRA[name], pi2=pi2)[0].sum()) for pi2 in (0.05, 0.2, 0.4, 0.6)]
        assert sizes == sorted(sizes)
        assert sizes[0] < sizes[-1]


def test_robustness_pulls_the_high_mode_to_the_data():
    variances = SPECTRA["power"]
    sums = []
    for robustness in (0.0, 1.0, 10.0):
        prior = fit_em(variances, robustness=robustness)
        sums.append(prior.log_likelihood(variances, robustness=1.0) - prior.log_likelihood(variances))
    assert sums[0] < sums[1] < sums[2]


# --- the object and its arguments


def test_json_there_and_back():
    prior = fit_em(SPECTRA["power"])
    assert Prior.from_dict(json.loads(json.dumps(prior.to_dict()))) == prior
    assert {type(value) for value in replace(prior, mu1=np.float32(0.5)).to_dict().values()} == {float}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sigma1": 0.0}, "sigma1"),
        ({"sigma2": -1.0}, "sigma2"),
        ({"mu2": math.nan}, "mu2"),
        ({"mu1": "0"}, "mu1"),
        ({"alpha2": 3.0}, "alpha2"),
        ({"pi1": 0.7}, "sum to 1"),
        ({"pi2": 0.0}, "pi2"),
        ({"scale": 0.0}, "scale"),
        ({"scale": True}, "scale"),
        ({"beta": 1.0}, "beta"),
    ],
)
def test_a_prior_of_wrong_parameters_is_refused(change, message):
    with pytest.raises(InputError, match=message):
        Prior.from_dict({**EXAMPLE.to_dict(), **change})


def test_a_prior_of_missing_parameters_is_refused():
    with pytest.raises(InputError, match="mu1, mu2, pi1"):
        Prior.from_dict({"mu1": 0.0})
    with pytest.raises(InputError, match="mu1, mu2, pi1"):
        Prior.from_dict([1.0])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("variances", "message"),
    [
        ([], "at least one"),
        ([[1.0, 2.0]], "1-D"),
        (3.0, "1-D"),
        ([1.0, math.nan], r"variances\[1\] is nan"),
        ([math.inf, 1.0], r"variances\[0\] is inf"),
        ([1.0, 2.0, -0.1], r"variances\[2\] is -0.1"),
        (["a"], "real numbers"),
        ([True, False], "real numbers"),
    ],
)
def test_wrong_variances_are_refused(variances, message):
    for call in (fit_em, fit_gradient, EXAMPLE.high, EXAMPLE.responsibilities, EXAMPLE.log_likelihood):
        with pytest.raises(InputError, match=message):
            call(variances)


def test_what_rounding_left_below_zero_is_zero():
    variances = np.array([3.0, 1.0, 0.5, -1e-7], np.float32)
    assert fit_em(variances) == fit_em(np.maximum(variances, 0))


@pytest.mark.parametrize("method", FITS)
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("pi2", 0.0),
        ("pi2", 1.0),
        ("pi2", "small"),
        ("alpha2", 10.0),
        ("alpha2", math.nan),
        ("robustness", -1.0),
        ("robustness", math.inf),
        ("iterations", 0),
        ("iterations", 2.5),
        ("tol", -1e-3),
    ],
)
def test_wrong_settings_are_refused(name, value, method):
    with pytest.raises(InputError, match=name):
        split_dimensions(SPECTRA["power"], method=method, **{name: value})


def test_wrong_rates_and_values_are_refused():
    with pytest.raises(InputError, match="learning_rate"):
        fit_gradient(SPECTRA["power"], learning_rate=0.0)
    with pytest.raises(InputError, match="real numbers"):
        EXAMPLE.density(["a"])
    with pytest.raises(InputError, match="robustness"):
        EXAMPLE.log_likelihood([1.0], robustness=-1.0)
