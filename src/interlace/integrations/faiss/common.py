"""Shared by both directions: the faiss module, and sums of words."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...codec.codebooks import Book
from ...errors import InputError
from ...inputs.arrays import FloatArray

ROWS_AT_ONCE = 16384


def faiss_module(caller: str) -> Any:
    """The installed faiss; ``caller`` is named in the error if there is none."""
    try:
        return importlib.import_module("faiss")
    except ImportError as error:
        raise InputError(f"{caller} needs faiss: pip install 'interlace[faiss]'") from error


def disjoint(books: list[Book]) -> bool:
    """Whether no two books share a dimension."""
    return len(np.unique(np.concatenate([b.support for b in books]))) == sum(len(b.support) for b in books)


def word_sums(books: list[Book], codes: NDArray[Any]) -> Iterator[FloatArray]:
    """Sum of the words of each row, float32 [rows of a block, dims], block by block."""
    width = 1 + max((int(book.support.max(initial=0)) for book in books), default=0)
    for start in range(0, len(codes), ROWS_AT_ONCE):
        part = codes[start : start + ROWS_AT_ONCE]
        total = np.zeros((len(part), width), np.float32)
        for j, book in enumerate(books):
            total[:, book.support] += book.words[part[:, j]]
        yield total
