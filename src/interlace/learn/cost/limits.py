"""How many rows may be learned from, and how many may calibrate, within ``max_memory``."""

from __future__ import annotations

from ...engine.calibrating import queries_needed
from ...engine.margins import STRICT
from ...errors import InputError
from ..sample import calibration_count, train_count
from ..settings import Settings, parse_memory
from .memory import IdBytes, build_memory, calibrating_memory, fit_memory
from .shape import shape_of

#: Books are not learned from fewer rows than this, unless the input has fewer.
LEAST_ROWS = 1000
#: Fewer queries than this calibrate no target.
FEWEST_QUERIES = queries_needed(STRICT[0])


def train_rows_that_fit(n: int, dim: int, settings: Settings, ids: IdBytes | None = None) -> int:
    """The most rows to learn from, of n, such that learning takes at most ``max_memory``.

    With ``ids``, an index of all n rows with these ids must fit too. If not even ``LEAST_ROWS`` rows fit (all rows
    where there are fewer), InputError names the smallest ``max_memory`` that is enough.
    """
    most, settings = train_count(n, settings.max_train_rows), settings.for_rows(n)
    if settings.max_memory is None:
        return most
    allowed = parse_memory(settings.max_memory)

    def needed(rows: int) -> int:
        if ids is None:
            return max(fit_memory(n, dim, settings, rows))
        return build_memory(n, dim, settings, rows, ids, queries=0).peak  # see calibration_rows_that_fit

    if needed(most) <= allowed:
        return most
    least = min(LEAST_ROWS, most)
    if needed(least) > allowed:
        smallest = min(needed(least), needed(most))
        what = f"learning from {least} rows" if ids is None else f"an index of {n} rows, learned from {least} of them,"
        raise InputError(
            f"{what} of {dim} dimensions takes up to {smallest:,} bytes of memory, but max_memory allows {allowed:,}: "
            f"give max_memory={smallest} or more, or fewer bytes per vector"
            + f", or fewer cells than {settings.n_cells}"
            * settings.many_cells
        )
    low, high = least, most - 1  # `low` fits
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if needed(middle) <= allowed else (low, middle - 1)
    return low


def calibration_rows_that_fit(n: int, dim: int, settings: Settings, n_train: int, ids: IdBytes) -> int:
    """Rows that calibrate an index of n rows within ``max_memory``; 0 if too few fit to support any target."""
    count = calibration_count(n, n_train)
    if settings.max_memory is None:
        return count
    allowed, shape = parse_memory(settings.max_memory), shape_of(dim, settings.for_rows(n), n_train)
    while count and calibrating_memory(shape, n, count, settings.workers, ids.calibrating) > allowed:
        count = count * 3 // 4 if count > FEWEST_QUERIES else 0
    return count
