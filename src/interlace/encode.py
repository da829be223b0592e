"""Vectors -> codes, in native code; `reference.encode` is the same in plain NumPy."""

from __future__ import annotations

import numpy as np

from . import _native
from .arrays import FloatArray
from .codebooks import Codebooks
from .segments import Codes


def encode(codebooks: Codebooks, x: FloatArray, threads: int) -> Codes:
    """Checked float32 rows [n, dim] -> uint8 [n, 1 + n_columns], the cell's code first.

    Rows of the cosine metric must have length 1 already.
    """
    codes = np.empty((len(x), 1 + len(codebooks.columns)), np.uint8)
    _native.encode(codebooks.native, x, codebooks.beam, threads, codes)
    return codes
