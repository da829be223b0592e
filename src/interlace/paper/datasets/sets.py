"""Named data sets: ``sift300k`` and ``mnist`` (local files), ``digits`` and ``synthetic`` (scikit-learn)."""

from __future__ import annotations

import io
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError
from .files import Source, check, find, read

_SIFT = Source(("sift300k",), "it is not distributed; il.data.read_vectors opens files of other vectors")
_SIFT_SHA256 = "9981fe7706cf0eafc1319baa38bcd3e53d889bac8168e9fba749e0565f2f2861"
_MNIST = Source(
    ("mnist", "MNIST/raw"),  # the second is where torchvision keeps it
    "the four files of http://yann.lecun.com/exdb/mnist, as .gz or unpacked; if that page does not work, use "
    "https://ossci-datasets.s3.amazonaws.com/mnist or torchvision.datasets.MNIST(root, download=True)",
)
# Of the decompressed content, so that .gz and unpacked files are equivalent.
_MNIST_SHA256 = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}


_TEXT = Source(("text128k",), "it is not distributed; il.data.read_vectors opens files of other vectors")
_TEXT_SHA256 = "463152265d86f5b7315b9e9db43fe7d5346ac941035418214dbe08560ef65869"
#: Labelled text vectors that are queries.
TEXT_QUERIES = 1_000


@dataclass(frozen=True, eq=False)
class DataSet:
    """Vectors to index and queries; other fields are None if the data set does not have them."""

    name: str
    x: NDArray[Any]  #: [n, dim] rows to index
    queries: NDArray[Any]  #: [n_queries, dim], none of them in x
    learn: NDArray[Any] | None = None  #: [n_learn, dim] training rows, none of them in x
    truth: NDArray[Any] | None = None  #: [n_queries, 100] rows of x nearest to each query, by L2
    labels: NDArray[Any] | None = None  #: [n] class of each row of x
    query_labels: NDArray[Any] | None = None  #: [n_queries]


def sift300k(root: str | PathLike[str] | None = None) -> DataSet:
    """300k real SIFT descriptors (uint8, 128-d), 2k queries with their exact 100 nearest, 20k rows to learn from."""
    path = find(_SIFT, ["sift300k.npz"], root)
    content = read(path)
    check(path, content, _SIFT_SHA256)
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return DataSet("sift300k", arrays["base"], arrays["query"], arrays["learn"], arrays["gt_ids"])


def mnist(root: str | PathLike[str] | None = None) -> DataSet:
    """60k images of digits as rows of 784 bytes, 10k test images as queries, with labels; .gz or unpacked files."""
    parts = {}
    for name, checksum in _MNIST_SHA256.items():
        # Some unpacked copies have a dot before "idx".
        names = [f"{name}.gz", name, name.replace("-idx", ".idx")]
        path = find(_MNIST, names, root)
        content = read(path)
        check(path, content, checksum)
        parts[name] = _idx(content)
    train, train_labels, test, test_labels = parts.values()
    return DataSet(
        "mnist",
        train.reshape(len(train), -1),
        test.reshape(len(test), -1),
        labels=train_labels,
        query_labels=test_labels,
    )


def text(root: str | PathLike[str] | None = None) -> DataSet:
    """Text vectors with labels: 256 dimensions, unit length, 58 classes that differ in size.

    Descriptions of software packages, labelled with their section. 1,000 of them, drawn once, are the queries. Rows of
    the file without a label are left out.
    """
    path = find(_TEXT, ["text128k.npz"], root)
    content = read(path)
    check(path, content, _TEXT_SHA256)
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        x = np.concatenate([arrays["base"], arrays["query"]]).astype(np.float32)
        labels = np.concatenate([arrays["labels"], arrays["query_labels"]]).astype(np.int64)
    known = np.flatnonzero(labels >= 0)
    counts = np.bincount(labels[known])
    known = known[counts[labels[known]] > 1]  # a row alone in its class has nothing to find
    order = np.random.default_rng(0).permutation(known)
    queries, rows = order[:TEXT_QUERIES], order[TEXT_QUERIES:]
    return DataSet("text", x[rows], x[queries], labels=labels[rows], query_labels=labels[queries])


def digits(n_queries: int = 297) -> DataSet:
    """scikit-learn's 1,797 images of digits as rows of 64 values (0 to 16); the last ``n_queries`` are the queries."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise InputError("digits needs scikit-learn: pip install scikit-learn") from error
    images, labels = load_digits(return_X_y=True)
    if not isinstance(n_queries, int | np.integer) or not 0 < n_queries < len(images):
        raise InputError(f"n_queries must be 1 to {len(images) - 1}, got {n_queries}")
    x, y = images.astype(np.float32), labels.astype(np.uint8)
    return DataSet("digits", x[:-n_queries], x[-n_queries:], labels=y[:-n_queries], query_labels=y[-n_queries:])


def synthetic(name: int, seed: int = 0) -> DataSet:
    """Dataset 1, 2 or 3 of the paper: ten labelled classes in 64 dimensions, 10,000 rows and 1,000 queries.

    Made by the method of Guyon (Design of Experiments of the NIPS 2003 Variable Selection Benchmark), as
    scikit-learn has it. The paper gives the rows, the 64 features and how many of them are informative (32, 16, 8);
    classes, clusters, separation, redundant features and noise are fixed here:
    ``make_classification(n_samples=11_000, n_features=64, n_informative=32 / 16 / 8, n_redundant=2, n_repeated=0,
    n_classes=10, n_clusters_per_class=1, class_sep=2.0, flip_y=0.01, hypercube=True, shuffle=True,
    random_state=seed)``, every dimension standardised by the mean and the standard deviation of the first 10,000 rows,
    which are ``x``; the last 1,000 are the queries. float32; ``seed`` draws the data.
    """
    informative = {1: 32, 2: 16, 3: 8}.get(name) if isinstance(name, int) and name is not True else None
    if informative is None:
        raise InputError(f"name of a synthetic data set must be 1, 2 or 3, got {name!r}")
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**32:
        raise InputError(f"seed must be an integer from 0 to 2^32 - 1, got {seed!r}")
    try:
        from sklearn.datasets import make_classification
    except ImportError as error:
        raise InputError("synthetic needs scikit-learn: pip install scikit-learn") from error
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


def _idx(content: bytes) -> NDArray[np.uint8]:
    """The idx format: two zero bytes, the type (8: uint8), the rank, the shape in big-endian int32, the values."""
    rank = content[3]
    shape = [int.from_bytes(content[4 + 4 * i : 8 + 4 * i], "big") for i in range(rank)]
    return np.frombuffer(content, np.uint8, offset=4 + 4 * rank).reshape(shape)
