"""SIFT grown by interpolation: up to ten million rows of bytes in one mapped file; each smaller set is a prefix.

The first rows are the real ones. Of the others each lies between a real row and one of its ten nearest neighbours.
This is not the SIFT1M or SIFT1B set of TEXMEX: recall is not comparable with figures published for those.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import faiss
import numpy as np
from numpy.typing import NDArray

from cache import finish, kept_array, partial

Bytes = NDArray[np.uint8]
NEIGHBOURS = 10  # a made row moves towards one of this many
VERSION = 1  # of what the cache holds; a change of make_rows needs a new one
FIRST, MOST = 1_000_000, 10_000_000  # the second file repeats the rows of the first and goes on
BLOCK = 50_000  # rows in float32 at a time


def rows(base: Bytes, n: int, folder: Path, stem: str, seed: int, say: Callable[[str], None]) -> Bytes:
    """The first n rows, mapped; made and written the first time."""
    total = FIRST if n <= FIRST else MOST
    path = folder / f"{stem}-grown-{total // 1_000_000}m-v{VERSION}-seed{seed}.npy"
    if not path.exists():
        say(f"making {path.name}: minutes the first time")
        others = kept_array(folder / f"{stem}-neighbours-v{VERSION}.npy", lambda: nearest_others(base))
        head = base if total == FIRST else rows(base, FIRST, folder, stem, seed, say)
        seeds = seed if total == FIRST else [seed, total]
        written = partial(path)
        out = np.lib.format.open_memmap(written, "w+", np.uint8, (total, base.shape[1]))
        out[: len(head)] = head
        make_rows(base, total - len(head), seeds, others=others, out=out[len(head) :])
        out.flush()
        del out
        finish(written, path)
    mapped: Bytes = np.load(path, mmap_mode="r")
    return mapped[:n]


def make_rows(
    base: Bytes,
    n: int,
    seed: int | list[int],
    *,
    others: NDArray[np.int64] | None = None,
    out: Bytes | None = None,
) -> Bytes:
    """n rows, each a random row moved 20-80 % of the way to one of its ten nearest neighbours, rounded.

    ``others`` are those of :func:`nearest_others`.
    """
    rng = np.random.default_rng(seed)
    starts = rng.integers(0, len(base), n)
    ranks = rng.integers(0, NEIGHBOURS, n)
    steps = rng.uniform(0.2, 0.8, n).astype(np.float32)
    ends = (nearest_others(base) if others is None else others)[starts, ranks]
    made = np.empty((n, base.shape[1]), np.uint8) if out is None else out
    for at in range(0, n, BLOCK):
        part = slice(at, at + BLOCK)
        a, b = base[starts[part]].astype(np.float32), base[ends[part]].astype(np.float32)
        made[part] = np.rint(a + steps[part, None] * (b - a))
    return made


def nearest_others(base: Bytes) -> NDArray[np.int64]:
    """Rows [n, NEIGHBOURS] nearest to each row, without the row itself; duplicates of it count."""
    x = base.astype(np.float32)
    found = faiss.knn(x, x, NEIGHBOURS + 1)[1]
    own = found == np.arange(len(base))[:, None]
    own[~own.any(1), -1] = True  # crowded out by duplicates
    return np.asarray(found[~own].reshape(len(base), NEIGHBOURS))
