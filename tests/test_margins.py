"""What a margin means, and that a calibrated one keeps its promise."""

from __future__ import annotations

import math

import numpy as np
import pytest

from interlace import Index, InputError
from interlace.evaluate import agreement
from interlace.margins import GROWTH, KS, TARGETS, Calibration, calibrate, parse

SHARES = np.array([[0.5, 0.6, 0.7], [0.55, 0.65, np.nan], [0.6, 0.7, 1.0]], np.float32)
CALIBRATION = Calibration(1000, SHARES)


def rule(margin, k=10, n=1000, calibration=CALIBRATION):
    return parse(margin, k=k, n=n, calibration=calibration, sigma=2.5)


def test_targets_and_k_round_up_to_what_is_stored():
    assert rule(0.999, k=10).share == pytest.approx(0.65)
    assert rule(0.95, k=10).share == pytest.approx(0.55)
    assert rule(0.995, k=10).share == pytest.approx(0.65)


def test_a_k_between_two_stored_ones_takes_the_larger_share():
    assert rule(0.999, k=2).share == pytest.approx(0.65)
    falling = Calibration(1000, SHARES[::-1].copy())
    assert rule(0.99, k=11, calibration=falling).share == pytest.approx(0.55)
    assert rule(0.999, k=99, calibration=falling).share == pytest.approx(0.65)
    assert rule(0.999, k=100, calibration=falling).share == pytest.approx(0.6)
    assert rule(0.9999, k=11, calibration=falling).share == 1  # a NaN beside it does not count


@pytest.mark.parametrize(
    ("margin", "k", "n", "calibration"),
    [
        (0.9999, 10, 1000, CALIBRATION),  # NaN: could not be calibrated
        (0.9999, 100, 1000, CALIBRATION),  # 1: only exact reaches it
        (0.99999, 10, 1000, CALIBRATION),
        (0.999, 101, 1000, CALIBRATION),
        (0.999, 10, int(1000 * GROWTH) + 1, CALIBRATION),
        (0.999, 10, 1000, None),
    ],
)
def test_what_is_not_covered_falls_back_to_exact_and_says_so(margin, k, n, calibration):
    found = rule(margin, k, n, calibration)
    assert found.kind == "share"
    assert found.share == 1
    assert found.label.startswith("exact (")


def test_named_margins():
    assert rule("exact").share == 1
    assert rule("paper").sigma == 2.5
    assert rule(math.inf).kind == "none"


@pytest.mark.parametrize("margin", ["loose", 0, 1, 1.5, -0.1, math.nan, None, True, [0.9], -math.inf])
def test_nonsense_is_refused_by_name(margin):
    with pytest.raises(InputError, match="margin"):
        rule(margin)


def test_calibration_is_the_quantile_that_loses_half_of_what_the_target_allows():
    rng = np.random.default_rng(0)
    need = rng.random((5000, 100))  # excess / (tau - floor) of every hit, by construction
    distances = np.full((5000, 100), 3.0, np.float32)
    floors = np.full((5000, 100), 1.0, np.float32)
    excess = (need * 2.0).astype(np.float32)
    found = calibrate(distances, excess, floors, 123)
    assert found.n == 123
    for i, k in enumerate(KS):
        for j, target in enumerate(TARGETS):
            lost = (need[:, :k] > found.shares[i, j]).mean()
            assert lost <= 1 - target
            if 5000 * k * (1 - target) > 50:
                assert lost >= (1 - target) / 4


def test_too_few_hits_calibrate_nothing_they_cannot_tell():
    distances = np.full((20, 10), 3.0, np.float32)
    found = calibrate(distances, distances * 0, distances * 0, 20)
    assert np.isnan(found.shares[:, 2]).all()  # .9999 of 200 hits
    assert np.isnan(found.shares[2]).all()  # k = 100


def clustered(n, dim, rng, n_clusters=60):
    centres = rng.normal(size=(n_clusters, dim)) * 3
    scales = np.linspace(2.0, 0.2, dim)
    return (centres[rng.integers(n_clusters, size=n)] + rng.normal(size=(n, dim)) * scales).astype(np.float32)


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["subspace", "hybrid", "residual"])
@pytest.mark.parametrize("kind", ["clustered", "digits"])
def test_calibrated_agreement_on_queries_never_seen(layout, kind):
    rng = np.random.default_rng(5)
    if kind == "digits":
        datasets = pytest.importorskip("sklearn.datasets")
        images = datasets.load_digits().images.astype(np.float32)
        moved = [
            np.roll(images, (dy, dx), (1, 2)).reshape(len(images), -1) for dy in range(-1, 2) for dx in range(-1, 2)
        ]
        x = np.concatenate(moved)
        x = (x + rng.normal(size=x.shape)).astype(np.float32)[rng.permutation(len(x))]
        x, q = x[:-1000], x[-1000:]
    else:
        x, q = clustered(20_000, 32, rng), None
        q, x = x[:1000], x[1000:]
    index = Index.build(x, n_bytes=8, layout=layout, seed=1, max_train_rows=10_000)
    exhaustive = index.search(q, margin=math.inf)
    assert agreement(index.search(q, margin=0.999).ids, exhaustive.ids) >= 0.999
    assert agreement(index.search(q, margin=0.99).ids, exhaustive.ids) >= 0.99
    for k in (2, 11, 20):
        assert agreement(index.search(q, k, margin=0.999).ids, index.search(q, k, margin=math.inf).ids) >= 0.999
    exact = index.search(q, margin="exact")
    assert (exact.ids == exhaustive.ids).all()
    assert exact.distances.tobytes() == exhaustive.distances.tobytes()
