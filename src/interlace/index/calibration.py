"""Calibrations of the margins of an index or a snapshot: by queries, by its own rows, by rows that are being added."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engine.calibrating import queries_needed
from ..engine.evidence import held_out_rows
from ..engine.margins import DEFAULT, STRICT, Calibration
from ..engine.recall import QUERIES, measured
from ..errors import CalibrationWarning, InputError, warn_user
from ..inputs.arrays import FloatArray, Rows
from ..learn.sample import LEAST_ERROR_ROWS, calibration_rows
from .searcher import Searcher

#: Growth after which a margin is calibrated again. Until then the rules of neighbouring k stand in, which visit more.
REFRESH_GROWTH = 1.5


def calibration_vectors(searcher: Searcher, queries: Any, embedded: bool) -> FloatArray:
    """A user's queries as vectors; InputError if they are too few to calibrate any target, or there are no rows."""
    if not searcher.engine.n_kept:
        raise InputError("an empty index cannot be calibrated")
    vectors, _ = searcher.space.search_vectors(queries, embedded)
    if len(vectors) < (needed := queries_needed(STRICT[0])):
        raise InputError(
            f"queries must have at least {needed} rows to calibrate a margin of {STRICT[0]} "
            f"({queries_needed(DEFAULT):,} for {DEFAULT}), got {len(vectors)}"
        )
    return vectors


def warn_of_few_queries(made: Calibration, n_queries: int, n_rows: int) -> None:
    """Warn where a user's queries are too few for the default margin, so that default searches run exactly."""
    targets, needed = made.targets(10, n_rows), queries_needed(DEFAULT)
    if DEFAULT in targets or made.queries >= needed:
        return
    distinct = f" ({made.queries:,} different ones)" if made.queries < n_queries else ""
    listed = f"targets up to {targets[-1]:g} are calibrated" if targets else "no target is calibrated"
    warn_user(
        f"calibrated with {n_queries:,} queries{distinct}, but the default margin of {DEFAULT:g} needs {needed:,}: "
        f"searches with it run exactly, which is slower; {listed}",
        CalibrationWarning,
    )


def sampled_rows(searcher: Searcher) -> NDArray[np.int64]:
    """Kept rows that calibrate where there are no queries, ascending."""
    n = searcher.engine.n_kept
    if not n:
        raise InputError("an empty index cannot be calibrated")
    chosen = np.random.default_rng(0).choice(n, min(n, held_out_rows(n)), replace=False)
    return searcher.engine.kept_rows()[np.sort(chosen)]


def calibrated(searcher: Searcher, queries: Any, threads: int, embedded: bool) -> Calibration:
    """By queries, or by the originals of some rows, or by the vectors that their codes stand for.

    Where originals are kept, the re-rank depth for each recall is measured too. The error of held-out rows stays: it
    was measured when the books were learned.
    """
    engine, own, kept = searcher.engine, None, searcher.originals
    if queries is not None:
        vectors = calibration_vectors(searcher, queries, embedded)
    else:
        own = sampled_rows(searcher)
        vectors = engine.decode(own) if kept is None else searcher.space.directed(kept.take(own), "queries")
    made, before = calibrated_by(searcher, vectors, own, threads), engine.calibration
    if queries is not None:
        warn_of_few_queries(made, len(vectors), engine.n_kept)
    if before is not None:
        made = dataclasses.replace(made, error=before.error, error_rows=before.error_rows)
    return made


def calibrated_by(searcher: Searcher, vectors: FloatArray, own: NDArray[np.int64] | None, threads: int) -> Calibration:
    """By prepared queries, with the recall of each re-rank depth where originals are kept.

    ``own``: the row that each query is, if they are rows. Only different queries are evidence, of recalls too.
    """
    evidence = searcher.engine.evidence(vectors, own, threads)
    made = searcher.engine.calibrated_by(evidence)
    if searcher.originals is None:
        return made
    chosen = evidence.sample(QUERIES)
    own = None if own is None else own[chosen]
    recalls = measured(searcher.engine.with_calibration(made), searcher.originals, vectors[chosen], own, threads)
    return dataclasses.replace(made, recalls=recalls)


def outgrown(calibration: Calibration | None, n: int) -> bool:
    """Whether a calibration should be made again for n rows: they have grown by half since."""
    return calibration is not None and calibration.queries > 0 and n > REFRESH_GROWTH * calibration.n


def calibrated_by_added(searcher: Searcher, rows: Rows, first: int, threads: int) -> Calibration:
    """By some of the rows that were just added, from number ``first`` on; by those of the index where they are few."""
    if len(rows) < queries_needed(DEFAULT):
        return calibrated(searcher, None, threads, embedded=False)
    count = min(len(rows), held_out_rows(searcher.engine.n_kept))
    chosen = np.sort(np.random.default_rng(0).choice(len(rows), count, replace=False))
    vectors = searcher.space.directed(rows.take(chosen), "x", rows=chosen)
    made, before = calibrated_by(searcher, vectors, first + chosen, threads), searcher.engine.calibration
    if before is not None:
        made = dataclasses.replace(made, error=before.error, error_rows=before.error_rows)
    return made


def calibrated_by_rows(
    searcher: Searcher, rows: Rows, sample: NDArray[np.int64], count: int, seed: int, threads: int
) -> Calibration:
    """By ``count`` of the rows that the searcher holds, as far as possible not of ``sample``, the training rows.

    The error of those that were not learned from is measured too, unless the codebooks have one.
    """
    engine = searcher.engine
    chosen = calibration_rows(len(rows), sample, count, np.random.default_rng(seed))
    vectors = searcher.space.directed(rows.take(chosen), "x", rows=chosen)
    made = calibrated_by(searcher, vectors, chosen, threads)
    unlearned = ~np.isin(chosen, sample, assume_unique=True)  # the error of training rows would be too small
    if engine.codebooks.error_rows or unlearned.sum() < LEAST_ERROR_ROWS:
        return made
    away = vectors[unlearned].astype(np.float64) - engine.decode(chosen[unlearned])
    error = float((away**2).sum(1).mean())
    return dataclasses.replace(made, error=error, error_rows=int(unlearned.sum()))
