"""Results of the library <-> arguments and arrays of an answer."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..engine.hits import SearchStats
from ..errors import InputError, PartlyAddedError, StoreError
from ..index.matches import Matches, RangeMatches
from . import codes, wire
from .wire import Array

Answer = tuple[dict[str, Any], dict[str, Array]]


def of_matches(found: Matches) -> Answer:
    """Hits of a search."""
    arrays: dict[str, Array] = {"distances": found.distances}
    single = found.distances.ndim == 1
    if not single:
        arrays["counts"] = np.asarray(found.counts)
    ids = wire.ids_out(found.ids, arrays)
    stats = dataclasses.asdict(found.stats)
    return {"ids": ids, "count": int(found.counts) if single else None, "stats": stats, "metric": found.metric}, arrays


def to_matches(arguments: Mapping[str, Any], arrays: Mapping[str, Array]) -> Matches:
    """Inverse of :func:`of_matches`."""
    distances = arrays["distances"]
    counts = arrays["counts"] if arguments["count"] is None else arguments["count"]
    ids = wire.ids_in(arguments["ids"], arrays, distances.shape)
    return Matches(ids, distances, counts, _stats(arguments["stats"]), arguments["metric"])


def of_range(found: RangeMatches) -> Answer:
    """Hits within a radius."""
    arrays: dict[str, Array] = {"distances": found.distances, "offsets": found.offsets}
    ids = wire.ids_out(found.ids, arrays)
    return {"ids": ids, "stats": dataclasses.asdict(found.stats), "metric": found.metric}, arrays


def to_range(arguments: Mapping[str, Any], arrays: Mapping[str, Array]) -> RangeMatches:
    """Inverse of :func:`of_range`."""
    ids = wire.ids_in(arguments["ids"], arrays, arrays["distances"].shape)
    return RangeMatches(arrays["offsets"], ids, arrays["distances"], _stats(arguments["stats"]), arguments["metric"])


def _stats(found: Mapping[str, Any]) -> SearchStats:
    """Without fields of newer servers."""
    return SearchStats(
        **{field.name: found[field.name] for field in dataclasses.fields(SearchStats) if field.name in found}
    )


def error_of(status: int, problem: Mapping[str, Any]) -> Exception:
    """The exception of the library that an answer with this status stands for; ``problem`` is its JSON."""
    code, detail = problem.get("code"), str(problem.get("detail", problem))
    for kind, known in codes.CODES.items():
        if known == code:
            return PartlyAddedError(detail, int(problem.get("added", 0))) if kind is PartlyAddedError else kind(detail)
    if status in (400, 409, 413, 415, 422, 501) or code in ("unknown_collection", "unknown_field"):
        return InputError(detail)
    return StoreError(f"{detail} ({status} {code})")
