"""GIST features: the strength of edges of each scale and direction in each part of an image.

Oliva and Torralba, Modeling the Shape of the Scene: A Holistic Representation of the Spatial Envelope, 2001, with the
constants of the authors' program: the features are the same, except that grid cells are in row-major order.

1. Grey, stretched to 0 ... 255; log(1 + grey).
2. Prefilter: frequencies below ``cutoff`` cycles per image are removed, the rest is divided by .2 + local deviation.
3. Gabor filters G, multiplied with the spectrum of the image, which is mirrored at its borders. In polar coordinates
   of the frequency (f cycles per pixel, angle t), at scale s and orientation o of n:

       G(f, t) = exp(-3.5 (f / f_s - 1)^2 - (pi n^2 / 32) t_o^2),  f_s = .3 / 1.85^s,  t_o = t + pi o / n in -pi ... pi

4. The magnitude of the complex response, averaged over each cell of the grid.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError
from ...inputs.arrays import FloatArray, as_rows, describe, positive, to_numpy
from ...progress import as_progress

#: Default parameters of ``gist``; part of the cache key.
DEFAULTS: dict[str, Any] = {"scales": 4, "orientations": 8, "grid": 4, "cutoff": 4.0, "padding": 32}
#: Increased when the same parameters give different features.
VERSION = 1
#: Values of padded spectra processed at a time, 8 bytes each, so that they fit in the processor cache.
BLOCK_VALUES = 1 << 18
#: Pixels mirrored at each border by the prefilter.
BORDER = 5


def gist(
    images: Any,
    *,
    scales: int = DEFAULTS["scales"],
    orientations: int = DEFAULTS["orientations"],
    grid: int = DEFAULTS["grid"],
    cutoff: float = DEFAULTS["cutoff"],
    padding: int = DEFAULTS["padding"],
    progress: Any = "auto",
) -> FloatArray:
    """GIST features float32 [n, scales * orientations * grid * grid], 512 by default, of square images.

    Images are [n, size, size] or [n, channels, size, size], bytes or floats; channels are averaged. Features are in the
    order scale (finest first), orientation, row and column of the grid. Features do
    not depend on the brightness and contrast of an image, which is stretched to the full range first. A constant image
    has features of 0. ``padding`` pixels are mirrored at each border before the filters.
    """
    array = to_numpy(images, "images")
    if array.ndim not in (3, 4) or array.shape[-1] != array.shape[-2]:
        raise InputError(f"images must be [n, size, size] or [n, channels, size, size], got {describe(array)}")
    scales, orientations = positive(scales, "scales"), positive(orientations, "orientations")
    grid, padding, size = positive(grid, "grid"), positive(padding, "padding", least=0), array.shape[-1]
    if size < grid or array.shape[1] == 0:
        raise InputError(
            f"a grid of {grid} x {grid} cells needs images of at least {grid} pixels, got {describe(array)}"
        )
    if isinstance(cutoff, bool) or not isinstance(cutoff, int | float) or not 0 < cutoff < math.inf:
        raise InputError(f"cutoff must be a number of cycles per image above 0, got {cutoff!r}")
    said, side = as_progress(progress), size + 2 * padding
    filters, pool = _filters(side, scales, orientations), _pool(size, grid)
    features = np.empty((len(array), len(filters), grid * grid), np.float32)
    block = max(1, BLOCK_VALUES // side**2)
    for start in range(0, len(array), block):
        said("GIST", start / len(array))
        white = _prefiltered(_grey(array[start : start + block], start), cutoff)
        spectra = np.fft.fft2(_mirrored(white, padding, padding))
        for number, one in enumerate(filters):
            # The mirrored borders are not needed: rows are dropped before the second transform.
            inside = slice(padding, padding + size)
            response = np.fft.ifft(np.fft.ifft(spectra * one, axis=1)[:, inside], axis=2)[:, :, inside]
            cells = pool @ np.abs(response).astype(np.float32, copy=False) @ pool.T
            features[start : start + block, number] = cells.reshape(len(cells), -1)
    said("GIST", 1.0)
    return features.reshape(len(array), len(filters) * grid * grid)


def _grey(images: NDArray[Any], first: int) -> FloatArray:
    """Each image stretched to 0 to 255. Channels are added: sums of bytes are exact, and scale has no effect."""
    values = as_rows(images.reshape(len(images), -1), name="images", first_row=first)
    size = images.shape[-1]
    grey = values.reshape(len(images), -1, size, size).sum(1)
    grey -= grey.min((1, 2), keepdims=True)
    largest = grey.max((1, 2), keepdims=True)
    return np.asarray(grey * (255 / np.where(largest > 0, largest, 1)), np.float32)


def _prefiltered(grey: FloatArray, cutoff: float) -> FloatArray:
    """Images with low frequencies removed and local contrast normalized."""
    size = grey.shape[-1]
    odd = (size + 2 * BORDER) % 2
    logs = _mirrored(np.log1p(grey), BORDER, BORDER + odd)
    side = logs.shape[-1]
    cycles = np.fft.fftfreq(side) * side
    # Half height at the cutoff. Half of the spectrum is enough, because images are real and the filter is even.
    low = np.exp(-(cycles[:, None] ** 2 + cycles[None, : side // 2 + 1] ** 2) * math.log(2) / cutoff**2)
    low = low.astype(np.float32)

    def smooth(x: FloatArray) -> NDArray[Any]:
        return np.fft.irfft2(np.fft.rfft2(x) * low, s=(side, side))

    details = logs - smooth(logs)
    details = details / (0.2 + np.sqrt(np.abs(smooth(details**2))))
    inside = slice(BORDER, BORDER + size)
    return np.asarray(details[:, inside, inside], np.float32)


def _mirrored(images: FloatArray, before: int, after: int) -> FloatArray:
    return np.pad(images, ((0, 0), (before, after), (before, after)), mode="symmetric")


def _filters(side: int, scales: int, orientations: int) -> FloatArray:
    """[scales * orientations, side, side], with frequencies in the order of np.fft.fft2."""
    y, x = np.meshgrid(np.fft.fftfreq(side), np.fft.fftfreq(side), indexing="ij")
    radius, angle = np.hypot(x, y), np.arctan2(y, x)
    # On an axis of even length the Nyquist frequency is -1/2, as in the authors' program.
    out = []
    for scale in range(scales):
        along = -3.5 * (radius / (0.3 / 1.85**scale) - 1) ** 2
        for orientation in range(orientations):
            turned = angle + math.pi * orientation / orientations
            turned = np.where(turned > math.pi, turned - 2 * math.pi, turned)
            out.append(np.exp(along - math.pi * orientations**2 / 32 * turned**2))
    return np.array(out, np.float32)


def _pool(size: int, grid: int) -> FloatArray:
    """[grid, size]: averages each of ``grid`` ranges of pixels of nearly equal length."""
    edges = np.linspace(0, size, grid + 1).astype(int)
    pool = np.zeros((grid, size), np.float32)
    for cell, (start, stop) in enumerate(zip(edges[:-1], edges[1:], strict=True)):
        pool[cell, start:stop] = 1 / (stop - start)
    return pool
