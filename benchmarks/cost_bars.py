"""Targets of what is not a search by codes: the fixed part of a query, a re-ranked row, learning, building at scale."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bars import Bar

Case = dict[str, Any]
#: Microseconds of a single query that are not native code, for the layout that `auto` takes.
PYTHON = 15.0
#: Microseconds of a re-ranked row, when 100 are re-ranked.
ROW = 0.2
#: Ten million rows: seconds, and gigabytes of memory beyond the codes.
BUILDING_ROWS, BUILDING_SECONDS, BUILDING_MEMORY = 10_000_000, 600.0, 1.0


def all_bars(tables: dict[str, Case], rerank: Case | None, building: list[Case]) -> list[Bar]:
    """``tables`` by kind of result."""
    bars = list(_fixed(tables.get("fixed-cost")))
    bars += _rows(rerank)
    bars += _learning(tables.get("fitting"))
    return [*bars, *_building([found for found in building if found["rows"] == BUILDING_ROWS])]


def _fixed(found: Case | None) -> Iterator[Bar]:
    """The part of Python by the size of the query."""
    what = "Python's share of a single query"
    lines = [line for line in (found["results"] if found else []) if line["name"] == "auto"]
    if not lines:
        yield Bar("fixed cost", what, PYTHON, None, "us", most=True)
    for line in lines:
        where = f"fixed cost, {line['dim']:,} dimensions, {line['n_bytes']} bytes"
        yield Bar(where, what, PYTHON, line["us"]["single"] - line["us"]["native single"], "us", most=True)


def _rows(found: Case | None) -> Iterator[Bar]:
    lines = [line for line in (found["row_costs"] if found else []) if line["method"].startswith("interlace")]
    if not lines:
        yield Bar("re-ranking", "a re-ranked row", ROW, None, "us", most=True)
    for line in lines:
        what = f"{line['method'].removeprefix('interlace ')} originals, {line['mode']}: a row, when 100 are re-ranked"
        yield Bar("re-ranking", what, ROW, line["us_per_row"]["at 100"], "us", most=True)


def _learning(found: Case | None) -> Iterator[Bar]:
    lines = found["results"] if found else []
    if not lines:
        yield Bar("learning", "Index.build of text vectors", 120.0, None, "s", most=True)
    for line in lines:
        what = f"{line['data']}, {line['n_bytes']} bytes: Index.build on two cores"
        yield Bar("learning", what, line["allowed"], line["seconds"]["all"], "s", most=True)


def _building(found: list[Case]) -> Iterator[Bar]:
    where = f"building {BUILDING_ROWS:,} rows"
    seconds = memory = None
    if found:
        seconds = found[0]["seconds"]["all"]
        memory = (found[0]["bytes"]["own_at_most"] - found[0]["n_bytes"] * BUILDING_ROWS) / 1e9
    yield Bar(where, "from a mapped file, on two cores", BUILDING_SECONDS, seconds, "s", most=True)
    yield Bar(where, "memory of the process beyond the codes", BUILDING_MEMORY, memory, "GB", most=True)
