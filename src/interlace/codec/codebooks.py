"""The result of learning that search uses: frozen, validated arrays, and nothing else."""

from __future__ import annotations

import math
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _native
from .._threads import cached_property
from ..errors import InputError, NotAnIndexError
from ..files import storage
from ..inputs.arrays import FloatArray, describe
from .book import MAX_CELLS, MAX_WORDS, Book, Norm, arrays_of, frozen, integer_between, is_long, stored_books
from .cells import Cells
from .limits import check_magnitudes, check_norms, checked_rotation, checked_weight, reach_of, shortest_direction, uses
from .metric import Metric, metric_in, metric_of

__all__ = ["MAX_CELLS", "MAX_WORDS", "Book", "Codebooks", "Codes", "Norm", "codebooks_of"]

Codes = NDArray[np.uint8]  # [n, code_width]: the number of the cell, then a code for each column

#: Dimensions from which on a rotation is stored as float16 where nothing is lost (cpp/core/rotation.h).
HALF_ROTATION = 512
MAX_BOOKS = 256


class Codebooks:
    """Books, the crude ones first, and the rotation that puts a vector into their coordinates.

    A vector x is coded as mean + R (w_0 + w_1 + ...), one word of each book. The first book makes the cells; it and
    the next ``n_crude - 1`` are the crude books (the paper's set K). Stored columns are the crude books after the
    first, crude norms, the other books, the other norms; the first book's code is implied by the cell.
    """

    def __init__(
        self,
        books: list[Book] | tuple[Book, ...],
        *,
        dim: int,
        n_crude: int,
        metric: str | Metric = "l2",
        mean: Any = None,
        rotation: Any = None,
        norms: list[Norm] | tuple[Norm, ...] = (),
        beam: int = 1,
        sweeps: int = 0,
        parallel_weight: float = 1.0,
        layout: str = "custom",
        folded: bool = False,
        crude_dims: Any = None,
        variances: Any = None,
        residual_variance: float = 0.0,
        error: float = math.nan,
        error_rows: int = 0,
    ) -> None:
        self.books: tuple[Book, ...] = tuple(books)
        if not self.books:
            raise InputError("at least one book is needed")
        if len(self.books) > MAX_BOOKS:
            raise InputError(f"at most {MAX_BOOKS} books fit, got {len(self.books)}")
        self.dim = integer_between(dim, "dim", 1)
        self.n_crude = integer_between(n_crude, "n_crude", 1, len(self.books))
        self.norms: tuple[Norm, ...] = tuple(norms)
        self.beam = integer_between(beam, "beam", 1, MAX_WORDS)
        self.sweeps = integer_between(sweeps, "sweeps", 0, MAX_WORDS)
        self.parallel_weight = checked_weight(parallel_weight)
        self.layout = str(layout)
        #: Cells are folded (:attr:`folds_cells`) whatever their number, where books share dimensions with them.
        self.folded = bool(folded)
        #: The paper's sigma: variance of the part that the crude books do not see.
        self.residual_variance = float(residual_variance)
        if not abs(self.residual_variance) <= float(np.finfo(np.float32).max):  # false for NaN
            raise InputError(f"residual_variance must be finite, got {residual_variance}")
        #: Mean squared distance from their codes of ``error_rows`` rows held out of learning; NaN if there were none.
        self.error, self.error_rows = float(error), integer_between(error_rows, "error_rows", 0)
        known = 0 <= self.error < math.inf
        if known != bool(self.error_rows) or not (known or math.isnan(self.error)):
            raise InputError(f"error must be at least 0, of one row or more, got {error} of {error_rows} rows")
        metric_type = self.metric_type = metric_of(metric)  #: what the metric means
        self.metric = metric_type.name
        for i, book in enumerate(self.books):
            if not isinstance(book, Book):
                raise InputError(f"books must be Book objects; books[{i}] is {describe(book)}")
            if len(book.support) and int(book.support[-1]) >= self.dim:
                raise InputError(f"book {i} has dimension {int(book.support[-1])}, vectors have {self.dim}")
            if i and len(book.words) > MAX_WORDS:
                raise InputError(f"book {i} has {len(book.words)} words; only the first may have more than {MAX_WORDS}")
        if self.norms and not metric_type.is_squared:
            raise InputError(f"norm columns belong to squared distances; the {self.metric} metric has no cross terms")
        for norm in self.norms:
            if any(not 1 <= b < len(self.books) for b in norm.covers):
                raise InputError(f"a norm covers books 1 to {len(self.books) - 1}, got {norm.covers}")
        self.mean: FloatArray = frozen(np.zeros(self.dim) if mean is None else mean, np.float32, 1, "mean")
        if len(self.mean) != self.dim:
            raise InputError(f"mean has {len(self.mean)} entries, vectors have {self.dim} dimensions")
        self.rotation: FloatArray | None = None if rotation is None else checked_rotation(rotation, self.dim)
        #: The paper's xi: dimensions (after rotation) that the crude books after the first quantize.
        self.crude_dims: NDArray[np.int32] = frozen([] if crude_dims is None else crude_dims, np.int32, 1, "crude_dims")
        if len(self.crude_dims) and not 0 <= self.crude_dims.min() <= self.crude_dims.max() < self.dim:
            raise InputError(f"crude_dims must lie in 0 to {self.dim - 1}, got {self.crude_dims.tolist()}")
        self.variances: FloatArray = frozen([] if variances is None else variances, np.float32, 1, "variances")
        check_norms(self.books, self.norms)
        check_magnitudes(self.books, self.norms, self.mean, self.has_cross_sums)
        self._complete = True

    def __setattr__(self, name: str, value: object) -> None:
        if "_complete" in self.__dict__:
            raise AttributeError(f"Codebooks are frozen; {name!r} cannot be set")
        super().__setattr__(name, value)

    @property
    def reach(self) -> float:
        """Sum over books of the length of their longest word: no decoded vector is farther from the mean."""
        return reach_of(self.books)

    @cached_property
    def half_rotation(self) -> NDArray[np.float16] | None:
        """The rotation as float16, where it is large and nothing is lost by it."""
        if self.rotation is None or self.dim < HALF_ROTATION:
            return None
        halves = self.rotation.astype(np.float16)
        return halves if np.array_equal(halves, self.rotation) else None

    @cached_property
    def shortest_direction(self) -> float:
        """Rows up to this length are encoded as with a ``parallel_weight`` of 1."""
        return shortest_direction(self.mean, self.books) if self.parallel_weight > 1 else 0.0

    @property
    def columns(self) -> tuple[int, ...]:
        """Stored columns in order: a book's index, or -1 - index of a norm."""
        crude_norms = [-1 - i for i, norm in enumerate(self.norms) if norm.stored and norm.crude]
        other_norms = [-1 - i for i, norm in enumerate(self.norms) if norm.stored and not norm.crude]
        return (*range(1, self.n_crude), *crude_norms, *range(self.n_crude, len(self.books)), *other_norms)

    @property
    def column_sizes(self) -> list[int]:
        """Words, or values, that a code of each column may name, the cell's first."""
        return [len(self.books[c].words) if c >= 0 else len(self.norms[-1 - c].values) for c in (0, *self.columns)]

    @property
    def n_crude_columns(self) -> int:
        """Stored columns that the crude step reads."""
        return self.n_crude - 1 + sum(norm.crude for norm in self.norms if norm.stored)

    @property
    def overlaps_first(self) -> bool:
        """Whether a later book shares dimensions with the first: then tables depend on the cell."""
        return any(np.intersect1d(self.books[0].support, book.support).size for book in self.books[1:])

    @property
    def folds_cells(self) -> bool:
        """Whether cross terms with the cell are part of the cross sums, and no tables depend on the cell: so it is
        with ``folded``, and with more cells than a book has words (cpp/core/books.h)."""
        wanted = self.folded or self.n_cells > MAX_WORDS
        return wanted and self.metric_type.is_squared and not self.norms and self.overlaps_first

    @property
    def keeps_sums(self) -> bool:
        """Whether segments always keep the cross sum of each row, four bytes in memory: for long codes."""
        return self.folds_cells and is_long(self.n_books, len(self.norms))

    @property
    def has_cross_sums(self) -> bool:
        """Whether the second step adds cross terms: books after the first overlap, or the cells are folded, and there
        are no norms."""
        if not self.metric_type.is_squared or self.norms:
            return False
        return self.folds_cells or bool((uses(self.books[1:], self.dim) > 1).any())

    @property
    def one_floor(self) -> bool:
        """Whether a query's tables are the same in all cells, and so is the smallest value that they add to a base."""
        return not (self.has_cross_sums or (self.metric_type.is_squared and self.overlaps_first))

    @property
    def n_books(self) -> int:
        """Number of books, norm columns not counted."""
        return len(self.books)

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return self.cells.n

    @cached_property
    def cells(self) -> Cells:
        """The cells, which the first book makes."""
        return Cells(self.books, self.norms, self.mean, self.rotation, self.metric_type)

    @property
    def n_bytes(self) -> int:
        """Code bytes of a vector: every book and every norm column; the cell counts as one."""
        return 1 + len(self.columns)

    @property
    def code_width(self) -> int:
        """Bytes of a row of unpacked codes: the number of the cell, and one for each column."""
        return self.cells.n_bytes + len(self.columns)

    def split_codes(self, codes: Codes) -> tuple[NDArray[np.int64], Codes]:
        """Codes [..., code_width] -> numbers of cells [...], and the codes of the columns [..., n_columns]."""
        return self.cells.numbers(codes), codes[..., self.cells.n_bytes :]

    def code_numbers(self, codes: Codes) -> NDArray[np.int64]:
        """Codes [n, code_width] -> [n, 1 + n_columns], the number of the cell first; for code that need not be fast."""
        cells, columns = self.split_codes(codes)
        return np.concatenate([cells[:, None], columns], axis=1)

    def largest_codes(self, codes: Codes) -> NDArray[np.int64]:
        """The largest number of a cell, and the largest code of each column; compare with :attr:`column_sizes`."""
        cells, columns = self.split_codes(codes)
        return np.array([cells.max(initial=0), *columns.max(0, initial=0)], np.int64)

    @cached_property
    def native(self) -> _native.Books:
        """The same arrays as the kernels want them."""
        return _native.Books(
            dim=self.dim,
            metric=self.metric_type.number,
            mean=self.mean,
            rotation=self.rotation,
            words=[book.words for book in self.books],
            supports=[book.support for book in self.books],
            norm_values=[norm.values for norm in self.norms],
            norm_covers=[np.array(norm.covers, np.uint32) for norm in self.norms],
            ignored=[np.array(norm.covers, np.uint32) for norm in self.norms if not norm.stored],
            constant=float(sum(norm.values[0] for norm in self.norms if not norm.stored)),
            columns=list(self.columns),
            n_crude=self.n_crude_columns,
            folded=self.folded,
        )

    def spans(self, q: FloatArray) -> FloatArray:
        """What an average row adds to the smallest entries of all tables, for queries [n, dim]; 0 unless one_floor."""
        out = np.empty(len(q), np.float32)
        _native.spans(self.native, np.ascontiguousarray(q), out)
        return out

    def bases(self, q: FloatArray) -> FloatArray:
        """Base of every cell for queries [n, dim]: what search adds for the first book, up to rounding."""
        return self.cells.bases(q)

    def decode(self, codes: NDArray[np.uint8]) -> FloatArray:
        """Codes uint8 [n, code_width] -> vectors float32 [n, dim].

        The vector of a code does not depend on the codes that are decoded with it, to the last bit.
        """
        cells, columns = self.split_codes(codes)
        total = np.zeros((len(codes), self.dim), np.float32)
        total[:, self.books[0].support] += self.books[0].words[cells]
        for position, column in enumerate(self.columns):
            if column >= 0:
                book = self.books[column]
                total[:, book.support] += book.words[columns[:, position]]
        if self.rotation is not None:
            # One product for each row: in a single one the rounding of a row depends on the number of rows, and a
            # search by id must give the same answer for any number of ids.
            total = (total[:, None, :] @ self.rotation.T)[:, 0]
        return np.asarray(total + self.mean, np.float32)

    def to_arrays(self, *, halves: bool = True) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Named arrays and a JSON-able description; the inverse is :meth:`from_arrays`. Wide words and rotations are
        float16 where nothing is lost; without ``halves`` only the words of many cells are."""
        arrays, of_norms = arrays_of(self.books, self.norms, halves=halves)
        arrays = {"mean": self.mean, "crude_dims": self.crude_dims, "variances": self.variances, **arrays}
        if self.rotation is not None:
            arrays["rotation"] = self.half_rotation if halves and self.half_rotation is not None else self.rotation
        description = {
            "dim": self.dim,
            **self.metric_type.described(),
            "layout": self.layout,
            "n_books": len(self.books),
            "n_crude": self.n_crude,
            "beam": self.beam,
            "sweeps": self.sweeps,
            "residual_variance": self.residual_variance,
            **of_norms,
        }
        if self.parallel_weight != 1:
            description["parallel_weight"] = self.parallel_weight
        if self.folded:
            description["folded"] = True
        if self.error_rows:
            description |= {"error": self.error, "error_rows": self.error_rows}
        return arrays, description

    def with_error(self, error: float, rows: int) -> Codebooks:
        """The same books, with the mean error of rows that they were not learned from."""
        arrays, description = self.to_arrays()
        return Codebooks.from_arrays(arrays, {**description, "error": error, "error_rows": rows})

    def with_sigma(self, sigma: float) -> Codebooks:
        """The same books with another constant of margin="paper" (``residual_variance``)."""
        arrays, description = self.to_arrays()
        return Codebooks.from_arrays(arrays, {**description, "residual_variance": sigma})

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]], description: dict[str, Any]) -> Codebooks:
        """Inverse of :meth:`to_arrays`; validates like the constructor."""
        books, norms = stored_books(arrays, description)
        return cls(
            books,
            dim=description["dim"],
            n_crude=description["n_crude"],
            metric=metric_in(description),
            mean=arrays["mean"],
            rotation=arrays.get("rotation"),
            norms=norms,
            error=description.get("error", math.nan),
            error_rows=description.get("error_rows", 0),
            beam=description["beam"],
            sweeps=description["sweeps"],
            parallel_weight=description.get("parallel_weight", 1.0),
            layout=description["layout"],
            folded=description.get("folded", False),
            crude_dims=arrays["crude_dims"],
            variances=arrays["variances"],
            residual_variance=description["residual_variance"],
        )

    def save(self, path: str | PathLike[str]) -> None:
        """Write the codebooks to a file, atomically."""
        arrays, description = self.to_arrays()
        sections = {f"codebooks.{name}": array for name, array in arrays.items()}
        storage.write(path, sections, {"kind": "codebooks", "codebooks": description})

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Codebooks:
        """Read what :meth:`save` wrote, or the codebooks of an index file."""
        return codebooks_of(storage.read(path))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Codebooks):
            return NotImplemented
        if other is self:
            return True
        (mine, my_description), (theirs, their_description) = self.to_arrays(), other.to_arrays()
        return (
            my_description == their_description
            and mine.keys() == theirs.keys()
            and all(np.array_equal(mine[k], theirs[k]) for k in mine)
        )

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> Any:
        """Arrays and their description, which the copy checks again; the native object is made again when needed."""
        return _unpickled, self.to_arrays()

    def __copy__(self) -> Codebooks:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Codebooks:
        return self  # nothing in it ever changes

    def __repr__(self) -> str:
        words = sorted({len(book.words) for book in self.books})
        counted = f"{words[0]}" if len(words) == 1 else f"{words[0]}-{words[-1]}"
        stored = sum(norm.stored for norm in self.norms)
        norms = f" + {stored} norm column{'s' * (stored > 1)}" if stored else ""
        norms += " + a constant" if stored < len(self.norms) else ""
        return (
            f"Codebooks({self.layout}, {self.metric}, dim={self.dim}: {self.n_books} books of {counted} words{norms}, "
            f"{self.n_crude} crude; {self.n_bytes} bytes per vector)"
        )


def _unpickled(arrays: dict[str, NDArray[Any]], description: dict[str, Any]) -> Codebooks:
    return Codebooks.from_arrays(arrays, description)


def codebooks_of(file: storage.File) -> Codebooks:
    """The codebooks inside an opened file of any kind, their bytes checked."""
    description = file.description("codebooks")
    if "parts" in description:
        raise NotAnIndexError(
            f"{file.path!r} holds codebooks in parts: interlace.quantizers.load(path) loads the model of them"
        )
    with file.parsing("codebooks"):
        return Codebooks.from_arrays(file.arrays("codebooks."), description)
