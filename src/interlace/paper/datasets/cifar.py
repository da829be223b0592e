"""CIFAR-10 from local files: an official version, or lossless WebP sheets of the same images."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError
from ...inputs.streams import load_npy
from .cache import Arrays, cached
from .files import Source, check, find
from .gabor import DEFAULTS, VERSION, gist
from .pickled import read_batch
from .sets import DataSet

#: MD5 of the official ``.bin`` files: 10,000 records of one label byte and 3,072 image bytes, channels first.
_MD5 = {
    "data_batch_1": "5dd7e06a14cb22eb9f671a540d1b7c25",
    "data_batch_2": "5ea93a67294ea407fff1d09f752e9692",
    "data_batch_3": "942cd6a4bcdd0dd3c604fbe906cb4421",
    "data_batch_4": "ae636b3ba5c66a11e91e8cb52e771fcb",
    "data_batch_5": "53f37980c15c3d472c316c40844f3f0d",
    "test_batch": "803d5f7f4d78ea53de84dbe85f74fb6d",
}
_SOURCE = Source(
    ("cifar10", "cifar-10-batches-bin", "cifar-10-batches-py"),
    "cifar-10-binary.tar.gz or cifar-10-python.tar.gz of https://www.cs.toronto.edu/~kriz/cifar.html, unpacked",
)
_ROWS = 10_000
FEATURES = ("pixels", "gist")

Records = NDArray[np.uint8]


def cifar10(root: str | PathLike[str] | None = None, *, features: str = "pixels", progress: Any = "auto") -> DataSet:
    """50k images of ten classes and 10k test images as queries, with labels.

    ``features="pixels"`` are bytes [3, 32, 32]; ``"gist"`` are 512 GIST features, float32 (:func:`gist`), computed once
    in some minutes and cached in :func:`cache_folder`; later calls do not need the images.

    Reads the official binary or Python version (without executing its pickles) or, with Pillow, WebP sheets of
    100 x 100 images with a ``labels.npy``; the images must match the official checksums.
    """
    if features not in FEATURES:
        raise InputError(f"features must be one of {', '.join(FEATURES)}, got {features!r}")
    if features == "pixels":
        return _pixels(root)

    def make() -> Arrays:
        data = _pixels(root)
        images = np.concatenate([data.x, data.queries])
        found, n = gist(images, **DEFAULTS, progress=progress), len(data.x)
        assert data.labels is not None
        assert data.query_labels is not None
        return {"x": found[:n], "queries": found[n:], "labels": data.labels, "query_labels": data.query_labels}

    key = {"source": list(_MD5.values()), "features": "gist", "version": VERSION, **DEFAULTS}
    arrays = cached("cifar10-gist", key, make)
    return DataSet("cifar10-gist", **arrays)


def _pixels(root: str | PathLike[str] | None) -> DataSet:
    batches = [_batch(number, name, md5, root) for number, (name, md5) in enumerate(_MD5.items())]
    images = [batch[:, 1:].reshape(-1, 3, 32, 32) for batch in batches]
    labels = [batch[:, 0] for batch in batches]
    return DataSet(
        "cifar10",
        np.concatenate(images[:5]),
        images[5],
        labels=np.concatenate(labels[:5]),
        query_labels=labels[5].copy(),
    )


def _batch(number: int, name: str, md5: str, root: str | PathLike[str] | None) -> Records:
    """The records of one batch in the official format, from any supported file."""
    path = find(_SOURCE, [f"{name}.bin", f"{name}.webp", name], root)
    content = path.read_bytes()
    if path.suffix == ".webp":
        content = _from_sheet(path, number).tobytes()
    elif path.suffix == "":
        labels, images = read_batch(path, content)
        content = np.concatenate([labels[:, None], images], 1).tobytes()
    check(path, content, md5)
    return np.frombuffer(content, np.uint8).reshape(_ROWS, 1 + 3 * 32 * 32)


def _from_sheet(path: Path, number: int) -> Records:
    """The records of a sheet in the official format: images row by row, labels from ``labels.npy``."""
    try:
        from PIL import Image
    except ImportError as error:
        raise InputError(f"{path.name} needs Pillow: pip install pillow, or use the official files") from error
    labels = _labels(path.parent / "labels.npy")
    largest, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None  # Pillow refuses 10 million pixels by default
    try:
        with Image.open(path) as image:
            sheet = np.asarray(image.convert("RGB"))
    except (OSError, ValueError, SyntaxError) as error:  # raised by Pillow for damaged files
        if isinstance(error, PermissionError):
            raise
        raise InputError(f"{str(path)!r} is damaged or truncated: {error}; download it again") from error
    finally:
        Image.MAX_IMAGE_PIXELS = largest
    if sheet.shape != (3200, 3200, 3):
        raise InputError(f"{str(path)!r} must be 3200 x 3200 pixels, got {sheet.shape[1]} x {sheet.shape[0]}")
    images = sheet.reshape(100, 32, 100, 32, 3).transpose(0, 2, 4, 1, 3).reshape(_ROWS, -1)
    return np.concatenate([labels[number * _ROWS : (number + 1) * _ROWS, None], images], 1)


def _labels(path: Path) -> NDArray[np.uint8]:
    if not path.is_file():
        raise FileNotFoundError(f"the labels of the WebP sheets were not found: {str(path)!r}")
    labels = load_npy(str(path))
    if labels.shape != (6 * _ROWS,) or labels.dtype.kind not in "iu":
        raise InputError(f"{str(path)!r} must hold {6 * _ROWS} labels, got shape {labels.shape} and {labels.dtype}")
    return np.asarray(labels, np.uint8)
