"""Blocks of an iterator -> a mapped temporary file that can be read several times.

An index is built in three passes: rows to learn from, all rows, rows to calibrate on. An iterator can be read only
once, and an iterable need not give the same order twice; so both are written to a file.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError

#: Rows converted and written at a time, so that one huge block is not copied either.
PIECE_ROWS = 16384

#: From what was yielded, a name for it in messages, and the number of its first row: a 2-D array of numbers.
Read = Callable[[Any, str, int], NDArray[Any]]
#: From rows and the number of their first: the same, checked.
AsFloat32 = Callable[[NDArray[Any], int], NDArray[np.float32]]


def yields_blocks(x: Any) -> bool:
    """Whether x is an iterator, a plain iterable, or a list that starts with a block; other lists are lists of rows."""
    if any(hasattr(x, how) for how in ("__array__", "__array_interface__", "__dlpack__")):
        return False
    if isinstance(x, list | tuple):
        return len(x) > 0 and len(getattr(x[0], "shape", ())) == 2
    return isinstance(x, Iterator) or (isinstance(x, Iterable) and not hasattr(x, "__getitem__"))


def spool(x: Iterable[Any], name: str, dim: int | None, read: Read, as_float32: AsFloat32) -> NDArray[Any]:
    """All rows of the blocks as a read-only map of an unnamed temporary file, in the blocks' own dtype.

    Blocks of different dtypes become float32 by ``as_float32``: a common wider type, such as float64 for float32 after
    integers, would round what that conversion refuses. The file has no name: its space is free again when the map is
    gone, or at once after an error; one of the iterator itself passes through unchanged.
    """
    import tempfile  # here, because it brings modules that a search does without

    blocks = _same_width(x, name, dim, read)
    folder = tempfile.gettempdir()
    with ExitStack() as files:
        file = files.enter_context(tempfile.TemporaryFile(buffering=0))
        n, width, dtype, mixed = 0, 0, np.dtype(np.float32), False
        for block in blocks:
            if n == 0:
                width, dtype = block.shape[1], block.dtype
            elif len(block) and block.dtype != dtype and not mixed:
                if dtype != np.float32:
                    before, narrow = _map(file, n, width, dtype), file
                    file = files.enter_context(tempfile.TemporaryFile(buffering=0))
                    for start in range(0, n, PIECE_ROWS):
                        _write(file, as_float32(before[start : start + PIECE_ROWS], start), folder)
                    del before
                    narrow.close()  # its space, now rather than after the last block
                dtype, mixed = np.dtype(np.float32), True
            for start in range(0, len(block), PIECE_ROWS):
                piece = block[start : start + PIECE_ROWS]
                _write(file, as_float32(piece, n + start) if mixed else piece, folder)
            n += len(block)
        return _map(file, n, width, dtype)


def _same_width(x: Iterable[Any], name: str, dim: int | None, read: Read) -> Iterator[NDArray[Any]]:
    """At least one array; errors say which block, and the number of its first row."""
    width, row, number = dim, 0, -1
    for number, item in enumerate(x):
        where = f"block {number} of {name} (from row {row})"
        block = read(item, where, row)
        if len(block):
            if width is not None and block.shape[1] != width:
                others = f"the index has {width}" if dim is not None else f"the blocks before have {width}"
                raise InputError(f"{where} has {block.shape[1]} dimensions, {others}")
            if block.shape[1] == 0:
                raise InputError(f"{where} has no dimensions: shape {block.shape}")
            width = block.shape[1]
        yield block
        row += len(block)
    if number < 0:
        raise InputError(f"{name} yields no block: the {type(x).__name__} is empty, or was read before")


def _map(file: IO[bytes], n: int, width: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """The file may be closed afterwards: the map keeps its bytes."""
    if n == 0:
        return np.empty((0, width), dtype)  # nothing cannot be mapped
    mapped: NDArray[Any] = np.memmap(file, dtype, "r", shape=(n, width))
    return mapped


def _write(file: IO[bytes], rows: NDArray[Any], folder: str) -> None:
    rest = np.ascontiguousarray(rows).reshape(-1).view(np.uint8).data  # bfloat16 has no buffer of its own
    try:
        while rest:
            rest = rest[file.write(rest) :]
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        text = f"no space left in {folder!r} to keep the blocks; name a larger folder by the variable TMPDIR"
        raise OSError(errno.ENOSPC, text) from error
