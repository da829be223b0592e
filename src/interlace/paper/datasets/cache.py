"""What took minutes to compute, kept in a folder of the user's until the inputs or the parameters change.

The folder is that named by INTERLACE_CACHE, else the platform's: ``$XDG_CACHE_HOME/interlace`` (``~/.cache/interlace``)
on Linux, ``~/Library/Caches/interlace`` on macOS, ``%LOCALAPPDATA%\\interlace`` on Windows. It may be deleted at any
time.
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
    """Where computed features are kept; it need not exist."""
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
    """What ``make`` returns, from the file of that name and key if there is one.

    ``key`` is JSON-able and holds all that the arrays depend on: checksums of the source, parameters, a version. A file
    is written whole or not at all. A damaged one is made anew, and a folder that cannot be written costs the time of
    computing again; both with a warning.
    """
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()
    path = cache_folder() / f"{name}-{digest[:16]}.safetensors"
    if path.exists():
        try:
            return _read(path, key)
        except (FileError, OSError) as error:
            warn_user(f"{name} is computed anew, its cache cannot be used: {error}")
    arrays = make()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        storage.write(path, arrays, {"kind": "cache", "key": key})
    except OSError as error:
        warn_user(
            f"{name} will be computed again next time, its cache cannot be written ({VARIABLE} says where): {error}"
        )
    return arrays


def _read(path: Path, key: dict[str, Any]) -> Arrays:
    file = storage.read(path)
    if file.meta.get("key") != json.loads(json.dumps(key)):
        raise DamagedFileError(f"{str(path)!r} was made of something else")
    file.verify()
    return {name: np.array(file.array(name)) for name in file.names}  # not mapped: the folder may be emptied
