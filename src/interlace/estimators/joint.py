"""Between the estimators and ``learn.joint``: parameters are checked, and torch is imported only when needed."""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np

from .._threads import thread_count
from ..codec.encode import encode
from ..errors import FitInterruptedWarning, InputError, warn_user
from ..index.index import Index
from ..inputs.arrays import positive
from ..inputs.spool import yields_blocks
from ..learn.recipe import LOSSES, OPTIMIZERS, Joint, Recipe
from ..progress import shown
from .base import is_dataset, readable
from .models import Fitted

EMBEDDINGS = ("identity", "linear", "mlp", "lenet", "alexnet")
CROSS = ("auto", "constant", "byte", "exact")
MAX_BOOKS = 64
#: Held-out queries, and rows that each asks for, behind the operations of a model card.
TRIAL_QUERIES, LIST_LENGTH = 500, 100


def checked(model: Any, kind: str, n_books: int | None, n_bytes: int | None, n_crude: Any, cross: str) -> Joint:
    """The parameters of an estimator, or an error that names the first one that cannot be."""
    if n_bytes is not None and n_books is not None:
        raise InputError("give n_bytes or n_books, not both")
    if cross not in CROSS:
        raise InputError(f"cross must be one of {', '.join(CROSS)} when learning with labels, got {cross!r}")
    cross = "constant" if cross == "auto" else cross
    if n_books is None:
        # Cross terms of product books, and of two books, take no byte.
        stored = cross == "byte" and kind != "pq" and n_bytes != 2
        if stored and n_bytes is not None and n_bytes < 4:
            raise InputError(f"cross='byte' takes one of the bytes and pays from 4 on, got n_bytes={n_bytes}")
        n_books = 8 if n_bytes is None else positive(n_bytes, "n_bytes") - stored
    if not 1 <= positive(n_books, "n_books", least=0) <= MAX_BOOKS:
        raise InputError(f"there must be 1 to {MAX_BOOKS} books, got {n_books}")
    n_crude = None if n_crude in ("auto", None) else positive(n_crude, "n_crude")
    if n_crude is not None and n_crude > n_books:
        raise InputError(f"n_crude must be 1 to {n_books} (the number of books), got {n_crude}")
    if not 2 <= positive(model.n_words, "n_words") <= 256:
        raise InputError(f"n_words must be 2 to 256, got {model.n_words}")
    return Joint(
        kind=kind,
        n_books=n_books,
        n_words=model.n_words,
        n_crude=n_crude,
        cross=cross,
        seed=positive(model.seed, "seed", least=0),
        threads=thread_count(model.threads),
        **only_with_labels(model),
    )


def only_with_labels(model: Any) -> dict[str, Any]:
    """Those parameters that a fit without labels has no use for, checked all the same."""
    if isinstance(model.embedding, str) and model.embedding not in EMBEDDINGS:
        raise InputError(f"embedding must be one of {', '.join(EMBEDDINGS)} or a torch module, got {model.embedding!r}")
    for name, known in (("loss", LOSSES), ("optimize", OPTIMIZERS)):
        if getattr(model, name) not in known:
            raise InputError(f"{name} must be one of {', '.join(known)}, got {getattr(model, name)!r}")
    if not isinstance(model.hidden, tuple | list):
        raise InputError(f"hidden must be the widths of the hidden layers, such as (256,), got {model.hidden!r}")
    validation = model.validation
    if isinstance(validation, bool) or not isinstance(validation, Real) or not 0 <= float(validation) < 1:
        raise InputError(f"validation must be a share of the rows from 0 to below 1, got {validation!r}")
    return {
        "dim": None if model.dim is None else positive(model.dim, "dim"),
        "embedding": model.embedding,
        "hidden": tuple(positive(width, "hidden") for width in model.hidden),
        "loss": model.loss,
        "optimize": model.optimize,
        "recipe": Recipe.named(model.recipe),
        "validation": float(validation),
        "checkpoint": model.checkpoint,
        "device": model.device,
    }


def _shape(x: Any) -> tuple[int, ...]:
    """Of arrays, and of lists by their first rows."""
    if isinstance(x, list | tuple) and len(x) and not yields_blocks(x):
        return 0, *_shape(x[0])
    return tuple(getattr(x, "shape", ()))


def fit_jointly(joint: Joint, x: Any, y: Any, progress: Any) -> Fitted:
    """Learn embedding and books from inputs and labels; rows are coded without their labels."""
    from ..learn.joint import require_torch

    require_torch()
    from ..learn.joint.batches import Data
    from ..learn.joint.fit import learn_jointly
    from ..learn.joint.modules import device_of

    said = shown(progress)
    names = None
    if not is_dataset(x) and len(_shape(x)) <= 2:
        x, names = readable(x)
    data = Data(x, y)
    joint = replace(joint, device=device_of(joint.device))
    learned = learn_jointly(data, joint, lambda what, done: said(what, 0.97 * done))
    codes: Any = None
    work: dict[str, Any] = {}
    coded = True
    try:
        said("coding", 0.97)
        codes, vectors = _coded(data, learned, joint.threads)
        work = _work(learned.codebooks, codes, vectors)
        said("done", 1.0)
    except KeyboardInterrupt:
        coded = False  # encode makes codes again; what was learned would be lost
    interrupted = learned.interrupted or not coded
    if codes is None:
        warn_user(
            "learning was interrupted while rows were coded; the model is kept without codes_ and labels_: score needs "
            "X_database and y_database",
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
        labels=None if codes is None else data.classes[data.labels],
        info=learned.info | {"interrupted": interrupted} | work,
    )


def _coded(data: Any, learned: Any, threads: int) -> tuple[Any, Any]:
    """Codes of all rows, and vectors of some that were held out: what to count operations with."""
    codebooks, n = learned.codebooks, len(data)
    codes = np.empty((n, codebooks.n_bytes), np.uint8)
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


def _work(codebooks: Any, codes: Any, vectors: Any) -> dict[str, Any]:
    """Table additions per row of an exact search for rows that were not learned from; nothing without such rows."""
    if not len(vectors):
        return {}
    index = Index.from_codes(codebooks, codes)
    stats = index.search(vectors, min(LIST_LENGTH, len(codes)), margin="exact").stats
    ops = stats.two_step_ops(codebooks.n_books, codebooks.n_crude)
    return {"ops": ops, "ops_in_cells": stats.ops_per_vector, "list": min(LIST_LENGTH, len(codes))}
