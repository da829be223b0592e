"""``from_faiss``: an index of the words, codes and ids of a faiss index."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...codec.codebooks import MAX_WORDS, Book, Codebooks, Codes
from ...errors import InputError
from ...index.index import Index
from ...inputs.arrays import FloatArray, describe
from ...learn.schedule import default_crude
from .common import disjoint, faiss_module, word_sums
from .transforms import Frame

BEAM = 8  # of rows added later, where the encoder of faiss has no beam


def from_faiss(faiss_index: Any) -> Index:
    """An Index with the words, codes and ids of a faiss index, and the distances of its exhaustive search.

    Supports IndexPQ, IndexResidualQuantizer, IndexLocalSearchQuantizer and IndexIVFPQ (on residuals, at most 256
    lists), with books of up to 8 bits, inside IndexPreTransform (orthonormal) and IndexIDMap. The margin is not
    calibrated: searches are exact until :meth:`Index.calibrate`.
    """
    faiss = faiss_module("from_faiss")
    if not isinstance(faiss_index, faiss.Index):
        raise InputError(f"from_faiss needs a faiss index of float vectors, got {describe(faiss_index)}")
    core, chain, ids = _unwrapped(faiss, faiss_index)
    reader = _READERS.get(type(core).__name__)
    if reader is None:
        raise InputError(f"from_faiss supports {', '.join(_READERS)}, got {type(core).__name__}")
    if not core.is_trained:
        raise InputError(f"the {type(core).__name__} is not trained: train it and add vectors first")
    if core.metric_type not in (faiss.METRIC_L2, faiss.METRIC_INNER_PRODUCT):
        raise InputError(f"the metric must be METRIC_L2 or METRIC_INNER_PRODUCT, got metric_type {core.metric_type}")
    found = reader(faiss, core)
    frame = Frame.of(faiss, chain, faiss_index.d, l2=core.metric_type == faiss.METRIC_L2)
    if ids is not None and found.ids is not None:
        raise InputError("an IndexIVFPQ inside an IndexIDMap must have the ids 0, 1, 2, ...; its lists have others")
    return _assembled(found, frame, found.ids if ids is None else ids)


@dataclass(frozen=True)
class _Found:
    """Words [n_words, len(dims)] on ``dims`` of each book, and codes uint8 [n, n_books]; ids None for 0, 1, 2, ..."""

    words: list[FloatArray]
    dims: list[NDArray[np.int64]]
    codes: Codes
    beam: int
    ids: NDArray[np.int64] | None = None


def _unwrapped(faiss: Any, index: Any) -> tuple[Any, list[Any], NDArray[np.int64] | None]:
    """The inner index, which holds the codes, the transforms in the order they apply, and the ids of an IndexIDMap."""
    chain: list[Any] = []
    ids: NDArray[np.int64] | None = None
    while True:
        index = faiss.downcast_index(index)
        if type(index) in (faiss.IndexIDMap, faiss.IndexIDMap2):
            if ids is not None:
                raise InputError("an IndexIDMap inside an IndexIDMap gives each row two ids; remove one of them")
            ids = np.array(faiss.vector_to_array(index.id_map), np.int64)
        elif type(index) is faiss.IndexPreTransform:
            chain += [faiss.downcast_VectorTransform(index.chain.at(i)) for i in range(index.chain.size())]
        else:
            return index, chain, ids
        index = index.index


def _unpacked(faiss: Any, packed: NDArray[np.uint8], bits: list[int]) -> Codes:
    """Bit strings [n, code_size] -> codes [n, n_books]; a norm after the codes is ignored."""
    if max(bits) > 8:
        raise InputError(f"books must have 1 to 8 bits ({MAX_WORDS} words), got one of {max(bits)} bits")
    if len(packed) == 0:
        return np.empty((0, len(bits)), np.uint8)
    return np.asarray(faiss.unpack_bitstrings(np.ascontiguousarray(packed), bits), np.uint8)


def _flat_codes(faiss: Any, core: Any) -> NDArray[np.uint8]:
    return np.asarray(faiss.vector_to_array(core.codes), np.uint8).reshape(core.ntotal, core.code_size)


def _product_words(faiss: Any, pq: Any) -> tuple[list[FloatArray], list[NDArray[np.int64]]]:
    words = np.array(faiss.vector_to_array(pq.centroids)).reshape(pq.M, pq.ksub, pq.dsub)
    return list(words), list(np.arange(pq.d).reshape(pq.M, pq.dsub))


def _read_pq(faiss: Any, core: Any) -> _Found:
    codes = _unpacked(faiss, _flat_codes(faiss, core), [core.pq.nbits] * core.pq.M)
    return _Found(*_product_words(faiss, core.pq), codes, beam=1)


def _read_additive(faiss: Any, core: Any) -> _Found:
    quantizer = core.aq
    bits = [int(b) for b in faiss.vector_to_array(quantizer.nbits)]
    codes = _unpacked(faiss, _flat_codes(faiss, core), bits)
    words = np.array(faiss.vector_to_array(quantizer.codebooks)).reshape(-1, core.d)
    starts = np.cumsum([0, *(1 << b for b in bits)])
    books = [words[a:b] for a, b in zip(starts[:-1], starts[1:], strict=True)]
    beam = core.rq.max_beam_size if hasattr(core, "rq") else BEAM
    return _Found(books, [np.arange(core.d)] * len(books), codes, beam=beam)


def _read_ivf(faiss: Any, core: Any) -> _Found:
    """The layout ``hybrid``: list centroids are the words of the first book, the PQ codes the residuals."""
    if not core.by_residual:
        raise InputError("the IndexIVFPQ must code residuals (by_residual=True), got by_residual=False")
    if core.nlist > MAX_WORDS:
        raise InputError(f"the IndexIVFPQ has {core.nlist} lists; at most {MAX_WORDS} are supported")
    quantizer = faiss.downcast_index(core.quantizer)
    if not isinstance(quantizer, faiss.IndexFlat):
        raise InputError(f"the IndexIVFPQ needs a flat quantizer, got {type(quantizer).__name__}")
    get_invlist = importlib.import_module("faiss.contrib.inspect_tools").get_invlist
    lists = [get_invlist(core.invlists, i) for i in range(core.nlist)]
    ids = np.concatenate([found for found, _ in lists])
    packed = np.concatenate([found for _, found in lists])
    cells = np.repeat(np.arange(core.nlist, dtype=np.uint8), [len(found) for found, _ in lists])
    order = np.argsort(ids, kind="stable")  # insertion order is not stored; for default ids it is this
    ids = ids[order]
    codes = np.column_stack([cells, _unpacked(faiss, packed, [core.pq.nbits] * core.pq.M)])[order]
    words, dims = _product_words(faiss, core.pq)
    return _Found(
        [np.asarray(quantizer.reconstruct_n(0, core.nlist), np.float32), *words],
        [np.arange(core.d), *dims],
        codes,
        beam=BEAM,
        ids=None if np.array_equal(ids, np.arange(len(ids))) else ids,
    )


_READERS = {
    "IndexPQ": _read_pq,
    "IndexResidualQuantizer": _read_additive,
    "IndexLocalSearchQuantizer": _read_additive,
    "IndexIVFPQ": _read_ivf,
}


def _assembled(found: _Found, frame: Frame, ids: NDArray[np.int64] | None) -> Index:
    books = [frame.book(words, dims) for words, dims in zip(found.words, found.dims, strict=True)]
    codes, cells = found.codes, not disjoint(books)
    product = disjoint(books[cells:])
    if product:  # the largest variance first: it prunes best
        order = sorted(range(cells, len(books)), key=lambda b: -_spread(books[b], codes[:, b]))
        order = [*range(cells), *order]
        books, codes = [books[b] for b in order], codes[:, order]
    # As in our own layouts: all additive books are crude, and the second step adds their cross terms.
    n_crude = default_crude(len(books)) if product else len(books)
    codebooks = Codebooks(
        books,
        dim=len(frame.mean),
        n_crude=n_crude,
        metric=frame.metric,
        mean=frame.mean,
        rotation=frame.rotation,
        beam=min(found.beam, MAX_WORDS),
        crude_dims=np.unique(np.concatenate([np.zeros(0, np.uint32), *(b.support for b in books[cells:n_crude])])),
        residual_variance=_remaining_variance(books[n_crude:], codes[:, n_crude:]),
    )
    return Index.from_codes(codebooks, codes, ids)  # without norms, column j is book j


def _spread(book: Book, codes: Codes) -> float:
    """Variance of a book's words, weighted by how many rows use each; uniform weights without rows."""
    uses = np.bincount(codes, minlength=len(book.words)) + (len(codes) == 0)
    centred = book.words - np.average(book.words, axis=0, weights=uses)
    return float(np.average((centred**2).sum(1), weights=uses))


def _remaining_variance(books: list[Book], codes: Codes) -> float:
    """Variance over the rows of the sum of the remaining (not crude) books: the paper's sigma."""
    blocks = [
        (total.sum(0, dtype=np.float64), (total.astype(np.float64) ** 2).sum()) for total in word_sums(books, codes)
    ]
    if not blocks:
        return 0.0
    mean = sum(first for first, _ in blocks) / len(codes)
    return max(0.0, float(sum(second for _, second in blocks) / len(codes) - (mean**2).sum()))
