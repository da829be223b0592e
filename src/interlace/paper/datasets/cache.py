"""A cache of computed features in a folder of the user; entries depend on the inputs and the parameters.

The folder is named by INTERLACE_CACHE, else it is the folder of the platform: ``$XDG_CACHE_HOME/interlace``
(``~/.cache/interlace``) on Linux, ``~/Library/Caches/interlace`` on macOS, ``%LOCALAPPDATA%\\interlace`` on Windows.
It may be deleted at any time.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import DamagedFileError, FileError, warn_user
from ...files import storage

VARIABLE = "INTERLACE_CACHE"

Arrays = dict[str, NDArray[Any]]


def cache_folder() -> Path:
    """Folder of cached features; it may not exist yet."""
    if named := os.environ.get(VARIABLE):
        return Path(named)
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "interlace"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "interlace"
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "interlace"


def cached(name: str, key: dict[str, Any], make: Callable[[], Arrays]) -> Arrays:
    """The arrays of ``make()``, read from the cache if it has an entry for ``name`` and ``key``.

    ``key`` has JSON types and holds all that the arrays depend on: checksums of the source, parameters, a version.
    Files are written atomically. If a file is damaged, the arrays are computed again; if the folder is not writable,
    they are not cached. Both cause a warning.
    """
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()
    path = cache_folder() / f"{name}-{digest[:16]}.safetensors"
    if path.exists():
        try:
            return _read(path, key)
        except (FileError, OSError) as error:
            warn_user(f"computing {name} again, because its cache cannot be used: {error}")
    arrays = make()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        storage.write(path, arrays, {"kind": "cache", "key": key})
    except OSError as error:
        warn_user(
            f"{name} is not cached and will be computed again, because its file cannot be written (set {VARIABLE} to "
            f"another folder): {error}"
        )
    return arrays


def _read(path: Path, key: dict[str, Any]) -> Arrays:
    file = storage.read(path)
    if file.meta.get("key") != json.loads(json.dumps(key)):
        raise DamagedFileError(f"{str(path)!r} was computed from another key")
    file.verify()
    return {
        name: np.array(file.array(name)) for name in file.names
    }  # a copy, because files of the cache may be deleted
