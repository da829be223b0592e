"""Rows of a collection that stand for all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...store import Snapshot
from ..collections.searching import has_originals


def sample_ids(snapshot: Snapshot, n: int) -> NDArray[Any]:
    """Ids of n rows, the same each time."""
    ids = snapshot.ids
    if len(ids) <= n:
        return ids
    return ids[np.sort(np.random.default_rng(0).choice(len(ids), n, replace=False))]


def vectors_of(snapshot: Snapshot, ids: NDArray[Any]) -> NDArray[Any]:
    """Their vectors; decoded ones where originals are not kept."""
    return snapshot.get(ids, originals=has_originals(snapshot))
