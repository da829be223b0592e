"""What every embedding does, and the one that changes nothing."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..._threads import cached_property
from ...errors import InputError
from ...inputs.arrays import LARGEST, FloatArray, Rows, describe, positive

Arrays = dict[str, NDArray[Any]]

#: Values of a block of rows in the widest layer: 16 MB.
BLOCK_VALUES = 1 << 22


class Embedding:
    """A function from inputs of ``input_shape`` to float32 vectors of ``dim`` dimensions; it never changes."""

    kind: ClassVar[str]

    def __init__(self, input_shape: Any, dim: int) -> None:
        if not isinstance(input_shape, Sequence) or not input_shape:
            raise InputError(f"input_shape must be the shape of one input, such as (64,), got {input_shape!r}")
        self.input_shape: tuple[int, ...] = tuple(positive(size, "input_shape") for size in input_shape)
        self.dim = positive(dim, "dim")

    def __call__(self, x: Any) -> FloatArray:
        """Vectors float32 [n, dim] of inputs [n, *input_shape], or of the same as flat rows [n, prod(input_shape)].

        x is anything that :class:`Index` reads, and is read in blocks.
        """
        rows = Rows(x, inputs=self.input_shape)
        out = np.empty((len(rows), self.dim), np.float32)
        for start in range(0, len(rows), self.block_rows):
            block = rows.part(start, start + self.block_rows)
            out[start : start + len(block)] = self.embed(block, first_row=start)
        return out

    def embed(
        self, x: FloatArray, *, name: str = "x", first_row: int = 0, rows: NDArray[np.int64] | None = None
    ) -> FloatArray:
        """Vectors of checked flat rows, ``block_rows`` at most; ``first_row`` or ``rows`` number them in messages."""
        with np.errstate(over="ignore", invalid="ignore"):
            out = self._vectors(x)
        if out.size and not np.abs(out).max() <= LARGEST:  # NaN compares false
            bad = int(np.argmin((np.abs(out) <= LARGEST).all(1)))
            row = bad + first_row if rows is None else int(rows[bad])
            raise InputError(f"the embedding of {name}[{row}] has values that are not finite, or beyond {LARGEST:g}")
        return out

    def _vectors(self, x: FloatArray) -> FloatArray:
        raise NotImplementedError

    @property
    def block_rows(self) -> int:
        """Rows that are embedded at a time."""
        return max(1, BLOCK_VALUES // max(math.prod(self.input_shape), self.dim))

    @property
    def label(self) -> str:
        """Its kind, or what it is called."""
        return self.kind

    @cached_property
    def fingerprint(self) -> str:
        """Hex digest over kind, shapes and weights: equal for equal functions."""
        return digest([self.kind, self.input_shape, self.dim], self._arrays())

    def to_arrays(self) -> tuple[Arrays, dict[str, Any]]:
        """Named arrays and a JSON-able description; the inverse is :func:`embedding_of`."""
        description = {"kind": self.kind, "input_shape": list(self.input_shape), "dim": self.dim}
        return self._arrays(), description | {"fingerprint": self.fingerprint} | self._details()

    def _arrays(self) -> Arrays:
        return {}

    def _details(self) -> dict[str, Any]:
        """Entries of the description that only this kind has."""
        return {}

    @property
    def n_bytes(self) -> int:
        """Bytes of its weights."""
        return sum(array.nbytes for array in self._arrays().values())

    def given(self, embedding: Any) -> Embedding:
        """The embedding that a user passes to ``il.open`` for this one of a file, if it is the same."""
        if isinstance(embedding, Embedding) and embedding.fingerprint == self.fingerprint:
            return embedding
        raise InputError(f"embedding={describe(embedding)} differs from the embedding of the file, {self!r}: omit it")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({' x '.join(map(str, self.input_shape))} -> {self.dim})"


class Identity(Embedding):
    """Vectors as they are."""

    kind = "identity"

    def __init__(self, dim: int) -> None:
        super().__init__((dim,), dim)

    def _vectors(self, x: FloatArray) -> FloatArray:
        return x


def digest(what: Sequence[Any], arrays: Mapping[str, NDArray[Any]]) -> str:
    """SHA-256 over text and over names, types, shapes and bytes of arrays, by ascending name."""
    import hashlib  # here: it loads a library of ciphers, and few imports of this package hash anything

    listed = [[name, arrays[name].dtype.str, arrays[name].shape] for name in sorted(arrays)]
    sha = hashlib.sha256(json.dumps([what, listed]).encode())
    for name in sorted(arrays):
        sha.update(np.ascontiguousarray(arrays[name]).reshape(-1).view(np.uint8).data)
    return sha.hexdigest()
