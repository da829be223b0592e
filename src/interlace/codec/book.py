"""Parts of :class:`Codebooks`: books of words, and norms for the cross terms between books."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._threads import cached_property
from ..errors import InputError
from ..inputs.arrays import FloatArray, check_numeric, describe, to_numpy

MAX_WORDS = 256  # a code is a byte
#: Columns beside the cell from which a code is long, see :func:`is_long` (Books::kLongCode of cpp/core/books.h).
LONG_CODE = 24
MAX_CELLS = 65536  # words of the first book, whose code is the cell: two bytes
#: Dimensions from which on words are kept in half precision where nothing is lost by it, in files and for single
#: queries (HalfWords::kNarrowest of cpp/core/half_words.h). Learning rounds such words, so that nothing is.
HALF_WIDTH = 64


def is_long(n_books: int, n_norms: int) -> bool:
    """Whether codes of so many books, the first one's included, and norm columns are long.

    Learning folds the cells of long codes and gives them fewer, the crude step reads all books, and segments keep the
    cross sum of each row. Codes with a norm column never are: their cells cannot be folded, because the norm stands for
    all cross terms.
    """
    return n_books - 1 >= LONG_CODE and not n_norms


def frozen(x: Any, dtype: type, ndim: int, name: str) -> NDArray[Any]:
    """A read-only copy of the right type; what the type cannot hold is refused."""
    given = to_numpy(x, name)
    if given.ndim != ndim:
        raise InputError(f"{name} must have {ndim} dimension(s), got {describe(given)}")
    check_numeric(given.dtype, name)
    with np.errstate(over="ignore", invalid="ignore"):
        array: NDArray[Any] = np.array(given, dtype=dtype, order="C")
    if dtype is np.float32 and not np.isfinite(array).all():
        raise InputError(f"{name} holds a value that is not finite in float32")
    if dtype is not np.float32 and (array != given).any():
        raise InputError(f"{name} must hold integers that fit {np.dtype(dtype)}, got {given[array != given][0]}")
    array.flags.writeable = False
    return array


def integer_between(value: Any, name: str, low: int, high: int | None = None) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = low - 1
    if number < low or (high is not None and number > high):
        raise InputError(
            f"{name} must be an integer of {f'at least {low}' if high is None else f'{low} to {high}'}, got {value!r}"
        )
    return number


def half_exponent(words: FloatArray) -> int:
    """The power of 2 that divides words before they become float16: the largest of them is then from 16 to 32."""
    largest = float(np.abs(words).max(initial=0.0))
    return math.frexp(largest)[1] - 5 if largest else 0


def to_halves(words: FloatArray) -> tuple[NDArray[np.float16], int]:
    """Words as float16 numbers times a power of 2, rounded, and the exponent of the power."""
    exponent = half_exponent(words)
    return np.ldexp(words.astype(np.float64), -exponent).astype(np.float16), exponent


def from_halves(halves: NDArray[np.float16], exponent: int) -> FloatArray:
    """Inverse of :func:`to_halves`."""
    return np.ldexp(halves.astype(np.float64), exponent).astype(np.float32)


@dataclass(frozen=True, eq=False)
class Book:
    """One quantizer C_k: ``words`` float32 [n_words, len(support)] on the dimensions ``support``, zero elsewhere."""

    words: FloatArray
    support: NDArray[np.uint32]

    def __post_init__(self) -> None:
        words = frozen(self.words, np.float32, 2, "words")
        support = frozen(self.support, np.uint32, 1, "support")
        if not 1 <= len(words) <= MAX_CELLS:
            raise InputError(f"a book holds 1 to {MAX_WORDS} words, the first one up to {MAX_CELLS}, got {len(words)}")
        if words.shape[1] != len(support):
            raise InputError(f"words have {words.shape[1]} columns, the support has {len(support)} dimensions")
        if len(support) > 1 and not (support[:-1] < support[1:]).all():
            raise InputError("support must ascend without repeats")
        object.__setattr__(self, "words", words)
        object.__setattr__(self, "support", support)

    @property
    def _is_large(self) -> bool:
        return len(self.support) >= HALF_WIDTH or len(self.words) > MAX_WORDS

    @cached_property
    def halves(self) -> tuple[NDArray[np.float16], int] | None:
        """The words as float16 numbers times a power of 2, and its exponent; None where some word is no such number,
        and for narrow words, which take little memory."""
        if not self._is_large:
            return None
        halves, exponent = to_halves(self.words)
        return (halves, exponent) if np.array_equal(from_halves(halves, exponent), self.words) else None

    def rounded(self) -> Book:
        """The same book with words that :attr:`halves` can hold, if they are wide or many."""
        if not self._is_large:
            return self
        return Book(from_halves(*to_halves(self.words)), self.support)

    def __reduce__(self) -> Any:
        return Book, (self.words, self.support)  # so that its copy is checked and frozen, too


@dataclass(frozen=True, eq=False)
class Norm:
    """Cross terms between the books it ``covers``, which do not depend on the query.

    The value of a row is the sum of 2 w_i.w_j over pairs of covered books that no earlier norm covers; it is stored in
    a column, as the index of the nearest of ``values``. A single value is the constant of composite quantization: it
    stands for every row and needs no column. ``crude`` norms are read in the crude step. Without norms search computes
    the cross terms of the rows that the crude step lets through.
    """

    values: FloatArray
    covers: tuple[int, ...]
    crude: bool = False

    def __post_init__(self) -> None:
        values = frozen(self.values, np.float32, 1, "norm values")
        if not 1 <= len(values) <= MAX_WORDS:
            raise InputError(f"a norm column holds 1 to {MAX_WORDS} values, got {len(values)}")
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "covers", tuple(integer_between(b, "covers", 0) for b in self.covers))

    def __reduce__(self) -> Any:
        return Norm, (self.values, self.covers, self.crude)

    @property
    def stored(self) -> bool:
        """Whether it takes a column."""
        return len(self.values) > 1


def arrays_of(
    books: Sequence[Book], norms: Sequence[Norm], *, halves: bool = True
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Named arrays of a file and their description; the inverse is :func:`stored_books`.

    ``halves``: wide words are float16 where nothing is lost; otherwise only those of many cells are.
    """
    arrays: dict[str, NDArray[Any]] = {}
    exponents: list[int | None] = []
    for i, book in enumerate(books):
        arrays[f"words.{i}"], arrays[f"support.{i}"] = book.words, book.support
        stored = book.halves if halves or len(book.words) > MAX_WORDS else None
        exponents.append(None if stored is None else stored[1])
        if stored is not None:
            arrays[f"words.{i}"] = stored[0]
    for i, norm in enumerate(norms):
        arrays[f"norm.{i}"] = norm.values
    description: dict[str, Any] = {"norms": [{"covers": list(norm.covers), "crude": norm.crude} for norm in norms]}
    if exponents[0] is not None and len(books[0].words) > MAX_WORDS:  # as before there were other halves
        description["cells_exponent"], exponents[0] = exponents[0], None
    if any(exponent is not None for exponent in exponents):
        description["exponents"] = exponents
    return arrays, description


def stored_books(arrays: dict[str, NDArray[Any]], description: dict[str, Any]) -> tuple[list[Book], list[Norm]]:
    """Books and norms of a file. Words may be float16 numbers times a power of 2."""
    n = int(description["n_books"])
    if f"words.{n - 1}" not in arrays:
        raise InputError(f"there are {n} books, but no words of book {n - 1}")
    exponents = [*description.get("exponents", [None] * n)]
    if len(exponents) != n:
        raise InputError(f"exponents must be {n}, one for each book, got {len(exponents)}")
    if "cells_exponent" in description:
        exponents[0] = description["cells_exponent"]
    books = []
    for i, exponent in enumerate(exponents):
        words = arrays[f"words.{i}"]
        if (exponent is None) != (words.dtype != np.float16):
            raise InputError(f"words of book {i} are {words.dtype}, and their exponent is {exponent}")
        if exponent is not None:
            words = from_halves(words, integer_between(exponent, "exponent", -200, 200))
        books.append(Book(words, arrays[f"support.{i}"]))
    stored = enumerate(description["norms"])
    return books, [Norm(arrays[f"norm.{i}"], tuple(d["covers"]), bool(d["crude"])) for i, d in stored]
