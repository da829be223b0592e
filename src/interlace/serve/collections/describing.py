"""A collection as Qdrant describes one, with every field that a client of version 1.12 or later requires."""

from __future__ import annotations

from typing import Any

from .collection import NAMES

#: Qdrant's defaults, which tune nothing here. Clients that copy a collection to another server send them on.
CONFIG = {
    "hnsw_config": {"m": 16, "ef_construct": 100, "full_scan_threshold": 10_000},
    "optimizer_config": {
        "deleted_threshold": 0.2,
        "vacuum_min_vector_number": 1_000,
        "default_segment_number": 0,
        "flush_interval_sec": 5,
    },
    "wal_config": {"wal_capacity_mb": 32, "wal_segments_ahead": 0},
}


def described(
    status: str,
    *,
    problem: str | None = None,
    rows: int = 0,
    segments: int = 0,
    vectors: tuple[int, str] | None = None,
    schema: dict[str, Any] | None = None,
    own: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The answer. ``vectors`` are dimensions and metric, None where they are not known; ``own`` is what only we say."""
    params: dict[str, Any] = {"shard_number": 1}
    if vectors is not None:
        params["vectors"] = {"size": vectors[0], "distance": NAMES[vectors[1]]}
    return {
        "status": status,
        "optimizer_status": "ok" if problem is None else {"error": problem},
        "points_count": rows,
        "indexed_vectors_count": rows,
        "segments_count": segments,
        "config": {"params": params, **CONFIG},
        "payload_schema": schema or {},
        **({} if own is None else {"interlace": own}),
    }
