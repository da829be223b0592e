"""To faiss and back: the same words and codes in the other library's index, nothing learned or coded anew.

- books on disjoint dimensions: ``IndexPQ``
- cells over all dimensions, then books on disjoint ones: ``IndexIVFPQ`` on residuals with every list visited
- other books that share dimensions: ``IndexResidualQuantizer`` (``IndexLocalSearchQuantizer`` too on the way back)
- rotation and mean: ``LinearTransform``, ``CenteringTransform``; the cosine metric: ``NormalizationTransform``
- int64 ids: ``IndexIDMap2`` round it all
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..codec.codebooks import MAX_WORDS, Book, Codebooks, Codes
from ..errors import InputError
from ..index.index import Index
from ..inputs.arrays import FloatArray, describe
from ..learn.schedule import default_crude

ROWS_AT_ONCE = 16384
BEAM = 8  # for rows added later, where faiss's own encoder has no beam


def to_faiss(index: Index) -> Any:
    """A faiss index with the words, codes and ids of ``index``; its exhaustive search gives our distances.

    Squared distances for l2; for ip and cosine faiss returns the score (``Matches.scores``), largest first. A norm
    column is left out: faiss gets exact lengths instead. String ids have no place in faiss and are refused. An
    embedding does not travel: queries for faiss must be embedded first, by ``index.embedding(queries)``.
    """
    faiss = _faiss("to_faiss")
    if not isinstance(index, Index):
        raise InputError(f"to_faiss needs an interlace Index, got {describe(index)}")
    if index.ids_of_rows.kind == "string":
        raise InputError(
            "this index has string ids, faiss knows int64 only; build it with int64 ids and keep the strings beside"
        )
    codebooks = index.codebooks
    stored = index.engine.codes_of(np.arange(len(index), dtype=np.int64))
    codes = stored[:, [0, *(1 + codebooks.columns.index(b) for b in range(1, codebooks.n_books))]]
    core, chain, packed = _core_of(faiss, codebooks, codes)
    outer = core
    if chain:
        outer = faiss.IndexPreTransform(core)
        for transform in reversed(chain):
            outer.prepend_transform(transform)
    named = None if index.ids_of_rows.kind == "default" else faiss.IndexIDMap2(outer)
    core.add_sa_codes(packed)  # below the wrappers, which would take vectors only; hence their counts by hand
    outer.ntotal = len(index)
    if named is None:
        return outer
    named.ntotal = len(index)
    faiss.copy_array_to_vector(np.ascontiguousarray(index.ids), named.id_map)
    named.construct_rev_map()
    return named


def from_faiss(faiss_index: Any) -> Index:
    """An Index with the words, codes and ids of a faiss index, distances as its exhaustive search gives them.

    Takes IndexPQ, IndexResidualQuantizer, IndexLocalSearchQuantizer and IndexIVFPQ (on residuals, at most 256 lists),
    with books of up to 8 bits, inside IndexPreTransform (orthonormal) and IndexIDMap. The margin is not calibrated, so
    that searches are exact until :meth:`Index.calibrate`.
    """
    faiss = _faiss("from_faiss")
    if not isinstance(faiss_index, faiss.Index):
        raise InputError(f"from_faiss needs a faiss index of float vectors, got {describe(faiss_index)}")
    core, chain, ids = _unwrapped(faiss, faiss_index)
    reader = _READERS.get(type(core).__name__)
    if reader is None:
        raise InputError(f"from_faiss takes {', '.join(_READERS)}, got {type(core).__name__}")
    if not core.is_trained:
        raise InputError(f"the {type(core).__name__} is not trained: it has no words yet")
    if core.metric_type not in (faiss.METRIC_L2, faiss.METRIC_INNER_PRODUCT):
        raise InputError(f"the metric must be METRIC_L2 or METRIC_INNER_PRODUCT, got number {core.metric_type}")
    found = reader(faiss, core)
    frame = _Frame.of(faiss, chain, faiss_index.d, l2=core.metric_type == faiss.METRIC_L2)
    if ids is not None and found.ids is not None:
        raise InputError("an IndexIVFPQ inside an IndexIDMap must have the ids 0, 1, 2, ..., got others")
    return _assembled(found, frame, found.ids if ids is None else ids)


def _faiss(caller: str) -> Any:
    try:
        return importlib.import_module("faiss")
    except ImportError as error:
        raise InputError(f"{caller} needs faiss: pip install 'interlace[faiss]'") from error


def _disjoint(books: list[Book]) -> bool:
    return len(np.unique(np.concatenate([b.support for b in books]))) == sum(len(b.support) for b in books)


# ---------------------------------------------------------------------------------------------------------- to faiss


def _core_of(faiss: Any, codebooks: Codebooks, codes: Codes) -> tuple[Any, list[Any], NDArray[np.uint8]]:
    """The index that will hold the codes, the transforms before it, and the codes as it packs them."""
    chain, shift = _transforms(faiss, codebooks)
    books = list(codebooks.books)
    cells = not _disjoint(books)
    if not _disjoint(books[cells:]):
        l2 = codebooks.metric == "l2"
        return _additive(faiss, codebooks, shift), chain, np.hstack([codes, _lengths(books, codes)]) if l2 else codes
    # In the order of their dimensions, which from_faiss changed: the way there and back gives the same codes.
    order = sorted(range(cells, len(books)), key=lambda b: int(books[b].support.min(initial=codebooks.dim)))
    order = [*range(cells), *order]
    books, codes = [books[b] for b in order], codes[:, order]
    slots = _slots(codebooks.dim, books[cells:])
    if not np.array_equal(slots.ravel(), np.arange(codebooks.dim)):
        remap = faiss.RemapDimensionsTransform(codebooks.dim, slots.size, False)
        faiss.copy_array_to_vector(slots.ravel().astype(np.int32), remap.map)
        chain.append(remap)
    if not cells:
        return _product(faiss, codebooks, books, slots, shift), chain, codes
    core = _ivf(faiss, codebooks, books, slots, shift)
    return core, chain, codes[:, 1 - core.coarse_code_size() :]  # a single list needs no number


def _transforms(faiss: Any, codebooks: Codebooks) -> tuple[list[Any], FloatArray]:
    """What a vector goes through before the books, and what is added to the words instead.

    The mean is taken off vectors for l2. An inner product needs it in the words: faiss treats queries like rows, and
    q.(mean + w) is not (q - mean).w.
    """
    dim, rotation, mean = codebooks.dim, codebooks.rotation, codebooks.mean
    rotated = mean if rotation is None else np.asarray(mean.astype(np.float64) @ rotation, np.float32)
    l2 = codebooks.metric == "l2"
    chain: list[Any] = [faiss.NormalizationTransform(dim, 2.0)] if codebooks.metric == "cosine" else []
    if rotation is not None:
        turn = faiss.LinearTransform(dim, dim, bool(l2 and mean.any()))
        faiss.copy_array_to_vector(np.ascontiguousarray(rotation.T).ravel(), turn.A)
        if turn.have_bias:
            faiss.copy_array_to_vector(-rotated, turn.b)
        turn.is_trained = True
        turn.set_is_orthonormal()
        chain.append(turn)
    elif l2 and mean.any():
        centre = faiss.CenteringTransform(dim)
        faiss.copy_array_to_vector(mean, centre.mean)
        centre.is_trained = True
        chain.append(centre)
    return chain, np.zeros(dim, np.float32) if l2 else rotated


def _dense(codebooks: Codebooks, book: Book) -> FloatArray:
    """Words over all dimensions [256, dim]. The last one fills up: a copy of a word changes no distance."""
    words = np.zeros((MAX_WORDS, codebooks.dim), np.float32)
    words[:, book.support] = book.words[np.minimum(np.arange(MAX_WORDS), len(book.words) - 1)]
    return words


def _slots(dim: int, books: list[Book]) -> NDArray[np.int64]:
    """Dimensions of each book [n_books, width], filled up with -1 to equal width as faiss wants them.

    Dimensions that none of them codes count in distances too: they go where there is room, with words that are 0 there.
    """
    blocks = [book.support.astype(np.int64).tolist() for book in books]
    for free in sorted(set(range(dim)) - {d for block in blocks for d in block}):
        min(blocks, key=len).append(free)
    width = max(len(block) for block in blocks)
    return np.array([block + [-1] * (width - len(block)) for block in blocks], np.int64)


def _at(slots: NDArray[np.int64], words: FloatArray) -> FloatArray:
    """Words [n_words, dim] in the dimensions of faiss, 0 where it fills up."""
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
    core.nprobe = codebooks.n_cells  # our search, too, rules a cell out by its bound alone
    return core


def _additive(faiss: Any, codebooks: Codebooks, shift: FloatArray) -> Any:
    """For l2 with the squared length of the coded vector beside its code; decoding every row would be far slower."""
    words = np.stack([_dense(codebooks, book) for book in codebooks.books])
    words[0] += shift
    types = faiss.AdditiveQuantizer
    search_type = types.ST_norm_float if codebooks.metric == "l2" else types.ST_LUT_nonorm
    core = faiss.IndexResidualQuantizer(codebooks.dim, len(words), 8, _metric(faiss, codebooks), search_type)
    faiss.copy_array_to_vector(words.ravel(), core.rq.codebooks)
    core.rq.max_beam_size = codebooks.beam
    core.rq.train_type |= core.rq.Skip_codebook_tables  # else reading a file makes tables of (256 books)^2 / 2 floats
    core.rq.is_trained = core.is_trained = True
    return core


def _lengths(books: list[Book], codes: Codes) -> NDArray[np.uint8]:
    """Squared lengths of the sums of words as the four bytes of a float, uint8 [n, 4]."""
    squares = [np.einsum("ij,ij->i", sums, sums, dtype=np.float64) for _, sums in _sums(books, codes)]
    return np.concatenate([np.zeros(0), *squares]).astype("<f4").view(np.uint8).reshape(-1, 4)


def _metric(faiss: Any, codebooks: Codebooks) -> Any:
    return faiss.METRIC_L2 if codebooks.metric == "l2" else faiss.METRIC_INNER_PRODUCT


# -------------------------------------------------------------------------------------------------------- from faiss


@dataclass(frozen=True)
class _Found:
    """Words [n_words, len(dims)] on ``dims`` of each book, and codes uint8 [n, n_books]; ids None for 0, 1, 2, ..."""

    words: list[FloatArray]
    dims: list[NDArray[np.int64]]
    codes: Codes
    beam: int
    ids: NDArray[np.int64] | None = None


def _unwrapped(faiss: Any, index: Any) -> tuple[Any, list[Any], NDArray[np.int64] | None]:
    """The index that holds the codes, the transforms round it in their order, and the ids round it."""
    chain: list[Any] = []
    ids: NDArray[np.int64] | None = None
    while True:
        index = faiss.downcast_index(index)
        if type(index) in (faiss.IndexIDMap, faiss.IndexIDMap2):
            if ids is not None:
                raise InputError("an IndexIDMap inside an IndexIDMap has two ids for a row")
            ids = np.array(faiss.vector_to_array(index.id_map), np.int64)
        elif type(index) is faiss.IndexPreTransform:
            chain += [faiss.downcast_VectorTransform(index.chain.at(i)) for i in range(index.chain.size())]
        else:
            return index, chain, ids
        index = index.index


def _unpacked(faiss: Any, packed: NDArray[np.uint8], bits: list[int]) -> Codes:
    """Bit strings [n, code_size] -> codes [n, n_books]; what follows the codes (a norm) is left."""
    if max(bits) > 8:
        raise InputError(f"a book of {max(bits)} bits has more than {MAX_WORDS} words; books of 1 to 8 bits are taken")
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
    """The centroids of the lists make the cells, the product quantizer codes what they leave: our ``hybrid``."""
    if not core.by_residual:
        raise InputError("the IndexIVFPQ has by_residual=False; only codes of residuals add up with their centroid")
    if core.nlist > MAX_WORDS:
        raise InputError(f"the IndexIVFPQ has {core.nlist} lists; a first book holds at most {MAX_WORDS} words")
    quantizer = faiss.downcast_index(core.quantizer)
    if not isinstance(quantizer, faiss.IndexFlat):
        raise InputError(f"the IndexIVFPQ needs a flat quantizer, got {type(quantizer).__name__}")
    get_invlist = importlib.import_module("faiss.contrib.inspect_tools").get_invlist
    lists = [get_invlist(core.invlists, i) for i in range(core.nlist)]
    ids = np.concatenate([found for found, _ in lists])
    packed = np.concatenate([found for _, found in lists])
    cells = np.repeat(np.arange(core.nlist, dtype=np.uint8), [len(found) for found, _ in lists])
    order = np.argsort(ids, kind="stable")  # the order of insertion is not kept; for ids that were counted it is this
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


@dataclass(frozen=True)
class _Frame:
    """What a chain of transforms amounts to: y = (x - mean) R on the dimensions ``kept``, 0 on the others."""

    metric: str
    mean: FloatArray
    rotation: FloatArray | None
    kept: NDArray[np.bool_]

    @classmethod
    def of(cls, faiss: Any, chain: list[Any], dim: int, *, l2: bool) -> _Frame:
        names = " + ".join(type(transform).__name__ for transform in chain)
        normalized = bool(chain) and type(chain[0]) is faiss.NormalizationTransform
        if normalized and (l2 or chain[0].norm != 2):
            raise InputError("NormalizationTransform is taken with norm 2 and METRIC_INNER_PRODUCT: the cosine metric")
        matrix, bias = np.eye(dim), np.zeros(dim)
        for transform in chain[normalized:]:
            step, offset = _affine(faiss, transform)
            matrix, bias = step @ matrix, step @ bias + offset
        kept = np.asarray(matrix.any(1), np.bool_)
        turn = matrix[kept]
        if turn.shape != (dim, dim) or np.abs(turn @ turn.T - np.eye(dim)).max() > 1e-3:
            raise InputError(f"{names} does not keep distances: an orthonormal map of all {dim} dimensions is needed")
        if bias[~kept].any() or (bias.any() and not l2):
            raise InputError(f"{names} adds a constant, which {'no word can hold' if l2 else 'changes inner products'}")
        return cls(
            "l2" if l2 else "cosine" if normalized else "ip",
            np.asarray(-np.linalg.solve(turn, bias[kept]) + 0.0, np.float32),
            None if np.array_equal(turn, np.eye(dim)) else np.asarray(turn.T, np.float32),
            kept,
        )

    def book(self, words: FloatArray, dims: NDArray[np.int64]) -> Book:
        inside = self.kept[dims]
        if words[:, ~inside].any():
            raise InputError("words are not 0 on dimensions that the transform leaves at 0; they change every distance")
        return Book(words[:, inside], (np.cumsum(self.kept) - 1)[dims[inside]].astype(np.uint32))


def _affine(faiss: Any, transform: Any) -> tuple[NDArray[np.float64], NDArray[np.float64] | float]:
    """Matrix [d_out, d_in] and constant of one transform."""
    if not transform.is_trained:
        raise InputError(f"the {type(transform).__name__} is not trained")
    rows, columns = transform.d_out, transform.d_in
    if isinstance(transform, faiss.LinearTransform):
        matrix = faiss.vector_to_array(transform.A)[: rows * columns].reshape(rows, columns).astype(np.float64)
        return matrix, faiss.vector_to_array(transform.b)[:rows].astype(np.float64) if transform.have_bias else 0.0
    if isinstance(transform, faiss.CenteringTransform):
        return np.eye(rows), -faiss.vector_to_array(transform.mean).astype(np.float64)
    if isinstance(transform, faiss.RemapDimensionsTransform):
        source = faiss.vector_to_array(transform.map)
        return (source[:, None] == np.arange(columns)).astype(np.float64), 0.0
    raise InputError(
        f"{type(transform).__name__} is not taken here; LinearTransform and its kinds, CenteringTransform and "
        "RemapDimensionsTransform are, and NormalizationTransform in first place"
    )


def _assembled(found: _Found, frame: _Frame, ids: NDArray[np.int64] | None) -> Index:
    books = [frame.book(words, dims) for words, dims in zip(found.words, found.dims, strict=True)]
    codes, cells = found.codes, not _disjoint(books)
    product = _disjoint(books[cells:])
    if product:  # the widest spread first: it rules most rows out
        order = sorted(range(cells, len(books)), key=lambda b: -_spread(books[b], codes[:, b]))
        order = [*range(cells), *order]
        books, codes = [books[b] for b in order], codes[:, order]
    # As our own layouts have it: all additive books are crude, the second step adds their cross terms.
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
        residual_variance=_unseen_variance(books[n_crude:], codes[:, n_crude:]),
    )
    return Index.from_codes(codebooks, codes, ids)  # without norms, columns are the books in their order


def _sums(books: list[Book], codes: Codes) -> Iterator[tuple[int, FloatArray]]:
    """First row and sums of words float32 [rows, dims] of blocks of rows."""
    width = 1 + max((int(book.support.max(initial=0)) for book in books), default=0)
    for start in range(0, len(codes), ROWS_AT_ONCE):
        part = codes[start : start + ROWS_AT_ONCE]
        total = np.zeros((len(part), width), np.float32)
        for j, book in enumerate(books):
            total[:, book.support] += book.words[part[:, j]]
        yield start, total


def _spread(book: Book, codes: Codes) -> float:
    """Variance of a book's words as the rows use them; all alike where there are no rows."""
    uses = np.bincount(codes, minlength=len(book.words)) + (len(codes) == 0)
    centred = book.words - np.average(book.words, axis=0, weights=uses)
    return float(np.average((centred**2).sum(1), weights=uses))


def _unseen_variance(books: list[Book], codes: Codes) -> float:
    """Variance of what the books after the crude ones add, over the rows: the paper's sigma."""
    blocks = [
        (total.sum(0, dtype=np.float64), (total.astype(np.float64) ** 2).sum()) for _, total in _sums(books, codes)
    ]
    if not blocks:
        return 0.0
    mean = sum(first for first, _ in blocks) / len(codes)
    return max(0.0, float(sum(second for _, second in blocks) / len(codes) - (mean**2).sum()))
