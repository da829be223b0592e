"""``read_vectors``: a file of vectors -> a 2-D array that is read from disk only where it is touched.

Most formats are mapped, so a file larger than memory can be indexed; HDF5 and parquet are decoded in blocks. Only a
compressed ``.npz`` has to be decoded as a whole; that array lives in memory, in the dtype of the file.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .hdf5 import read_hdf5
from .npz import read_npz
from .parquet import read_parquet
from .streams import NPY_ERRORS

#: Row headers looked at in a .?vecs file; all of them when it has fewer rows.
CHECKED_ROWS = 1024


def read_vectors(
    path: str | PathLike[str], key: str | None = None, *, input_shape: tuple[int, ...] | None = None
) -> Any:
    """Vectors [rows, dimensions] of a file, chosen by its extension (see ``EXTENSIONS``).

    With ``input_shape`` arrays ``[rows, *input_shape]`` of .npy, .npz and .h5 files are inputs for an embedding, too.
    ``key`` names the array (.npz), column (.parquet) or data set (.h5) when the file holds more than one. The result
    is a NumPy array, an h5py data set, or (parquet) something with ``shape``, ``dtype`` and ``[rows]``; all go straight
    into ``Index.build``, which reads them in blocks.
    """
    vectors = _read(path, key)
    if vectors.ndim != 2 and (input_shape is None or tuple(vectors.shape[1:]) != input_shape):
        name = os.fspath(path)
        raise InputError(f"{name!r} must hold a 2-D array [rows, dimensions], got shape {tuple(vectors.shape)}")
    return vectors


def read_inputs(path: str | PathLike[str], key: str | None = None) -> Any:
    """The same for inputs that an embedding is to be learned for: flat rows, or images [rows, c, h, w] and the like."""
    inputs = _read(path, key)
    if inputs.ndim < 2:
        name = os.fspath(path)
        raise InputError(f"{name!r} must hold an array [rows, ...] of inputs, got shape {tuple(inputs.shape)}")
    return inputs


def _read(path: str | PathLike[str], key: str | None) -> Any:
    name = os.fspath(path)
    reader = EXTENSIONS.get(Path(name).suffix.lower())
    if reader is None:
        raise InputError(f"{name!r} has an unknown extension; known are {', '.join(EXTENSIONS)}")
    if not os.path.exists(name):
        raise FileNotFoundError(f"there is no file {name!r}")
    if os.path.isdir(name):
        raise InputError(f"{name!r} is a directory; a file of vectors is needed")
    if os.path.getsize(name) == 0:
        raise InputError(f"{name!r} is empty")
    if key is not None and reader not in _WITH_KEYS:
        raise InputError(f"{name!r} holds a single array; a key ({key!r}) belongs to .npz, .parquet and .h5 files")
    return reader(name, key)


def _npy(name: str, key: str | None) -> NDArray[Any]:
    try:
        array = np.load(name, mmap_mode="r", allow_pickle=False)
    except (*NPY_ERRORS, OSError) as error:
        if isinstance(error, PermissionError):
            raise
        raise InputError(f"{name!r} cannot be read as .npy: {error}") from error
    if not isinstance(array, np.ndarray):  # np.load looks at the content, not at the name
        array.close()
        raise InputError(f"{name!r} is an .npz archive under another name; rename it to .npz")
    return array


def _vecs(dtype: str) -> Callable[[str, str | None], NDArray[Any]]:
    """Reader of .fvecs and similar formats: each row is its dimension as int32, then its values."""
    item = np.dtype(dtype)

    def read(name: str, key: str | None) -> NDArray[Any]:
        size = os.path.getsize(name)
        if size < 4:
            raise InputError(f"{name!r} is truncated: {size} bytes, a row starts with 4 bytes for its dimension")
        dim = int(np.fromfile(name, "<i4", 1)[0])
        width = 4 + dim * item.itemsize
        if dim < 1:
            raise InputError(f"{name!r} does not look like {Path(name).suffix}: row 0 claims {dim} dimensions")
        if size % width:
            raise InputError(
                f"{name!r} is truncated, or its rows differ: {size} bytes are {size // width} rows of {dim} dimensions "
                f"({width} bytes each) and {size % width} bytes more"
            )
        rows = np.memmap(name, np.uint8, "r").reshape(-1, width)
        checked = np.unique(np.linspace(0, len(rows) - 1, min(len(rows), CHECKED_ROWS)).astype(np.int64))
        headers = np.ascontiguousarray(rows[checked, :4]).view("<i4")[:, 0]
        if (headers != dim).any():
            odd = int(np.argmax(headers != dim))
            raise InputError(
                f"{name!r}: row {int(checked[odd])} claims {int(headers[odd])} dimensions, row 0 has {dim}"
            )
        return rows.view(item)[:, 4 // item.itemsize :]  # no byte is copied

    return read


def _bin(dtype: str) -> Callable[[str, str | None], NDArray[Any]]:
    """Reader of .fbin and similar formats: number of rows and dimension as int32, then all values."""
    item = np.dtype(dtype)

    def read(name: str, key: str | None) -> NDArray[Any]:
        size = os.path.getsize(name)
        if size < 8:
            raise InputError(f"{name!r} is truncated: {size} bytes, its header alone (rows, dimensions) needs 8")
        # Unsigned: sets of more than 2^31 rows exist.
        n, dim = (int(v) for v in np.fromfile(name, "<u4", 2))
        expected = 8 + n * dim * item.itemsize
        if size != expected:
            how = "truncated" if size < expected else "longer than its header says"
            raise InputError(f"{name!r} is {how}: {n} rows of {dim} dimensions need {expected} bytes, it has {size}")
        if n == 0 or dim == 0:
            return np.empty((n, dim), item)
        return np.memmap(name, item, "r", 8, (n, dim))

    return read


EXTENSIONS: dict[str, Callable[[str, str | None], Any]] = {
    ".npy": _npy,
    ".npz": read_npz,
    ".fvecs": _vecs("<f4"),
    ".bvecs": _vecs("u1"),
    ".ivecs": _vecs("<i4"),
    ".fbin": _bin("<f4"),
    ".u8bin": _bin("u1"),
    ".i8bin": _bin("i1"),
    ".parquet": read_parquet,
    ".h5": read_hdf5,
    ".hdf5": read_hdf5,
}
_WITH_KEYS = (read_npz, read_parquet, read_hdf5)
