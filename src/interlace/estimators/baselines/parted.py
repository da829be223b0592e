"""A quantizer whose codebooks come in parts: coded part by part, indexed in parts."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ..._threads import thread_count
from ...codec.codebooks import Codebooks
from ...codec.encode import EFFORTS
from ...errors import InputError
from ...index.index import Index
from ...index.parts import Parts, PartsIndex
from ...inputs.arrays import FloatArray
from ...inputs.literals import Effort
from ...learn.kmeans import nearest
from .vectors import Run, VectorModel


class PartsModel(VectorModel):
    """``codebooks_`` are :class:`interlace.parts.Parts`, ``index`` makes a :class:`interlace.parts.PartsIndex`."""

    #: Parts that a row is coded in before the best is kept.
    _n_candidates = 1

    def _learn(self, x: FloatArray, run: Run) -> Codebooks:
        # Parts have every attribute of Codebooks that a model asks for, and stand in for them.
        return cast(Codebooks, self._learn_parts(x, run))

    def _learn_parts(self, x: FloatArray, run: Run) -> Parts:
        raise NotImplementedError

    def _compared(self, parts: Parts, x: FloatArray) -> FloatArray:
        """What the keys of the parts are compared with, [n, width], row by row."""
        raise NotImplementedError

    @property
    def _parts(self) -> Parts:
        self._check_fitted()
        return cast(Parts, self.codebooks_)

    def encode(self, X: Any, *, effort: Effort | None = None) -> NDArray[np.uint8]:
        """Codes uint8 [n, n_bytes] of rows X: the part's number, then the code within it."""
        rows, parts = self._rows(X), self._parts
        if effort is not None and effort not in EFFORTS:
            raise InputError(f"effort must be one of {', '.join(EFFORTS)}, got {effort!r}")
        codes, start = np.empty((len(rows), parts.n_bytes), np.uint8), 0
        threads = thread_count(self.threads)
        for block in rows.blocks():
            candidates = nearest_keys(self._compared(parts, block), parts.keys, self._n_candidates, threads)
            codes[start : start + len(block)] = parts.encode(block, candidates, threads, effort)
            start += len(block)
        return codes

    def index(self, X: Any, ids: Any = None) -> PartsIndex:  # type: ignore[override]  # it answers like one
        """A :class:`interlace.parts.PartsIndex` of rows X."""
        return PartsIndex.from_codes(self._parts, self.encode(X), ids)

    def _index_of(self, codes: Any) -> Index:
        return cast(Index, PartsIndex.from_codes(self._parts, codes))


def nearest_keys(compared: FloatArray, keys: FloatArray, n: int, threads: int) -> NDArray[np.int64]:
    """The nearest key of each row [n_rows, 1]; for keys that are numbers, ascending, the n nearest."""
    if n == 1:
        return nearest(compared, keys, threads)[0][:, None].astype(np.int64)
    distances = np.abs(compared - keys[:, 0])
    return np.argsort(distances, axis=1, kind="stable")[:, :n]
