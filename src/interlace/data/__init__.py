"""Files and named sets -> arrays. The first step: knows nothing of codes or indexes."""

from .cache import cache_folder
from .cifar import cifar10
from .gabor import gist
from .labels import LABEL_EXTENSIONS, read_labels
from .lines import read_lines
from .payload import PAYLOAD_EXTENSIONS, read_payload
from .readers import EXTENSIONS, read_inputs, read_vectors
from .sets import DataSet, digits, mnist, sift300k, synthetic
from .splits import triplets, unseen_classes

__all__ = [
    "EXTENSIONS",
    "LABEL_EXTENSIONS",
    "PAYLOAD_EXTENSIONS",
    "DataSet",
    "cache_folder",
    "cifar10",
    "digits",
    "gist",
    "mnist",
    "read_inputs",
    "read_labels",
    "read_lines",
    "read_payload",
    "read_vectors",
    "sift300k",
    "synthetic",
    "triplets",
    "unseen_classes",
]
