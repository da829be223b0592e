"""Runs joint learning for the estimators and encodes the rows; torch is imported only when a fit starts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..codec.encode import encode
from ..errors import FitInterruptedWarning, InputError, warn_user
from ..index.index import Index
from ..inputs.spool import yields_blocks
from ..learn.recipe import Joint
from ..progress import as_progress, part
from .features import is_dataset, read_features
from .fitted import Fitted

#: Held-out queries, and results per query, from which the operations on the model card are counted.
TRIAL_QUERIES, LIST_LENGTH = 500, 100


def _shape(x: Any) -> tuple[int, ...]:
    """The shape of an array, or of nested lists; the length of a list is given as 0."""
    if isinstance(x, list | tuple) and len(x) and not yields_blocks(x):
        return 0, *_shape(x[0])
    return tuple(getattr(x, "shape", ()))


def fit_jointly(joint: Joint, x: Any, y: Any, progress: Any, *, pairs: Any = None) -> Fitted:
    """Learn embedding and books from inputs and labels or pairs, then encode all rows, which uses neither."""
    _check_pairs(joint, x, y, pairs)
    from ..learn.joint import require_torch

    require_torch()
    from ..learn.joint.batches import Data
    from ..learn.joint.fit import learn_jointly
    from ..learn.joint.modules import device_of
    from ..learn.joint.pairs import PairData

    report = as_progress(progress)
    names = None
    if not is_dataset(x) and len(_shape(x)) <= 2:
        x, names = read_features(x)
    data = Data(x, y) if pairs is None else PairData(x, pairs)
    joint = replace(joint, device=device_of(joint.device))
    learned = learn_jointly(data, joint, part(report, 0.0, 0.97))
    codes: Any = None
    work: dict[str, Any] = {}
    coded = True
    try:
        report("encoding", 0.97)
        codes, vectors = _encode_rows(data, learned, joint.threads)
        work = _operations(learned.codebooks, codes, vectors)
        report("done", 1.0)
    except KeyboardInterrupt:
        coded = False  # keep what was learned; the user can call encode again
    interrupted = learned.interrupted or not coded
    if codes is None:
        warn_user(
            "learning was interrupted while rows were encoded; the model is usable but has no codes_ and labels_: pass "
            "X_database and y_database to score",
            FitInterruptedWarning,
        )
    elif interrupted:
        warn_user("learning was interrupted; the best epoch so far is kept", FitInterruptedWarning)
    return Fitted(
        learned.codebooks,
        learned.sample,
        len(data),
        learned.embedding,
        learned.prior,
        names=names,
        history=learned.history,
        codes=codes,
        labels=None if codes is None or not isinstance(data, Data) else data.classes[data.labels],
        info=learned.info | {"interrupted": interrupted} | work,
    )


def _check_pairs(joint: Joint, x: Any, y: Any, pairs: Any) -> None:
    """InputError if the other arguments do not go with pairs."""
    if pairs is None:
        return
    if y is not None:
        raise InputError("give y (labels) or pairs, not both")
    if is_dataset(x):
        raise InputError(f"X must be an array to learn from pairs, got a torch {type(x).__name__}")
    for name, known in (("loss", "contrastive"), ("optimize", "joint")):
        if getattr(joint, name) != known:
            raise InputError(f"{name} must be {known!r} to learn from pairs, got {getattr(joint, name)!r}")


def _encode_rows(data: Any, learned: Any, threads: int) -> tuple[Any, Any]:
    """Codes of all rows, and the vectors of some held-out rows, which serve as queries to count operations."""
    codebooks, n = learned.codebooks, len(data)
    codes = np.empty((n, codebooks.code_width), np.uint8)
    held = np.setdiff1d(np.arange(n), learned.sample)
    queries = held[np.linspace(0, len(held) - 1, min(TRIAL_QUERIES, len(held))).astype(int)] if len(held) else held
    vectors = np.empty((len(queries), codebooks.dim), np.float32)
    for inputs, _, rows in data.rows_in_order(2_000):
        z = learned.embedding(inputs.numpy())
        numbers = rows.numpy()
        codes[numbers] = encode(codebooks, z, threads)
        found = np.isin(queries, numbers)
        vectors[found] = z[queries[found] - numbers[0]]
    return codes, vectors


def _operations(codebooks: Any, codes: Any, vectors: Any) -> dict[str, Any]:
    """Table additions per row of an exact search with held-out rows as queries; empty without such rows."""
    if not len(vectors):
        return {}
    index = Index.from_codes(codebooks, codes)
    stats = index.search(vectors, min(LIST_LENGTH, len(codes)), margin="exact").stats
    ops = stats.two_step_ops(codebooks.n_books, codebooks.n_crude)
    return {"ops": ops, "ops_in_cells": stats.ops_per_vector, "list": min(LIST_LENGTH, len(codes))}
