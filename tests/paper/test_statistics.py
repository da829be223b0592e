"""Student's t against its table, and Holm's correction by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from interlace.engine.binomial import beta_cdf
from interlace.paper.statistics import holm, t_quantile, two_sided
from interlace.paper.summary import Mean, Results
from reproduce_data import made

#: Two-sided 95 % quantiles, from any table.
TABLE = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 9: 2.262, 30: 2.042, 120: 1.980}


@pytest.mark.parametrize(("freedom", "expected"), TABLE.items())
def test_quantiles_are_those_of_the_table(freedom: int, expected: float) -> None:
    assert t_quantile(freedom) == pytest.approx(expected, abs=6e-4)
    assert two_sided(t_quantile(freedom), freedom) == pytest.approx(0.05)
    assert t_quantile(freedom, 0.99) > t_quantile(freedom)


@pytest.mark.parametrize("freedom", [1, 2, 5, 12])
def test_probabilities_are_areas_under_the_density(freedom: int) -> None:
    def density(t: float) -> float:
        log = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - 0.5 * math.log(freedom * math.pi)
        return math.exp(log - (freedom + 1) / 2 * math.log1p(t * t / freedom))

    for t in (0.3, 1.0, 2.5):
        steps = 20_000
        inner = sum(density((i + 0.5) * t / steps) for i in range(steps)) * t / steps
        assert two_sided(t, freedom) == pytest.approx(1 - 2 * inner, abs=1e-6)
        assert two_sided(-t, freedom) == two_sided(t, freedom)
    assert (two_sided(0.0, freedom), two_sided(math.inf, freedom)) == (1.0, 0.0)
    assert (beta_cdf(0.0, 2, 3), beta_cdf(1.0, 2, 3)) == (0.0, 1.0)


def test_holm() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([0.02]) == [0.02]
    assert holm([]) == []


def test_intervals_cover_the_mean_as_often_as_they_say() -> None:
    rng = np.random.default_rng(0)
    draws = rng.normal(0.3, 1.0, (4000, 4))
    found = [Mean.of(row.tolist()) for row in draws]
    covered = np.mean([abs(mean.value - 0.3) <= mean.half for mean in found])
    assert covered == pytest.approx(0.95, abs=0.015)
    below = np.mean([Mean.of((row - 0.3).tolist()).p < 0.05 for row in draws])
    assert below == pytest.approx(0.05, abs=0.015)


def test_signs() -> None:
    ahead = Mean.of([0.10, 0.11, 0.12])
    assert (ahead.sign(), ahead.sign(0.2), Mean.of([-v for v in (0.10, 0.11, 0.12)]).sign()) == (1, 0, -1)
    assert Mean.of([0.1, -0.1, 0.01]).sign() == 0
    assert Mean.of([0.1]).sign() is None
    assert math.isnan(Mean.of([0.1]).half)
    assert (Mean.of([0.2, 0.2]).sign(), Mean.of([0.0, 0.0]).sign()) == (1, 0)
    assert (Mean.of([0.2, 0.2]).p, Mean.of([0.0, 0.0]).p) == (0.0, 1.0)
    assert ahead.interval(2) == "+0.11 [+0.09, +0.13]"
    assert Mean.of([0.1]).interval() == "+0.100 (one seed)"


def test_effects_are_averaged_over_cases_for_each_seed() -> None:
    gaps = {("synthetic1", 4): (0.1, 0.2), ("synthetic1", 8): (0.3, 0.4), ("synthetic2", 4): (0.0, 0.9)}
    results = Results(
        made(label, data, k, seed, map=0.1 + (gap if label == "ICQ" else 0.0))
        for (data, k), values in gaps.items()
        for seed, gap in enumerate(values)
        for label in ("ICQ", "SQ+CQ")
    )
    found = results.pooled("ICQ", "SQ+CQ", "map")
    assert found is not None
    assert found.n == 2
    assert found.value == pytest.approx(((0.1 + 0.3 + 0.0) / 3 + (0.2 + 0.4 + 0.9) / 3) / 2)
    one = results.pooled("ICQ", "SQ+CQ", "map", data=["synthetic1"], books=lambda n: n == 8)
    assert one is not None
    assert one.value == pytest.approx(0.35)
    assert results.pooled("ICQ", "PQN", "map") is None
    more = Results(
        [made("ICQ", map=0.5), made("SQ+CQ", map=0.4), made("ICQ", n_books=8, seed=1), made("SQ+CQ", n_books=8, seed=1)]
    )
    assert more.pooled("ICQ", "SQ+CQ", "map") is None  # no seed has both cases
