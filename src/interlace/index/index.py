"""The index: rows in memory or mapped from a file, with their ids. Searching never changes it."""

from __future__ import annotations

import dataclasses
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._threads import ForkLock, thread_count
from ..codec.codebooks import Codebooks, Codes
from ..codec.embedding import Embedding
from ..codec.encode import check_effort, checked_codes
from ..codec.originals import OriginalsFormat
from ..codec.space import Space
from ..engine.engine import Engine
from ..engine.margins import Calibration
from ..engine.originals import KeptVectors
from ..engine.segments import Segment
from ..errors import InputError
from ..files import storage
from ..inputs.arrays import FloatArray, Rows, describe
from ..inputs.literals import Auto, Cross, Effort, Layout, Metric, OriginalsKind, PriorFit, Rotation
from ..learn.auto import Choice
from ..learn.cost.limits import calibration_rows_that_fit
from ..learn.fit import Learned, learn_codebooks
from ..learn.sample import calibration_count
from ..learn.settings import Settings
from ..progress import Progress, as_progress, part, silent
from .adding import appended
from .calibration import calibrated, calibrated_by_added, calibrated_by_rows, outgrown
from .health import IndexHealth
from .id_values import IdArray
from .ids import Ids
from .planning import largest_ids, original_bytes, refuse_early
from .report import Report
from .searcher import Searcher
from .sections import SavedSearchable, read_sections, verify_rows
from .stores import make_store


