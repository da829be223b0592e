"""Files and named sets -> arrays. The first step: knows nothing of codes or indexes.

Files of ``mnist``, ``cifar10`` and ``sift300k`` are looked for in ``root``, else in the folder named by the variable
INTERLACE_DATA, else in ``../shared/data`` beside the checkout, in a sub-folder of the set's name or not. Nothing is
downloaded; an error says what is missing, where it was looked for and where to get it. Features that take minutes to
compute are kept in the folder named by INTERLACE_CACHE, else in the user's cache.
"""

from ..inputs.big_ann import read_truth, write_truth, write_vectors
from ..inputs.label_files import LABEL_EXTENSIONS, read_labels
from ..inputs.lines import read_lines
from ..inputs.payload import PAYLOAD_EXTENSIONS, read_payload
from ..inputs.readers import EXTENSIONS, read_inputs, read_vectors
from ..paper.datasets.cache import cache_folder
from ..paper.datasets.cifar import cifar10
from ..paper.datasets.gabor import gist
from ..paper.datasets.sets import DataSet, digits, mnist, sift300k, synthetic
from ..paper.datasets.splits import triplets, unseen_classes

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
    "read_truth",
    "read_vectors",
    "sift300k",
    "synthetic",
    "triplets",
    "unseen_classes",
    "write_truth",
    "write_vectors",
]
