"""What an index will cost, before anything runs: bytes by part, memory and work by phase (``cost``)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from ..codec.originals import OriginalsFormat
from ..engine.segments import MAX_ROWS
from ..errors import InputError
from ..inputs.arrays import Rows, describe, positive
from ..inputs.conversion import row_count
from ..inputs.literals import Auto, Cross, Effort, IdKind, Layout, Metric, OriginalsKind, PriorFit, Rotation
from ..learn.cost.limits import calibration_rows_that_fit, train_rows_that_fit
from ..learn.cost.memory import IdBytes, build_memory
from ..learn.cost.rates import rates
from ..learn.cost.shape import CALIBRATION_BYTES, shape_of
from ..learn.cost.work import cells_work, coding_work, learning_work, trying_work
from ..learn.layout_rules import compared_layouts
from ..learn.settings import Settings
from .id_values import parse_ids
from .ids import BLOCK, STORED

#: Header of a file: what describes the index, and each section with its checksum and padding.
HEADER_BYTES, SECTION_BYTES = 900, 210
#: Bytes of a string id in a file beside its text: offset of the text, place in the sorted section, hash.
STRING_ID_BYTES = 8 + 4 + 8
#: Assumed length of a string id, in bytes of UTF-8.
STRING_LENGTH = 16


@dataclass(frozen=True)
class Plan:
    """What an index will cost; parts as in :class:`Report`. Bytes are computed for equally full cells.

    Memory is an upper bound for each phase, beside the input. Operations are multiply-adds and table additions. Seconds
    are those operations at the rates of this machine, measured for a moment: CPU seconds divided by ``threads``, which
    is wall-clock time where nothing else runs. They are estimates. They are None where
    nothing was measured. Calibrating and searching have none, because their time depends on the data.
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
    calibrating_memory: int  #: the index, and the answers of the held-out rows
    learning_operations: int
    coding_operations: int
    n_indexes: int = 1  #: more rows than one index holds need several
    originals: int = 0  #: vectors kept beside their codes
    #: layouts that ``"auto"`` will try on the data; ``layout`` is then the slowest to learn of them
    tried: tuple[str, ...] = ()
    trying_memory: int = 0  #: what comparing them takes
    trying_operations: int = 0
    trying_seconds: float | None = None
    learning_seconds: float | None = None
    coding_seconds: float | None = None

    @property
    def peak(self) -> int:
        """Memory of ``Index.build`` at its peak, beside the input; never above ``max_memory``."""
        return max(self.trying_memory, self.learning_memory, self.coding_memory, self.calibrating_memory)

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
        return self.codes + self.row_numbers + self.ids + self.learned + self.originals + self.tables

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
        """Trying layouts, learning and coding."""
        parts = (self.trying_seconds, self.learning_seconds, self.coding_seconds)
        return None if None in parts else sum(part for part in parts if part is not None)

    def as_dict(self) -> dict[str, Any]:
        """Every number by name, derived ones included."""
        derived = ("code_bytes_per_vector", "bytes_per_vector", "memory", "float32", "ratio", "peak", "build_seconds")
        return {name: getattr(self, name) for name in (*(field.name for field in fields(self)), *derived)}

    def __str__(self) -> str:
        of = self.rows
        sizes = [
            ("codes", self.codes, f"{self.codes / of:.2f} per vector"),
            ("row numbers", self.row_numbers, f"{self.row_numbers / of:.2f} per vector"),
            ("ids", self.ids, f"{self.ids / of:.2f} per vector" + f" ({self._id_note})" * (self.ids > 0)),
            ("learned arrays", self.learned, ""),
            ("originals", self.originals, f"{self.originals / of:.2f} per vector"),
            ("file", self.file, f"{self.bytes_per_vector:.2f} per vector"),
            ("tables in memory", self.tables, ""),
            ("open index", self.memory, "tables included, all of it read"),
            ("as float32", self.float32, f"{self.ratio:.1f} times the file"),
            ("trying layouts", self.trying_memory, "of memory at most"),
            ("learning", self.learning_memory, f"of memory at most, from {self.n_train:,} rows"),
            ("coding", self.coding_memory, "of memory at most"),
            ("calibrating", self.calibrating_memory, "of memory at most"),
        ]
        unused = {"trying layouts": not self.tried, "originals": not self.originals}
        sizes = [line for line in sizes if not unused.get(line[0])]
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
        phases = [
            ("trying layouts", self.trying_operations, self.trying_seconds),
            ("learning", self.learning_operations, self.learning_seconds),
            ("coding", self.coding_operations, self.coding_seconds),
        ]
        for name, operations, seconds in phases:
            if operations:
                took = "" if seconds is None else f", about {_shown(seconds)}"
                lines.append(f"  {name:<17}{operations / 1e9:,.3g} billion operations{took}")
        if self.learning_seconds is not None:
            lines.append("  times are CPU seconds divided by threads, at the speed of this machine a moment ago")
        return "\n".join(lines)

    __repr__ = __str__

    @property
    def _id_note(self) -> str:
        return f"strings of {STRING_LENGTH} bytes" if self.id_kind == "string" else self.id_kind


