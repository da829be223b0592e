"""Quantization error, operations, effective length, and time ratios; docs/measures.md has the definitions."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from .._threads import thread_count
from ..codec.codebooks import Codebooks
from ..codec.encode import encode
from ..engine.hits import SearchStats
from ..errors import InputError
from ..inputs.arrays import FloatArray, Rows, describe, positive

BLOCK_ROWS = 16384


class QuantizationError(NamedTuple):
    """Result of :func:`quantization_error`."""

    error: float  #: mean over rows of the squared distance between a vector and its decoded code
    relative: float | None  #: error divided by the total variance of the rows; None if the variance is 0


def quantization_error(model: Any, x: Any, *, threads: int | None = None) -> QuantizationError:
    """Mean squared error of codes, absolute and as a share of the total variance.

    ``model`` is a fitted quantizer (anything with ``embed``, ``encode`` and ``decode``) or :class:`Codebooks`; x are
    its inputs. If there is an embedding, errors are those of embedded vectors: compare only shares between embeddings.
    The total variance is the mean squared distance of the vectors from their mean, so a single word at the mean has a
    share of 1. With the cosine metric vectors are normalized.
    """
    pairs = _coded(model, x, thread_count(threads)) if isinstance(model, Codebooks) else _coded_by_model(model, x)
    count, error, spread = 0, 0.0, 0.0
    mean: Any = 0.0
    for vectors, decoded in pairs:
        wide, n = vectors.astype(np.float64), len(vectors)
        error += float(((wide - decoded) ** 2).sum())
        # Update of the total variance from that of each block, without the cancellation of sums of squares.
        own = wide.mean(0)
        spread += float(((wide - own) ** 2).sum() + ((own - mean) ** 2).sum() * count * n / (count + n))
        mean = mean + (own - mean) * n / (count + n)
        count += n
    if not count:
        raise InputError(f"quantization_error needs at least one row, got {describe(x)}")
    return QuantizationError(error / count, error / spread if spread > 0 else None)


def _coded(codebooks: Codebooks, x: Any, threads: int) -> Iterator[tuple[FloatArray, FloatArray]]:
    start = 0
    for block in Rows(x, dim=codebooks.dim).blocks(BLOCK_ROWS):
        vectors = codebooks.metric_type.prepare(block, name="x", first_row=start)
        yield vectors, codebooks.decode(encode(codebooks, vectors, threads))
        start += len(block)


def _coded_by_model(model: Any, x: Any) -> Iterator[tuple[FloatArray, FloatArray]]:
    for name in ("embed", "encode", "decode"):
        if not callable(getattr(model, name, None)):
            raise InputError(f"model must be a fitted quantizer or Codebooks, got {describe(model)} without {name}")
    vectors, codes = model.embed(x), model.encode(x)
    if (codebooks := getattr(model, "codebooks_", None)) is not None:
        vectors = codebooks.metric_type.prepare(vectors, name="x")
    for start in range(0, len(vectors), BLOCK_ROWS):
        part = slice(start, start + BLOCK_ROWS)
        yield vectors[part], model.decode(codes[part])


def ops_per_vector(work: Any, codebooks: Any = None) -> float:
    """Table additions per query and database vector of a search (``Matches`` or its ``stats``): the paper's Ops.

    Without ``codebooks``, the additions of our search: one per visited cell, the crude columns of each scanned row, the
    other columns of each survivor. With ``codebooks`` (or an object with ``n_books`` and ``n_crude``), those of the
    paper's two-step search: every row costs all crude books, a survivor costs all books; K if everything survives. A
    first book with a single word (codebooks without cells) adds nothing and is not counted.
    """
    stats = getattr(work, "stats", work)
    if not isinstance(stats, SearchStats):
        raise InputError(f"work must be Matches or SearchStats, got {describe(work)}")
    if codebooks is None:
        return stats.ops_per_vector
    alone = int(isinstance(codebooks, Codebooks) and codebooks.n_cells == 1)
    return stats.two_step_ops(codebooks.n_books - alone, codebooks.n_crude - alone)


def effective_length(bits: float, ops: float, ops_reference: float) -> float:
    """Code length in bits at which the reference needs the same operations: ``bits * ops / ops_reference``.

    ``ops`` are the operations of a code of ``bits`` bits, ``ops_reference`` those of the reference at the same length.
    The paper's reference is supervised quantization with exhaustive search, which needs as many additions as books.
    """
    for name, value in (("bits", bits), ("ops", ops), ("ops_reference", ops_reference)):
        number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        if not number or not 0 < value < math.inf:
            raise InputError(f"{name} must be a number above 0, got {value!r}")
    return float(bits * ops / ops_reference)


class TimeRatio(NamedTuple):
    """Result of :func:`time_ratio`: medians in seconds and their ratio a / b; below 1, a is faster."""

    ratio: float
    seconds_a: float
    seconds_b: float


def time_ratio(
    a: Callable[[], Any], b: Callable[[], Any], rounds: int = 9, *, clock: Callable[[], float] = time.perf_counter
) -> TimeRatio:
    """Wall-clock time of ``a()`` divided by that of ``b()``: medians of ``rounds`` interleaved calls of each.

    Both are called once before the timing. In every other round b comes first, so that neither benefits from a
    changing machine speed or warm caches.
    """
    rounds = positive(rounds, "rounds")
    for name, call in (("a", a), ("b", b)):
        if not callable(call):
            raise InputError(f"{name} must be a function without arguments, got {describe(call)}")
        call()
    seconds: dict[bool, list[float]] = {False: [], True: []}
    for number in range(2 * rounds):
        second = number % 4 in (1, 2)  # a b, b a, a b, ...
        call = b if second else a
        started = clock()
        call()
        seconds[second].append(clock() - started)
    median_a, median_b = (float(np.median(seconds[which])) for which in (False, True))
    return TimeRatio(median_a / median_b if median_b > 0 else math.inf, median_a, median_b)
