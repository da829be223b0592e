"""Names of data sets in tables and plots."""

from __future__ import annotations

from .summary import Results

#: Parts of the names of data sets, which are joined by hyphens.
NAMES = {
    **{"mnist": "MNIST", "cifar10": "CIFAR-10", "gist": "GIST", "lenet": "LeNet", "alexnet": "AlexNet"},
    **{"unseen": "unseen classes", "text": "text vectors", "images": "all images", "cnn3": "3-layer CNN"},
    **{"kernel": "kernel features", "54k": "54K rows", "59k": "59K rows"},
}
#: Names of the sources of ``vectors``.
SOURCES = {"sift": "SIFT descriptors", "generated": "generated vectors"}


def title_of(results: Results, data: str) -> str:
    """Title of a data set in tables and plots: the paper's name."""
    if data != "vectors":
        return title(data)
    source = results.data_name(data)
    return SOURCES.get(source, source)


def title(data: str) -> str:
    """The same for data sets of one source."""
    first, _, rest = data.partition("-")
    if data.startswith("synthetic"):
        return f"Dataset {data[-1]}"
    return NAMES.get(first, first) + (f" ({NAMES.get(rest, rest)})" if rest else "")
