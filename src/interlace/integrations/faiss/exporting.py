"""``to_faiss``: the faiss index that sums the same words for the same codes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...codec.codebooks import Book, Codebooks
from ...errors import InputError
from ...index.index import Index
from ...inputs.arrays import FloatArray, describe
from .common import disjoint, faiss_module, word_sums
from .transforms import transforms_of

Numbers = NDArray[np.int64]  #: codes with the number of the cell in one column, [n, n_books]


def to_faiss(index: Index) -> Any:
    """A faiss index with the words, codes and ids of ``index``; its exhaustive search gives our distances.

    Squared distances for l2; for ip faiss returns the score (``Matches.scores``), largest first. For cosine it ranks
    rows as we do, by squared distances f, with our distances s f / 2 - (s - 1)^2 / (2 s), where s is
    ``index.codebooks.metric_type.query_length``: there words are divided by s, so faiss cannot encode new rows. A norm
    column is not exported: faiss gets exact squared lengths instead. faiss has no string ids, so they are refused. An
    embedding is not exported either: embed queries with ``index.embedding(queries)`` first.
    """
    faiss = faiss_module("to_faiss")
    if not isinstance(index, Index):
        raise InputError(f"to_faiss needs an interlace Index, got {describe(index)}")
    if index.ids_of_rows.kind == "string":
        raise InputError(
            "to_faiss needs int64 ids, this index has string ids; build it with int64 ids and map them to your strings"
        )
    codebooks = _divided(index.codebooks)
    stored = index.codebooks.code_numbers(index.engine.codes_of(index.engine.kept_rows()))
    columns = index.codebooks.columns
    codes = stored[:, [0, *(1 + columns.index(b) for b in range(1, codebooks.n_books))]]
    core, chain, packed = _core_of(faiss, codebooks, codes)
    outer = core
    if chain:
        outer = faiss.IndexPreTransform(core)
        for transform in reversed(chain):
            outer.prepend_transform(transform)
    named = None if index.ids_of_rows.kind == "default" else faiss.IndexIDMap2(outer)
    core.add_sa_codes(packed)  # the wrappers only add vectors, so codes go to the core and ntotal is set by hand
    outer.ntotal = len(index)
    if named is None:
        return outer
    named.ntotal = len(index)
    faiss.copy_array_to_vector(np.ascontiguousarray(index.ids), named.id_map)
    named.construct_rev_map()
    return named


def _divided(codebooks: Codebooks) -> Codebooks:
    """For queries of length 1 instead of s: everything divided by s, without norms."""
    s = np.float32(codebooks.metric_type.query_length)
    if s == 1:
        return codebooks
    return Codebooks(
        [Book(book.words / s, book.support) for book in codebooks.books],
        dim=codebooks.dim,
        n_crude=codebooks.n_crude,
        metric=codebooks.metric,
        mean=codebooks.mean / s,
        rotation=codebooks.rotation,
        beam=codebooks.beam,
    )


def _core_of(faiss: Any, codebooks: Codebooks, codes: Numbers) -> tuple[Any, list[Any], NDArray[np.uint8]]:
    """The empty faiss index for the codes, the transforms before it, and the codes in its packing."""
    chain, shift = transforms_of(faiss, codebooks)
    books = list(codebooks.books)
    cells = not disjoint(books)
    if not disjoint(books[cells:]):
        return _additive(faiss, codebooks, shift), chain, _additive_codes(faiss, codebooks, codes)
    # Books in order of their dimensions: from_faiss reordered them, so a round trip restores the original codes.
    order = sorted(range(cells, len(books)), key=lambda b: int(books[b].support.min(initial=codebooks.dim)))
    order = [*range(cells), *order]
    books, codes = [books[b] for b in order], codes[:, order]
    slots = _slots(codebooks.dim, books[cells:])
    if not np.array_equal(slots.ravel(), np.arange(codebooks.dim)):
        remap = faiss.RemapDimensionsTransform(codebooks.dim, slots.size, False)
        faiss.copy_array_to_vector(slots.ravel().astype(np.int32), remap.map)
        chain.append(remap)
    if not cells:
        return _product(faiss, codebooks, books, slots, shift), chain, codes.astype(np.uint8)
    core = _ivf(faiss, codebooks, books, slots, shift)
    width = core.coarse_code_size()  # bytes of the number of a list, low ones first; a single list has none
    lists = codes[:, 0].astype("<u8").view(np.uint8).reshape(-1, 8)[:, :width]
    return core, chain, np.hstack([lists, codes[:, 1:].astype(np.uint8)])


def _dense(codebooks: Codebooks, book: Book) -> FloatArray:
    """Words over all dimensions [2^n, dim], n >= 8, padded with copies of the last word, which change no distance."""
    n = 1 << _bits(book)
    words = np.zeros((n, codebooks.dim), np.float32)
    words[:, book.support] = book.words[np.minimum(np.arange(n), len(book.words) - 1)]
    return words


def _bits(book: Book) -> int:
    """Bits of the number of a word in faiss: 8, or more for many cells."""
    return max(8, (len(book.words) - 1).bit_length())


def _slots(dim: int, books: list[Book]) -> NDArray[np.int64]:
    """Dimensions of each book [n_books, width], padded with -1 to the equal width that faiss requires.

    Dimensions that no book covers still count in distances: they are appended to the narrowest books, whose words are 0
    there.
    """
    blocks = [book.support.astype(np.int64).tolist() for book in books]
    for free in sorted(set(range(dim)) - {d for block in blocks for d in block}):
        min(blocks, key=len).append(free)
    width = max(len(block) for block in blocks)
    return np.array([block + [-1] * (width - len(block)) for block in blocks], np.int64)


def _at(slots: NDArray[np.int64], words: FloatArray) -> FloatArray:
    """Words [n_words, dim] in the dimensions of ``slots``, 0 on padding."""
    return np.where(slots >= 0, words[:, slots], np.float32(0))


def _product(faiss: Any, codebooks: Codebooks, books: list[Book], slots: NDArray[np.int64], shift: FloatArray) -> Any:
    core = faiss.IndexPQ(slots.size, len(slots), 8, _metric(faiss, codebooks))
    words = [_at(row, _dense(codebooks, book) + shift) for row, book in zip(slots, books, strict=True)]
    faiss.copy_array_to_vector(np.stack(words).ravel(), core.pq.centroids)
    core.is_trained = True
    return core


def _ivf(faiss: Any, codebooks: Codebooks, books: list[Book], slots: NDArray[np.int64], shift: FloatArray) -> Any:
    metric = _metric(faiss, codebooks)
    cells = _at(slots.ravel(), _dense(codebooks, codebooks.books[0])[: codebooks.n_cells] + shift)
    quantizer = faiss.IndexFlat(slots.size, metric)
    quantizer.add(cells)
    core = faiss.IndexIVFPQ(quantizer, slots.size, codebooks.n_cells, len(slots), 8, metric)
    words = [_at(row, _dense(codebooks, book)) for row, book in zip(slots, books[1:], strict=True)]
    faiss.copy_array_to_vector(np.stack(words).ravel(), core.pq.centroids)
    core.by_residual = core.is_trained = True
    core.precompute_table()
    core.nprobe = codebooks.n_cells  # exhaustive, like our search
    return core


def _additive(faiss: Any, codebooks: Codebooks, shift: FloatArray) -> Any:
    """An IndexResidualQuantizer; for l2 with stored squared lengths, which is much faster than decoding every row."""
    words = [_dense(codebooks, book) for book in codebooks.books]
    words[0] += shift
    types, bits = faiss.AdditiveQuantizer, faiss.UInt64Vector()
    for book in codebooks.books:
        bits.push_back(_bits(book))
    search_type = types.ST_norm_float if codebooks.metric_type.is_squared else types.ST_LUT_nonorm
    core = faiss.IndexResidualQuantizer(codebooks.dim, bits, _metric(faiss, codebooks), search_type)
    faiss.copy_array_to_vector(np.concatenate(words).ravel(), core.rq.codebooks)
    core.rq.max_beam_size = codebooks.beam
    core.rq.train_type |= core.rq.Skip_codebook_tables  # otherwise reading a file computes (256 n_books)^2 / 2 floats
    core.rq.is_trained = core.is_trained = True
    return core


def _additive_codes(faiss: Any, codebooks: Codebooks, codes: Numbers) -> NDArray[np.uint8]:
    """Codes in the bits of faiss, followed by the squared length for l2."""
    books = list(codebooks.books)
    entries, bits = codes.astype(np.int32), [_bits(book) for book in books]
    if codebooks.metric_type.is_squared:
        lengths = _lengths(books, codes)
        entries, bits = np.hstack([entries, lengths.astype(np.int32)]), bits + [8] * lengths.shape[1]
    if not len(codes):
        return np.empty((0, (sum(bits) + 7) // 8), np.uint8)
    return np.asarray(faiss.pack_bitstrings(entries, bits))


def _lengths(books: list[Book], codes: Numbers) -> NDArray[np.uint8]:
    """Squared lengths of the decoded rows as the four bytes of a float, uint8 [n, 4]."""
    squares = [np.einsum("ij,ij->i", sums, sums, dtype=np.float64) for sums in word_sums(books, codes)]
    return np.concatenate([np.zeros(0), *squares]).astype("<f4").view(np.uint8).reshape(-1, 4)


def _metric(faiss: Any, codebooks: Codebooks) -> Any:
    return faiss.METRIC_L2 if codebooks.metric_type.is_squared else faiss.METRIC_INNER_PRODUCT
