"""Plugins: Python files of users that register methods."""

from __future__ import annotations

import importlib.util
import sys
from os import PathLike, fspath
from pathlib import Path

from ..errors import InputError
from ..estimators.baselines.registry import methods


def load_plugin(path: str | PathLike[str]) -> list[str]:
    """Run a file that calls :func:`interlace.quantizers.register`; returns the names that it registered."""
    file, quoted = Path(fspath(path)), repr(fspath(path))
    if file.suffix != ".py" or not file.is_file():
        raise InputError(f"a plugin must be an existing Python file (.py), got {quoted}")
    name = f"interlace_plugin_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise InputError(f"plugin {quoted} cannot be imported")
    before = set(methods())
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # pickle and dataclasses look modules up here
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # whatever a user's file raises
        del sys.modules[name]
        raise InputError(f"plugin {quoted} failed: {type(error).__name__}: {error}") from error
    found = [method for method in methods() if method not in before]
    if not found:
        raise InputError(f"plugin {quoted} registers no method: it must call interlace.quantizers.register(...)")
    return found
