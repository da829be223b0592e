"""Files of the big-ann benchmarks: vectors as ``.fbin`` and the like, ground truth as ``.ibin``.

Vectors: rows and dimensions as uint32, then all values; :func:`interlace.data.read_vectors` reads them. Ground truth:
queries and neighbours as uint32, then the row numbers as int32, then, if there are any, the distances as float32.
"""

from __future__ import annotations

import os
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .arrays import Rows, describe, to_numpy

#: Values of a file by its extension.
KINDS: dict[str, np.dtype[Any]] = {".fbin": np.dtype("<f4"), ".u8bin": np.dtype("u1"), ".i8bin": np.dtype("i1")}
MOST = 2**32 - 1


def write_vectors(path: str | PathLike[str], x: Any) -> None:
    """Write vectors [rows, dimensions] as .fbin, .u8bin or .i8bin, by the extension of ``path``, in blocks.

    x is anything that :meth:`interlace.Index.build` takes. Values that the file cannot hold exactly raise InputError;
    float64 is rounded to float32. The file is replaced when it is whole.
    """
    name = os.fspath(path)
    kind = KINDS.get(Path(name).suffix.lower())
    if kind is None:
        raise InputError(f"{name!r} has an unknown extension; vectors are written as {', '.join(KINDS)}")
    rows = Rows(x, name="x")
    _check_counts(len(rows), rows.dim)
    unfinished = f"{name}.{os.getpid()}.tmp"
    try:
        with open(unfinished, "wb") as file:
            file.write(np.array([len(rows), rows.dim], "<u4").tobytes())
            start = 0
            for block in rows.blocks():
                values = block if kind.kind == "f" else _whole(block, kind, start)
                file.write(np.ascontiguousarray(values, kind).tobytes())
                start += len(block)
        os.replace(unfinished, name)
    finally:
        if os.path.exists(unfinished):
            os.unlink(unfinished)


def _whole(block: NDArray[np.float32], kind: np.dtype[Any], start: int) -> NDArray[Any]:
    limits = np.iinfo(kind)
    bad = (block != np.rint(block)) | (block < limits.min) | (block > limits.max)
    if bad.any():
        row, column = (int(v) for v in np.argwhere(bad)[0])
        raise InputError(
            f"x[{start + row}, {column}] is {block[row, column]:g}, {kind} holds integers {limits.min} to {limits.max}"
        )
    return block.astype(kind)


def write_truth(path: str | PathLike[str], ids: Any, distances: Any = None) -> None:
    """Write the neighbours of queries: row numbers ``ids`` [queries, k] and, if given, ``distances`` of that shape."""
    found = to_numpy(ids, "ids")
    if found.ndim != 2 or found.dtype.kind not in "iu":
        raise InputError(f"ids must be row numbers [queries, k], got {describe(found)}")
    if found.size and not 0 <= int(found.min()) <= int(found.max()) < 2**31:
        raise InputError(f"ids must be 0 to {2**31 - 1}, got {int(found.min())} to {int(found.max())}")
    _check_counts(*found.shape)
    data = np.array(found.shape, "<u4").tobytes() + np.ascontiguousarray(found, "<i4").tobytes()
    if distances is not None:
        values = to_numpy(distances, "distances")
        if values.shape != found.shape or values.dtype.kind != "f":
            raise InputError(f"distances must be floats of shape {found.shape}, got {describe(values)}")
        data += np.ascontiguousarray(values, "<f4").tobytes()
    Path(path).write_bytes(data)


def read_truth(path: str | PathLike[str]) -> tuple[NDArray[np.int32], NDArray[np.float32] | None]:
    """Row numbers [queries, k] and distances of a ground truth; None if the file has no distances."""
    name = os.fspath(path)
    size = os.path.getsize(name)
    if size < 8:
        raise InputError(f"{name!r} is truncated: {size} bytes, its header alone (queries, neighbours) needs 8")
    n, k = (int(v) for v in np.fromfile(name, "<u4", 2))
    if size not in (8 + 4 * n * k, 8 + 8 * n * k):
        raise InputError(
            f"{name!r} has {size} bytes: {n} queries of {k} neighbours need {8 + 4 * n * k}, or {8 + 8 * n * k} with "
            "distances"
        )
    ids = np.fromfile(name, "<i4", n * k, offset=8).reshape(n, k)
    if size == 8 + 4 * n * k:
        return ids, None
    return ids, np.fromfile(name, "<f4", n * k, offset=8 + 4 * n * k).reshape(n, k)


def _check_counts(*counts: int) -> None:
    if max(counts) > MOST:
        raise InputError(f"a header holds numbers up to {MOST}, got {max(counts)}")
