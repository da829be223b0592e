"""Files and named sets -> arrays. The first step: knows nothing of codes or indexes."""

from .cifar import cifar10
from .readers import EXTENSIONS, read_vectors
from .sets import DataSet, digits, mnist, sift300k, synthetic

__all__ = ["EXTENSIONS", "DataSet", "cifar10", "digits", "mnist", "read_vectors", "sift300k", "synthetic"]
