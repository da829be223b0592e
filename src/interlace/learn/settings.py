"""The settings of learning without labels: defaults, allowed values, and which combinations are refused.

``Index.build``, ``plan``, ``ICQ.fit`` and ``Store.relearn`` take these settings as keywords, make one :class:`Settings`
of them and call :meth:`Settings.checked`. Everything in this package receives checked settings.
"""

from __future__ import annotations

import math
import operator
import re
from dataclasses import dataclass, replace
from typing import Any, get_args

from .._threads import thread_count
from ..codec.book import is_long
from ..codec.codebooks import MAX_CELLS, MAX_WORDS
from ..codec.limits import checked_weight
from ..codec.metric import METRICS
from ..errors import InputError
from ..inputs.arrays import positive
from ..inputs.literals import Auto, Cross, Effort, Layout, Metric, PriorFit, Rotation

MAX_TRAIN_ROWS = 65536
MAX_BYTES = 128
ITERATIONS = 10
#: Rows of an average cell that ``cells="auto"`` aims at, at least, and cells for the square root of the rows, at most:
#: smaller cells visit fewer rows, but a query compares itself with every cell, and visits each at a cost.
ROWS_PER_CELL, CELLS_PER_ROOT = 250, 4
#: The same for long codes, and their cells at least. The scan reads blocks of 64 rows, and a cell of a few rows shares
#: its first and last one with others.
ROWS_PER_LONG_CELL, FEWEST_LONG_CELLS = 512, 32
DEFAULT_BYTES = 8

LAYOUTS = tuple(layout for layout in get_args(Layout) if layout != "auto")
_CHOICES = {
    "layout": get_args(Layout),
    "rotation": get_args(Rotation),
    "cross": get_args(Cross),
    "prior": get_args(PriorFit),
    "metric": get_args(Metric),
    "effort": get_args(Effort),
}


def rows_per_cell_aim(n_rows: int, *, long: bool = False) -> float:
    """Rows of an average cell that ``cells="auto"`` aims at for n rows, before it rounds; ``long``: of long codes."""
    if long:
        return ROWS_PER_LONG_CELL
    return max(ROWS_PER_CELL, math.sqrt(max(n_rows, 1)) / CELLS_PER_ROOT)


