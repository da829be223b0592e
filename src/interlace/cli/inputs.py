"""Reading files other than vectors: ids, true neighbours, models."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..data import read_vectors
from ..errors import InputError
from ..inputs.streams import load_npy
from ..inputs.table_ids import ids_of_rows
from ..inputs.tables import id_column

if TYPE_CHECKING:
    from ..estimators.models import Model


def file_kind(path: str) -> str | None:
    """``index``, ``model``, ``codebooks`` or another kind of interlace file."""
    from ..files.storage import read

    kind: str | None = read(path).meta.get("kind")
    return kind


def ids_for(path: str, vectors: Any, given: str | None) -> tuple[Any, str | None]:
    """The ids of the rows of a file by ``--ids``, and the column of a table that they come from.

    ``given`` is such a column, or else a file. Without it, the column ``id`` of a table has the ids; None for default
    ids.
    """
    columns = getattr(vectors, "columns", None)
    names = [] if columns is None else columns.names
    column = id_column(names) if given is None else given if given in names else None
    if column is not None:
        return ids_of_rows(repr(path), columns, column), column
    if given is None:
        return None, None
    if names and not os.path.exists(given):
        listed = ", ".join(map(repr, names))
        raise InputError(f"--ids {given!r} is no column of {path!r}, which has {listed}, and there is no such file")
    return read_ids(given), None


def read_ids(path: str) -> NDArray[Any]:
    """One id per row of the data: a 1-D .npy, or a text file with one id per line (integers if all lines are)."""
    if Path(path).suffix.lower() == ".npy":
        return load_npy(path)
    try:
        with open(path, encoding="utf-8") as file:
            return np.array(ids_of_lines(file.read()), object)
    except UnicodeDecodeError as error:
        raise InputError(f"{path!r} is neither a .npy array nor UTF-8 text with one id per line") from error


def ids_of_lines(text: str) -> list[Any]:
    """One id per line, integers if all lines are."""
    lines = text.removesuffix("\n").split("\n")  # splitlines would also split at U+2028 and others
    # "007" stays a string, because the integer 7 would not equal it.
    if lines and all(line.removeprefix("-").isdecimal() and str(int(line)) == line for line in lines):
        return [int(line) for line in lines]
    return list(lines)


def read_truth(path: str, key: str | None) -> NDArray[Any]:
    """Ids of the true neighbours [queries, at least k], best first; integers, or strings in a .npy."""
    if Path(path).suffix.lower() == ".npy" and os.path.isfile(path):
        truth = load_npy(path)
    else:
        truth = np.asarray(read_vectors(path, key))
    if truth.ndim != 2 or truth.dtype.kind not in "iuU":
        raise InputError(
            f"{path!r} must hold ids [queries, neighbours], got shape {truth.shape} and dtype {truth.dtype}"
        )
    return truth


def load_model(path: str, embedding: Any = None) -> Model:
    """A fitted model of any kind; ``embedding`` is the torch module of a model with a custom embedding."""
    from ..quantizers import load  # only here: most commands load no model

    return load(path, embedding)
