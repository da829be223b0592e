"""How many rows learning may take under a bound on memory."""

from __future__ import annotations

import operator
import re
from typing import Any

from .errors import InputError

#: Fewer rows than this do not make books worth having; all rows of an input that has no more.
LEAST_ROWS = 1000
#: Working set of learning in copies of its float32 rows, as measured: the rows, centred, rotated, what is left of them,
#: and covariances in double precision. 6 to 7.2 by layout; ``planning.copies`` tells them apart.
FACTOR = 8

_UNITS = {"b": 1} | {f"{prefix}b": 1000**power for power, prefix in enumerate("kmgt", 1)}
_UNITS |= {f"{prefix}ib": 1024**power for power, prefix in enumerate("kmgt", 1)}


def parse_memory(value: Any, name: str = "max_memory") -> int:
    """Bytes: a positive integer, or text with a unit: ``"2GB"`` is 2 * 10^9, ``"512MiB"`` is 512 * 2^20."""
    expected = f"{name} must be a positive number of bytes or a text such as '2GB' or '512MiB', got {value!r}"
    n_bytes: int
    if isinstance(value, str):
        found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-z]+)\s*", value.lower())
        if found is None or found[2] not in _UNITS:
            raise InputError(f"{expected} (units: B, KB, MB, GB, TB of 1000; KiB, MiB, GiB, TiB of 1024)")
        whole, _, part = found[1].partition(".")
        unit = _UNITS[found[2]]  # in integers: a float would lose bytes of large sizes
        n_bytes = int(whole) * unit + int(part or "0") * unit // 10 ** len(part)
    else:
        try:
            n_bytes = operator.index(value)
        except TypeError as error:
            raise InputError(expected) from error
    if n_bytes < 1 or isinstance(value, bool):
        raise InputError(expected)
    return n_bytes


def rows_that_fit(
    n_rows: int, dim: int, max_memory: Any, *, factor: float = FACTOR, least: int = LEAST_ROWS, name: str = "max_memory"
) -> int:
    """The most rows, of n_rows, whose learning stays within ``max_memory`` (None: all of them).

    Learning takes about ``factor`` times the bytes of its float32 rows. An error if not even ``least`` rows, or all
    rows where there are fewer, fit.
    """
    if max_memory is None:
        return n_rows
    allowed = parse_memory(max_memory, name)
    row_bytes = dim * 4 * factor
    needed = min(least, n_rows)
    # A guess and its neighbours, because the division may round either way for a factor such as 2.3.
    rows = min(n_rows, int(allowed / row_bytes) + 1)
    while rows * row_bytes > allowed:
        rows -= 1
    if rows < needed:
        raise InputError(
            f"learning from {needed} rows of {dim} dimensions takes about {needed * row_bytes:,.0f} bytes, "
            f"{name} allows {allowed:,}"
        )
    return rows