@dataclass(frozen=True)
class Settings:
    """What a user asked for. Give ``n_bytes`` or ``n_books``; 8 bytes if neither is given."""

    n_bytes: int | None = None  #: stored code columns, a norm column included
    n_books: int | None = None  #: books only
    n_words: int = MAX_WORDS  #: of each book
    layout: Layout = "auto"
    n_crude: int | Auto | None = (
        "auto"  #: books of the crude step; None after :meth:`checked` means the layout's choice
    )
    rotation: Rotation = "auto"
    cross: Cross = "auto"  #: how search handles the cross terms of overlapping books
    prior: PriorFit = "em"
    metric: Metric = "l2"
    effort: Effort = "balanced"
    parallel_weight: float = 1.0  #: weight of squared errors along the row itself (``codec/encode.py``)
    cells: int | Auto = "auto"  #: cells of the index; auto: by the number of its rows
    iterations: int = ITERATIONS  #: refits of overlapping books, at most
    max_train_rows: int = MAX_TRAIN_ROWS
    max_memory: int | str | None = None
    seed: int = 0
    threads: int | None = None

    def checked(self) -> Settings:
        """The same settings with ``n_bytes`` and ``n_crude`` filled in; InputError names the first invalid one."""
        if self.n_bytes is not None and self.n_books is not None:
            raise InputError("give n_bytes or n_books, not both")
        n_crude = None if self.n_crude == "auto" else self.n_crude
        for name, value in (("n_bytes", self.n_bytes), ("n_books", self.n_books), ("n_crude", n_crude)):
            if value is not None and positive(value, name) > MAX_BYTES:
                raise InputError(f"{name} must be at most {MAX_BYTES}, got {value}")
        if not 2 <= positive(self.n_words, "n_words") <= MAX_WORDS:
            raise InputError(f"n_words must be 2 to {MAX_WORDS}, got {self.n_words}")
        for name, allowed in _CHOICES.items():
            if (value := getattr(self, name)) not in allowed:
                raise InputError(f"{name} must be one of {', '.join(allowed)}, got {value!r}")
        if self.cells != "auto" and (type(self.cells) is bool or self.cells not in range(1, MAX_CELLS + 1)):
            raise InputError(f"cells must be 'auto' or an integer from 1 to {MAX_CELLS}, got {self.cells!r:.60}")
        positive(self.max_train_rows, "max_train_rows")
        positive(self.iterations, "iterations", least=0)
        positive(self.seed, "seed", least=0)
        thread_count(self.threads)
        if self.max_memory is not None:
            parse_memory(self.max_memory)
        weight = checked_weight(self.parallel_weight)
        n_bytes = self.n_bytes if self.n_books is None else self.n_books + (self.cross == "byte")
        settings = replace(
            self, n_bytes=DEFAULT_BYTES if n_bytes is None else n_bytes, n_crude=n_crude, parallel_weight=weight
        )
        _check_conflicts(settings)
        return settings

    def for_rows(self, n_rows: int, layout: str | None = None) -> Settings:
        """Checked settings with the number of cells filled in, for an index of n rows.

        ``layout``: of the books, once ``"auto"`` has chosen it. Fewer cells for long codes are for those layouts that
        fold cells; the first book of ``subspace`` is one of its product books, and keeps all words.
        """
        if self.cells != "auto":
            return self
        n_cells = self.n_words
        layouts = self.layouts() if layout is None else (layout,)
        if self.max_books > 1 and {"hybrid", "residual"} & set(layouts):  # whose cells span all dimensions
            rows = max(n_rows, 1)
            n_cells = max(n_cells, min(2 ** round(math.log2(rows / rows_per_cell_aim(rows))), MAX_CELLS))
            if self.is_long:  # whose cells are folded
                of_long = 2 ** max(0, round(math.log2(rows / rows_per_cell_aim(rows, long=True))))
                n_cells = min(n_cells, max(of_long, min(FEWEST_LONG_CELLS, self.n_words)))
        return replace(self, cells=n_cells)

    def check_rows(self, n_rows: int, what: str = "x") -> None:
        """InputError if a user asked for more cells than there are rows to learn them from."""
        # More cells than a book has words are learned from rows of their own.
        if self.cells != "auto" and not self.many_cells and self.n_cells > self.max_train_rows:
            raise InputError(
                f"cells={self.cells} needs at least as many rows to learn from: got "
                f"max_train_rows={self.max_train_rows}; give more of them, or fewer cells"
            )
        if self.cells != "auto" and self.n_cells > n_rows:
            advised = replace(self, cells="auto").for_rows(n_rows).n_cells
            few = f"cells={min(advised, max(1, n_rows))} or fewer" if n_rows else "more rows"
            raise InputError(
                f"cells={self.cells} needs at least as many rows, but {what} has {n_rows:,}: give {few}, or 'auto'"
            )

    @property
    def n_cells(self) -> int:
        """Number of cells, if there are enough rows."""
        return self.n_words if self.cells == "auto" else int(self.cells)

    @property
    def many_cells(self) -> bool:
        """Whether there are more cells than a book has words: they are learned from rows of their own."""
        return self.n_cells > self.n_words

    @property
    def code_bytes(self) -> int:
        """``n_bytes`` of checked settings."""
        assert self.n_bytes is not None
        return self.n_bytes

    @property
    def max_books(self) -> int:
        """Books that the bytes have room for; product books may be fewer, at most one for each dimension."""
        return self.code_bytes - (self.cross == "byte")

    @property
    def is_long(self) -> bool:
        """Whether codes of as many books as possible are long (:func:`interlace.codec.book.is_long`)."""
        return is_long(self.max_books, self.cross == "byte")

    @property
    def additive(self) -> bool:
        """Whether books of one part of the dimensions overlap and are added, instead of splitting the part further."""
        return self.cross in ("exact", "byte")

    @property
    def crude_books(self) -> int | None:
        """``n_crude`` as the user gave it; None for the layout's choice."""
        return self.n_crude if isinstance(self.n_crude, int) else None

    @property
    def workers(self) -> int:
        """Threads to run, at least 1."""
        return thread_count(self.threads)

    def layouts(self) -> tuple[str, ...]:
        """The layouts that the other settings allow; for ``"auto"`` these are the candidates.

        Product books have no second step if all of them are crude. Residual books have cross terms.
        """
        asked = LAYOUTS if self.layout == "auto" else (self.layout,)
        excluded = {"residual"} if self.cross == "none" or self.rotation == "principal" else set()
        if self.many_cells:
            excluded.add("subspace")
        all_crude = self.n_crude == self.max_books > 2
        if all_crude and self.cross != "exact":
            excluded |= {"subspace", "hybrid"}
        return tuple(layout for layout in asked if layout not in excluded)


