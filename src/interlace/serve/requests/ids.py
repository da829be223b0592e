"""Ids of points as Qdrant has them, unsigned 64-bit integers and UUIDs, <-> ids of a store, int64 and strings.

Integers from 2**63 on are negative in the store (two's complement); the largest one, 2**64 - 1, would be -1, which
stands for "no hit", and is refused. UUIDs are strings in lower case with hyphens. Other strings are accepted as well.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..problems import bad_input

_UUID = re.compile(r"(urn:uuid:)?\{?[0-9a-fA-F]{8}-?([0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}\}?")
LONGEST = 1024  # characters of an id
LARGEST = 2**64 - 1
DIGITS = len(str(LARGEST))

PointId = int | str


def to_store(value: PointId) -> PointId:
    """An id of a request -> an id of a store."""
    if isinstance(value, str):
        if _UUID.fullmatch(value):
            return str(uuid.UUID(value))
        if not value or len(value) > LONGEST:
            raise bad_input(f"a string id must have 1 to {LONGEST} characters, got {len(value)}")
        return value
    if not 0 <= value < LARGEST:
        raise bad_input(f"an integer id must be between 0 and 2**64 - 2, got {value}")
    return value - 2**64 if value >= 2**63 else value


def all_to_store(values: Sequence[PointId]) -> list[PointId]:
    """The same for many, which must be of one kind."""
    numbers = [value for value in values if type(value) is int]
    if numbers and len(numbers) == len(values) and min(numbers) >= 0 and max(numbers) < 2**63:
        return list(values)  # nearly always
    found = [to_store(value) for value in values]
    if len({type(value) for value in found}) > 1:
        first = next(i for i, value in enumerate(found) if type(value) is not type(found[0]))
        raise bad_input(
            f"the ids of a collection must be all integers or all strings (UUIDs): ids[0] is {values[0]!r}, "
            f"ids[{first}] is {values[first]!r}"
        )
    return found


def from_store(values: Iterable[Any]) -> list[PointId]:
    """Ids of a store -> ids of an answer."""
    return [value if isinstance(value, str) else int(value) % 2**64 for value in values]


def as_array(values: Sequence[PointId]) -> NDArray[Any]:
    """Ids of a store as it takes them; strings as objects."""
    if values and isinstance(values[0], str):
        out = np.empty(len(values), object)
        out[:] = values
        return out
    return np.array(values, np.int64)


def sorted_ids(ids: NDArray[Any]) -> NDArray[Any]:
    """Ids of a store in the order in which answers list them."""
    if ids.dtype == object:
        return np.sort(ids)
    return np.sort(ids.astype(np.int64).view(np.uint64)).view(np.int64)


def position(ordered: NDArray[Any], first: PointId) -> int:
    """Where to continue in sorted ids."""
    if ordered.dtype == object:
        return int(np.searchsorted(ordered, first)) if isinstance(first, str) else _other_kind(first)
    if isinstance(first, str):
        return _other_kind(first)
    return int(np.searchsorted(ordered.view(np.uint64), np.int64(first).view(np.uint64)))


def _other_kind(value: PointId) -> int:
    raise bad_input(f"offset is {value!r}, but the ids of the collection are of the other kind")
