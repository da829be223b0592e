"""New codebooks learned from the vectors that a store keeps, and all of its rows encoded with them.

The store uses its old codebooks until all new files are written; then a new manifest replaces the old one. A store
without codebooks learns its first ones in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from .._threads import thread_count
from ..codec.codebooks import Codebooks, Codes
from ..codec.encode import encode
from ..codec.originals import Bytes, Loss, OriginalsFormat
from ..codec.space import Space
from ..engine.margins import Calibration
from ..engine.originals import KeptVectors
from ..errors import InputError
from ..files import storage
from ..index.calibration import sampled_rows
from ..index.ids import Ids
from ..inputs.arrays import FloatArray, Rows
from ..learn.cells import sample_size
from ..learn.fit import learn_codebooks
from ..learn.registry import BookLearner, learner_of_layout
from ..learn.settings import LAYOUTS, Settings
from ..progress import Progress
from .books import StoredBooks
from .drift import Drift
from .extras import Extras
from .learning_plan import LearningPlan
from .parts import Part
from .rows import StoredRows
from .snapshot import Snapshot

#: Rows held out of learning: the error of later rows is compared with theirs.
HELD_OUT = 5_000


@dataclass(frozen=True, eq=False)
class Relearned:
    """New codebooks for the rows of a store, and the rows that were encoded with them so far."""

    books: StoredBooks
    drift: Drift
    plan: LearningPlan | None
    threads: int
    _codes: dict[Part, Codes] = field(default_factory=dict)

    @property
    def originals(self) -> OriginalsFormat | None:
        """Format of the vectors beside the new codes."""
        return self.books.originals

    def missing(self, snapshot: Snapshot) -> int:
        """Rows in segments of a snapshot that :meth:`encode` has not encoded."""
        return sum(part.ids.n for part in snapshot.rows.parts if part not in self._codes)

    def encode(self, snapshot: Snapshot, check: Callable[[], None]) -> None:
        """Encode the segments of a snapshot; ``check`` is called between blocks and may raise."""
        parts = snapshot.rows.parts
        for part in [part for part in self._codes if part not in parts]:
            del self._codes[part]
        for i, part in enumerate(parts):
            if part not in self._codes:
                self._codes[part] = self.codes_of(snapshot.rows, i, check)

    def codes_of(self, stored: StoredRows, number: int, check: Callable[[], None] | None = None) -> Codes:
        """New codes of all rows of a part."""
        assert stored.extras.originals is not None
        rows = stored.tail.originals
        if number < len(stored.parts):
            part = stored.parts[number]
            if part in self._codes:
                return self._codes[part]
            assert part.originals_file is not None
            part.originals_file.verify()  # damaged data must not get a valid checksum
            rows = part.originals
        codebooks = self.books.codebooks
        codes = np.empty((len(rows), codebooks.code_width), np.uint8)
        for first, vectors in KeptVectors(stored.extras.originals, [rows]).blocks():
            if check is not None:
                check()
            codes[first : first + len(vectors)] = encode(codebooks, vectors, self.threads)
        return codes

    def calibration(self, before: Snapshot, after: Snapshot, threads: int) -> Calibration | None:
        """For ``after``, the state that replaced ``before`` and has its kept rows in the same order.

        Where no vectors are kept, those of ``before`` are the queries: decoded rows would be too near to the codes.
        """
        if not len(after):
            return None
        if self.originals is not None:
            return after.calibrated(None, threads, False)
        chosen = sampled_rows(after.searcher)
        vectors = before.rows.vectors.take(before.rows.ids.kept_rows()[chosen])
        vectors = after.books.space.directed(vectors, "queries")
        return after.searcher.engine.calibrated(vectors, chosen, threads=threads)

    def applied(self, snapshot: Snapshot) -> Recoded:
        """The rows of a snapshot with the new codebooks."""
        return Recoded(snapshot, self)


class Recoded(Snapshot):
    """The rows of a snapshot with other codebooks. They are encoded when they are written, if they were not before."""

    def __init__(self, before: Snapshot, new: Relearned) -> None:
        super().__init__(new.books, before.rows, before.next_id, new.drift, new.plan)
        self._new = new
        self._lost: dict[int, Loss] = {}  # by the first part of what was converted

    @property
    def extras(self) -> Extras:
        """Columns as before, and vectors in the format that they have beside codes."""
        return replace(self.rows.extras, originals=self._new.originals)

    @property
    def loss(self) -> Loss:
        """That of the rows that were converted, or as before."""
        return sum(self._lost.values(), Loss()) if self._lost else self.rows.loss

    def merged(self, first: int, stop: int) -> tuple[Codes, Ids]:
        """New codes, and ids, of the kept rows of consecutive parts."""
        return self.rows.merged(first, stop, lambda part: self._new.codes_of(self.rows, part))

    def merged_originals(self, first: int, stop: int) -> storage.Blocks:
        """Vectors of the kept rows, converted if the format changes."""
        blocks, before, after = self.rows.merged_originals(first, stop), self.rows.extras.originals, self._new.originals
        assert before is not None
        assert after is not None
        if before.kind == after.kind:
            return blocks

        def converted() -> Iterator[Bytes]:
            self._lost[first] = Loss()  # blocks are made twice
            for block in blocks.blocks():
                vectors = before.to_vectors(block)
                rows = after.to_bytes(vectors, taken=True)
                self._lost[first] += after.loss(vectors, rows)
                yield rows

        return storage.Blocks(np.dtype(np.uint8), (blocks.shape[0], after.width), converted)


def relearned(
    before: Snapshot, settings: Mapping[str, Any], progress: Progress, threads: int | None = None
) -> Relearned:
    """New codebooks for the rows of a snapshot; ``settings`` has the parameters that the user passed.

    ``threads`` replaces the setting of a plan for this time.
    """
    if before.rows.extras.originals is None:
        raise InputError("relearn needs kept originals: il.create(path, source, originals='float16')")
    if not len(before):
        raise InputError("relearn needs rows to learn from, but the store is empty")
    rows, plan = before.rows.ids.kept_rows(), before.plan
    if plan is None:
        learner = _learner(before.books.codebooks, settings, len(rows), progress)
    else:
        settings = plan.combined(settings)
        asked = Settings(**_known(settings))
        learner = _icq(asked if threads is None else replace(asked, threads=threads), len(rows), progress)
        plan = plan.after(settings, len(rows))
    order = np.random.default_rng(learner.seed).permutation(rows)
    n_held = min(HELD_OUT, len(rows) // 10)
    train = np.sort(order[n_held:][: learner.max_train_rows])
    codebooks = learner.learn(before.rows.vectors.take(train))
    originals = before.originals
    if before.collecting and originals is not None:  # converted for the first time; afterwards they stay as they are
        rows_now = (block for _, block in before.rows.vectors.blocks())
        originals = OriginalsFormat.around(originals.kind, codebooks, rows_now)
    books = StoredBooks(Space(codebooks, before.books.space.embedding), originals=originals)
    workers, drift = thread_count(learner.threads), Drift()
    if n_held:
        held = before.rows.vectors.take(np.sort(order[:n_held]))
        away = held.astype(np.float64) - codebooks.decode(encode(codebooks, held, workers))
        drift = Drift.of_learning(float((away**2).sum(1).mean()), n_held)
    return Relearned(books, drift, plan, workers)


def _learner(old: Codebooks, settings: Mapping[str, Any], n_rows: int, progress: Progress) -> BookLearner:
    """A learner of the method that learned the old codebooks, which their layout identifies."""
    if "layout" in settings or old.layout in LAYOUTS:
        size = {} if "n_books" in settings else {"n_bytes": old.n_bytes}
        kept = {"layout": old.layout, "parallel_weight": old.parallel_weight}
        asked = {**size, **kept, **_known(settings), "metric": old.metric}
        return _icq(Settings(**asked), n_rows, progress)
    make = learner_of_layout(old.layout) if old.metric_type.is_squared else None
    if make is None:
        raise InputError(
            f"no method learns codebooks of the layout {old.layout!r} for the metric {old.metric!r}: pass another "
            f"layout, relearn(layout=...), one of auto, {', '.join(LAYOUTS)}"
        )
    return make(old.n_bytes, settings, progress)


def _known(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings; InputError if ICQ does not have one of them."""
    unknown = settings.keys() - {field.name for field in fields(Settings)}
    if unknown:
        raise InputError(f"relearn has no setting {min(unknown)!r} for codebooks of ICQ")
    return settings


def _icq(settings: Settings, n_rows: int, progress: Progress) -> BookLearner:
    asked = settings.checked()
    chosen = asked.for_rows(n_rows)
    most = sample_size(n_rows, chosen.max_train_rows, chosen.n_cells) if chosen.many_cells else chosen.max_train_rows

    def learn(x: FloatArray) -> Codebooks:
        learned = learn_codebooks(Rows(x), asked, progress, n_rows=n_rows)
        if learned.interrupted:
            raise KeyboardInterrupt
        return learned.codebooks

    return BookLearner(learn, chosen.seed, most, chosen.threads)
