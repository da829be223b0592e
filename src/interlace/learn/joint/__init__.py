"""Learning with labels: embedding, books and prior together. The only package that imports torch.

``import interlace.learn.joint`` alone does not import torch; every other module here does.
"""

from __future__ import annotations

import importlib

from ...errors import InputError

__all__ = ["require_torch"]


def require_torch() -> None:
    """InputError with the command to install torch, if it is missing; call it before importing a module from here."""
    try:
        importlib.import_module("torch")
    except ImportError as error:
        raise InputError("learning with labels needs torch: pip install 'interlace[train]'") from error
