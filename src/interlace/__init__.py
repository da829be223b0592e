"""Similarity search in a few bytes per vector: interleaved composite quantization, searched in two steps."""

from __future__ import annotations

import importlib
import typing

from ._native import simd_level
from .codebooks import Book, Codebooks, Norm
from .errors import (
    DamagedFileError,
    DuplicateIdError,
    FileError,
    InputError,
    InterlaceError,
    NewerFormatError,
    NotAnIndexError,
    NotFittedError,
    UnknownIdError,
)
from .index import Index
from .interop import from_faiss, to_faiss
from .matches import Matches, SearchStats
from .report import Report

if typing.TYPE_CHECKING:
    from .neighbors import Neighbors

open = Index.open
__version__ = "0.1.0"

__all__ = [
    "Book",
    "Codebooks",
    "DamagedFileError",
    "DuplicateIdError",
    "FileError",
    "Index",
    "InputError",
    "InterlaceError",
    "Matches",
    "Neighbors",
    "NewerFormatError",
    "Norm",
    "NotAnIndexError",
    "NotFittedError",
    "Report",
    "SearchStats",
    "UnknownIdError",
    "__version__",
    "from_faiss",
    "open",
    "simd_level",
    "to_faiss",
]


def __getattr__(name: str) -> typing.Any:
    """``il.data`` and ``il.Neighbors``, imported when they are first used: searching does without them."""
    if name == "data":
        return importlib.import_module(f".{name}", __name__)
    if name == "Neighbors":
        return importlib.import_module(".neighbors", __name__).Neighbors
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
