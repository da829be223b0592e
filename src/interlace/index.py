"""The index: codebooks, packed segments, ids. Searching never changes it."""

from __future__ import annotations

import time
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _native, margins, quantizers, storage
from ._threads import thread_count
from .arrays import FloatArray, Rows, as_queries, describe, normalize, positive, to_numpy
from .codebooks import METRICS, Codebooks, codebooks_of
from .encode import encode
from .errors import DamagedFileError, InputError, NotAnIndexError
from .evaluation import Evaluation, evaluate_index
from .ids import IdArray, Ids, parse_ids
from .matches import Matches, SearchStats
from .progress import Progress, silent
from .report import Report
from .segments import NAMES, Segment, damage_named, merge

MAX_TRAIN_ROWS = 65536
CALIBRATION_QUERIES = 2000
HELD_OUT_FROM = 2000  # rows from which some are held out of learning for the calibration
MAX_BYTES = 64
MAX_ANSWERS = 2**31
QUERIES_PER_TASK = 4  # QueryTables::kGroup of cpp/core/books.h: what one thread takes at a time
QUERIES_PER_CALL = 4096  # Ctrl-C works between native calls


class Index:
    """Vectors coded by :class:`Codebooks`, searched in two steps.

    ``Index.build(x)`` learns codebooks and adds x; ``Index(codebooks)`` starts empty. An index in memory grows by
    :meth:`add`; one opened from a file is mapped, not loaded, and can grow in memory too.
    """

    def __init__(self, codebooks: Codebooks) -> None:
        if not isinstance(codebooks, Codebooks):
            raise InputError(f"Index needs Codebooks, got {describe(codebooks)}; Index.build(x) learns them")
        self.codebooks = codebooks
        self._segments: tuple[Segment, ...] = ()
        self._ids = Ids.default(0)
        self._calibration: margins.Calibration | None = None
        self._file: storage.File | None = None

    @classmethod
    def build(
        cls,
        x: Any,
        *,
        n_bytes: int | None = None,
        n_books: int | None = None,
        layout: str = "auto",
        metric: str = "l2",
        ids: Any = None,
        n_crude: int | None = None,
        seed: int = 0,
        max_train_rows: int = MAX_TRAIN_ROWS,
        threads: int | None = None,
        progress: Progress = silent,
    ) -> Index:
        """Learn codebooks from a sample of x, code all rows, calibrate the default margin.

        ``n_bytes`` (default 8) counts every stored code column, ``n_books`` only the books: give one of them. x is
        read in blocks, so a memmap larger than memory is fine.
        """
        if n_bytes is not None and n_books is not None:
            raise InputError("give n_bytes or n_books, not both")
        if n_bytes is None and n_books is None:
            n_bytes = 8
        positive(max_train_rows, "max_train_rows")
        for name, value in (("n_bytes", n_bytes), ("n_books", n_books), ("n_crude", n_crude)):
            if value is not None and positive(value, name) > MAX_BYTES:
                raise InputError(f"{name} must be at most {MAX_BYTES}, got {value}")
        if metric not in METRICS:
            raise InputError(f"metric must be one of {', '.join(METRICS)}, got {metric!r}")
        rows = Rows(x)
        if len(rows) == 0:
            raise InputError("x has no rows; an index is learned from at least one")
        if ids is not None:
            parse_ids(ids, len(rows))  # before minutes of learning
        rng = np.random.default_rng(positive(seed, "seed", least=0))
        sample = training_rows(len(rows), max_train_rows, rng)
        vectors = rows.take(sample)
        if metric == "cosine":
            vectors = normalize(vectors, name="x", rows=sample)
        workers = thread_count(threads)
        codebooks = quantizers.learn(
            vectors,
            n_bytes=n_bytes,
            n_books=n_books,
            layout=layout,
            metric=metric,
            n_crude=n_crude,
            seed=seed,
            threads=workers,
            progress=lambda what, done: progress(f"learning: {what}", 0.8 * done),
        )
        del vectors
        index = cls(codebooks)
        index.add(rows, ids, threads=threads, progress=lambda what, done: progress(what, 0.8 + 0.15 * done))
        progress("calibrating", 0.95)
        index._calibrate_on_rows(rows, rng, sample, workers)
        progress("done", 1.0)
        return index

    def add(self, x: Any, ids: Any = None, *, threads: int | None = None, progress: Progress = silent) -> None:
        """Code and append rows. All of them are added, or, after an error, none."""
        rows = x if isinstance(x, Rows) else Rows(x, dim=self.codebooks.dim)
        if rows.dim != self.codebooks.dim:
            raise InputError(f"x has {rows.dim} dimensions, the index has {self.codebooks.dim}")
        new_ids = self._ids.extend(ids, len(rows))
        if len(rows) == 0:
            return
        workers = thread_count(threads)
        codes = np.empty((len(rows), 1 + len(self.codebooks.columns)), np.uint8)
        start = 0
        for block in rows.blocks():
            progress("coding", start / len(rows))
            if self.codebooks.metric == "cosine":
                block = normalize(block, name="x", first_row=start)
            codes[start : start + len(block)] = encode(self.codebooks, block, workers)
            start += len(block)
        segments = [*self._segments, Segment.pack(codes, self.codebooks)]
        # Merge while the last segment is not much smaller than the one before: each row is repacked O(log n) times.
        while len(segments) > 1 and segments[-2].n_rows < 2 * segments[-1].n_rows:
            segments[-2:] = [merge(segments[-2:], self.codebooks)]
        self._segments, self._ids = tuple(segments), new_ids

    def search(
        self,
        q: Any,
        k: int = 10,
        *,
        margin: float | str = 0.999,
        threads: int | None = None,
        filter: Any = None,
    ) -> Matches:
        """The k nearest rows of each query.

        ``margin`` is ``"exact"`` (the answer of the exhaustive scan), a target agreement with it (calibrated; falls
        back to exact where the calibration does not reach, see ``stats.margin``), ``"paper"``, or ``inf``
        (exhaustive). ``filter`` is a boolean mask over rows in insertion order, or an array of allowed ids.
        """
        k = positive(k, "k")
        queries, single = as_queries(q, self.codebooks.dim)
        if self.codebooks.metric == "cosine":
            queries = normalize(queries, name="queries")
        rule = margins.parse(
            margin,
            k=k,
            n=len(self),
            calibration=self._calibration,
            sigma=self.codebooks.residual_variance,
            filtered=filter is not None,
        )
        if len(queries) * k > MAX_ANSWERS:
            raise InputError(
                f"{len(queries)} queries x k={k} make more than {MAX_ANSWERS} answers; ask for fewer at once"
            )
        workers = thread_count(threads)
        mask = None if filter is None else self._mask(filter)
        started = time.perf_counter()
        with damage_named():
            rows, distances, counts, work, _ = self._search_rows(queries, k, rule, workers, mask)
        seconds = time.perf_counter() - started
        cells, scanned, survivors, lookups = work.sum(0).tolist()
        stats = SearchStats(
            queries=len(queries),
            rows=len(self),
            cells=cells,
            scanned=scanned,
            survivors=survivors,
            lookups=lookups,
            seconds=seconds,
            margin=rule.label,
            threads=max(1, min(workers, -(-len(queries) // QUERIES_PER_TASK))),
            simd=_native.simd_level(),
        )
        ids = self._ids.take(rows)
        if single:
            return Matches(ids[0], distances[0], int(counts[0]), stats, self.codebooks.metric)
        return Matches(ids, distances, counts, stats, self.codebooks.metric)

    def _search_rows(
        self,
        queries: FloatArray,
        k: int,
        rule: margins.Rule,
        threads: int,
        mask: NDArray[np.uint8] | None = None,
        trace: bool = False,
    ) -> tuple[NDArray[np.int64], FloatArray, NDArray[np.int64], NDArray[np.uint64], FloatArray | None]:
        n, segments = len(queries), self._segments
        width = max(1, min(k, sum(s.n_rows for s in segments)))  # the rest of k can only be padding
        rows, distances = np.empty((n, width), np.int64), np.empty((n, width), np.float32)
        counts, work = np.empty(n, np.int64), np.empty((n, 4), np.uint64)
        traced = np.empty((2, n, width), np.float32) if trace else None
        masks: list[NDArray[np.uint8] | None] = [None] * len(segments)
        if mask is not None:
            bounds = np.cumsum([0, *(s.n_rows for s in segments)])
            masks = [mask[a:b] for a, b in zip(bounds[:-1], bounds[1:], strict=True)]
        for start in range(0, n, n if trace else QUERIES_PER_CALL):
            part = slice(start, start + (n if trace else QUERIES_PER_CALL))
            _native.search(
                self.codebooks.native,
                [s.native for s in segments],
                masks,
                queries[part],
                rule.kind,
                rule.share,
                rule.sigma,
                rule.spread,
                rule.least,
                rule.reach,
                threads,
                rows[part],
                distances[part],
                counts[part],
                work[part],
                traced,
            )
        if width < k:
            rows = np.pad(rows, ((0, 0), (0, k - width)), constant_values=-1)
            distances = np.pad(distances, ((0, 0), (0, k - width)), constant_values=np.inf)
        return rows, distances, counts, work, traced

    def _mask(self, allowed: Any) -> NDArray[np.uint8]:
        array = to_numpy(allowed, "filter")
        if array.dtype == np.bool_:
            if array.shape != (len(self),):
                raise InputError(
                    f"filter as a mask must have one entry per row: {len(self)} expected, got shape {array.shape}"
                )
            return np.ascontiguousarray(array).view(np.uint8)
        if array.ndim != 1:
            raise InputError(f"filter must be a boolean mask or a 1-D array of ids, got {describe(allowed)}")
        if array.dtype.kind in "iu" and len(array) == len(self) > 2 and 0 <= array.min() <= array.max() <= 1:
            raise InputError("filter looks like a mask of 0 and 1; pass it as booleans, or ids without repeats")
        return self._ids.mask(allowed).view(np.uint8)

    def calibrate(self, queries: Any = None, *, threads: int | None = None) -> None:
        """Make the calibration of ``margin`` anew, from your own queries or from reconstructed rows.

        Rows of the index are coarser than real queries: pass queries whenever you have some.
        """
        workers = thread_count(threads)
        if len(self) == 0:
            raise InputError("an empty index cannot be calibrated")
        if queries is not None:
            vectors, _ = as_queries(queries, self.codebooks.dim)
            if len(vectors) == 0:
                raise InputError("queries has no rows; a calibration needs at least one")
            if self.codebooks.metric == "cosine":
                vectors = normalize(vectors, name="queries")
            self._calibration = self._calibrated(vectors, None, workers)
            return
        chosen = np.sort(np.random.default_rng(0).choice(len(self), min(len(self), CALIBRATION_QUERIES), replace=False))
        vectors = self.codebooks.decode(self._codes_of(chosen))
        self._calibration = self._calibrated(vectors, chosen, workers)

    def _calibrate_on_rows(
        self, rows: Rows, rng: np.random.Generator, trained: NDArray[np.int64], threads: int
    ) -> None:
        """Held-out rows as queries, each one's own row left out of its answer; training rows in a small index."""
        n_held_out = len(rows) - len(trained)
        n_pool = n_held_out if n_held_out >= HELD_OUT_FROM // 10 else len(rows)
        chosen = np.sort(rng.choice(n_pool, min(n_pool, CALIBRATION_QUERIES), replace=False))
        if n_pool == n_held_out:  # the i-th row that was not trained on, without a list of all rows
            chosen += np.searchsorted(trained - np.arange(len(trained)), chosen, "right")
        vectors = rows.take(chosen)
        if self.codebooks.metric == "cosine":
            vectors = normalize(vectors, name="x", rows=chosen)
        self._calibration = self._calibrated(vectors, chosen, threads)

    def _calibrated(self, vectors: FloatArray, own_rows: NDArray[np.int64] | None, threads: int) -> margins.Calibration:
        exact = margins.parse("exact", k=1, n=0, calibration=None, sigma=0.0)
        depth = max(margins.KS) + (own_rows is not None)
        rows, distances, _, _, trace = self._search_rows(vectors, depth, exact, threads, trace=True)
        assert trace is not None
        width = trace.shape[2]
        rows, distances = rows[:, :width], distances[:, :width]
        excess, floors = trace
        bases, order, sizes = self._cells_by_base(vectors)
        rank_of = np.empty_like(order)
        np.put_along_axis(rank_of, order, np.arange(order.shape[1])[None], axis=1)
        occupied = np.flatnonzero(sizes)
        cells = self._codes_of(np.maximum(rows, 0).ravel())[:, 0].reshape(rows.shape)
        ranks = np.take_along_axis(rank_of, np.searchsorted(occupied, cells), axis=1)
        if own_rows is not None:
            own = rows == own_rows[:, None]
            own[~own.any(1), -1] = True  # not found: drop the last hit, so that all queries keep as many
            shape = (len(rows), width - 1)
            distances, excess, floors, ranks = (a[~own].reshape(shape) for a in (distances, excess, floors, ranks))
        lengths = np.sqrt((vectors.astype(np.float64) ** 2).sum(1)) if self.metric == "ip" else np.ones(len(vectors))
        held = margins.Held(
            distances, excess, floors, ranks, bases, sizes[occupied][order].astype(np.float64), np.maximum(lengths, 1e-30)
        )
        return margins.calibrate(held, len(self), self.metric)

    def _cells_by_base(self, vectors: FloatArray) -> tuple[FloatArray, NDArray[np.int64], NDArray[np.int64]]:
        """Bases of the cells that hold rows, ascending for each query; their order; rows of every cell."""
        sizes = np.zeros(self.codebooks.n_cells, np.int64)
        for segment in self._segments:
            sizes += np.diff(segment.arrays["cell_starts"].astype(np.int64))
        bases = self.codebooks.bases(vectors)[:, sizes > 0]
        order = np.argsort(bases, axis=1, kind="stable")
        return np.take_along_axis(bases, order, axis=1), order, sizes

    def __len__(self) -> int:
        return self._ids.n

    def __contains__(self, value: object) -> bool:
        return self._ids.contains(value)

    @property
    def ids(self) -> IdArray:
        """Every id in insertion order; int64, or strings in an object array."""
        return self._ids.all()

    @property
    def dim(self) -> int:
        """Dimensions of a vector."""
        return self.codebooks.dim

    @property
    def metric(self) -> str:
        """``l2``, ``ip`` or ``cosine``."""
        return self.codebooks.metric

    def _codes_of(self, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        codes = np.empty((len(rows), 1 + len(self.codebooks.columns)), np.uint8)
        first = 0
        for segment in self._segments:
            here = (rows >= first) & (rows < first + segment.n_rows)
            if here.any():
                codes[here] = segment.codes_of(rows[here] - first)
            first += segment.n_rows
        return codes

    def reconstruct(self, ids: Any) -> FloatArray:
        """The vectors that the codes of these ids stand for, float32 [n, dim] (1-D for a single id)."""
        single = isinstance(ids, int | str | np.integer)
        rows = self._ids.rows_of([ids] if single else ids)
        with damage_named():
            vectors = self.codebooks.decode(self._codes_of(rows))
        return vectors[0] if single else vectors

    def save(self, path: str | PathLike[str]) -> None:
        """Write everything to one file, atomically; segments are merged into one."""
        segment = (
            merge(list(self._segments), self.codebooks)
            if self._segments
            else Segment.pack(np.empty((0, 1 + len(self.codebooks.columns)), np.uint8), self.codebooks)
        )
        learned, description = self.codebooks.to_arrays()
        arrays = {f"codebooks.{name}": array for name, array in learned.items()}
        arrays |= {f"segment.{name}": segment.arrays[name] for name in NAMES}
        arrays |= {f"ids.{name}": array for name, array in sorted(self._ids.sorted_section().items())}
        calibration = None
        if self._calibration is not None:
            arrays["calibration.shares"] = self._calibration.shares
            arrays["calibration.cells"] = self._calibration.cells
            calibration = {
                "n": self._calibration.n,
                "ks": list(margins.KS),
                "targets": list(margins.TARGETS),
                "least": self._calibration.least,
                "reach": self._calibration.reach,
            }
        storage.write(
            path,
            arrays,
            {
                "kind": "index",
                "n": len(self),
                "ids": self._ids.kind,
                "codebooks": description,
                "calibration": calibration,
            },
        )

    @classmethod
    def open(cls, path: str | PathLike[str]) -> Index:
        """Map a file written by :meth:`save`. Small sections are checked at once, all of them by :meth:`verify`."""
        file = storage.read(path)
        if file.meta.get("kind") != "index":
            raise NotAnIndexError(f"{file.path!r} holds {file.meta.get('kind')!r}, not an index")
        for name in file.names:
            if name in ("segment.cell_starts", "calibration.shares"):
                file.check(name)
        index = cls(codebooks_of(file))
        with file.damage_named("segment"):
            segment = Segment({name: file.array(f"segment.{name}") for name in NAMES})
            n = int(file.meta["n"])
            ids = {name[4:]: file.array(name) for name in file.names if name.startswith("ids.")}
            kept = Ids.stored(file.meta["ids"], n, ids)
            if segment.n_rows != n:
                raise ValueError(f"{segment.n_rows} rows, {n} expected")
            shape = (len(segment.arrays["cell_starts"]) - 1, segment.arrays["crude"].shape[1], segment.n_columns)
            if shape != (index.codebooks.n_cells, index.codebooks.n_crude_columns, len(index.codebooks.columns)):
                raise ValueError("the columns do not fit the books")
        index._segments, index._ids, index._file = ((segment,) if n else ()), kept, file
        with file.damage_named("calibration"):
            if (calibration := file.meta.get("calibration")) is not None:
                shares = file.array("calibration.shares")
                if shares.shape != (len(margins.KS), len(margins.TARGETS)):
                    raise ValueError(f"shares of shape {shares.shape}")
                index._calibration = margins.Calibration(int(calibration["n"]), shares)
        return index

    def verify(self) -> None:
        """Raise unless every byte and every invariant holds: checksums, codes, row numbers, ids."""
        if self._file is not None:
            self._file.verify()
        n_words = [len(self.codebooks.books[0].words)]
        n_words += [
            len(self.codebooks.books[c].words) if c >= 0 else len(self.codebooks.norms[-1 - c].values)
            for c in self.codebooks.columns
        ]
        for segment in self._segments:
            codes = segment.unpack()
            if (codes.max(0, initial=0) >= np.array(n_words)).any():
                raise DamagedFileError("the index is damaged: a code names a word that its book does not have")
            again = Segment.pack(codes, self.codebooks)
            if any(not np.array_equal(again.arrays[name], segment.arrays[name]) for name in NAMES):
                raise DamagedFileError("the index is damaged: its rows do not pack to the bytes stored")
        if sum(s.n_rows for s in self._segments) != len(self):
            raise DamagedFileError(
                f"the index is damaged: {len(self)} ids for {sum(s.n_rows for s in self._segments)} rows"
            )
        with damage_named():
            in_order = self._ids.kind == "default" or np.array_equal(
                self._ids.find(self._ids.all()), np.arange(len(self))
            )
        if not in_order:
            raise DamagedFileError("the index is damaged: ids and their sorted section disagree")

    def report(self) -> Report:
        """Bytes by part."""
        return Report.of(self.codebooks, self._segments, self._ids, None if self._file is None else self._file.n_bytes)

    def evaluate(
        self,
        queries: Any = None,
        k: int = 10,
        *,
        truth: Any = None,
        x: Any = None,
        margin: float | str = 0.999,
        sample: int = 1000,
        threads: int | None = None,
        seed: int = 0,
    ) -> Evaluation:
        """How good and how fast searches are: after ``index = Index.build(x)``, ask ``index.evaluate(x=x)``.

        An index holds codes, not vectors, so recall needs one of two things: ``x``, the rows as they were added, in
        that order, among which the true neighbours are found by brute force (in blocks, x may be larger than memory);
        or ``truth``, their ids [queries, at least k]. Without either there is only agreement with the exhaustive scan
        of the codes. Without ``queries``, rows of x are the queries (or the vectors that codes stand for), each one's
        own row left out. At most ``sample`` queries are taken, drawn by ``seed``.
        """
        return evaluate_index(
            self, queries, k, truth=truth, x=x, margin=margin, sample=sample, threads=threads, seed=seed
        )

    def __reduce__(self) -> Any:
        raise TypeError(
            "an Index is not pickled: save it, and open the file in the other process (it is mapped, not copied)"
        )

    def __repr__(self) -> str:
        return f"Index({len(self)} rows, {self._ids.kind} ids, {self.codebooks!r})"


def training_rows(n: int, max_train_rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """The rows to learn from, ascending; some are left out where there are enough, to calibrate the margin on."""
    held_out = min(CALIBRATION_QUERIES, n // 10) if n >= HELD_OUT_FROM else 0
    return np.sort(rng.choice(n, min(n - held_out, max_train_rows), replace=False))
