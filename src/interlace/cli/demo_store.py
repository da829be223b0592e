"""The collection of ``interlace serve --demo``: digits with their labels and images.

Digits of MNIST where its files are (INTERLACE_DATA), else copies of scikit-learn's digits, else generated images.
"""

from __future__ import annotations

import base64
import os
import shutil
import struct
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .. import Index, create, data
from ..errors import InputError
from ..progress import Progress, silent
from .demo_data import NOISE, SHIFTS, shift

NAME = "digits"
ROWS = 20_000
N_BYTES = 16

Images = NDArray[np.uint8]  # [n, height, width]


def build(folder: Path, rows: int = ROWS, progress: Progress = silent) -> tuple[Path, str]:
    """Create the store in a folder, in one step at the end; returns its path and a description of the rows."""
    images, labels, what = digit_images(rows)
    path, unfinished = folder / NAME, folder / f".{NAME}-unfinished"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(unfinished, ignore_errors=True)
    x = images.reshape(len(images), -1) / np.float32(255)
    first = len(x) - len(x) // 20  # the others are added later, so that there is a drift to look at
    index = Index.build(
        x[:first], n_bytes=N_BYTES, layout="hybrid", effort="fast", originals="float16", progress=progress
    )
    payload = [{"label": int(label), "image": data_url(image)} for label, image in zip(labels, images, strict=True)]
    columns = {"label": "int64", "image": "string"}
    with create(unfinished, index, columns=columns, payload=payload[:first]) as store:
        store.add(x[first:], payload=payload[first:])
    os.rename(unfinished, path)
    return path, what


def digit_images(rows: int) -> tuple[Images, NDArray[np.uint8], str]:
    """Images, their labels, and where they come from."""
    try:
        found = data.mnist()
        assert found.labels is not None
        return found.x[:rows].reshape(-1, 28, 28), found.labels[:rows], f"the first {rows:,} images of MNIST"
    except (InputError, FileNotFoundError):
        pass
    rng = np.random.default_rng(0)
    try:
        base = data.digits()
        assert base.labels is not None
        source, labels, name = base.x.reshape(-1, 8, 8), base.labels, "scikit-learn's digits"
    except InputError:
        source, labels, name = _drawn(rng), np.arange(10, dtype=np.uint8), "ten drawn digits"
    chosen = rng.integers(0, len(source), rows)
    moves = rng.integers(0, len(SHIFTS), rows)
    images = np.empty((rows, 8, 8))
    for i, (dy, dx) in enumerate(SHIFTS):
        images[moves == i] = shift(source[chosen[moves == i]], dy, dx)
    images = (images + rng.normal(0, NOISE, images.shape)).clip(0, 16) * (255 / 16)
    return images.astype(np.uint8), labels[chosen], f"{rows:,} copies of {name}, shifted and with noise"


#: Ten digits of 3 x 5 pixels, a bit for each pixel, row by row.
_FONT = (0x7B6F, 0x2C97, 0x73E7, 0x73CF, 0x5BC9, 0x79CF, 0x79EF, 0x7292, 0x7BEF, 0x7BCF)


def _drawn(rng: np.random.Generator) -> NDArray[np.float64]:
    images = np.zeros((10, 8, 8))
    for digit, bits in enumerate(_FONT):
        images[digit, 1:6, 2:5] = [[16 * (bits >> (14 - 3 * y - x) & 1) for x in range(3)] for y in range(5)]
    return images


def data_url(image: Images) -> str:
    """A grey image [height, width] as a PNG in a URL."""
    height, width = image.shape
    lines = np.zeros((height, width + 1), np.uint8)  # each line begins with its filter: 0, none
    lines[:, 1:] = image
    parts = [
        _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)),
        _chunk(b"IDAT", zlib.compress(lines.tobytes(), 9)),
        _chunk(b"IEND", b""),
    ]
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(parts)).decode()


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
