"""Packages of the ``io`` extra, imported when they are first needed."""

from __future__ import annotations

import importlib
from typing import Any

from ..errors import InputError


def require(module: str, purpose: str) -> Any:
    """The module, or an error that says what needs it (``purpose``) and how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise InputError(f"{purpose} needs {package}: pip install 'interlace[io]'") from error
