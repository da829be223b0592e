"""Similarity search in a few bytes per vector: interleaved composite quantization, searched in two steps."""

from __future__ import annotations

import importlib
import types

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
    UnknownIdError,
)
from .evaluation import Evaluation
from .index import Index
from .interop import from_faiss, to_faiss
from .matches import Matches, SearchStats
from .planning import Plan, plan
from .report import Report

open = Index.open
__version__ = "0.1.0"

__all__ = [
    "Book",
    "Codebooks",
    "DamagedFileError",
    "DuplicateIdError",
    "Evaluation",
    "FileError",
    "Index",
    "InputError",
    "InterlaceError",
    "Matches",
    "NewerFormatError",
    "Norm",
    "NotAnIndexError",
    "Plan",
    "Report",
    "SearchStats",
    "UnknownIdError",
    "__version__",
    "from_faiss",
    "open",
    "plan",
    "simd_level",
    "to_faiss",
]


def __getattr__(name: str) -> types.ModuleType:
    """``il.data``, imported when it is first used: searching does without it."""
    if name == "data":
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
