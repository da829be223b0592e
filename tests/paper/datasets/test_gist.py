"""GIST features against plain loops, and what must hold for any image."""

from __future__ import annotations

import cmath
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import interlace as il
from interlace.data import gist
from interlace.paper.datasets import gabor
from raising import raises

SEEDS = st.integers(0, 2**32 - 1)


def mirrored(image, before, after):
    """Pixels of an image that is reflected at its borders again and again."""
    n = len(image)

    def place(i):
        i %= 2 * n
        return i if i < n else 2 * n - 1 - i

    places = [place(i) for i in range(-before, n + after)]
    return [[image[r][c] for c in places] for r in places]


def transform(values, sign):
    """Discrete Fourier transform of a square of numbers, one sum after the other: rows, then columns."""
    n = len(values)
    turns = [cmath.exp(sign * 2j * math.pi * k / n) for k in range(n)]
    rows = [[sum(row[c] * turns[c * f % n] for c in range(n)) for f in range(n)] for row in values]
    return [[sum(rows[r][f] * turns[r * g % n] for r in range(n)) for f in range(n)] for g in range(n)]


def frequency(k, n):
    return k if k < n / 2 else k - n  # cycles per image; the last of an even number is negative


def filtered(values, gain):
    """The inverse transform of the transform times a gain of the frequencies (down, across)."""
    n = len(values)
    spectrum = transform(values, -1)
    passed = [[spectrum[g][f] * gain(frequency(g, n), frequency(f, n)) for f in range(n)] for g in range(n)]
    return [[v / n**2 for v in row] for row in transform(passed, 1)]


def plain_gist(image, scales, orientations, grid, cutoff, padding):
    """One grey image, as the authors' program has it."""
    n = len(image)
    low, high = min(map(min, image)), max(map(max, image))
    logs = [[math.log(1 + 255 * (v - low) / (high - low)) for v in row] for row in image]
    wide = mirrored(logs, 5, 5 + n % 2)  # an even number
    side = len(wide)

    def smooth(down, across):
        return math.exp(-(down**2 + across**2) / (cutoff / math.sqrt(math.log(2))) ** 2)

    blurred = filtered(wide, smooth)
    details = [[wide[r][c] - blurred[r][c].real for c in range(side)] for r in range(side)]
    local = filtered([[v**2 for v in row] for row in details], smooth)
    inside = range(5, 5 + n)
    white = [[details[r][c] / (0.2 + math.sqrt(abs(local[r][c]))) for c in inside] for r in inside]
    size = n + 2 * padding
    features = []
    for scale in range(scales):
        for orientation in range(orientations):

            def gain(down, across, scale=scale, orientation=orientation):
                angle = math.atan2(down, across) + math.pi * orientation / orientations
                angle = angle - 2 * math.pi if angle > math.pi else angle
                along = math.hypot(down, across) / size / (0.3 / 1.85**scale) - 1
                width = 16 * orientations**2 / 32**2
                return math.exp(-10 * 0.35 * along**2 - 2 * width * math.pi * angle**2)

            response = filtered(mirrored(white, padding, padding), gain)
            edges = [int(n * i / grid) for i in range(grid + 1)]
            for r in range(grid):
                for c in range(grid):
                    cell = [
                        abs(response[padding + y][padding + x])
                        for y in range(edges[r], edges[r + 1])
                        for x in range(edges[c], edges[c + 1])
                    ]
                    features.append(sum(cell) / len(cell))
    return features


@pytest.mark.parametrize(
    ("size", "scales", "orientations", "grid", "cutoff", "padding"),
    [(8, 2, 3, 2, 4.0, 4), (7, 1, 2, 3, 2.5, 3), (6, 2, 1, 1, 4, 0), (5, 1, 2, 2, 4.0, 8)],
)
def test_the_plain_loops_give_the_same(size, scales, orientations, grid, cutoff, padding):
    images = np.random.default_rng(size).integers(0, 256, (2, size, size), np.uint8)
    settings_ = dict(scales=scales, orientations=orientations, grid=grid, cutoff=cutoff, padding=padding)
    found = gist(images, **settings_)
    assert found.dtype == np.float32
    assert_allclose(found, [plain_gist(image.tolist(), **settings_) for image in images], rtol=2e-4, atol=2e-6)


def whole_gist(image):
    """One image with all that is default, by whole transforms in double precision."""
    grey = image.astype(float).mean(0)
    grey = 255 * (grey - grey.min()) / (grey.max() - grey.min())
    logs = np.pad(np.log(grey + 1), 5, mode="symmetric")
    f = np.fft.ifftshift(np.arange(-21, 21))
    low = np.exp(-(f[:, None] ** 2 + f**2) / (16 / np.log(2)))
    details = logs - np.fft.ifft2(np.fft.fft2(logs) * low).real
    details /= 0.2 + np.sqrt(np.abs(np.fft.ifft2(np.fft.fft2(details**2) * low)))
    spectrum = np.fft.fft2(np.pad(details[5:37, 5:37], 32, mode="symmetric"))
    f = np.fft.ifftshift(np.arange(-48, 48))
    x, y = np.meshgrid(f, f)
    out = []
    for s in range(4):
        for o in range(8):
            t = np.angle(x + 1j * y) + np.pi * o / 8
            t = t - 2 * np.pi * (t > np.pi)
            g = np.exp(-3.5 * (np.hypot(x, y) / 96 * 1.85**s / 0.3 - 1) ** 2 - 2 * np.pi * t**2)
            size = np.abs(np.fft.ifft2(spectrum * g))[32:64, 32:64]
            out.append(size.reshape(4, 8, 4, 8).mean((1, 3)))
    return np.ravel(out)


