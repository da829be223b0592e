"""Measures of a fitted model: MAP of the exhaustive scan of its codes, and lists, operations and time of its searches.

Every number of a search comes from one index and from lists of one length: ``searches`` has for each order of the rows
and each margin the MAP@100 of the lists that the search returned, its operations and its agreement with the exhaustive
scan of the same index.

Ops are table additions per query and database row. *Crude order* is the index of the library: cells are visited by
ascending distance of their word; a row in a skipped cell still costs all crude books, as if the crude distances of all
rows were computed first and then sorted. `ops_in_cells` counts what our search computes: the word of a cell once for
all its rows, and nothing for the rows of skipped cells. In *two-step* order, rows are scanned in storage order and each
row costs all crude books; that index has a constant also for the cross terms with the first book, which cells make
exact, so its MAP differs.

Margins: 0.999 is calibrated, ``exact`` is a bound, ``paper`` has the paper's sigma (the sum of lambda over the
dimensions off psi) and ``paper, codes`` the variance of what the books after the crude ones add. Books without psi have
only the second, under the name ``paper``.

Baselines: `float_map` (the embedding without codes), `topline` (a classifier), `random_codes`, and `cascade` (a model
designed for the exhaustive scan, such as SQ+CQ, in our calibrated two-step search).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..codec.codebooks import Book, Codebooks, Norm
from ..engine.calibrating import queries_needed
from ..engine.margins import STRICT
from ..errors import InputError
from ..estimators.models import Model
from ..evaluate.answers import agreement
from ..evaluate.measures import ops_per_vector, quantization_error
from ..evaluate.ranking import average_precision, map_of_ranking, precision_at
from ..evaluate.squares import row_squares
from ..index.index import Index
from ..inputs.literals import Margin
from .toplines import float_map, random_codes, topline

__all__ = [
    "FLAT",
    "LIST",
    "MARGINS",
    "TARGET",
    "cascade",
    "flat_index",
    "float_map",
    "judge",
    "random_codes",
    "topline",
]

LIST = 100
TARGET = 0.999
MARGINS: tuple[Margin, ...] = (TARGET, "exact", "paper")
#: Rows in storage order, and by ascending distance of the word of their cell.
FLAT, CELLS = "two-step", "crude order"
#: Repetitions of a timed search, of which the median counts, and its queries.
ROUNDS, TIMED_QUERIES = 3, 100
#: Codes from which our sigma is computed, at most.
SIGMA_ROWS = 20_000

Clock = Callable[[], float]
#: By order and name of the margin: an index and the margin to search it with.
Searches = dict[tuple[str, str], tuple[Any, Margin]]


def judge(
    model: Model,
    queries: Any,
    query_labels: Any,
    held_out: Any,
    database: Any = None,
    database_labels: Any = None,
    *,
    full: bool = False,
    clock: Clock | None = None,
) -> dict[str, Any]:
    """All measures of one fit. ``held_out`` rows calibrate the margin; ``queries`` are used for nothing else.

    The database is the rows that the model was fitted on with labels, or ``database`` with ``database_labels``: other
    rows (for example of unseen classes), or the rows of a model that learns without labels. If ``query_labels`` is
    None, there is no MAP, and the database needs no labels. A model with its own kind of index, instead of an
    :class:`Index` of its codebooks, is searched with that index only, in crude order.

    ``full=True`` adds ``precision@100`` of the exhaustive scan, ``error`` and ``relative_error`` of the codes of the
    held-out rows, and ``exhaustive_ops``, which :func:`cascade` needs. A ``clock`` (such as ``time.process_time``) adds
    the seconds per query of each search, and those of the exhaustive scan.
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
    wanted = None if labels is None else np.asarray(query_labels)
    result["searches"] = {}
    whole: dict[str, Any] = {}  # the exhaustive answers of each order
    for (order, name), (index, margin) in indexes.items():
        if order not in whole:
            whole[order] = index.search(vectors, LIST, margin=math.inf)
            if clock is not None:
                result.setdefault("exhaustive_seconds", {})[order] = _seconds(index, vectors, math.inf, clock)
        truth = whole[order]
        found = index.search(vectors, LIST, margin=margin)
        one = {
            "ops": ops_per_vector(found, model.codebooks_),
            "ops_in_cells": found.stats.ops_per_vector,
            "agreement": agreement(found.ids, truth.ids),
        }
        if labels is not None:
            one[f"map@{LIST}"] = _list_map(found.ids, labels, wanted)
        if clock is not None:
            one["seconds"] = _seconds(index, vectors, margin, clock)
        result["searches"][f"{order}, {name}"] = one
    if full:
        truth = whole[CELLS]  # which every model has
        if labels is not None:
            listed = truth.ids[:, : min(LIST, len(labels))]
            result[f"precision@{LIST}"] = precision_at(labels[listed], query_labels, listed.shape[1])
        result["error"], result["relative_error"] = quantization_error(model, held_out)
        result["exhaustive_ops"] = ops_per_vector(truth, model.codebooks_)
    return result