def plan(
    n: int,
    dim: int | None = None,
    *,
    ids: IdKind = "default",
    originals: OriginalsKind | None = None,
    measure: bool = True,
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
) -> Plan:
    """What ``Index.build`` of n rows with these settings will cost; takes the same settings and limits.

    ``layout="auto"`` depends on the data: the slowest to learn of those it may choose is assumed, which is
    ``"residual"``. ``ids`` is ``"default"``, ``"int64"`` or ``"string"``; ``originals`` as for ``Index.build``.
    ``measure=False`` leaves out
    the times, for which the first call measures this machine for a tenth of a second. Nothing is allocated in
    proportion to n. Raises the InputError of ``Index.build`` where ``max_memory`` is too small.
    """
    n, dim = _row_count(n), positive(dim, "dim")
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
    if not isinstance(ids, str) or ids not in STORED:
        raise InputError(f"ids must be one of {', '.join(STORED)}: the kind, not the ids themselves; got {ids!r:.60}")
    n_indexes = -(-n // MAX_ROWS)
    rows = -(-n // n_indexes)  # of one index, which is built at a time
    kept = original_bytes(originals, rows, dim)
    checked.check_rows(rows, "the index")
    n_train = train_rows_that_fit(rows, dim, checked, id_bytes(ids, rows, kept))
    checked = checked.for_rows(rows)
    shape, tried = shape_of(dim, checked, n_train), compared_layouts(checked, dim, n_train)
    queries = calibration_rows_that_fit(rows, dim, checked, n_train, largest_ids(rows, kept))
    memory = build_memory(rows, dim, checked, n_train, id_bytes(ids, rows, kept), queries)
    codes, row_numbers, id_size = (
        _over(n, n_indexes, part)
        for part in (shape.code_bytes, shape.row_bytes, lambda rows: id_bytes(ids, rows).stored)
    )
    learned = n_indexes * shape.learned_bytes()
    beside = n_indexes * (shape.floor_bytes() + CALIBRATION_BYTES)
    sections = shape.n_sections() + len(STORED[ids]) + (originals is not None)
    stored = codes + row_numbers + id_size + learned + original_bytes(originals, n, dim)
    work = {
        "trying": trying_work(dim, checked, n_train),
        "learning": learning_work(shape, n_train, checked.effort, checked.iterations)
        + cells_work(shape, rows, n_train),
        "coding": coding_work(shape) * n,
    }
    seconds = {}
    if measure:
        speed = rates(shape)
        seconds = {f"{name}_seconds": phase.seconds(speed) / checked.workers for name, phase in work.items()}
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
        tables=n_indexes * (shape.table_bytes() + shape.fixed_bytes(rows, reranked=originals is not None)),
        file=stored + beside + n_indexes * (HEADER_BYTES + SECTION_BYTES * sections),
        trying_memory=memory.trying,
        learning_memory=memory.learning,
        coding_memory=memory.coding,
        calibrating_memory=memory.calibrating,
        trying_operations=work["trying"].operations,
        learning_operations=work["learning"].operations,
        coding_operations=work["coding"].operations,
        n_indexes=n_indexes,
        originals=original_bytes(originals, n, dim),
        tried=tried,
        **seconds,
    )


def _row_count(n: Any) -> int:
    """A number of rows; InputError points to ``plan_recall`` for vectors."""
    if isinstance(n, list | tuple) or getattr(n, "shape", ()) != ():
        raise InputError(
            f"n must be the number of rows, got {describe(n)}: call plan(n, dim) with two numbers, or plan_recall(x), "
            "which predicts the recall of codes from a sample of vectors"
        )
    return row_count(n, "n")


def refuse_early(rows: Rows, ids: Any, originals: OriginalsKind | None, settings: Settings) -> None:
    """Raise InputError before minutes of learning: for invalid ids or kinds, or where memory will not do."""
    kind = "default"
    if ids is not None:
        kind = "int64" if parse_ids(ids, len(rows)).dtype == np.int64 else "string"
    kept = original_bytes(originals, len(rows), rows.dim)
    if len(rows):
        settings.check_rows(len(rows))
        train_rows_that_fit(len(rows), rows.dim, settings, id_bytes(kind, len(rows), kept))


def original_bytes(kind: OriginalsKind | None, n: int, dim: int) -> int:
    """Bytes of the originals of n rows, 0 where they are not kept."""
    return 0 if kind is None else n * OriginalsFormat(kind, dim).width


def id_bytes(kind: str, n: int, originals: int = 0) -> IdBytes:
    """Bytes of the ids of n rows, in a file and, once an id was looked up, in memory; and of kept originals.

    For int64 this is the worst case, ids in no order that differ in all 64 bits. Runs and small gaps take less.
    """
    if kind == "default":
        return IdBytes(originals=originals)
    if kind == "string":
        return IdBytes(stored=(STRING_ID_BYTES + STRING_LENGTH) * n + 8, sorting=40 * n, originals=originals)
    blocks = -(-n // BLOCK)
    packed = blocks * (8 * BLOCK + 8 + 4) + 4 + 4 * n  # words, base and start of each block; order (docs/format.md)
    return IdBytes(stored=packed, sorting=16 * n, originals=originals)


def largest_ids(n: int, originals: int = 0) -> IdBytes:
    """Bytes of the kind of ids that takes the most memory, so that the kind does not change how an index calibrates."""
    return id_bytes("string", n, originals)


def _over(n: int, n_indexes: int, part: Callable[[int], int]) -> int:
    """A part of all indexes together, n rows shared among them."""
    rows, more = divmod(n, n_indexes)
    return (n_indexes - more) * part(rows) + (more * part(rows + 1) if more else 0)


def _shown(seconds: float) -> str:
    """Two digits in a unit that people read."""
    units = ((1e-3, "microseconds", 1e6), (1, "ms", 1e3), (120, "s", 1), (7200, "minutes", 1 / 60))
    unit, scale = next(((unit, scale) for limit, unit, scale in units if seconds < limit), ("hours", 1 / 3600))
    return f"{float(f'{seconds * scale:.2g}'):,g} {unit}"