def _check_conflicts(settings: Settings) -> None:
    """InputError for values that are valid alone but not together."""
    if settings.layout == "residual" and settings.cross == "none":
        raise InputError("layout='residual' has cross terms, because its books share all dimensions: got cross='none'")
    if settings.layout == "residual" and settings.rotation not in ("auto", "none"):
        raise InputError(
            f"layout='residual' chooses its own rotation ('auto') or has none: got rotation={settings.rotation!r}"
        )
    if settings.many_cells and (settings.layout == "subspace" or settings.max_books < 2):
        raise InputError(
            f"cells={settings.cells} requires layout='hybrid' or 'residual' and n_bytes >= 2, because more than "
            f"{settings.n_words} cells span all dimensions: got layout={settings.layout!r}, "
            f"n_bytes={settings.code_bytes}"
        )
    if settings.parallel_weight > 1 and METRICS[settings.metric].is_squared:
        raise InputError(
            f"parallel_weight={settings.parallel_weight:g} requires metric='ip', because it lowers errors of inner "
            f"products at the cost of others: got metric={settings.metric!r}"
        )
    if settings.layout != "subspace" and settings.rotation == "learned":
        raise InputError(f"rotation='learned' requires layout='subspace', got layout={settings.layout!r}")
    if settings.rotation == "learned" and settings.additive:
        raise InputError(
            f"rotation='learned' requires product books (cross='auto' or 'none'), got cross={settings.cross!r}"
        )
    if settings.cross == "byte":
        if not METRICS[settings.metric].is_squared:
            raise InputError(
                f"cross='byte' requires metric='l2' or 'cosine': metric={settings.metric!r} has no cross terms"
            )
        if settings.code_bytes < 4:
            raise InputError(f"cross='byte' requires n_bytes >= 4, got n_bytes={settings.code_bytes}")
    if (n_crude := settings.crude_books) is not None:
        if n_crude > settings.max_books:
            raise InputError(f"n_crude must be 1 to {settings.max_books} (the number of books), got {n_crude}")
        if n_crude == settings.max_books > 2 and not settings.layouts():
            raise InputError(
                f"n_crude={n_crude} makes all {settings.max_books} books crude, so the second step has none left; "
                f"give at most {settings.max_books - 1}"
            )


_UNITS = {"b": 1} | {f"{prefix}b": 1000**power for power, prefix in enumerate("kmgt", 1)}
_UNITS |= {f"{prefix}ib": 1024**power for power, prefix in enumerate("kmgt", 1)}


def parse_memory(value: Any) -> int:
    """``max_memory`` in bytes: a positive integer, or a text with a unit, such as ``"2GB"`` or ``"512MiB"``."""
    expected = f"max_memory must be a positive number of bytes or a text such as '2GB' or '512MiB', got {value!r}"
    n_bytes: int
    if isinstance(value, str):
        found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-z]+)\s*", value.lower())
        if found is None or found[2] not in _UNITS:
            raise InputError(f"{expected} (units: B, KB, MB, GB, TB of 1000; KiB, MiB, GiB, TiB of 1024)")
        whole, _, part = found[1].partition(".")
        unit = _UNITS[found[2]]  # in integers, because a float would round large sizes
        n_bytes = int(whole) * unit + int(part or "0") * unit // 10 ** len(part)
    else:
        try:
            n_bytes = operator.index(value)
        except TypeError as error:
            raise InputError(expected) from error
    if n_bytes < 1 or isinstance(value, bool):
        raise InputError(expected)
    return n_bytes
