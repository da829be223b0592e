"""The index: codebooks, packed segments, ids. Searching never changes it."""

from __future__ import annotations

import dataclasses
import importlib
import time
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _native
from .._threads import thread_count
from ..codec.codebooks import MAX_WORDS, Codebooks, codebooks_of
from ..codec.embedded import EmbeddedRows, embed_queries
from ..codec.embedding import Embedding, embedding_in
from ..codec.encode import EFFORTS, encode_rows
from ..engine import calibrating, margins
from ..engine.matches import Matches, SearchStats
from ..engine.searches import Searches
from ..engine.searching import Allowed, Mask, calibrate, codes_of, search_like
from ..engine.segments import Segment, merge, segment_in
from ..engine.segments import verify as verify_segment
from ..errors import DamagedFileError, InputError, NotAnIndexError
from ..files import storage
from ..inputs.arrays import FloatArray, Rows, as_queries, describe, normalize, positive, to_numpy
from ..inputs.literals import Auto, Cross, Effort, Layout, Margin, Metric, PriorFit, Rotation
from ..learn.choice import Choice
from ..learn.cost import HELD_OUT_ROWS, calibration_count, calibration_that_fits, rows_that_fit
from ..learn.learning import (
    ITERATIONS,
    LEAST_ERROR_ROWS,
    MAX_TRAIN_ROWS,
    Learned,
    Settings,
    calibration_rows,
    learn_codebooks,
)
from ..progress import Progress, shown, silent
from .evaluation import Evaluation, evaluate_index
from .ids import IdArray, Ids, parse_ids
from .report import Report

MAX_ANSWERS = 2**31
#: Small sections whose damage would lose hits, not only rows.
CHECKED_AT_OPEN = (
    "segment.cell_starts",
    "segment.cross_floors",
    "calibration.shares",
    "calibration.cells",
    "calibration.slacks",
    "calibration.strays",
    "calibration.farthest",
)
QUERIES_PER_TASK = 8  # QueryTables::kGroup of cpp/core/books.h: what one thread takes at a time


#: What reads files of other kinds.
OPENERS = {
    "codebooks": "Codebooks.load",
    "model": "interlace.quantizers.load",
    "parts index": "interlace.parts.PartsIndex.open",
}


