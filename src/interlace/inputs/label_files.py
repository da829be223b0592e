"""``read_labels``: one label for each row, out of a file."""

from __future__ import annotations

import csv
import os
import zipfile
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .hdf5 import hdf5_sets
from .labels import as_labels, labels_of_text
from .npz import read_npz
from .parquet import open_parquet
from .streams import load_npy

#: Files that labels are read from.
LABEL_EXTENSIONS = (".npy", ".npz", ".txt", ".csv", ".parquet", ".h5", ".hdf5")


def read_labels(path: str | PathLike[str], key: str | None = None) -> NDArray[Any]:
    """Labels [rows], integers or strings, of a file chosen by its extension.

    .npy: a 1-D array. .txt: one label per line. .csv: one per line without a header, or the column that ``key`` names
    in the first line. .npz, .parquet and .h5: the array, column or data set ``key``, which a file that holds nothing
    else does not need. Lines and floats that are all whole numbers are integers.
    """
    name = os.fspath(path)
    suffix = Path(name).suffix.lower()
    if suffix not in LABEL_EXTENSIONS:
        raise InputError(f"labels are read from {', '.join(LABEL_EXTENSIONS)} files, got {name!r}")
    if not os.path.exists(name):
        raise FileNotFoundError(f"there is no file {name!r}")
    if key is not None and suffix in (".npy", ".txt"):
        raise InputError(f"{name!r} holds one label per row; a key ({key!r}) belongs to .csv, .npz, .parquet and .h5")
    if suffix == ".npy":
        labels = load_npy(name)
    elif suffix == ".npz":
        labels = np.asarray(read_npz(name, _only(name, _names(name), key)))
    elif suffix == ".parquet":
        labels = _parquet(name, key)
    elif suffix in (".h5", ".hdf5"):
        labels = _hdf5(name, key)
    else:
        labels = labels_of_text(_lines(name, key, suffix))
    if labels.ndim != 1:
        what = f"its {key!r}" if key is not None else "it"
        raise InputError(f"{name!r} must hold one label per row, but {what} has shape {tuple(labels.shape)}")
    return as_labels(labels, len(labels), name=repr(name))


def _names(name: str) -> list[str]:
    try:
        with zipfile.ZipFile(name) as archive:
            return [member.removesuffix(".npy") for member in archive.namelist()]
    except zipfile.BadZipFile as error:
        raise InputError(f"{name!r} cannot be read as .npz (truncated, or something else): {error}") from error


def _parquet(name: str, key: str | None) -> NDArray[Any]:
    file = open_parquet(name)
    column = file.read(columns=[_only(name, file.schema_arrow.names, key)]).column(0)
    if column.null_count:
        row = next(i for i, missing in enumerate(column.is_null().to_pylist()) if missing)
        raise InputError(f"{name!r}: row {row} of {key!r} is missing (null); every row needs a label")
    return np.array(column.to_pylist())


def _hdf5(name: str, key: str | None) -> NDArray[Any]:
    found = hdf5_sets(name)
    chosen = found[_only(name, list(found), None if key is None else key.strip("/"))]
    return np.asarray((chosen.asstr() if chosen.dtype.kind in "OS" else chosen)[()])


def _lines(name: str, key: str | None, suffix: str) -> list[str]:
    """One label per line; the line end at the end of the file starts no further line."""
    try:
        with open(name, encoding="utf-8-sig", newline="") as file:
            if suffix == ".txt":
                text = file.read().replace("\r\n", "\n").removesuffix("\n")
                lines = text.split("\n") if text else []
                rows = [[line] for line in lines]
            else:
                rows = list(csv.reader(file))
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{name!r} cannot be read as text, one label per line: {error}") from error
    column = 0
    if key is not None:
        header = rows.pop(0) if rows else []
        column = header.index(_only(name, header, key))
    elif rows and len(rows[0]) > 1:
        raise InputError(f"{name!r} has {len(rows[0])} columns: pass key, the name of one in the first line")
    for number, row in enumerate(rows, start=1 if key is None else 2):
        if len(row) <= column or not row[column].strip():
            raise InputError(f"{name!r}: line {number} has no label")
    return [row[column] for row in rows]


def _only(name: str, names: list[str], key: str | None) -> str:
    some = [*map(repr, names)] if len(names) <= 20 else [*map(repr, names[:10]), "...", *map(repr, names[-5:])]
    listed = ", ".join(some) or "nothing"
    if key is None:
        if len(names) == 1:
            return names[0]
        raise InputError(f"{name!r} holds {listed}: pass key to choose the labels")
    if key not in names:
        raise InputError(f"{name!r} has no {key!r}; it holds {listed}")
    return key
