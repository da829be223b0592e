"""`PartsModel`: a quantizer with separate codebooks for each part of the rows, such as the cells of LOPQ."""

from __future__ import annotations

from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from ..._threads import thread_count
from ...codec.codebooks import Codebooks
from ...codec.encode import check_effort
from ...errors import InputError
from ...index.index import Index
from ...index.parts import Parts, PartsIndex
from ...inputs.arrays import FloatArray, refuse_tiny
from ...inputs.literals import Effort, OriginalsKind
from ...learn.kmeans import nearest
from .vectors import FitRun, VectorModel


class PartsModel(VectorModel):
    """``codebooks_`` is an :class:`interlace.parts.Parts`; ``index`` returns an :class:`interlace.parts.PartsIndex`.

    A subclass defines :meth:`learn_parts` and :meth:`part_features`.
    """

    #: Number of nearest parts in which a row is encoded; the best code is kept.
    n_candidates: ClassVar[int] = 1

    def learn_codebooks(self, x: FloatArray, run: FitRun) -> Codebooks:
        """The result of :meth:`learn_parts`."""
        # Parts has every attribute of Codebooks that a model uses.
        return cast(Codebooks, self.learn_parts(x, run))

    def learn_parts(self, x: FloatArray, run: FitRun) -> Parts:
        """Codebooks of each part for the training rows x."""
        raise NotImplementedError(f"{type(self).__name__} must define learn_parts(x, run), which returns Parts")

    def part_features(self, parts: Parts, x: FloatArray) -> FloatArray:
        """Features [n, width] of the rows x; a row belongs to the parts whose keys are nearest to its features."""
        raise NotImplementedError(f"{type(self).__name__} must define part_features(parts, x)")

    @property
    def _parts(self) -> Parts:
        self._check_fitted()
        return cast(Parts, self.codebooks_)

    def encode(self, X: Any, *, effort: Effort | None = None) -> NDArray[np.uint8]:
        """Codes uint8 [n, n_bytes] of rows X: the number of the part, then the code within the part."""
        rows, parts = self._rows(X), self._parts
        check_effort(effort)
        codes, start = np.empty((len(rows), parts.n_bytes), np.uint8), 0
        threads = thread_count(self.threads)
        for block in rows.blocks():
            refuse_tiny(block, name=rows.name, first_row=start)
            candidates = nearest_keys(self.part_features(parts, block), parts.keys, self.n_candidates, threads)
            codes[start : start + len(block)] = parts.encode(block, candidates, threads, effort)
            start += len(block)
        return codes

    def index(  # type: ignore[override]  # it has the same methods
        self, X: Any, ids: Any = None, *, originals: OriginalsKind | None = None
    ) -> PartsIndex:
        """An :class:`interlace.parts.PartsIndex` of rows X, which keeps no originals."""
        if originals is not None:
            raise InputError(f"an index in parts keeps no originals, got originals={originals!r}")
        return PartsIndex.from_codes(self._parts, self.encode(X), ids)

    def _index_of_codes(self, codes: NDArray[np.uint8]) -> Index:
        return cast(Index, PartsIndex.from_codes(self._parts, codes))


def nearest_keys(features: FloatArray, keys: FloatArray, n: int, threads: int) -> NDArray[np.int64]:
    """Numbers of the n nearest keys of each row [n_rows, n]; n > 1 needs keys of one dimension."""
    if n == 1:
        return nearest(features, keys, threads)[0][:, None].astype(np.int64)
    distances = np.abs(features - keys[:, 0])
    return np.argsort(distances, axis=1, kind="stable")[:, :n]
