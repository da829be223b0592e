"""Measures of a fitted model: MAP of the exhaustive scan of its codes, and the operations of three searches.

Ops are table additions per query and database row. In *two-step* order, rows are scanned in storage order and each row
costs all crude books. In *crude order*, cells are visited by ascending distance of their word, and a row in a skipped
cell still costs all crude books, as if the crude distances of all rows were computed first and then sorted.
`ops_in_cells` counts what our search computes: the word of a cell once for all its rows, and nothing for the rows of
skipped cells.

Baselines: `float_map` (the embedding without codes), `topline` (a classifier), `random_codes`, and `cascade` (a model
designed for the exhaustive scan, such as SQ+CQ, in our calibrated two-step search).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..codec.codebooks import Book, Codebooks, Norm
from ..engine.calibrating import queries_needed
from ..engine.margins import TARGETS
from ..errors import InputError
from ..estimators.models import Model
from ..evaluate.answers import agreement
from ..evaluate.measures import ops_per_vector, quantization_error
from ..evaluate.ranking import map_of_ranking, precision_at
from ..index.index import Index
from ..inputs.literals import Margin

LIST = 100
TARGET = 0.999
MARGINS: tuple[Margin, ...] = (TARGET, "exact", "paper")
#: Rows in storage order.
FLAT = "two-step"


def judge(
    model: Model,
    queries: Any,
    query_labels: Any,
    held_out: Any,
    database: Any = None,
    database_labels: Any = None,
    *,
    full: bool = False,
) -> dict[str, Any]:
    """All measures of one fit. ``held_out`` rows calibrate the margin; ``queries`` are used for nothing else.

    The database is the rows that the model was fitted on with labels, or ``database`` with ``database_labels``: other
    rows (for example of unseen classes), or the rows of a model that learns without labels. If ``query_labels`` is
    None, there is no MAP, and the database needs no labels. A model with its own kind of index, instead of an
    :class:`Index` of its codebooks, is searched with that index only, in crude order.

    ``full=True`` adds ``precision@100`` of the exhaustive scan, ``error`` and ``relative_error`` of the codes of the
    held-out rows, and ``exhaustive_ops``, which :func:`cascade` needs.
    """
    if database is None and database_labels is not None:
        raise InputError("database_labels needs database: pass both")
    if query_labels is not None and database is not None and database_labels is None:
        raise InputError("query_labels needs labels of the database to compare with: pass database_labels")
    if type(model).index is Model.index:
        result, indexes, vectors, labels = _by_codebooks(
            model, queries, query_labels, held_out, database, database_labels
        )
    else:
        result, indexes, vectors, labels = _by_own_index(
            model, queries, query_labels, held_out, database, database_labels
        )
    result.setdefault("searches", {})
    for order, index in indexes.items():
        truth = index.search(vectors, LIST, margin=math.inf)
        for margin in MARGINS:
            found = index.search(vectors, LIST, margin=margin)
            result["searches"][f"{order}, {margin}"] = {
                "ops": ops_per_vector(found, model.codebooks_),
                "ops_in_cells": found.stats.ops_per_vector,
                "agreement": agreement(found.ids, truth.ids),
            }
    if full:  # truth is the exhaustive answer of the last order, crude order, which every model has
        if labels is not None:
            listed = truth.ids[:, : min(LIST, len(labels))]
            result[f"precision@{LIST}"] = precision_at(labels[listed], query_labels, listed.shape[1])
        result["error"], result["relative_error"] = quantization_error(model, held_out)
        result["exhaustive_ops"] = ops_per_vector(truth, model.codebooks_)
    return result


def _by_codebooks(
    model: Model, queries: Any, query_labels: Any, held_out: Any, database: Any, database_labels: Any
) -> tuple[dict[str, Any], dict[str, Any], Any, NDArray[Any] | None]:
    """For a model with one set of codebooks: measures without search, calibrated indexes, query vectors, labels."""
    if database is None and not hasattr(model, "codes_"):
        raise InputError(f"this {type(model).__name__} has no codes of the rows it was fitted on: pass database")
    codes = model.codes_ if database is None else model.encode(database)
    labels = None if query_labels is None else np.asarray(model.labels_ if database is None else database_labels)
    result: dict[str, Any] = {}
    if labels is not None:
        found = model.scores_of_codes(queries, query_labels, codes, labels, at=(None, LIST, 1000))
        result = dict(zip(("map", f"map@{LIST}", "map@1000"), found, strict=True))
    codebooks = model.codebooks_
    result |= {"n_crude": codebooks.n_crude, "n_psi": len(codebooks.crude_dims)}
    indexes = {"crude order": Index.from_codes(codebooks, codes)}
    if codebooks.n_crude < codebooks.n_books:
        indexes = {FLAT: flat_index(codebooks, codes), **indexes}
    else:  # no crude step: every row costs every book at any margin
        every = {"ops": float(codebooks.n_books), "ops_in_cells": float(codebooks.n_books), "agreement": 1.0}
        result["searches"] = {f"{FLAT}, {margin}": dict(every) for margin in MARGINS}
    vectors = model.embed(held_out)
    if len(vectors) >= queries_needed(TARGETS[0]):  # with fewer, searches stay exact
        for index in indexes.values():
            index.calibrate(vectors)
    return result, indexes, model.embed(queries), labels


def _by_own_index(
    model: Model, queries: Any, query_labels: Any, held_out: Any, database: Any, database_labels: Any
) -> tuple[dict[str, Any], dict[str, Any], Any, NDArray[Any] | None]:
    """The same for a model with its own kind of index, of which only ``search`` is used.

    Its ``codebooks_`` must have ``n_books`` and ``n_crude``.
    """
    if database is None:
        raise InputError(f"the index of {type(model).__name__} is built from rows: pass database")
    result: dict[str, Any] = {}
    labels = None if query_labels is None else np.asarray(database_labels)
    if labels is not None:
        decoded = model.decode(model.encode(database))
        result = map_of_ranking(model.embed(queries), decoded, query_labels, labels, at=(LIST, 1000))
    result["n_crude"] = model.codebooks_.n_crude
    index: Any = model.index(database)
    if hasattr(index, "calibrate") and len(held_out) >= queries_needed(TARGETS[0]):
        index.calibrate(held_out)
    return result, {"crude order": index}, queries, labels


def float_map(model: Model, x: Any, labels: Any, queries: Any, query_labels: Any) -> dict[str, float]:
    """MAP of the embedding without codes; ``x`` with its ``labels`` is the database."""
    return map_of_ranking(model.embed(queries), model.embed(x), query_labels, labels, at=LIST)


def topline(
    x: Any, labels: Any, queries: Any, query_labels: Any, database: Any = None, database_labels: Any = None
) -> dict[str, float]:
    """MAP of a logistic regression: database rows are one-hot predicted classes, queries are class probabilities.

    It learns from ``x`` with its ``labels``. The database is ``x``, or ``database`` with ``database_labels``.
    """
    try:
        from sklearn.linear_model import LogisticRegression
    except ImportError as error:
        raise InputError("topline needs scikit-learn: pip install 'interlace[sklearn]'") from error
    if (database is None) != (database_labels is None):
        raise InputError("database and database_labels must be passed together")
    rows = x if database is None else database
    classifier = LogisticRegression(max_iter=300).fit(_flat(x), labels)
    predicted = np.eye(len(classifier.classes_), dtype=np.float32)[
        np.searchsorted(classifier.classes_, classifier.predict(_flat(rows)))
    ]
    probabilities = classifier.predict_proba(_flat(queries)).astype(np.float32)
    # One-hot rows have equal length, so the nearest one is that of the most probable class.
    own = labels if database is None else database_labels
    return map_of_ranking(probabilities, predicted, query_labels, own, at=LIST)


def random_codes(x: Any, labels: Any, queries: Any, query_labels: Any, seed: int) -> dict[str, float]:
    """MAP of a random ranking for every query."""
    rng = np.random.default_rng(seed)
    database, points = rng.normal(size=(len(x), 16)), rng.normal(size=(len(queries), 16))
    return map_of_ranking(points.astype(np.float32), database.astype(np.float32), query_labels, labels, at=LIST)


def cascade(judged: dict[str, Any]) -> dict[str, float]:
    """Our calibrated two-step search compared with the exhaustive scan, from the result of ``judge(..., full=True)``.

    ``ops`` are those in crude order at the target agreement, ``exhaustive_ops`` those of the scan (K), ``agreement``
    is the measured agreement.
    """
    if "exhaustive_ops" not in judged:
        raise InputError("cascade needs exhaustive_ops: call judge with full=True")
    search = judged["searches"][f"crude order, {TARGET}"]
    return {"ops": search["ops"], "exhaustive_ops": judged["exhaustive_ops"], "agreement": search["agreement"]}


def flat_index(codebooks: Codebooks, codes: NDArray[np.uint8]) -> Index:
    """An index with a single cell: a first book of one word is put before the books, rows stay in insertion order.

    Cross terms are constants (the mean over each group of overlapping books) if the codebooks use constants for them;
    otherwise the second step computes them.
    """
    if codebooks.n_cells == 1:  # flat already
        return Index.from_codes(codebooks, codes)
    books = [Book(np.zeros((1, 1), np.float32), np.zeros(1, np.uint32)), *codebooks.books]
    columns = dict(zip((0, *codebooks.columns), codes.T, strict=True))
    norms: list[Norm] = []
    seen: set[int] = set()
    constants = bool(codebooks.norms) and not any(norm.stored for norm in codebooks.norms)
    for k, book in enumerate(codebooks.books):
        group = [j for j, other in enumerate(codebooks.books) if np.intersect1d(book.support, other.support).size]
        if constants and len(group) > 1 and k not in seen:
            seen.update(group)
            total = np.zeros((len(codes), codebooks.dim))
            squares = np.zeros(len(codes))
            for j in group:
                taken = codebooks.books[j].words[columns[j]].astype(np.float64)
                total[:, codebooks.books[j].support] += taken
                squares += (taken**2).sum(1)
            cross = float(((total**2).sum(1) - squares).mean())
            norms.append(Norm(np.array([cross], np.float32), tuple(j + 1 for j in group)))
    flat = Codebooks(
        books,
        dim=codebooks.dim,
        n_crude=codebooks.n_crude + 1,
        metric=codebooks.metric_type,
        mean=codebooks.mean,
        rotation=codebooks.rotation,
        norms=norms,
        residual_variance=codebooks.residual_variance,
    )
    zeros = np.zeros((len(codes), 1), np.uint8)
    order = [columns[j] for j in range(codebooks.n_books)]
    return Index.from_codes(flat, np.concatenate([zeros, np.stack(order, 1)], 1))


def _flat(x: Any) -> Any:
    """Images as flat rows."""
    return x.reshape(len(x), -1) if getattr(x, "ndim", 2) > 2 else x
