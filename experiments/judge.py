"""What a fitted model is judged by: MAP of the exhaustive scan of its codes, and table additions of three searches.

Ops are table additions per query and database row. In *two-step* order rows come as they are stored and each pays for
every crude book; in *crude order* cells come by ascending distance of their word, and a row in a skipped cell still
counts as paid for (as if every row had its crude sum made first, then sorted). `ops_in_cells` is what our search really
adds: a cell's word once for all of its rows, and nothing for the rows of skipped cells.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from interlace import Book, Codebooks, Index, Norm
from interlace.evaluate import agreement
from interlace.models import Model
from interlace.ranking import map_of_ranking

LIST = 100
TARGET = 0.999


def judge(model: Model, queries: Any, query_labels: Any, held_out: Any) -> dict[str, Any]:
    """Everything about one fit. ``held_out`` rows calibrate the margin; queries are seen by nothing before."""
    z, calibration = model.embed(queries), model.embed(held_out)
    codebooks, codes = model.codebooks_, model.codes_
    cells, flat = Index.from_codes(codebooks, codes), _flat_index(codebooks, codes)
    result: dict[str, Any] = {
        "map": model.score(queries, query_labels, at=None),
        f"map@{LIST}": model.score(queries, query_labels, at=LIST),
        "map@1000": model.score(queries, query_labels, at=1000),
        "n_crude": codebooks.n_crude,
        "n_psi": len(codebooks.crude_dims),
        "searches": {},
    }
    for order, index in (("two-step", flat), ("crude order", cells)):
        index.calibrate(calibration)
        truth = index.search(z, LIST, margin=math.inf).ids
        for margin in (TARGET, "exact", "paper"):
            found = index.search(z, LIST, margin=margin)
            stats = found.stats
            result["searches"][f"{order}, {margin}"] = {
                "ops": stats.two_step_ops(codebooks.n_books, codebooks.n_crude),
                "ops_in_cells": stats.ops_per_vector,
                "agreement": agreement(found.ids, truth),
            }
    return result


def float_map(model: Model, x: Any, labels: Any, queries: Any, query_labels: Any) -> dict[str, float]:
    """The same embedding without codes."""
    return map_of_ranking(model.embed(queries), model.embed(x), query_labels, labels, at=LIST)


def topline(x: Any, labels: Any, queries: Any, query_labels: Any) -> dict[str, float]:
    """A plain classifier: database rows by the class it predicts, queries by its probabilities of the classes."""
    from sklearn.linear_model import LogisticRegression

    classifier = LogisticRegression(max_iter=300).fit(x, labels)
    predicted = np.eye(len(classifier.classes_), dtype=np.float32)[
        np.searchsorted(classifier.classes_, classifier.predict(x))
    ]
    probabilities = classifier.predict_proba(queries).astype(np.float32)
    # Rows of equal length: the nearest one-hot row is that of the most probable class.
    return map_of_ranking(probabilities, predicted, query_labels, labels, at=LIST)


def random_codes(x: Any, labels: Any, queries: Any, query_labels: Any, seed: int) -> dict[str, float]:
    """Rows in a random order for every query."""
    rng = np.random.default_rng(seed)
    database, points = rng.normal(size=(len(x), 16)), rng.normal(size=(len(queries), 16))
    return map_of_ranking(points.astype(np.float32), database.astype(np.float32), query_labels, labels, at=LIST)


def _flat_index(codebooks: Codebooks, codes: NDArray[np.uint8]) -> Index:
    """The same books behind one that has a single word: one cell, rows in the order they were added."""
    arrays, _ = codebooks.to_arrays()
    books = [Book(np.zeros((1, 1), np.float32), np.zeros(1, np.uint32)), *codebooks.books]
    words = [arrays[f"words.{i}"] for i in range(codebooks.n_books)]
    columns = dict(zip((0, *codebooks.columns), codes.T, strict=True))
    norms: list[Norm] = []
    seen: set[int] = set()
    for k, book in enumerate(codebooks.books):
        group = [j for j, other in enumerate(codebooks.books) if np.intersect1d(book.support, other.support).size]
        if len(group) > 1 and k not in seen:
            seen.update(group)
            total = np.zeros((len(codes), codebooks.dim))
            squares = np.zeros(len(codes))
            for j in group:
                taken = words[j][columns[j]].astype(np.float64)
                total[:, codebooks.books[j].support] += taken
                squares += (taken**2).sum(1)
            cross = float(((total**2).sum(1) - squares).mean())
            norms.append(Norm(np.array([cross], np.float32), tuple(j + 1 for j in group)))
    flat = Codebooks(
        books,
        dim=codebooks.dim,
        n_crude=codebooks.n_crude + 1,
        norms=norms,
        residual_variance=codebooks.residual_variance,
    )
    zeros = np.zeros((len(codes), 1), np.uint8)
    order = [columns[j] for j in range(codebooks.n_books)]
    return Index.from_codes(flat, np.concatenate([zeros, np.stack(order, 1)], 1))