class Index(Searches):
    """Vectors coded by :class:`Codebooks`, searched in two steps.

    ``Index.build(x)`` learns codebooks and adds x; ``Index(codebooks)`` starts empty. An index in memory grows by
    :meth:`add`; one opened from a file is mapped, not loaded, and can grow in memory too.

    With an ``embedding``, rows and queries are raw inputs (:attr:`input_shape`): it makes vectors of them, which are
    coded and searched. Vectors that are embedded already are passed with ``embedded=True``.
    """

    def __init__(self, codebooks: Codebooks, embedding: Embedding | None = None) -> None:
        if not isinstance(codebooks, Codebooks):
            raise InputError(f"Index needs Codebooks, got {describe(codebooks)}; Index.build(x) learns them")
        if embedding is not None and not isinstance(embedding, Embedding):
            raise InputError(
                f"embedding must be one of interlace.embedding (Module wraps one of torch), got {describe(embedding)}"
            )
        if embedding is not None and embedding.dim != codebooks.dim:
            raise InputError(f"the embedding gives {embedding.dim} dimensions, the books code {codebooks.dim}")
        self.codebooks = codebooks
        self.embedding = embedding
        self._segments: tuple[Segment, ...] = ()
        self._ids = Ids.default(0)
        self._calibration: margins.Calibration | None = None
        self._file: storage.File | None = None
        #: Why these books have the layout they have; None unless they were learned here, or by a model just now.
        self.choice: Choice | None = None

    @classmethod
    def build(
        cls,
        x: Any,
        *,
        ids: Any = None,
        progress: Any = "auto",
        n_bytes: int | None = None,
        n_books: int | None = None,
        n_words: int = MAX_WORDS,
        layout: Layout = "auto",
        n_crude: int | Auto | None = "auto",
        rotation: Rotation = "auto",
        cross: Cross = "auto",
        prior: PriorFit = "em",
        metric: Metric = "l2",
        effort: Effort = "balanced",
        iterations: int = ITERATIONS,
        max_train_rows: int = MAX_TRAIN_ROWS,
        max_memory: int | str | None = None,
        seed: int = 0,
        threads: int | None = None,
    ) -> Index:
        """Learn codebooks from a sample of x, code all rows, calibrate the default margin.

        The settings from ``n_bytes`` on (8 unless ``n_books`` is given) are those of :class:`interlace.ICQ`. x is
        anything :class:`interlace.ICQ` takes, and is read in blocks. ``max_memory`` bounds the memory of all of it,
        beside x; ``InputError`` names the smallest that would do. ``progress`` is ``"auto"`` (a bar if there is a
        terminal), True, False or a function of what is done and its share. :attr:`choice` tells why ``layout="auto"``
        chose its layout. After Ctrl-C there is no index.
        """
        said = shown(progress)
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
            iterations=iterations,
            max_train_rows=max_train_rows,
            max_memory=max_memory,
            seed=seed,
            threads=threads,
        ).checked()
        rows = Rows(x)
        # Before minutes of learning: the ids, and whether memory will do.
        kind = "default"
        if ids is not None:
            kind = "int64" if parse_ids(ids, len(rows)).dtype == np.int64 else "string"
        if len(rows):
            limits = (checked.max_train_rows, checked.max_memory, thread_count(checked.threads))
            rows_that_fit(len(rows), rows.dim, checked, *limits, index=kind)
        learned = learn_codebooks(rows, checked, lambda what, done: said(f"learning: {what}", 0.8 * done))
        if learned.interrupted:
            raise KeyboardInterrupt
        return cls.of_learned(learned, rows, ids, checked, lambda what, done: said(what, 0.8 + 0.2 * done))

    @classmethod
    def from_codes(cls, codebooks: Codebooks, codes: Any, ids: Any = None, embedding: Embedding | None = None) -> Index:
        """An index of rows that were coded elsewhere: codes uint8 [n, n_bytes], the cell's first.

        Columns are those of :attr:`Codebooks.columns`, as :meth:`interlace.ICQ.encode` gives them. The margin is not
        calibrated: searches are exact until :meth:`calibrate`. ``embedding`` is that of the queries to come.
        """
        index = cls(codebooks, embedding)
        array = np.array(to_numpy(codes, "codes"), order="C")  # what is checked is what is packed
        if array.ndim != 2 or array.shape[1] != codebooks.n_bytes or array.dtype != np.uint8:
            raise InputError(f"codes must be uint8 [n, {codebooks.n_bytes}], got {describe(codes)}")
        for column, (largest, size) in enumerate(zip(array.max(0, initial=0), codebooks.column_sizes, strict=True)):
            if largest >= size:
                row = int(np.argmax(array[:, column] >= size))
                raise InputError(f"codes[{row}, {column}] is {array[row, column]}, but its column has {size} entries")
        index._ids = index._ids.extend(ids, len(array))
        if len(array):
            index._segments = (Segment.pack(array, codebooks),)
        return index

    @classmethod
    def of_parts(
        cls,
        codebooks: Codebooks,
        embedding: Embedding | None,
        segments: tuple[Segment, ...],
        ids: Ids,
        calibration: margins.Calibration | None,
    ) -> Index:
        """An index of rows that are packed already, one id for each of them."""
        index = cls(codebooks, embedding)
        index._segments, index._ids, index._calibration = segments, ids, calibration
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
    ) -> Index:
        """All rows coded and the margin calibrated on rows that were not learned from; see :meth:`of_rows`."""
        bound = (settings.max_memory, thread_count(settings.threads))
        queries = calibration_that_fits(len(rows), rows.dim, settings, len(learned.sample), *bound)
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
    ) -> Index:
        """All rows coded, embedded ones if there is an embedding, and the margin calibrated on some of them.

        ``sample`` are the rows that the books were learned from, ascending: others calibrate, as far as there are some.
        ``queries`` is how many rows calibrate, 0 for none; by default as many as the default margin needs, or more.
        """
        index = cls(codebooks, embedding)
        index.add(rows, ids, threads=threads, progress=lambda what, done: progress(what, 0.75 * done))
        progress("calibrating", 0.75)
        count = calibration_count(len(rows), len(sample)) if queries is None else queries
        if not count:
            progress("done", 1.0)
            return index
        chosen = calibration_rows(len(rows), sample, count, np.random.default_rng(seed))
        vectors = rows.take(chosen)
        if codebooks.metric == "cosine":
            vectors = normalize(vectors, name="x", rows=chosen)
        made = calibrate(codebooks, index._segments, vectors, chosen, thread_count(threads))
        unlearned = ~np.isin(chosen, sample, assume_unique=True)  # the others look too good
        if not codebooks.error_rows and unlearned.sum() >= LEAST_ERROR_ROWS:
            decoded = codebooks.decode(index._codes_of(chosen[unlearned]))
            error = float(((vectors[unlearned].astype(np.float64) - decoded) ** 2).sum(1).mean())
            made = dataclasses.replace(made, error=error, error_rows=int(unlearned.sum()))
        index._calibration = made
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
    ) -> None:
        """Code and append rows. All of them are added, or, after an error, none.

        ``effort`` (``"fastest"``, ``"fast"``, ``"balanced"``, ``"best"``) trades coding time for accuracy; by default
        that of the codebooks. Rows are raw inputs where the index has an embedding, vectors with ``embedded=True``.
        """
        if effort is not None and effort not in EFFORTS:
            raise InputError(f"effort must be one of {', '.join(EFFORTS)}, got {effort!r}")
        rows = self._rows(x, embedded)
        new_ids = self._ids.extend(ids, len(rows))
        if len(rows) == 0:
            return
        codes = encode_rows(self.codebooks, rows, thread_count(threads), effort, progress)
        segments = [*self._segments, Segment.pack(codes, self.codebooks)]
        # Merge while the last segment is not much smaller than the one before: each row is repacked O(log n) times.
        while len(segments) > 1 and segments[-2].n_rows < 2 * segments[-1].n_rows:
            segments[-2:] = [merge(segments[-2:], self.codebooks)]
        # In this order: a search in another thread reads segments first, and then finds an id for each of their rows.
        self._ids = new_ids
        self._segments = tuple(segments)

    def search(
        self,
        q: Any,
        k: int = 10,
        *,
        offset: int = 0,
        margin: Margin = margins.DEFAULT,
        threads: int | None = None,
        filter: Any = None,
        embedded: bool = False,
    ) -> Matches:
        """The k nearest rows of each query; with ``offset``, those that follow the first ``offset`` of them.

        Queries are raw inputs where the index has an embedding, vectors with ``embedded=True``; one alone, 1-D or in
        the shape of an input, gives 1-D results.
        ``margin`` is ``"exact"`` (the answer of the exhaustive scan), a target agreement with it (calibrated; falls
        back to exact where the calibration does not reach, see ``stats.margin``), ``"paper"``, or ``inf``
        (exhaustive). ``filter`` is a boolean mask over rows in insertion order, an array of allowed ids, or what
        :meth:`allow` makes of either; filtered searches are exact where the margin is calibrated.
        """
        k, offset = positive(k, "k"), positive(offset, "offset", least=0)
        segments, ids = self._segments, self._ids
        queries, single = self._vectors(q, embedded)
        depth = k + offset
        self._rule(margin, depth, filter is not None)  # a wrong margin is refused before anything runs
        if len(queries) * depth > MAX_ANSWERS:
            what = f"k={k}" if not offset else f"(k={k} + offset={offset})"
            raise InputError(
                f"{len(queries)} queries x {what} make more than {MAX_ANSWERS} answers; ask for fewer at once"
            )
        workers = thread_count(threads)
        mask = None if filter is None else self._mask(filter, ids)
        started = time.perf_counter()
        rows, distances, counts, work, rule, unlike = search_like(
            self.codebooks,
            segments,
            ids.removed,
            queries,
            depth,
            lambda hits, filtered: self._rule(margin, hits, filtered),
            workers,
            mask,
        )
        if offset:
            rows, distances = rows[:, offset:], np.ascontiguousarray(distances[:, offset:])
            counts = np.maximum(counts - offset, 0)
        stats = self._stats(work, ids.n_kept, time.perf_counter() - started, rule.label, workers, unlike)
        found = ids.take(rows)
        if single:
            return Matches(found[0], distances[0], int(counts[0]), stats, self.codebooks.metric)
        return Matches(found, distances, counts, stats, self.codebooks.metric)

    def _searched(self) -> Index:
        return self

    def _stats(
        self, work: NDArray[np.uint64], n_rows: int, seconds: float, label: str, workers: int, unlike: int = 0
    ) -> SearchStats:
        """Of one call; work [queries, WORK] as the native search counts it."""
        cells, scanned, survivors, lookups, _ = (work[0] if len(work) == 1 else work.sum(0)).tolist()
        return SearchStats(
            queries=len(work),
            rows=n_rows,
            cells=cells,
            scanned=scanned,
            survivors=survivors,
            lookups=lookups,
            seconds=seconds,
            margin=label,
            threads=max(1, min(workers, -(-len(work) // QUERIES_PER_TASK))),
            simd=_native.simd_level(),
            unlike=unlike,
        )

    def _rule(self, margin: Margin, k: int, filtered: bool) -> margins.Rule:
        return margins.parse(
            margin,
            k=k,
            n=self._ids.n_kept,
            calibration=self._calibration,
            sigma=self.codebooks.residual_variance,
            filtered=filtered,
        )

    def _queries(self, q: Any, embedded: bool) -> tuple[FloatArray, bool]:
        """Vectors [n, dim], and whether there is a single one."""
        if self.embedding is None or embedded:
            return as_queries(q, self.codebooks.dim)
        return embed_queries(self.embedding, q)

    def _vectors(self, q: Any, embedded: bool) -> tuple[FloatArray, bool]:
        """Queries as they are searched: of length 1 for cosine."""
        queries, single = self._queries(q, embedded)
        return (normalize(queries, name="queries") if self.codebooks.metric == "cosine" else queries), single

    def _rows(self, x: Any, embedded: bool) -> Rows:
        """Vectors, read in blocks; what the library itself passes gives vectors already."""
        if self.embedding is not None and not embedded and not isinstance(x, Rows):
            return EmbeddedRows(x, self.embedding)
        rows = x if isinstance(x, Rows) else Rows(x, dim=self.codebooks.dim)
        if rows.dim != self.codebooks.dim:
            raise InputError(f"x has {rows.dim} dimensions, the index has {self.codebooks.dim}")
        return rows

    def _mask(self, allowed: Any, ids: Ids) -> Mask:
        """A byte for each row, removed ones included; or what is made of it already."""
        if isinstance(allowed, Allowed):
            if allowed.ids is not ids:
                raise InputError(
                    "filter was made by allow() of other rows than those of now: call allow() again after rows came "
                    "or went"
                )
            return allowed
        array = to_numpy(allowed, "filter")
        if array.dtype == np.bool_:
            if array.shape != (ids.n_kept,):
                raise InputError(
                    f"filter as a mask must have one entry per row: {ids.n_kept} expected, got shape {array.shape}"
                )
            if ids.removed is not None:
                allowed_rows = np.zeros(ids.n, np.uint8)
                allowed_rows[ids.kept_rows()] = array.view(np.uint8) != 0
                return allowed_rows
            return np.not_equal(array.view(np.uint8), 0).view(np.uint8)  # a copy: native code reads it more than once
        if array.ndim != 1:
            raise InputError(f"filter must be a boolean mask or a 1-D array of ids, got {describe(allowed)}")
        if array.dtype.kind in "iu" and len(array) == ids.n_kept > 2 and 0 <= array.min() <= array.max() <= 1:
            raise InputError("filter looks like a mask of 0 and 1; pass it as booleans, or ids without repeats")
        return ids.mask(allowed).view(np.uint8)

    def calibrate(self, queries: Any = None, *, threads: int | None = None, embedded: bool = False) -> None:
        """Recalibrate ``margin`` for the current rows, from your own queries or from reconstructed rows.

        Rows of the index are coarser than real queries: pass queries whenever you have some, as for :meth:`search`. A
        target needs a number of queries to be supported with 95 % confidence: 395 for 0.99, 3,943 for 0.999, 39,443
        for 0.9999; searches for a target that is not supported run exactly, and ``stats.margin`` says so.
        """
        workers = thread_count(threads)
        if len(self) == 0:
            raise InputError("an empty index cannot be calibrated")
        if queries is not None:
            vectors, _ = self._vectors(queries, embedded)
            if len(vectors) < (needed := calibrating.queries_needed(margins.TARGETS[0])):
                raise InputError(
                    f"queries must have at least {needed} rows to calibrate a margin of {margins.TARGETS[0]} "
                    f"({calibrating.queries_needed(margins.DEFAULT):,} for {margins.DEFAULT}), got {len(vectors)}"
                )
            self._recalibrate(vectors, None, workers)
            return
        chosen = np.sort(np.random.default_rng(0).choice(len(self), min(len(self), HELD_OUT_ROWS), replace=False))
        chosen = self._ids.kept_rows()[chosen]
        vectors = self.codebooks.decode(self._codes_of(chosen))
        self._recalibrate(vectors, chosen, workers)

    def _recalibrate(self, vectors: FloatArray, own: NDArray[np.int64] | None, threads: int) -> None:
        """What was found out when the books were learned stays."""
        made, before = calibrate(self.codebooks, self._segments, vectors, own, threads), self._calibration
        if before is not None:
            made = dataclasses.replace(made, error=before.error, error_rows=before.error_rows)
        self._calibration = made

    def __len__(self) -> int:
        return self._ids.n_kept

    def __contains__(self, value: object) -> bool:
        return self._ids.contains(value)

    @property
    def ids(self) -> IdArray:
        """Every id in insertion order; int64, or strings in an object array."""
        return self._ids.all()

    @property
    def dim(self) -> int:
        """Dimensions of a vector: of what is coded, after the embedding if there is one."""
        return self.codebooks.dim

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one raw input, what :meth:`add` and :meth:`search` take: that of a vector without an embedding."""
        return (self.dim,) if self.embedding is None else self.embedding.input_shape

    @property
    def metric(self) -> str:
        """``l2``, ``ip`` or ``cosine``."""
        return self.codebooks.metric

    @property
    def codes(self) -> NDArray[np.uint8]:
        """Codes uint8 [n, n_bytes] of all rows in insertion order, as :meth:`from_codes` takes them."""
        return self._codes_of(self._ids.kept_rows())

    @property
    def id_kind(self) -> str:
        """``default`` (0, 1, 2, ...), ``int64`` or ``string``."""
        return self._ids.kind

    @property
    def calibration(self) -> margins.Calibration | None:
        """The rules of calibrated margins; None before the first :meth:`calibrate`."""
        return self._calibration

    def _codes_of(self, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        return codes_of(self.codebooks, self._segments, rows)

    def reconstruct(self, ids: Any) -> FloatArray:
        """The vectors that the codes of these ids stand for, float32 [n, dim] (1-D for a single id).

        They are vectors in the space of the embedding, where there is one, and no raw inputs.
        """
        single = isinstance(ids, int | str | np.integer)
        rows = self._ids.rows_of([ids] if single else ids)
        vectors = self.codebooks.decode(self._codes_of(rows))
        return vectors[0] if single else vectors

    def save(self, path: str | PathLike[str]) -> None:
        """Write everything to one file, atomically; segments are merged into one."""
        storage.write(path, *self.to_arrays(), self._ids.file_version)

    def to_store(self, path: str | PathLike[str], **how: Any) -> Any:
        """Make a :class:`interlace.Store` of these rows in the directory ``path``, which must be new or empty.

        ``how`` is what :func:`interlace.create` takes: ``columns``, their ``payload``, ``limits``.
        """
        return importlib.import_module("..store", __package__).create(path, self, **how)  # it stands above this module

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Sections and description of a file (docs/format.md); the inverse is :meth:`open`."""
        segment = (
            merge(list(self._segments), self.codebooks)
            if self._segments
            else Segment.pack(np.empty((0, 1 + len(self.codebooks.columns)), np.uint8), self.codebooks)
        )
        learned, description = self.codebooks.to_arrays()
        arrays = {f"codebooks.{name}": array for name, array in learned.items()}
        arrays |= {f"segment.{name}": array for name, array in segment.arrays.items()}
        embedding = None
        if self.embedding is not None:
            weights, embedding = self.embedding.to_arrays()
            arrays |= {f"embedding.{name}": array for name, array in weights.items()}
        arrays |= {f"ids.{name}": array for name, array in sorted(self._ids.sorted_section().items())}
        calibration = None
        if self._calibration is not None:
            found, calibration = self._calibration.to_arrays()
            arrays |= {f"calibration.{name}": array for name, array in found.items()}
        return arrays, {
            "kind": "index",
            "n": len(self),
            "ids": self._ids.kind,
            "codebooks": description,
            "embedding": embedding,
            "calibration": calibration,
        }

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
        kind = file.meta.get("kind")
        if kind != "index":
            opener = OPENERS.get(kind) if isinstance(kind, str) else None  # a file may say anything
            hint = f"; {opener}(path) opens it" if opener else ""
            raise NotAnIndexError(f"{file.path!r} holds {kind!r}, not an index{hint}")
        for name in file.names:
            if name in CHECKED_AT_OPEN:
                file.check(name)
        codebooks, found = codebooks_of(file), embedding_in(file, embedding)
        with file.damage_named("embedding"):
            index = cls(codebooks, found)
        with file.damage_named("segment"):
            segment = segment_in(file, index.codebooks)
            n = int(file.meta["n"])
            ids = {name[4:]: file.array(name) for name in file.names if name.startswith("ids.")}
            kept = Ids.stored(file.meta["ids"], n, ids)
            kept.file = file
            if segment.n_rows != n:
                raise ValueError(f"{segment.n_rows} rows, {n} expected")
        index._segments, index._ids, index._file = ((segment,) if n else ()), kept, file
        with file.damage_named("calibration"):
            calibration = file.meta.get("calibration")
            if calibration is not None and file.version > 1:  # one of version 1 has no rule for cells
                sections = {name: file.array(name) for name in file.names if name.startswith("calibration.")}
                arrays = {name.partition(".")[2]: array for name, array in sections.items()}
                index._calibration = margins.Calibration.stored(calibration, arrays)
        return index

    def verify(self) -> None:
        """Raise unless every byte and every invariant holds: checksums, codes, row numbers, ids."""
        if self._file is not None:
            self._file.verify()
        for segment in self._segments:
            verify_segment(segment, self.codebooks)
        if sum(s.n_rows for s in self._segments) != self._ids.n:
            raise DamagedFileError(
                f"the index is damaged: {self._ids.n} ids for {sum(s.n_rows for s in self._segments)} rows"
            )
        in_order = self._ids.kind == "default" or np.array_equal(self._ids.find(self._ids.all()), self._ids.kept_rows())
        if not in_order:
            raise DamagedFileError("the index is damaged: ids and their sorted section disagree")

    def report(self) -> Report:
        """Bytes by part."""
        file = None if self._file is None else self._file.n_bytes
        return Report.of(self.codebooks, self._segments, self._ids, file, self.embedding)

    def evaluate(
        self,
        queries: Any = None,
        k: int = 10,
        *,
        truth: Any = None,
        x: Any = None,
        margin: Margin = margins.DEFAULT,
        sample: int = 1000,
        threads: int | None = None,
        seed: int = 0,
        embedded: bool = False,
    ) -> Evaluation:
        """How good and how fast searches are: after ``index = Index.build(x)``, ask ``index.evaluate(x=x)``.

        An index holds codes, not vectors, so recall needs one of two things: ``x``, the rows as they were added, in
        that order, among which the true neighbours are found by brute force (in blocks, x may be larger than memory);
        or ``truth``, their ids [queries, at least k]. Without either there is only agreement with the exhaustive scan
        of the codes. Without ``queries``, rows of x are the queries (or the vectors that codes stand for), each one's
        own row left out. At most ``sample`` queries are taken, drawn by ``seed``.

        Where the index has an embedding, x and queries are raw inputs (vectors with ``embedded=True``), true neighbours
        are those of their vectors, and speed is that of searching vectors.
        """
        return evaluate_index(
            self,
            queries,
            k,
            truth=truth,
            x=x,
            margin=margin,
            sample=sample,
            threads=threads,
            seed=seed,
            embedded=embedded,
        )

    def __enter__(self) -> Index:
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing: an index needs no closing. ``with il.open(path) as opened:`` works for files and stores alike."""

    def __reduce__(self) -> Any:
        """The bytes of its file, in which nothing is executable; a torch module of the user is left out, as there.

        Where processes share a disk, save it and open the file in each: it is mapped, not copied.
        """
        return _unpickled, (storage.to_bytes(self.save), self.choice)

    def __copy__(self) -> Index:
        """Both share what they have, and each grows by itself: segments and ids never change."""
        index = Index.of_parts(self.codebooks, self.embedding, self._segments, self._ids, self._calibration)
        index._file, index.choice = self._file, self.choice
        return index

    def __deepcopy__(self, memo: dict[int, Any]) -> Index:
        return self.__copy__()

    def __repr__(self) -> str:
        embedding = "" if self.embedding is None else f", {self.embedding!r}"
        return f"Index({len(self)} rows, {self._ids.kind} ids, {self.codebooks!r}{embedding})"


def _unpickled(saved: bytes, choice: Choice | None) -> Index:
    index = storage.from_bytes(saved, Index.open)
    index.choice = choice
    return index
