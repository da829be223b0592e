"""``interlace evaluate MODEL``: MAP of rankings by labels."""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from .joint import labels_of

if TYPE_CHECKING:
    from ..estimators.models import Model

LIST_LENGTH, AT = 100, 1000


def score_model(args: argparse.Namespace) -> int:
    """Score and print."""
    from .inputs import load_model
    from .output import aligned, print_json, progress_bar

    for name in ("truth", "truth_key", "rerank", "recall"):
        if getattr(args, name) is not None:
            raise InputError(f"--{name.replace('_', '-')} is for indexes; a model is evaluated with --labels")
    if args.embedded:
        raise InputError("--embedded is for indexes; a model takes raw inputs")
    if args.queries is None or args.labels is None:
        raise InputError(f"{args.index!r} is a model: pass queries and their labels, QUERIES --labels LABELS")
    model = load_model(args.index)
    model.set_params(threads=args.threads)
    queries, labels = _queries(args, model)
    database, database_labels = _database(args, model)
    with progress_bar() as progress:
        found = _measure(args, model, queries, labels, database, database_labels, progress)
    if args.json:
        print_json({"model": args.index, **found})
        return 0
    counted = f"{found['queries']:,} queries, {found['rows']:,} rows, {found['bytes_per_vector']} bytes per vector"
    print(f"{args.index}: {counted}; ranked by the full scan of the codes")
    facts: list[tuple[str, ...]] = [("MAP", f"{found['map']:.4f}")]
    if found["at"] < found["rows"]:
        facts.append((f"MAP@{found['at']}", f"{found['map_at']:.4f}"))
    if found["float_map"] is not None:
        facts.append(("without codes", f"MAP {found['float_map']:.4f} (float embedding)"))
    facts.append(("margin", found["margin"]))
    facts.append(("ops per vector", f"{found['ops_per_vector']:.3f} of {found['n_books']}, k = {found['k']}"))
    facts.append(("agreement", f"{found['agreement']:.4f} with the full scan, k = {found['k']}"))
    print(aligned(facts))
    return 0


def _queries(args: argparse.Namespace, model: Model) -> tuple[Any, Any]:
    """At most --sample queries, drawn with --seed, and their labels."""
    rows = _inputs(args.queries, args.queries_key, model)
    labels = labels_of(args.labels, args.labels_key, args.queries, rows)
    if len(rows) > args.sample:
        kept = np.sort(np.random.default_rng(args.seed).choice(len(rows), args.sample, replace=False))
        return rows[kept], labels[kept]
    return rows, labels


def _database(args: argparse.Namespace, model: Model) -> tuple[Any, Any]:
    """Rows to search and their labels; None and the labels of the model if no rows are given."""
    own = getattr(model, "labels_", None)
    if args.vectors is None:
        if args.vectors_labels is not None:
            raise InputError("--vectors-labels needs --vectors")
        if own is None:
            raise InputError(f"{args.index!r} was fitted without labels: pass --vectors and --vectors-labels")
        return None, own
    rows = _inputs(args.vectors, args.vectors_key, model)
    if args.vectors_labels is not None:
        return rows, labels_of(args.vectors_labels, None, args.vectors, rows)
    if own is None or len(own) != len(rows):
        stored = "no labels" if own is None else f"labels of {len(own):,} rows"
        raise InputError(f"{args.index!r} has {stored}, {args.vectors!r} has {len(rows):,} rows: pass --vectors-labels")
    return rows, own


def _inputs(path: str, key: str | None, model: Model) -> Any:
    from ..data import read_vectors

    return read_vectors(path, key, input_shape=None if model.embedding_ is None else model.embedding_.input_shape)


def _measure(
    args: argparse.Namespace,
    model: Model,
    queries: Any,
    labels: Any,
    database: Any,
    database_labels: Any,
    progress: Any,
) -> dict[str, Any]:
    from .. import Index
    from ..evaluate import agreement, map_of_ranking

    given = () if database is None else (database, database_labels)
    at = AT if args.at is None else args.at
    progress("ranking all rows", 0.05)
    full, short = model.scores(queries, labels, *given, at=(None, at))
    rows = len(database_labels)
    vectors, float_map = model.embed(queries), None
    progress("searching", 0.7)
    if database is None:
        index = Index.from_codes(model.codebooks_, model.codes_)
        if args.margin is None or (isinstance(args.margin, float) and args.margin < 1):
            index.calibrate(threads=args.threads)  # on decoded rows: the vectors are not available
    else:
        index = model.index(database)
        wanted, own = (np.asarray(v) for v in (labels, database_labels))
        float_map = map_of_ranking(vectors, model.embed(database), wanted, own)["map"]
    k = min(rows, LIST_LENGTH if args.k is None else args.k)
    answer = index.search(vectors, k, margin=args.margin, threads=args.threads, embedded=True)
    scan = index.search(vectors, k, margin=math.inf, threads=args.threads, embedded=True)
    progress("done", 1.0)
    return {
        "queries": len(vectors),
        "rows": rows,
        "bytes_per_vector": model.codebooks_.n_bytes,
        "n_books": model.codebooks_.n_books,
        "map": full,
        "map_at": short,
        "at": min(at, rows),
        "float_map": float_map,
        "k": k,
        "margin": answer.stats.margin,
        "ops_per_vector": answer.stats.ops_per_vector,
        "survivors": answer.stats.survivors / (len(vectors) * rows),
        "agreement": agreement(answer, scan),
    }
