"""Learning with labels: embedding, books and prior together. The only package that imports torch, and only when used.

``import interlace.learn.joint`` alone needs no torch; every other module here does.
"""

from __future__ import annotations

import importlib

from ...errors import InputError

__all__ = ["require_torch"]


def require_torch() -> None:
    """An error that tells what to install where torch is missing; to be called before a module of this package."""
    try:
        importlib.import_module("torch")
    except ImportError as error:
        raise InputError("learning with labels needs torch: pip install 'interlace[train]'") from error
