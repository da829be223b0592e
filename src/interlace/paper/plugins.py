"""Methods of users: a Python file that registers them."""

from __future__ import annotations

import importlib.util
import sys
from os import PathLike, fspath
from pathlib import Path

from ..errors import InputError
from ..estimators.baselines.registry import methods


def load_plugin(path: str | PathLike[str]) -> list[str]:
    """Run a file that calls :func:`interlace.quantizers.register`; the names that it registered."""
    file, shown = Path(fspath(path)), repr(fspath(path))
    if file.suffix != ".py" or not file.is_file():
        raise InputError(f"a plugin is a Python file (.py), {shown} is not one")
    name = f"interlace_plugin_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise InputError(f"plugin {shown} cannot be imported")
    before = set(methods())
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # pickles and dataclasses of the plugin look themselves up there
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # whatever a user's file raises
        del sys.modules[name]
        raise InputError(f"plugin {shown} fails: {type(error).__name__}: {error}") from error
    found = [method for method in methods() if method not in before]
    if not found:
        raise InputError(f"plugin {shown} registers no method: it should call interlace.quantizers.register(...)")
    return found
