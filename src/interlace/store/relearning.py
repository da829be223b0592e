"""Books learned anew from the originals that a store keeps, and all of its rows coded by them.

The store goes on with its old books until everything is written; then one manifest takes the place of the other.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from .._threads import thread_count
from ..codec.codebooks import Codebooks
from ..codec.encode import encode
from ..engine.segments import Codes
from ..errors import InputError
from ..index.ids import Ids
from ..index.index import Index
from ..inputs.arrays import FloatArray, Rows, positive
from ..learn.fit import learn_codebooks
from ..learn.settings import LAYOUTS, Settings
from ..progress import Progress
from .drift import Drift
from .originals import KeptVectors
from .snapshot import Snapshot

#: Rows held out of learning, whose error later ones are compared with.
HELD_OUT = 5_000


class Recoded(Snapshot):
    """The rows of a snapshot with other books; they are coded when they are written, block by block."""

    def __init__(self, before: Snapshot, books: Index, drift: Drift, threads: int) -> None:
        super().__init__(
            books, before.parts, before.removed, before.tail, before.kind, before.next_id, before.extras, drift
        )
        self._threads = threads

    def _codes(self, part: int) -> Codes:
        assert self.extras.originals is not None
        rows = self.tail.originals
        if part < len(self.parts):
            file, rows = self.parts[part].originals_file, self.parts[part].originals
            assert file is not None
            file.verify()  # what is damaged must not get a new checksum
        codebooks = self.books.codebooks
        codes = np.empty((len(rows), 1 + len(codebooks.columns)), np.uint8)
        for first, vectors in KeptVectors(self.extras.originals, [rows]).blocks():
            codes[first : first + len(vectors)] = encode(codebooks, vectors, self._threads)
        return codes


def relearned(before: Snapshot, settings: dict[str, Any], progress: Progress) -> Recoded:
    """The same rows with books learned from their originals; bytes, layout and metric are kept unless given."""
    if before.extras.originals is None:
        raise InputError("relearn needs kept originals: il.create(path, source, originals='float16')")
    if not len(before):
        raise InputError("the store has no rows to learn from")
    learner = _learner(before.books.codebooks, settings, progress)
    rows = before.ids_of_rows.kept_rows()
    order = np.random.default_rng(learner.seed).permutation(rows)
    n_held = min(HELD_OUT, len(rows) // 10)
    train = np.sort(order[n_held:][: learner.max_train_rows])
    codebooks = learner.learn(before.vectors.take(train))
    books = Index.of_parts(codebooks, before.books.embedding, (), Ids.default(0), None)
    threads, drift = thread_count(learner.threads), Drift()
    if n_held:
        held = before.vectors.take(np.sort(order[:n_held]))
        away = held.astype(np.float64) - codebooks.decode(encode(codebooks, held, threads))
        drift = Drift.of_learning(float((away**2).sum(1).mean()), n_held)
    return Recoded(before, books, drift, threads)


@dataclass(frozen=True)
class _Learner:
    """How new books are learned from vectors."""

    learn: Callable[[FloatArray], Codebooks]
    seed: int
    max_train_rows: int
    threads: int | None


def _learner(old: Codebooks, settings: dict[str, Any], progress: Progress) -> _Learner:
    """By the method that learned the old books, as far as their layout tells it."""
    if "metric" in settings:
        raise InputError(f"relearn has no setting 'metric': that of the store, {old.metric!r}, stays")
    if "layout" in settings or old.layout in LAYOUTS:
        return _icq(old, settings, progress)
    # By name, because quantizers stand above stores.
    kind = importlib.import_module("..estimators.baselines.registry", __package__).learner_of(old.layout)
    if kind is None or old.metric != "l2":
        raise InputError(
            f"no method learns {old.metric} codebooks of the layout {old.layout!r} from vectors: name another, "
            f"relearn(layout=...), one of auto, {', '.join(LAYOUTS)}"
        )
    given = dict(settings)
    if "n_bytes" in given:
        if "n_books" in given:
            raise InputError("give n_bytes or n_books, not both")
        given["n_books"] = given.pop("n_bytes")  # each book is a byte
    unknown = given.keys() - kind._parameters().keys()
    if unknown:
        raise InputError(f"relearn has no setting {min(unknown)!r} for books of {kind.__name__}")
    model = kind(**{"n_books": old.n_bytes, **given}, progress=progress)
    return _Learner(
        lambda x: model.fit(x).codebooks_,
        positive(model.seed, "seed", least=0),
        positive(model.max_train_rows, "max_train_rows"),
        model.threads,
    )


def _icq(old: Codebooks, settings: dict[str, Any], progress: Progress) -> _Learner:
    unknown = settings.keys() - {field.name for field in fields(Settings)}
    if unknown:
        raise InputError(f"relearn has no setting {min(unknown)!r}")
    size = {} if "n_books" in settings else {"n_bytes": old.n_bytes}
    chosen = Settings(**{**size, "layout": old.layout, **settings, "metric": old.metric}).checked()

    def learn(x: FloatArray) -> Codebooks:
        learned = learn_codebooks(Rows(x), chosen, progress)
        if learned.interrupted:
            raise KeyboardInterrupt
        return learned.codebooks

    return _Learner(learn, chosen.seed, chosen.max_train_rows, chosen.threads)
