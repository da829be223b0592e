"""New codebooks learned from the originals of a store, and all of its rows encoded with them.

The store uses its old codebooks until all new files are written; then a new manifest replaces the old one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from .._threads import thread_count
from ..codec.codebooks import Codebooks, Codes
from ..codec.encode import encode
from ..codec.space import Space
from ..engine.originals import KeptVectors
from ..errors import InputError
from ..index.ids import Ids
from ..inputs.arrays import FloatArray, Rows
from ..learn.cells import sample_size
from ..learn.fit import learn_codebooks
from ..learn.registry import BookLearner, learner_of_layout
from ..learn.settings import LAYOUTS, Settings
from ..progress import Progress
from .books import StoredBooks
from .drift import Drift
from .snapshot import Snapshot

#: Rows held out of learning: the error of later rows is compared with theirs.
HELD_OUT = 5_000


class Recoded(Snapshot):
    """The rows of a snapshot with other codebooks. They are encoded when they are written, block by block."""

    def __init__(self, before: Snapshot, books: StoredBooks, drift: Drift, threads: int) -> None:
        super().__init__(books, before.rows, before.next_id, drift)
        self._threads = threads

    def merged(self, first: int, stop: int) -> tuple[Codes, Ids]:
        """New codes, and ids, of the kept rows of consecutive parts."""
        return self.rows.merged(first, stop, self._codes)

    def _codes(self, part: int) -> Codes:
        stored = self.rows
        assert stored.extras.originals is not None
        rows = stored.tail.originals
        if part < len(stored.parts):
            file, rows = stored.parts[part].originals_file, stored.parts[part].originals
            assert file is not None
            file.verify()  # damaged data must not get a valid checksum
        codebooks = self.books.codebooks
        codes = np.empty((len(rows), codebooks.code_width), np.uint8)
        for first, vectors in KeptVectors(stored.extras.originals, [rows]).blocks():
            codes[first : first + len(vectors)] = encode(codebooks, vectors, self._threads)
        return codes


def relearned(before: Snapshot, settings: Mapping[str, Any], progress: Progress) -> Recoded:
    """The same rows with new codebooks; ``settings`` has the parameters that the user passed."""
    if before.rows.extras.originals is None:
        raise InputError("relearn needs kept originals: il.create(path, source, originals='float16')")
    if not len(before):
        raise InputError("relearn needs rows to learn from, but the store is empty")
    rows = before.rows.ids.kept_rows()
    learner = _learner(before.books.codebooks, settings, len(rows), progress)
    order = np.random.default_rng(learner.seed).permutation(rows)
    n_held = min(HELD_OUT, len(rows) // 10)
    train = np.sort(order[n_held:][: learner.max_train_rows])
    codebooks = learner.learn(before.rows.vectors.take(train))
    books = StoredBooks(Space(codebooks, before.books.space.embedding))
    threads, drift = thread_count(learner.threads), Drift()
    if n_held:
        held = before.rows.vectors.take(np.sort(order[:n_held]))
        away = held.astype(np.float64) - codebooks.decode(encode(codebooks, held, threads))
        drift = Drift.of_learning(float((away**2).sum(1).mean()), n_held)
    return Recoded(before, books, drift, threads)


def _learner(old: Codebooks, settings: Mapping[str, Any], n_rows: int, progress: Progress) -> BookLearner:
    """A learner of the method that learned the old codebooks, which their layout identifies."""
    if "layout" in settings or old.layout in LAYOUTS:
        return _icq(old, settings, n_rows, progress)
    make = learner_of_layout(old.layout) if old.metric_type.is_squared else None
    if make is None:
        raise InputError(
            f"no method learns codebooks of the layout {old.layout!r} for the metric {old.metric!r}: pass another "
            f"layout, relearn(layout=...), one of auto, {', '.join(LAYOUTS)}"
        )
    return make(old.n_bytes, settings, progress)


def _icq(old: Codebooks, settings: Mapping[str, Any], n_rows: int, progress: Progress) -> BookLearner:
    unknown = settings.keys() - {field.name for field in fields(Settings)}
    if unknown:
        raise InputError(f"relearn has no setting {min(unknown)!r} for codebooks of ICQ")
    size = {} if "n_books" in settings else {"n_bytes": old.n_bytes}
    chosen = Settings(**{**size, "layout": old.layout, **settings, "metric": old.metric}).checked()
    chosen = chosen.for_rows(n_rows)
    most = sample_size(n_rows, chosen.max_train_rows, chosen.n_cells) if chosen.many_cells else chosen.max_train_rows

    def learn(x: FloatArray) -> Codebooks:
        learned = learn_codebooks(Rows(x), chosen, progress)
        if learned.interrupted:
            raise KeyboardInterrupt
        return learned.codebooks

    return BookLearner(learn, chosen.seed, most, chosen.threads)
