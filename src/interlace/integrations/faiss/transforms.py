"""Mean and rotation of the codebooks as transforms of faiss, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...codec.codebooks import Book, Codebooks
from ...codec.metric import COSINE_BY_PRODUCTS, METRICS, Metric
from ...errors import InputError
from ...inputs.arrays import FloatArray


def transforms_of(faiss: Any, codebooks: Codebooks) -> tuple[list[Any], FloatArray]:
    """The faiss transforms of a vector, and the shift float32 [dim] to add to the words of one book.

    For l2, the mean is subtracted from vectors and the shift is 0. For inner products, the mean is the shift: faiss
    transforms queries like rows, and q.(mean + w) is not (q - mean).w.
    """
    dim, rotation, mean = codebooks.dim, codebooks.rotation, codebooks.mean
    l2 = codebooks.metric_type.is_squared
    chain: list[Any] = [faiss.NormalizationTransform(dim, 2.0)] if codebooks.metric_type.is_normalized else []
    if l2 and mean.any():
        centre = faiss.CenteringTransform(dim)
        faiss.copy_array_to_vector(mean, centre.mean)
        centre.is_trained = True
        chain.append(centre)
    if rotation is not None:
        turn = faiss.LinearTransform(dim, dim, False)
        faiss.copy_array_to_vector(np.ascontiguousarray(rotation.T).ravel(), turn.A)
        turn.is_trained = True
        turn.is_orthonormal = True  # to 1e-3, which Codebooks checks; faiss wants 4e-5 to turn codes back
        chain.append(turn)
    if l2:
        return chain, np.zeros(dim, np.float32)
    return chain, mean if rotation is None else np.asarray(mean.astype(np.float64) @ rotation, np.float32)


@dataclass(frozen=True)
class Frame:
    """A chain of faiss transforms as one map: y = (x - mean) R on the dimensions ``kept``, 0 on the others."""

    metric: Metric
    mean: FloatArray
    rotation: FloatArray | None
    kept: NDArray[np.bool_]

    @classmethod
    def of(cls, faiss: Any, chain: list[Any], dim: int, *, l2: bool) -> Frame:
        """Of ``chain``, whose first transform takes ``dim`` dimensions; refused unless it preserves distances."""
        names = " + ".join(type(transform).__name__ for transform in chain)
        normalized = bool(chain) and type(chain[0]) is faiss.NormalizationTransform
        if normalized and chain[0].norm != 2:
            raise InputError(
                f"NormalizationTransform is supported with norm 2 (the cosine metric), got norm {chain[0].norm:g}"
            )
        cosine = METRICS["cosine"] if l2 else COSINE_BY_PRODUCTS
        matrix, bias = np.eye(dim), np.zeros(dim)
        for transform in chain[normalized:]:
            step, offset = _affine(faiss, transform)
            matrix, bias = step @ matrix, step @ bias + offset
        kept = np.asarray(matrix.any(1), np.bool_)
        turn = matrix[kept]
        if turn.shape != (dim, dim) or np.abs(turn @ turn.T - np.eye(dim)).max() > 1e-3:
            raise InputError(f"{names} does not preserve distances: it must map all {dim} dimensions orthonormally")
        if bias[~kept].any() or (bias.any() and not l2):
            why = "on padding dimensions, which the books do not cover" if l2 else "which changes inner products"
            raise InputError(f"{names} adds a constant {why}")
        return cls(
            cosine if normalized else METRICS["l2" if l2 else "ip"],
            np.asarray(-np.linalg.solve(turn, bias[kept]) + 0.0, np.float32),
            None if np.array_equal(turn, np.eye(dim)) else np.asarray(turn.T, np.float32),
            kept,
        )

    def book(self, words: FloatArray, dims: NDArray[np.int64]) -> Book:
        """The book of ``words`` [n_words, len(dims)] on the output dimensions ``dims`` of the chain."""
        inside = self.kept[dims]
        if words[:, ~inside].any():
            raise InputError("words must be 0 on the padding dimensions of the transform, otherwise distances change")
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
        f"{type(transform).__name__} is not supported here; use LinearTransform and its subclasses, CenteringTransform "
        "or RemapDimensionsTransform, and NormalizationTransform as the first one"
    )
