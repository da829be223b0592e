"""Files and named sets -> arrays. The first step: knows nothing of codes or indexes."""

from .cifar import cifar10
from .labels import LABEL_EXTENSIONS, read_labels
from .readers import EXTENSIONS, read_inputs, read_vectors
from .sets import DataSet, digits, mnist, sift300k, synthetic

__all__ = [
    "EXTENSIONS",
    "LABEL_EXTENSIONS",
    "DataSet",
    "cifar10",
    "digits",
    "mnist",
    "read_inputs",
    "read_labels",
    "read_vectors",
    "sift300k",
    "synthetic",
]