def _list_map(ids: NDArray[Any], labels: NDArray[Any], wanted: Any) -> float:
    """MAP of lists of ids, of which missing ones are -1; divided by the relevant rows found."""
    hits = (labels[ids] == wanted[:, None]) & (ids >= 0)
    return float(average_precision(hits).mean())


def _seconds(index: Any, vectors: Any, margin: Margin, clock: Clock) -> float:
    """Seconds per query of a batch on one thread: the median of some repetitions, after one without a clock."""
    some = vectors[:TIMED_QUERIES]
    threads = {"threads": 1} if isinstance(index, Index) else {}
    taken = []
    for number in range(1 + ROUNDS):
        started = clock()
        index.search(some, LIST, margin=margin, **threads)
        taken += [clock() - started] if number else []
    return median(taken) / len(some)


def _by_codebooks(
    model: Model, queries: Any, query_labels: Any, held_out: Any, database: Any, database_labels: Any
) -> tuple[dict[str, Any], Searches, Any, NDArray[Any] | None]:
    """For a model with one set of codebooks: measures without search, calibrated indexes, query vectors, labels."""
    if database is None and not hasattr(model, "codes_"):
        raise InputError(f"this {type(model).__name__} has no codes of the rows it was fitted on: pass database")
    codes = model.codes_ if database is None else model.encode(database)
    labels = None if query_labels is None else np.asarray(model.labels_ if database is None else database_labels)
    codebooks, vectors = model.codebooks_, model.embed(queries)
    made = {FLAT: flat_index(codebooks, codes), CELLS: Index.from_codes(codebooks, codes)}
    result: dict[str, Any] = {}
    if labels is not None:
        found = model.scores_of_codes(queries, query_labels, codes, labels, at=(None, LIST, 1000))
        result = dict(zip(("map", f"map@{LIST}", "map@1000"), found, strict=True))
        if codebooks.metric_type.is_squared and codebooks.rotation is None and not codebooks.mean.any():
            squares = row_squares(made[FLAT].engine)
            decoded = codebooks.decode(codes)
            result[f"{FLAT} map"] = map_of_ranking(vectors, decoded, query_labels, labels, squares=squares)["map"]
    result |= {"n_crude": codebooks.n_crude, "n_psi": len(codebooks.crude_dims)}
    calibrating = model.embed(held_out)
    if len(calibrating) >= queries_needed(STRICT[0]):  # with fewer, searches stay exact
        for index in made.values():
            index.calibrate(calibrating)
    searches: Searches = {(order, str(m)): (made[order], m) for order in made for m in (TARGET, "exact")}
    for name, sigma in sigmas(codebooks, codes, sigma_factor(model)).items():
        other = codebooks.with_sigma(sigma)
        searches[FLAT, name] = flat_index(other, codes), "paper"
        searches[CELLS, name] = Index.from_codes(other, codes), "paper"
    if codebooks.n_crude == codebooks.n_books:  # no crude step: without cells every row is read whole at any margin
        searches |= {key: (made[FLAT], math.inf) for key in searches if key[0] == FLAT}
    ordered = {key: searches[key] for order in made for key in searches if key[0] == order}
    return result, ordered, vectors, labels


def sigma_factor(model: Model) -> float:
    """``sigma`` of the recipe that a model was fitted with; 1 for models without a recipe."""
    recipe = getattr(model, "fit_info_", {}).get("recipe")
    return float(recipe.get("sigma", 1.0)) if isinstance(recipe, dict) else 1.0


def sigmas(codebooks: Codebooks, codes: NDArray[np.uint8], factor: float = 1.0) -> dict[str, float]:
    """The constants of the paper's margin by the names of their searches, times the ``factor`` of the recipe.

    ``paper`` is the sum of the variances off psi, ``paper, codes`` the variance of what the books after the crude ones
    add to the codes. Without psi, ``paper`` is the second. Books without stored variances keep their own constant.
    """
    psi, variances = codebooks.crude_dims, codebooks.variances.astype(np.float64)
    cells, columns = codebooks.split_codes(codes[:SIGMA_ROWS])
    rest = np.zeros((len(cells), codebooks.dim))
    for place, column in enumerate(codebooks.columns):
        if column >= codebooks.n_crude:
            book = codebooks.books[column]
            rest[:, book.support] += book.words[columns[:, place]]
    of_codes = factor * float(rest.var(0).sum())
    if not len(psi) or len(variances) != codebooks.dim:
        return {"paper": of_codes if len(variances) else codebooks.residual_variance}
    off = 0.0 if codebooks.n_crude == codebooks.n_books else factor * float(np.delete(variances, psi).sum())
    return {"paper": off, "paper, codes": of_codes}


def _by_own_index(
    model: Model, queries: Any, query_labels: Any, held_out: Any, database: Any, database_labels: Any
) -> tuple[dict[str, Any], Searches, Any, NDArray[Any] | None]:
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
    if hasattr(index, "calibrate") and len(held_out) >= queries_needed(STRICT[0]):
        index.calibrate(held_out)
    return result, {(CELLS, str(margin)): (index, margin) for margin in MARGINS}, queries, labels


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
