"""What an index will cost, before anything runs: bytes by part, memory, and time on this machine."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import Any

from ._threads import thread_count
from .arrays import positive
from .codebooks import MAX_WORDS
from .errors import InputError
from .ids import STORED
from .learning import HELD_OUT_FROM, HELD_OUT_ROWS, ITERATIONS, MAX_TRAIN_ROWS, Settings
from .literals import Auto, Cross, Effort, IdKind, Layout, Metric, PriorFit, Rotation
from .memory import rows_that_fit
from .segments import MAX_ROWS
from .shapes import CALIBRATION_BYTES, STRING_LENGTH, Shape, candidates, id_bytes, shape_of

#: Header of a file: what describes the index, and each section with its checksum and padding.
HEADER_BYTES, SECTION_BYTES = 900, 210


@dataclass(frozen=True)
class Plan:
    """What an index will cost; parts as in :class:`Report`. Bytes are computed for equally full cells.

    Seconds are *estimates* from a short measurement on this machine while it did whatever else it was doing: expect
    them to be right within a factor of two or three. They are None where nothing was measured.
    """

    rows: int
    dim: int
    metric: str
    layout: str
    n_bytes: int  #: code bytes that are stored; fewer than asked for when there are too few dimensions
    id_kind: str
    n_train: int  #: rows that the books are learned from
    codes: int  #: code columns, padding included
    row_numbers: int  #: which row stands where, and the bounds of the cells
    ids: int  #: explicit ids and their sorted section, strings of 16 bytes; 0 for default ids
    learned: int  #: words, rotation, mean
    tables: int  #: precomputed by the native core when an index is opened
    file: int  #: on disk
    learning_memory: int  #: the sample and the working set of learning, at their peak
    coding_memory: int  #: codes while they are packed, and the index they are packed into
    n_indexes: int = 1  #: more rows than one index holds need several
    #: layouts that ``"auto"`` will try on the data; ``layout`` is then the slowest to learn of them
    tried: tuple[str, ...] = ()
    trying_seconds: float | None = None  #: what that takes
    learning_seconds: float | None = None
    coding_seconds: float | None = None
    calibrating_seconds: float | None = None
    #: one query on one thread: k=10, margin "exact", on data without clusters; easier data are searched faster
    query_seconds: float | None = None

    @property
    def code_bytes_per_vector(self) -> float:
        """Codes and row numbers; what one more vector costs, ids aside."""
        return (self.codes + self.row_numbers) / self.rows

    @property
    def bytes_per_vector(self) -> float:
        """The file, per row."""
        return self.file / self.rows

    @property
    def memory(self) -> int:
        """The index once it is open and all of it was read."""
        return self.codes + self.row_numbers + self.ids + self.learned + self.tables

    @property
    def float32(self) -> int:
        """Bytes of the vectors themselves."""
        return 4 * self.rows * self.dim

    @property
    def ratio(self) -> float:
        """How many times smaller than the vectors the file is."""
        return self.float32 / self.file

    @property
    def build_seconds(self) -> float | None:
        """Trying layouts, learning, coding and calibrating."""
        parts = (self.trying_seconds, self.learning_seconds, self.coding_seconds, self.calibrating_seconds)
        return None if None in parts else sum(part for part in parts if part is not None)

    def as_dict(self) -> dict[str, Any]:
        """Every number by name, derived ones included."""
        derived = ("code_bytes_per_vector", "bytes_per_vector", "memory", "float32", "ratio", "build_seconds")
        return {name: getattr(self, name) for name in (*(field.name for field in fields(self)), *derived)}

    def __str__(self) -> str:
        of = self.rows
        sizes = [
            ("codes", self.codes, f"{self.codes / of:.2f} per vector"),
            ("row numbers", self.row_numbers, f"{self.row_numbers / of:.2f} per vector"),
            ("ids", self.ids, f"{self.ids / of:.2f} per vector" + f" ({self._id_note})" * (self.ids > 0)),
            ("learned arrays", self.learned, ""),
            ("file", self.file, f"{self.bytes_per_vector:.2f} per vector"),
            ("tables in memory", self.tables, ""),
            ("open index", self.memory, "tables included, all of it read"),
            ("as float32", self.float32, f"{self.ratio:.1f} times the file"),
            ("learning, peak", self.learning_memory, f"from {self.n_train:,} rows"),
            ("coding, peak", self.coding_memory, ""),
        ]
        width = max(len(f"{size:,}") for _, size, _ in sizes)
        lines = [
            f"{self.rows:,} rows x {self.dim} dimensions, {self.layout}, {self.metric}: "
            f"{self.code_bytes_per_vector:.2f} code bytes per vector (n_bytes={self.n_bytes})"
        ]
        if self.tried:
            named = ", ".join(self.tried)
            lines.append(f"  layout 'auto' tries {named} on the data; {self.layout}, the slowest to learn, is assumed")
        lines += [f"  {name:<17}{size:>{width},} bytes  {note}".rstrip() for name, size, note in sizes]
        if self.n_indexes > 1:
            lines.append(f"  in {self.n_indexes} indexes, because one holds at most {MAX_ROWS:,} rows")
        if self.query_seconds is None:
            return "\n".join([*lines, "  times were not measured"])
        times = [
            ("trying layouts", self.trying_seconds if self.tried else None),
            ("learning", self.learning_seconds),
            ("coding", self.coding_seconds),
            ("calibrating", self.calibrating_seconds),
            ("one query", self.query_seconds),
        ]
        lines.append("  times, estimated from a short measurement on this machine:")
        lines += [f"  {name:<17}about {_shown(seconds)}" for name, seconds in times if seconds is not None]
        return "\n".join(lines)

    __repr__ = __str__

    @property
    def _id_note(self) -> str:
        return f"strings of {STRING_LENGTH} bytes" if self.id_kind == "string" else self.id_kind


def plan(
    n: int,
    dim: int,
    *,
    ids: IdKind = "default",
    measure: bool = True,
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
) -> Plan:
    """What ``Index.build`` of n rows with these settings will cost; takes the same settings and limits.

    ``layout="auto"`` depends on the data: the slowest to learn of those it may choose is assumed, which is
    ``"residual"`` up to 24 bytes. ``ids`` is ``"default"``, ``"int64"`` or ``"string"``. ``measure=False`` leaves out
    the times, which take up to half a second to estimate. Nothing is allocated in proportion to n.
    """
    n, dim = positive(n, "n"), positive(dim, "dim")
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
    if not isinstance(ids, str) or ids not in STORED:
        raise InputError(f"ids must be one of {', '.join(STORED)}: the kind, not the ids themselves; got {ids!r:.60}")
    held_out = min(HELD_OUT_ROWS, n // 10) if n >= HELD_OUT_FROM else 0
    n_train = min(n - held_out, checked.max_train_rows, rows_that_fit(n, dim, checked.max_memory))
    shape, tried = shape_of(dim, checked, n_train), candidates(dim, checked, n_train)
    workers = thread_count(checked.threads)
    n_indexes = -(-n // MAX_ROWS)
    codes, row_numbers, id_size = (
        _over(n, n_indexes, part) for part in (shape.code_bytes, shape.row_bytes, lambda rows: id_bytes(ids, rows))
    )
    learned = n_indexes * shape.learned_bytes()
    beside = n_indexes * (shape.floor_bytes() + CALIBRATION_BYTES)
    sections = shape.n_sections() + len(STORED[ids])
    stored = codes + row_numbers + id_size + learned
    seconds: dict[str, float] = {}
    if measure:
        others = tuple(shape_of(dim, checked, n_train, layout) for layout in tried)
        seconds = _measured(shape, others, n, n_train, checked.iterations, workers)
    return Plan(
        rows=n,
        dim=dim,
        metric=shape.metric,
        layout=shape.layout,
        n_bytes=1 + shape.n_columns,
        id_kind=ids,
        n_train=n_train,
        codes=codes,
        row_numbers=row_numbers,
        ids=id_size,
        learned=learned,
        tables=n_indexes * shape.table_bytes(),
        file=stored + beside + n_indexes * (HEADER_BYTES + SECTION_BYTES * sections),
        learning_memory=learning_bytes(shape, n_train),
        # The unpacked codes with their cells and the row numbers before they are coded, of one index at a time.
        coding_memory=stored + shape.pair_bytes() + -(-n // n_indexes) * (1 + shape.n_columns + 4),
        n_indexes=n_indexes,
        tried=tried,
        **seconds,
    )


def _measured(
    shape: Shape, tried: tuple[Shape, ...], n: int, n_train: int, iterations: int, threads: int
) -> dict[str, float]:
    from . import speed  # only here: `import interlace` should be quick

    found = speed.measure(shape, n, n_train, threads, iterations=iterations, tried=tried)
    return {f"{name}_seconds": value for name, value in asdict(found).items()}


def _over(n: int, n_indexes: int, part: Callable[[int], int]) -> int:
    """A part of all indexes together, n rows shared among them."""
    rows, more = divmod(n, n_indexes)
    return (n_indexes - more) * part(rows) + (more * part(rows + 1) if more else 0)


def learning_bytes(shape: Shape, n_train: int) -> int:
    """Peak of learning: the copies of its sample, or the refit with those that are kept meanwhile."""
    sample = 4 * n_train * shape.dim
    kept = 2 if shape.layout == "residual" else 3
    return max(math.ceil(copies(shape) * sample), kept * sample + shape.refit_bytes() if shape.pairs else 0)


def copies(shape: Shape) -> float:
    """Peak of learning without refits in copies of its float32 sample, as measured; the sample is one of them."""
    if shape.rotation == "learned":
        return 9.3
    if shape.layout == "subspace":
        return 6.7 if shape.pairs else 6.1
    return {"hybrid": 7.1, "residual": 6.1}[shape.layout]


def _shown(seconds: float) -> str:
    """Two digits in a unit that people read."""
    units = ((1e-3, "microseconds", 1e6), (1, "ms", 1e3), (120, "s", 1), (7200, "minutes", 1 / 60))
    unit, scale = next(((unit, scale) for limit, unit, scale in units if seconds < limit), ("hours", 1 / 3600))
    return f"{float(f'{seconds * scale:.2g}'):,g} {unit}"
