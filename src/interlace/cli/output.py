"""What the commands print: JSON, sizes, a progress bar."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..progress import Progress, silent

if TYPE_CHECKING:
    from numpy.typing import NDArray


def print_json(value: Any) -> None:
    """One JSON document; numbers that JSON does not have become null."""
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
    return value


def save_npy(path: str, array: NDArray[Any]) -> None:
    """All of the array, or nothing."""
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
    """A callback (what, share done) that draws a bar for people who wait longer than a second, and only for them."""
    if not sys.stderr.isatty():
        yield silent
        return
    try:
        from tqdm import tqdm
    except ImportError:
        yield silent
        return
    layout = "{desc} {percentage:3.0f}%|{bar:30}| {elapsed}<{remaining}"
    with tqdm(total=100.0, delay=1, leave=False, bar_format=layout, file=sys.stderr) as bar:

        def show(what: str, done: float) -> None:
            bar.set_description_str(f"{what:<28.28}", refresh=False)
            bar.update(min(100.0, 100.0 * done) - bar.n)

        yield show
