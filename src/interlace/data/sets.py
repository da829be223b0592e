"""Named data sets: ``sift300k``, ``mnist`` (files the user has), ``digits`` and ``synthetic`` (by scikit-learn).

Files are looked for in ``root``, else in the folder named by INTERLACE_DATA, else in ``../shared/data`` beside the
checkout. Nothing is downloaded; what is found is compared with its checksum.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import zlib
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError

VARIABLE = "INTERLACE_DATA"

_SIFT_SHA256 = "9981fe7706cf0eafc1319baa38bcd3e53d889bac8168e9fba749e0565f2f2861"
# Of the content, not of the .gz: files packed anew or not at all are the same data.
_MNIST_SHA256 = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}


@dataclass(frozen=True, eq=False)
class DataSet:
    """Vectors to index and queries to ask; the rest is None where a set does not have it."""

    name: str
    x: NDArray[Any]  #: [n, dim] rows to index
    queries: NDArray[Any]  #: [n_queries, dim], none of them in x
    learn: NDArray[Any] | None = None  #: [n_learn, dim] rows to learn from, none of them in x
    truth: NDArray[Any] | None = None  #: [n_queries, 100] rows of x nearest to each query, by L2
    labels: NDArray[Any] | None = None  #: [n] class of each row of x
    query_labels: NDArray[Any] | None = None  #: [n_queries]


def sift300k(root: str | PathLike[str] | None = None) -> DataSet:
    """300k real SIFT descriptors (uint8, 128-d), 2k queries with their exact 100 nearest, 20k rows to learn from."""
    content = _read(find(("sift300k",), ["sift300k.npz"], root))
    _check("sift300k.npz", content, _SIFT_SHA256)
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return DataSet("sift300k", arrays["base"], arrays["query"], arrays["learn"], arrays["gt_ids"])


def mnist(root: str | PathLike[str] | None = None) -> DataSet:
    """60k images of digits as rows of 784 bytes, 10k test images as queries, with labels; .gz or unpacked files."""
    parts = {}
    for name, checksum in _MNIST_SHA256.items():
        # Unpacked copies are also spread with a dot before "idx".
        names = [f"{name}.gz", name, name.replace("-idx", ".idx")]
        content = _read(find(("mnist",), names, root))
        _check(name, content, checksum)
        parts[name] = _idx(content)
    train, train_labels, test, test_labels = parts.values()
    return DataSet(
        "mnist",
        train.reshape(len(train), -1),
        test.reshape(len(test), -1),
        labels=train_labels,
        query_labels=test_labels,
    )


def digits(n_queries: int = 297) -> DataSet:
    """scikit-learn's 1,797 images of digits as rows of 64 values (0 to 16); the last ``n_queries`` are the queries."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise InputError("the digits are part of scikit-learn: pip install scikit-learn") from error
    images, labels = load_digits(return_X_y=True)
    if not 0 < n_queries < len(images):
        raise InputError(f"n_queries must be 1 to {len(images) - 1}, got {n_queries}")
    x, y = images.astype(np.float32), labels.astype(np.uint8)
    return DataSet("digits", x[:-n_queries], x[-n_queries:], labels=y[:-n_queries], query_labels=y[-n_queries:])


def synthetic(name: int, seed: int = 0) -> DataSet:
    """Dataset 1, 2 or 3 of the paper: ten labelled classes in 64 dimensions, 10,000 rows and 1,000 queries.

    The paper says how many dimensions tell the classes apart; the rest is fixed here. scikit-learn's
    ``make_classification(n_samples=11_000, n_features=64, n_informative=32 / 16 / 8, n_redundant=2, n_repeated=0,
    n_classes=10, n_clusters_per_class=1, class_sep=2.0, flip_y=0.01, hypercube=True, shuffle=True,
    random_state=seed)``, every dimension standardised by the mean and the standard deviation of the first 10,000 rows,
    which are ``x``; the last 1,000 are the queries. float32; a seed is a draw of the data.
    """
    informative = {1: 32, 2: 16, 3: 8}.get(name) if isinstance(name, int) else None
    if informative is None:
        raise InputError(f"the synthetic data sets are 1, 2 and 3, got {name!r}")
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**32:
        raise InputError(f"seed must be an integer of 0 to 2^32 - 1, got {seed!r}")
    try:
        from sklearn.datasets import make_classification
    except ImportError as error:
        raise InputError("the synthetic data sets are made by scikit-learn: pip install scikit-learn") from error
    x, y = make_classification(
        n_samples=11_000,
        n_features=64,
        n_informative=informative,
        n_redundant=2,
        n_repeated=0,
        n_classes=10,
        n_clusters_per_class=1,
        class_sep=2.0,
        flip_y=0.01,
        hypercube=True,
        shuffle=True,
        random_state=int(seed),
    )
    x = ((x - x[:10_000].mean(0)) / x[:10_000].std(0)).astype(np.float32)
    y = y.astype(np.uint8)
    return DataSet(f"synthetic{name}", x[:10_000], x[10_000:], labels=y[:10_000], query_labels=y[10_000:])


def _folders(root: str | PathLike[str] | None) -> list[Path]:
    """Where to look, most wanted first; a folder the user names in the call is the only one."""
    if root is not None:
        return [Path(root)]
    named = [Path(os.environ[VARIABLE])] if os.environ.get(VARIABLE) else []
    checkout = Path(__file__).resolve().parents[3]
    # An installed copy has no checkout around it; then the current folder is the best guess.
    return [*named, checkout.parent / "shared" / "data", Path.cwd().parent / "shared" / "data"]


def find(known: tuple[str, ...], names: list[str], root: str | PathLike[str] | None) -> Path:
    """The first of ``names`` in one of the folders, in a sub-folder of a known name or not."""
    folders = _folders(root)
    for base in folders:
        for place in (*(base / folder for folder in known), base):
            for name in names:
                if (place / name).is_file():
                    return place / name
    looked = ", ".join(dict.fromkeys(str(base) for base in folders))
    raise FileNotFoundError(
        f"{known[0]}/{names[0]} was not found in {looked}; name its folder by root= or by the variable {VARIABLE}"
    )


def _read(path: Path) -> bytes:
    content = path.read_bytes()
    if path.suffix != ".gz":
        return content
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{str(path)!r} is damaged or truncated: {error}") from error


def _check(name: str, content: bytes, sha256: str) -> None:
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise InputError(f"{name} is not the expected file: sha256 {found[:12]}... instead of {sha256[:12]}...")


def _idx(content: bytes) -> NDArray[np.uint8]:
    """The idx format: two zero bytes, the type (8: uint8), the rank, the shape in big-endian int32, the values."""
    rank = content[3]
    shape = [int.from_bytes(content[4 + 4 * i : 8 + 4 * i], "big") for i in range(rank)]
    return np.frombuffer(content, np.uint8, offset=4 + 4 * rank).reshape(shape)
