"""What a collection holds: rows, bytes, cells, health, what was learned, and rows that stand for all of them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError
from ...learn.prior import split_dimensions
from ...store import Snapshot
from ..collections.collection import Collection
from ..requests import ids as point_ids


def overview(found: Collection) -> dict[str, Any]:
    """Rows, bytes by part, cells, health and drift."""
    store, books = found.store, found.store.codebooks
    report, health = store.report(), found.health()
    return {
        "name": found.name,
        "rows": len(store),
        "dim": store.dim,
        "metric": store.metric,
        "originals": store.originals,
        "bytes": asdict(report)
        | {
            "total": report.total,
            "per_vector": report.code_bytes_per_vector,
            "times_smaller": 4 * store.dim / report.bytes_per_vector if len(store) else None,
        },
        "cells": books.n_cells,
        "n_bytes": books.n_bytes,
        "layout": books.layout,
        "coded": not store.snapshot.collecting,
        "learn_at": None if store.snapshot.plan is None else store.snapshot.plan.learn_at,
        "health": asdict(health) | {"removed_share": health.removed_share, "advice": health.advice},
    }


def learned(found: Collection) -> dict[str, Any]:
    """Variances along the axes of the codebooks, psi and the prior, and the books with their energy."""
    books = found.store.codebooks
    if found.snapshot().collecting:
        return {"learned": False, "variances": [], "psi": [], "prior": None, "books": [], "layout": books.layout}
    variances = books.variances.astype(np.float64)
    psi, prior = np.isin(np.arange(len(variances)), books.crude_dims), None
    if len(variances) > 1 and variances.max() > 0:
        high, fitted = split_dimensions(variances)
        psi = psi if psi.any() else high
        values = np.geomspace(float(variances.max()) * 1e-4, float(variances.max()) * 1.5, 200)
        prior = {
            "variances": values.tolist(),
            "density": fitted.density(values).tolist(),
            "high_share": fitted.responsibilities(values).tolist(),
            "pi1": fitted.pi1,
            "pi2": fitted.pi2,
        }
    each = [
        {
            "book": i,
            "crude": i < books.n_crude,
            "words": len(book.words),
            "dims": book.support.tolist(),
            "energy": float((book.words.astype(np.float64) ** 2).sum(1).mean()),
        }
        for i, book in enumerate(books.books)
    ]
    return {
        "learned": True,
        "variances": variances.tolist(),
        "psi": psi.tolist(),
        "prior": prior,
        "books": each,
        "layout": books.layout,
        "n_crude": books.n_crude,
    }


def random_id(found: Collection) -> int | str:
    """The id of a random row."""
    ids = found.snapshot().ids
    if not len(ids):
        raise InputError("the collection has no points")
    return point_ids.from_store([ids[np.random.default_rng().integers(len(ids))]])[0]


def sample_ids(snapshot: Snapshot, n: int) -> NDArray[Any]:
    """Ids of n rows, the same each time."""
    ids = snapshot.ids
    if len(ids) <= n:
        return ids
    return ids[np.sort(np.random.default_rng(0).choice(len(ids), n, replace=False))]