def test_the_defaults_are_those_of_the_authors():
    images = np.random.default_rng(0).integers(0, 256, (3, 3, 32, 32), np.uint8)
    images[1] = np.arange(32)[:, None] * 4  # a ramp
    found = gist(images)
    assert found.shape == (3, 512)
    for one, image in zip(found, images, strict=True):
        assert_allclose(one, whole_gist(image), rtol=2e-3, atol=2e-6)


@given(seed=SEEDS, offset=st.integers(0, 100), colour=st.booleans())
@settings(max_examples=15, deadline=None)
def test_brightness_and_contrast_change_nothing(seed, offset, colour):
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 101, (2, 3, 12, 12) if colour else (2, 12, 12), np.uint8)
    found = gist(images, padding=6)
    assert_array_equal(gist(images + np.uint8(offset), padding=6), found)
    assert_allclose(gist(images.astype(np.float32) * 0.37 - 5, padding=6), found, rtol=1e-3, atol=1e-5)


@given(seed=SEEDS, n=st.integers(0, 9), block=st.integers(1, 4))
@settings(max_examples=10, deadline=None)
def test_an_image_has_its_features_whatever_stands_beside_it(seed, n, block):
    images = np.random.default_rng(seed).integers(0, 256, (n, 8, 8), np.uint8)
    saved = gabor.BLOCK_VALUES
    try:
        gabor.BLOCK_VALUES = block * 16**2
        found = gist(images, padding=4, grid=2)
    finally:
        gabor.BLOCK_VALUES = saved
    assert found.shape == (n, 4 * 8 * 4)
    for i in range(n):
        assert_allclose(found[i], gist(images[i : i + 1], padding=4, grid=2)[0], rtol=1e-4, atol=1e-7)
    assert (found >= 0).all()


def waves(size, cycles_per_pixel, degrees):
    y, x = np.mgrid[:size, :size]
    angle = math.radians(degrees)
    return np.sin(2 * math.pi * cycles_per_pixel * (x * math.cos(angle) + y * math.sin(angle))).astype(np.float32)


@pytest.mark.parametrize("orientation", range(8))
@pytest.mark.parametrize("scale", [0, 1])
def test_waves_are_found_at_their_scale_and_orientation(scale, orientation):
    # A filter of orientation o looks at the angle -o / 8 of half a turn.
    image = waves(64, 0.3 / 1.85**scale, -180 * orientation / 8)
    energy = gist(image[None]).reshape(4, 8, 16).mean(2)
    assert np.unravel_index(energy.argmax(), energy.shape) == (scale, orientation)


def test_cells_are_where_the_image_has_them():
    image = np.zeros((32, 32), np.float32)
    image[:8, 24:] = waves(8, 0.25, 30)  # the top right cell
    energy = gist(image[None]).reshape(32, 4, 4).sum(0)
    assert np.unravel_index(energy.argmax(), energy.shape) == (0, 3)


@given(seed=SEEDS)
@settings(max_examples=10, deadline=None)
def test_turning_an_image_upside_down_turns_its_cells(seed):
    image = (
        np.random.default_rng(seed).normal(size=(16, 16)).cumsum(0).cumsum(1)
    )  # smooth: little at the last frequency
    found, turned = (gist(one[None], padding=16).reshape(32, 4, 4) for one in (image, image[::-1, ::-1]))
    assert_allclose(turned[:, ::-1, ::-1], found, rtol=0.05, atol=0.02 * found.max())


def test_an_image_of_one_brightness_has_no_edges():
    assert_array_equal(gist(np.full((2, 3, 32, 32), 7, np.uint8)), np.zeros((2, 512), np.float32))


def test_progress_is_told():
    told = []
    gist(np.zeros((3, 8, 8), np.uint8), progress=lambda what, done: told.append((what, done)))
    assert told[0] == ("GIST", 0.0)
    assert told[-1] == ("GIST", 1.0)


@pytest.mark.parametrize(
    ("images", "keywords", "facts"),
    [
        (np.zeros((2, 64)), {}, ("images", "[n, size, size]", "(2, 64)")),
        (np.zeros((2, 8, 9)), {}, ("images", "(2, 8, 9)")),
        (np.zeros((2, 3, 3)), {}, ("grid", 4)),
        (np.zeros((2, 8, 8)), {"grid": 0}, ("grid", "integer")),
        (np.zeros((2, 8, 8)), {"scales": 1.5}, ("scales", "integer")),
        (np.zeros((2, 8, 8)), {"orientations": 0}, ("orientations", "integer")),
        (np.zeros((2, 8, 8)), {"padding": -1}, ("padding", 0)),
        (np.zeros((2, 8, 8)), {"cutoff": 0}, ("cutoff", 0)),
        (np.full((2, 8, 8), np.nan), {}, ("images[0, 0]", "nan")),
        (np.array([["a"]]).reshape(1, 1, 1), {"grid": 1}, ("images", "numbers")),
    ],
)
def test_bad_input_is_named(images, keywords, facts):
    with raises(il.InputError, *facts):
        gist(images, **keywords)
