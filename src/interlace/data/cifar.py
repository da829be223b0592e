"""CIFAR-10 from files that the user has: the official binary version, or lossless WebP sheets of the same images."""

from __future__ import annotations

import hashlib
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .sets import DataSet, find

#: Of the official ``.bin`` files: a label byte and 3,072 bytes of an image, channels first, 10,000 times.
_MD5 = {
    "data_batch_1": "5dd7e06a14cb22eb9f671a540d1b7c25",
    "data_batch_2": "5ea93a67294ea407fff1d09f752e9692",
    "data_batch_3": "942cd6a4bcdd0dd3c604fbe906cb4421",
    "data_batch_4": "ae636b3ba5c66a11e91e8cb52e771fcb",
    "data_batch_5": "53f37980c15c3d472c316c40844f3f0d",
    "test_batch": "803d5f7f4d78ea53de84dbe85f74fb6d",
}
_FOLDERS = ("cifar10", "cifar-10-batches-bin")
_ROWS = 10_000

Records = NDArray[np.uint8]


def cifar10(root: str | PathLike[str] | None = None) -> DataSet:
    """50k images [3, 32, 32] of bytes, 10k test images as queries, with labels.

    Reads ``cifar-10-batches-bin`` or, with Pillow, WebP sheets of 100 x 100 images beside a ``labels.npy``; both must
    have the official checksums. The Python version of CIFAR-10 is made of pickles and is not opened.
    """
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
    path = find(_FOLDERS, [f"{name}.bin", f"{name}.webp"], root)
    content = path.read_bytes() if path.suffix == ".bin" else _from_sheet(path, number).tobytes()
    found = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if found != md5:
        raise InputError(f"{path.name} is not the expected file: md5 {found[:12]}... instead of {md5[:12]}...")
    return np.frombuffer(content, np.uint8).reshape(_ROWS, 1 + 3 * 32 * 32)


def _from_sheet(path: Path, number: int) -> Records:
    """The official records of a sheet: its images row by row, labels from the file beside it."""
    try:
        from PIL import Image
    except ImportError as error:
        raise InputError(f"{path.name} needs Pillow: pip install pillow, or use the official binary files") from error
    labels = np.load(path.parent / "labels.npy", allow_pickle=False)
    largest, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None  # 10 million pixels look like an attack to it
    try:
        with Image.open(path) as image:
            sheet = np.asarray(image.convert("RGB"))
    finally:
        Image.MAX_IMAGE_PIXELS = largest
    if sheet.shape != (3200, 3200, 3):
        raise InputError(f"{path.name} must be 3200 x 3200 pixels, got {sheet.shape[1]} x {sheet.shape[0]}")
    images = sheet.reshape(100, 32, 100, 32, 3).transpose(0, 2, 4, 1, 3).reshape(_ROWS, -1)
    return np.concatenate([labels[number * _ROWS : (number + 1) * _ROWS, None].astype(np.uint8), images], 1)
