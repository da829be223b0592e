"""Paths into a payload, as Qdrant has them: ``a.b``, ``a[0].b``, ``a[].b`` (every element), ``"key with a dot".b``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

Json = dict[str, Any]
#: A key of an object, the number of an element, or None for every element.
Step = str | int | None
LONGEST = 512  # characters
_PART = re.compile(r'(?:"([^"]+)"|([^."\[\]]+))((?:\[\d*\])*)(\.(?=.)|$)')
_BRACKETS = re.compile(r"\[(\d*)\]")


def parsed(text: str) -> list[Step]:
    """The steps of a path; ValueError if it is none."""
    steps: list[Step] = []
    at = 0
    while at < len(text) <= LONGEST:
        part = _PART.match(text, at)
        if part is None:
            break
        steps.append(part[1] or part[2])
        steps += [int(number) if number else None for number in _BRACKETS.findall(part[3])]
        at = part.end()
    if at < len(text) or not steps:
        raise ValueError(f"must be a path of keys such as 'a', 'a.b' or 'a[0].b', got {text[:60]!r}")
    return steps


def merged(old: Any, new: Json) -> Json:
    """An object with other keys set; null removes a key. What is not an object is replaced."""
    kept = old if isinstance(old, dict) else {}
    return {key: value for key, value in {**kept, **new}.items() if value is not None or key not in new}


def merged_at(value: Any, path: Sequence[Step], new: Json) -> Any:
    """The same for what is at a path. Objects on the way are made, elements of lists are not."""
    if not path:
        return merged(value, new)
    first, rest = path[0], path[1:]
    if isinstance(first, str):
        found = value if isinstance(value, dict) else {}
        return {**found, first: merged_at(found.get(first), rest, new)}
    if not isinstance(value, list):
        return []
    return [merged_at(each, rest, new) if first in (None, i) else each for i, each in enumerate(value)]


def without(value: Any, path: Sequence[Step]) -> Any:
    """A value without what is at a path. ``a[]`` at its end empties a list, a number at its end removes nothing."""
    first, rest = path[0], path[1:]
    if isinstance(first, str):
        if not isinstance(value, dict) or first not in value:
            return value
        if rest:
            return {**value, first: without(value[first], rest)}
        return {key: inner for key, inner in value.items() if key != first}
    if not isinstance(value, list):
        return value
    if rest:
        return [without(each, rest) if first in (None, i) else each for i, each in enumerate(value)]
    return [] if first is None else value


def only(value: Any, chosen: Sequence[Sequence[Step]]) -> Any:
    """What is at some paths of a value, in its place; numbers of elements choose nothing."""
    if not all(chosen):  # an empty path: all of it
        return value
    if isinstance(value, dict):
        below = {key: [path[1:] for path in chosen if path[0] == key] for key in value}
        return {key: only(value[key], rest) for key, rest in below.items() if rest}
    if isinstance(value, list):
        rest = [path[1:] for path in chosen if path[0] is None]
        return [only(each, rest) for each in value] if rest else []
    return value