class Index(SavedSearchable):
    """Vectors coded by :class:`Codebooks`, searched in two steps.

    ``Index.build(x)`` learns codebooks and adds x; ``Index(codebooks)`` starts empty. An index in memory grows by
    :meth:`add`; one opened from a file is mapped, not loaded, and can grow in memory too.
    With an ``embedding``, rows and queries are raw inputs (:attr:`input_shape`): it makes vectors of them, which are
    coded and searched. Vectors that are embedded already are passed with ``embedded=True``.

    With ``originals="float16"`` or ``"int8"`` it keeps the vectors beside their codes, for ``rerank`` and ``recall``.
    """

    def __init__(
        self, codebooks: Codebooks, embedding: Embedding | None = None, originals: OriginalsKind | None = None
    ) -> None:
        space = Space.checked(codebooks, embedding)
        kept = None if originals is None else KeptVectors(OriginalsFormat.around(originals, codebooks))
        self._searcher = Searcher(space, Engine(codebooks), Ids.default(0), kept)
        self._file: storage.File | None = None
        self._writes = ForkLock()  # one add or calibrate at a time; searches take no lock
        #: Why these books have the layout they have; None unless they were learned here, or by a model just now.
        self.choice: Choice | None = None

    @classmethod
    def of(cls, searcher: Searcher, file: storage.File | None = None, choice: Choice | None = None) -> Index:
        """An index of rows that are packed already, one id for each of them."""
        index = cls.__new__(cls)
        index._searcher, index._file, index.choice, index._writes = searcher, file, choice, ForkLock()
        return index

    @property
    def searcher(self) -> Searcher:
        """The current rows, ready to be searched; later writes do not change it."""
        return self._searcher

    @property
    def engine(self) -> Engine:
        """What searches the current rows by their numbers."""
        return self._searcher.engine

    @property
    def ids_of_rows(self) -> Ids:
        """Row numbers <-> ids."""
        return self._searcher.ids

    @property
    def codebooks(self) -> Codebooks:
        """What all rows are coded by."""
        return self._searcher.space.codebooks

    @property
    def embedding(self) -> Embedding | None:
        """Makes vectors of raw inputs, if there is one."""
        return self._searcher.space.embedding

    @property
    def calibration(self) -> Calibration | None:
        """The rules of calibrated margins, if there are any."""
        return self.engine.calibration

    @property
    def codes(self) -> Codes:
        """Codes uint8 [n, n_bytes] of all rows in insertion order, as :meth:`from_codes` takes them."""
        return self.engine.codes_of(self.engine.kept_rows())

    def _calibrate_by(self, made: Calibration) -> None:
        """In one assignment: a search in another thread sees all of it or nothing."""
        self._searcher = dataclasses.replace(self._searcher, engine=self.engine.with_calibration(made))

    @classmethod
    def build(
        cls,
        x: Any,
        *,
        ids: Any = None,
        originals: OriginalsKind | None = None,
        progress: Any = "auto",
        n_bytes: int | None = None,
        n_books: int | None = None,
        n_words: int = Settings.n_words,
        layout: Layout = "auto",
        n_crude: int | Auto | None = "auto",
        rotation: Rotation = "auto",
        cross: Cross = "auto",
        prior: PriorFit = "em",
        metric: Metric = "l2",
        effort: Effort = "balanced",
        parallel_weight: float = Settings.parallel_weight,
        cells: int | Auto = "auto",
        iterations: int = Settings.iterations,
        max_train_rows: int = Settings.max_train_rows,
        max_memory: int | str | None = None,
        seed: int = 0,
        threads: int | None = None,
    ) -> Index:
        """Learn codebooks from a sample of x, code all rows, calibrate the default margin.

        The settings from ``n_bytes`` on (8 unless ``n_books`` is given) are those of :class:`interlace.ICQ`. x is
        anything :class:`interlace.ICQ` takes, and is read in blocks. Ids of a table are its column ``id``, or the one
        that ``ids`` names. ``max_memory`` bounds the memory of all of it, beside x; ``InputError`` names the smallest
        that would do. ``progress`` is ``"auto"`` (a bar if there is a
        terminal), True, False or a function of what is done and its share. :attr:`choice` tells why ``layout="auto"``
        chose its layout. After Ctrl-C there is no index. ``originals`` keeps the vectors too, in ``"float16"`` or
        ``"int8"``: two bytes or one per dimension, in memory and in the file.
        """
        said = as_progress(progress)
        checked = Settings(
            n_bytes=n_bytes,
            n_books=n_books,
            n_words=n_words,
            layout=layout,
            n_crude=n_crude,
            rotation=rotation,
            cross=cross,
            prior=prior,
            metric=metric,
            effort=effort,
            parallel_weight=parallel_weight,
            cells=cells,
            iterations=iterations,
            max_train_rows=max_train_rows,
            max_memory=max_memory,
            seed=seed,
            threads=threads,
        ).checked()
        rows = x if isinstance(x, Rows) else Rows(x, ids=ids)
        ids = rows.ids(ids)
        refuse_early(rows, ids, originals, checked)
        learned = learn_codebooks(rows, checked, part(said, 0.0, 0.8, "learning"))
        if learned.interrupted:
            raise KeyboardInterrupt
        return cls.of_learned(learned, rows, ids, checked, part(said, 0.8, 1.0), originals=originals)

    @classmethod
    def from_codes(cls, codebooks: Codebooks, codes: Any, ids: Any = None, embedding: Embedding | None = None) -> Index:
        """An index of rows that were coded elsewhere: codes uint8 [n, n_bytes], the cell's first.

        Columns are those of :attr:`Codebooks.columns`, as :meth:`interlace.ICQ.encode` gives them. The margin is not
        calibrated: searches are exact until :meth:`calibrate`. ``embedding`` is that of the queries to come.
        """
        index = cls(codebooks, embedding)
        array = checked_codes(codebooks, codes)
        segments = (Segment.pack(array, codebooks),) if len(array) else ()
        all_ids = Ids.default(0).extend(ids, len(array))
        index._searcher = dataclasses.replace(index.searcher, engine=Engine(codebooks, segments), ids=all_ids)
        return index

    @classmethod
    def of_learned(
        cls,
        learned: Learned,
        rows: Rows,
        ids: Any,
        settings: Settings,
        progress: Progress,
        embedding: Embedding | None = None,
        originals: OriginalsKind | None = None,
    ) -> Index:
        """All rows coded and the margin calibrated on rows that were not learned from; see :meth:`of_rows`."""
        ids_at_most = largest_ids(len(rows), original_bytes(originals, len(rows), learned.codebooks.dim))
        queries = calibration_rows_that_fit(len(rows), rows.dim, settings, len(learned.sample), ids_at_most)
        index = cls.of_rows(
            learned.codebooks,
            rows,
            ids,
            sample=learned.sample,
            seed=settings.seed,
            threads=settings.threads,
            progress=progress,
            embedding=embedding,
            queries=queries,
            originals=originals,
        )
        index.choice = learned.choice
        return index

    @classmethod
    def of_rows(
        cls,
        codebooks: Codebooks,
        rows: Rows,
        ids: Any = None,
        *,
        sample: NDArray[np.int64],
        seed: int = 0,
        threads: int | None = None,
        progress: Progress = silent,
        embedding: Embedding | None = None,
        queries: int | None = None,
        originals: OriginalsKind | None = None,
    ) -> Index:
        """All rows coded, embedded ones if there is an embedding, and the margin calibrated on some of them.

        ``sample`` are the rows that the books were learned from, ascending: others calibrate, as far as there are some.
        ``queries`` is how many rows calibrate, 0 for none; by default as many as the default margin needs, or more.
        """
        index = cls(codebooks, embedding, originals)
        index.add(rows, ids, threads=threads, progress=part(progress, 0.0, 0.75))
        progress("calibrating", 0.75)
        count = calibration_count(len(rows), len(sample)) if queries is None else queries
        if count:
            index._calibrate_by(calibrated_by_rows(index.searcher, rows, sample, count, seed, thread_count(threads)))
        progress("done", 1.0)
        return index

    def add(
        self,
        x: Any,
        ids: Any = None,
        *,
        effort: Effort | None = None,
        threads: int | None = None,
        progress: Progress = silent,
        embedded: bool = False,
        recalibrate: bool = True,
    ) -> None:
        """Code and append rows. All of them are added, or, after an error, none.

        ``effort`` (``"fastest"``, ``"fast"``, ``"balanced"``, ``"best"``) trades coding time for accuracy; by default
        that of the codebooks. Rows are raw inputs where the index has an embedding, vectors with ``embedded=True``.
        When a calibrated index has grown by half, added rows calibrate it again, unless ``recalibrate=False``.
        """
        check_effort(effort)
        rows = self.searcher.space.rows(x, embedded, ids)
        ids = rows.ids(ids)
        with self._writes:
            first, workers = len(self), thread_count(threads)
            self._searcher = appended(self._searcher, rows, ids, effort, workers, progress)
            if recalibrate and outgrown(self.calibration, len(self)):
                self._calibrate_by(calibrated_by_added(self.searcher, rows, first, workers))
        progress("done", 1.0)

    def calibrate(self, queries: Any = None, *, threads: int | None = None, embedded: bool = False) -> None:
        """Recalibrate ``margin`` for the current rows, from your own queries, or from originals or decoded rows.

        Decoded rows are coarser than real queries: pass queries whenever you have some, as for :meth:`search`. A
        target needs a number of different queries to be supported with 95 % confidence: 397 for 0.99, 3,944 for 0.999,
        39,420 for 0.9999; copies, with or without a little noise, count once. Searches for a target that is not
        supported run exactly, and ``stats.fallback`` says so. Fewer different queries than the default margin (0.999)
        needs give a :class:`CalibrationWarning`. Where originals are kept, the re-rank depth for ``recall`` is measured
        too.
        """
        with self._writes:
            self._calibrate_by(calibrated(self.searcher, queries, thread_count(threads), embedded))

    def __len__(self) -> int:
        return self.ids_of_rows.n_kept

    def __contains__(self, value: object) -> bool:
        return self.ids_of_rows.contains(value)

    @property
    def ids(self) -> IdArray:
        """Every id in insertion order; int64, or strings in an object array."""
        return self.ids_of_rows.all()

    @property
    def dim(self) -> int:
        """Dimensions of a vector: of what is coded, after the embedding if there is one."""
        return self.codebooks.dim

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one raw input, what :meth:`add` and :meth:`search` take: that of a vector without an embedding."""
        return self.searcher.space.input_shape

    @property
    def metric(self) -> str:
        """``l2``, ``ip`` or ``cosine``."""
        return self.codebooks.metric

    @property
    def originals(self) -> str | None:
        """``float16`` or ``int8`` if the vectors are kept beside their codes, else None."""
        kept = self.searcher.originals
        return None if kept is None else kept.format.kind

    def reconstruct(self, ids: Any) -> FloatArray:
        """The vectors that the codes of these ids stand for, float32 [n, dim] (1-D for a single id).

        They are vectors in the space of the embedding, where there is one, and no raw inputs.
        """
        return self.searcher.reconstruct(ids)

    def to_store(
        self,
        path: str | PathLike[str],
        *,
        columns: Any = None,
        payload: Any = None,
        originals: str | None = None,
        limits: Any = None,
    ) -> Any:
        """Make a :class:`interlace.Store` of these rows in the directory ``path``, which must be new or empty.

        The arguments are those of :func:`interlace.create`. Kept originals go into the store.
        """
        return make_store(path, self, columns=columns, payload=payload, originals=originals, limits=limits)

    @classmethod
    def open(cls, path: str | PathLike[str], embedding: Any = None) -> Index:
        """Map a file written by :meth:`save`. Small sections are checked at once, all of them by :meth:`verify`.

        ``embedding`` is the torch module of an index whose embedding is one: files remember its weights by a
        fingerprint, which is compared. Without it only ``embedded=True`` works. All other embeddings are in the file.
        """
        return cls.of_file(storage.read(path), embedding)

    @classmethod
    def of_file(cls, file: storage.File, embedding: Any = None) -> Index:
        """As :meth:`open`, of a file that is open."""
        return cls.of(read_sections(file, embedding), file)

    def verify(self) -> None:
        """Raise unless every byte and every invariant holds: checksums, codes, row numbers, ids."""
        if self._file is not None:
            self._file.verify()
        verify_rows(self.searcher)

    def report(self) -> Report:
        """Bytes by part."""
        file = None if self._file is None else self._file.n_bytes
        return Report.of(self.searcher, file)

    def health(self) -> IndexHealth:
        """Rows per cell and validity of the calibration, and what to do."""
        return IndexHealth.of(self.searcher)

    @classmethod
    def from_bytes(cls, data: bytes, embedding: Any = None) -> Index:
        """Inverse of :meth:`to_bytes`, or the index of the bytes of a file; ``embedding`` as for :meth:`open`."""
        if not isinstance(data, bytes | bytearray | memoryview):
            raise InputError(f"data must be the bytes of an index, got {describe(data)}")
        return storage.from_bytes(bytes(data), lambda path: cls.open(path, embedding))

    def __enter__(self) -> Index:
        return self

    def __reduce__(self) -> Any:
        """The bytes of its file, in which nothing is executable; a torch module of the user is left out, as there."""
        return _unpickled, (self.to_bytes(), self.choice)

    def __copy__(self) -> Index:
        """Both share what they have, and each grows by itself: segments and ids never change."""
        return Index.of(self.searcher, self._file, self.choice)

    def __deepcopy__(self, memo: dict[int, Any]) -> Index:
        return self.__copy__()

    def __repr__(self) -> str:
        embedding = "" if self.embedding is None else f", {self.embedding!r}"
        return f"Index({len(self)} rows, {self.ids_of_rows.kind} ids, {self.codebooks!r}{embedding})"


def _unpickled(saved: bytes, choice: Choice | None) -> Index:
    index = storage.from_bytes(saved, Index.open)
    return Index.of(index.searcher, index.file, choice)
