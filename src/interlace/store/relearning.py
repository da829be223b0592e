"""Books learned anew from the originals that a store keeps, and all of its rows coded by them.

The store goes on with its old books until everything is written; then one manifest takes the place of the other.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from .._threads import thread_count
from ..arrays import Rows
from ..encode import encode
from ..errors import InputError
from ..ids import Ids
from ..index import Index
from ..learning import Settings, learn_codebooks
from ..progress import Progress
from ..segments import Codes
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
    unknown = settings.keys() - {field.name for field in dataclasses.fields(Settings)}
    if unknown or "metric" in settings:
        raise InputError(f"relearn has no setting {min(unknown) if unknown else 'metric'!r}")
    old = before.books.codebooks
    size = {} if "n_books" in settings else {"n_bytes": old.n_bytes}
    chosen = Settings(**{**size, "layout": old.layout, **settings, "metric": old.metric}).checked()
    rows = before.ids_of_rows.kept_rows()
    order = np.random.default_rng(chosen.seed).permutation(rows)
    n_held = min(HELD_OUT, len(rows) // 10)
    train = np.sort(order[n_held:][: chosen.max_train_rows])
    learned = learn_codebooks(Rows(before.vectors.take(train)), chosen, progress)
    if learned.interrupted:
        raise KeyboardInterrupt
    books = Index.of_parts(learned.codebooks, before.books.embedding, (), Ids.default(0), None)
    threads, drift = thread_count(chosen.threads), Drift()
    if n_held:
        held = before.vectors.take(np.sort(order[:n_held]))
        away = held.astype(np.float64) - learned.codebooks.decode(encode(learned.codebooks, held, threads))
        drift = Drift.of_learning(float((away**2).sum(1).mean()), n_held)
    return Recoded(before, books, drift, threads)
