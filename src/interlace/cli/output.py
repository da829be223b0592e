"""Output of the commands: JSON, aligned text, arrays, progress bars, warnings."""

from __future__ import annotations

import json
import math
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..progress import Bar, Progress, silent

if TYPE_CHECKING:
    from numpy.typing import NDArray


def print_json(value: Any) -> None:
    """Print one JSON document; NaN and infinity become null."""
    print(json.dumps(_plain(value), indent=2, allow_nan=False))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):  # NumPy scalars and arrays
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, str | int | float) else in_json(value)


def in_json(value: Any) -> str:
    """Text for column values that JSON has no type for: dates, decimals, bytes."""
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)


def save_npy(path: str, array: NDArray[Any]) -> None:
    """Write an array atomically."""
    import numpy as np

    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with open(temporary, "wb") as file:
            np.save(file, array)
        os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)


def aligned(rows: list[tuple[str, ...]], indent: str = "  ") -> str:
    """Columns of text, left-aligned."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))] if rows else []
    return "\n".join(
        indent + "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows
    )


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """A callback (what, share done) that draws a bar after one second; silent if stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield silent
        return
    bar = Bar(delay=1.0, leave=False)
    _BARS.append(bar)
    try:
        yield bar
    finally:
        bar.clear()
        _BARS.remove(bar)


#: Bars on the terminal; they are cleared before a warning is printed.
_BARS: list[Bar] = []


@contextmanager
def warnings_in_a_line() -> Iterator[list[Warning | str]]:
    """Print warnings of the library in one line each; yields the list of them."""
    printed: list[Warning | str] = []

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        for bar in _BARS:
            bar.clear()
        printed.append(message)
        print(f"interlace: warning: {' '.join(str(message).split())}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)  # each text once
        warnings.showwarning = show
        yield printed
