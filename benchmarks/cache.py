"""Files that take minutes to make and are kept outside the repository: generated rows, true neighbours, indexes."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def cache_folder() -> Path:
    """The folder of the benchmark in the user's cache."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "interlace"


def partial(path: Path) -> Path:
    """Where to write what :func:`finish` then moves to ``path``: an interrupted run leaves no half of a file there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.with_name(f"{path.name}.{os.getpid()}")


def finish(written: Path, path: Path) -> None:
    """Move a finished file or folder to its place."""
    if written.is_dir() and path.exists():
        shutil.rmtree(path)
    os.replace(written, path)


def kept_array(path: Path | None, make: Callable[[], NDArray[Any]]) -> NDArray[Any]:
    """The array of a file, made and written if it is not there; only made if there is no path."""
    if path is None:
        return make()
    if not path.exists():
        written = partial(path)
        with open(written, "wb") as file:
            np.save(file, make())
        finish(written, path)
    return np.asarray(np.load(path))


def write_json(path: Path, found: dict[str, Any]) -> None:
    """Write atomically, so that a resumed run never reads a partial file."""
    written = partial(path)
    try:
        written.write_text(json.dumps(found, indent=1) + "\n")
    except BaseException:
        written.unlink(missing_ok=True)
        raise
    finish(written, path)
