"""From what a user passes to the vectors that are coded and searched: codebooks, and an embedding if there is one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..errors import InputError
from ..inputs.arrays import FloatArray, Rows, as_one_query, as_queries, describe
from .codebooks import Codebooks
from .embedded import EmbeddedRows, embed_queries
from .embedding import Embedding


@dataclass(frozen=True, eq=False)
class Space:
    """The vectors of an index, a store or a shard, and how raw inputs become such vectors."""

    codebooks: Codebooks
    embedding: Embedding | None = None

    @classmethod
    def checked(cls, codebooks: Any, embedding: Any = None) -> Space:
        """Raise InputError unless both are what they should be and fit each other."""
        if not isinstance(codebooks, Codebooks):
            raise InputError(f"Index needs Codebooks, got {describe(codebooks)}; Index.build(x) learns them")
        if embedding is not None and not isinstance(embedding, Embedding):
            raise InputError(
                f"embedding must be one of interlace.embedding (Module wraps one of torch), got {describe(embedding)}"
            )
        if embedding is not None and embedding.dim != codebooks.dim:
            raise InputError(f"the embedding gives {embedding.dim} dimensions, the books code {codebooks.dim}")
        return cls(codebooks, embedding)

    @property
    def dim(self) -> int:
        """Dimensions of a vector, after the embedding if there is one."""
        return self.codebooks.dim

    @property
    def metric(self) -> str:
        """``l2``, ``ip`` or ``cosine``."""
        return self.codebooks.metric

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one raw input; that of a vector without an embedding."""
        return (self.dim,) if self.embedding is None else self.embedding.input_shape

    def queries(self, q: Any, embedded: bool = False) -> tuple[FloatArray, bool]:
        """Vectors [n, dim], and whether a single query was passed."""
        if self.embedding is None or embedded:
            return as_queries(q, self.codebooks.dim)
        return embed_queries(self.embedding, q)

    def search_vectors(self, q: Any, embedded: bool = False) -> tuple[FloatArray, bool]:
        """As :meth:`queries`, of length 1 for the cosine metric: as they are searched."""
        queries = None
        if self.embedding is None or embedded:
            queries = as_one_query(q, self.codebooks.dim)
        if queries is None:
            queries, single = self.queries(q, embedded)
            return self.codebooks.metric_type.prepare(queries, name="queries"), single
        if self.codebooks.metric_type.is_normalized:
            queries = self.directed(queries, "queries")
        return queries, q.ndim == 1

    def directed(self, vectors: FloatArray, name: str, **where: Any) -> FloatArray:
        """Vectors of length 1 for the cosine metric, unchanged for the others; ``where`` names rows in errors."""
        return self.codebooks.metric_type.directed(vectors, name=name, **where)

    def rows(self, x: Any, embedded: bool = False, ids: Any = None) -> Rows:
        """Vectors, read in blocks; a ``Rows`` holds vectors already. ``ids`` as for ``Rows``."""
        if self.embedding is not None and not embedded and not isinstance(x, Rows):
            return EmbeddedRows(x, self.embedding, ids=ids)
        rows = x if isinstance(x, Rows) else Rows(x, dim=self.codebooks.dim, ids=ids)
        if rows.dim != self.codebooks.dim:
            raise InputError(f"x has {rows.dim} dimensions, the index has {self.codebooks.dim}")
        return rows
