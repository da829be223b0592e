"""faiss indexes without a counterpart are refused by an error that names the unsupported part."""

from __future__ import annotations

import numpy as np
import pytest

import interlace as il
from faiss_checks import COARSE, DIM, IP, faiss, linear, quick, transformed, with_eight_bits
from helpers import clustered

pytestmark = pytest.mark.usefixtures("one_faiss_thread")


def remap(source, dim):
    made = faiss.RemapDimensionsTransform(dim, len(source), False)
    faiss.copy_array_to_vector(np.array(source, np.int32), made.map)
    return made


def nested():
    return faiss.IndexIDMap(faiss.IndexIDMap(with_eight_bits(faiss.IndexPQ(DIM, 4, 8))))


def named_lists():
    lists = faiss.index_factory(DIM, "IVF16,PQ3x4")
    quick(lists)
    lists.train(clustered(1300, DIM))
    outer = faiss.IndexIDMap(lists)
    lists.add_with_ids(clustered(3, DIM), np.array([5, 9, 1]))
    faiss.copy_array_to_vector(np.array([7, 8, 9]), outer.id_map)
    outer.ntotal = 3
    return outer


def twice_the_same_id():
    made = faiss.IndexIDMap(with_eight_bits(faiss.IndexPQ(DIM, 4, 8)))
    made.add_with_ids(clustered(3, DIM), np.array([4, 8, 4]))
    return made


def lists_of(change):
    made = faiss.IndexIVFPQ(COARSE, DIM, 16, 3, 4)
    made.is_trained = True
    change(made)
    return made


REFUSED = {
    "not an index": (lambda: "index", "needs a faiss index of float vectors, got str"),
    "binary": (lambda: faiss.IndexBinaryFlat(16), "float vectors, got IndexBinaryFlat"),
    "flat": (lambda: faiss.IndexFlatL2(DIM), "IndexPQ, IndexResidualQuantizer.*got IndexFlatL2"),
    "fast scan": (lambda: faiss.IndexPQFastScan(DIM, 4, 4), "got IndexPQFastScan"),
    "refined lists": (lambda: faiss.IndexIVFPQR(COARSE, DIM, 16, 3, 4, 3, 4), "got IndexIVFPQR"),
    "graph": (lambda: faiss.IndexHNSWFlat(DIM, 8), "got IndexHNSWFlat"),
    "not trained": (lambda: faiss.IndexPQ(DIM, 4, 8), "IndexPQ is not trained"),
    "transform not trained": (
        lambda: faiss.IndexPreTransform(faiss.OPQMatrix(DIM, 4), with_eight_bits(faiss.IndexPQ(DIM, 4, 8))),
        "OPQMatrix is not trained",
    ),
    "ten bits": (lambda: faiss.IndexPQ(DIM, 1, 10), "not trained|10 bits"),
    "ten bits, filled": (lambda: _trained(faiss.IndexPQ(DIM, 1, 10)), "1 to 8 bits.*10 bits"),
    "ten bits, additive": (lambda: _trained(faiss.IndexResidualQuantizer(DIM, 2, 10)), "1 to 8 bits.*10 bits"),
    "metric": (lambda: _metric(faiss.METRIC_L1), "METRIC_L2 or METRIC_INNER_PRODUCT, got metric_type 2"),
    "reduction": (lambda: transformed(faiss.PCAMatrix(DIM, 8)), "PCAMatrix does not preserve distances.*all 12"),
    "whitening": (lambda: transformed(faiss.PCAMatrix(DIM, DIM, -0.5)), "PCAMatrix does not preserve distances"),
    "scaling": (lambda: transformed(linear(2 * np.eye(DIM))), "LinearTransform does not preserve distances"),
    "dimensions lost": (lambda: transformed(remap([0, 1, 2, 3], DIM)), "does not preserve distances"),
    "dimensions twice": (lambda: transformed(remap([*range(DIM)] * 2, DIM)), "does not preserve distances"),
    "words in the padding": (lambda: transformed(remap([*range(DIM), -1, -1, -1, -1], DIM)), "words must be 0"),
    "constant in the padding": (
        lambda: transformed(linear(np.eye(16)[:, :DIM], np.eye(16)[15])),
        "LinearTransform adds a constant on padding dimensions",
    ),
    "hadamard": (lambda: transformed(faiss.HadamardRotation(16)), "HadamardRotation is not supported"),
    "late norm": (lambda: _late_norm(), "NormalizationTransform is not supported.*NormalizationTransform as the first"),
    "another norm": (lambda: transformed(faiss.NormalizationTransform(DIM, 1.0)), "with norm 2.*got norm 1"),
    "bias and ip": (
        lambda: transformed(faiss.CenteringTransform(DIM), with_eight_bits(faiss.IndexPQ(DIM, 4, 8, IP))),
        "CenteringTransform adds a constant which changes inner products",
    ),
    "ids of ids": (nested, "IndexIDMap inside an IndexIDMap"),
    "ids of named rows": (named_lists, r"must have the ids 0, 1, 2, \.\.\."),
    "an id twice": (twice_the_same_id, "ids must be unique; ids.0. and ids.2. are both 4"),
    "no residuals": (lambda: lists_of(lambda lists: setattr(lists, "by_residual", False)), "by_residual=False"),
    "many lists": (lambda: lists_of(lambda lists: setattr(lists, "nlist", 257)), "257 lists.*at most 256"),
    "coarse graph": (lambda: _trained(faiss.index_factory(DIM, "IVF16_HNSW8,PQ3x4")), "flat quantizer, got IndexHNSW"),
}


def _trained(index):
    index.is_trained = True
    return index


def _metric(number):
    index = with_eight_bits(faiss.IndexPQ(DIM, 4, 8))
    index.metric_type = number
    return index


def _late_norm():
    made = faiss.IndexPreTransform(with_eight_bits(faiss.IndexPQ(DIM, 4, 8, IP)))
    made.prepend_transform(faiss.NormalizationTransform(DIM))
    made.prepend_transform(linear(np.eye(DIM)))
    return made


@pytest.mark.parametrize("what", REFUSED)
def test_what_does_not_fit_is_refused_by_name(what):
    make, message = REFUSED[what]
    made = make()
    with pytest.raises(il.InputError, match=message):
        il.from_faiss(made)
