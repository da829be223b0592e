"""Rows for a store in blocks, from a file of vectors, lines of text or stdin."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from ..data import EXTENSIONS, read_vectors
from ..errors import InputError
from ..inputs.lines import Payload, read_rows
from ..inputs.streams import MAGIC, NpyStream

#: Most rows and most values of a block.
ROWS, VALUES = 10_000, 8 << 20
TEXT = (".jsonl", ".ndjson", ".csv", ".tsv", ".txt")


@dataclass(frozen=True)
class Block:
    """Consecutive rows."""

    x: Any
    ids: list[Any] | None  # if the rows contain ids
    done: float  # share of all rows up to the end of this block; NaN if unknown
    payload: Payload = None  # if the rows contain column values


def blocks_of(
    data: str, key: str | None, shape: tuple[int, ...], columns: Sequence[str] = ()
) -> tuple[Iterator[Block], int | None, Any]:
    """Blocks of ``data`` (``-``: stdin), the number of rows if it is known before reading, and the rows of a file.

    Lines of JSON may have values of ``columns``. There are no rows of a file, but None, for text and stdin.
    """
    rows = max(1, min(ROWS, VALUES // math.prod(shape)))
    if data == "-":
        if key is not None:
            raise InputError(f"--key ({key!r}) is for .npz, .parquet and .h5 files; stdin holds a single array")
        return *_stream(sys.stdin.buffer, shape, rows, columns), None
    if Path(data).suffix.lower() in TEXT:
        if key is not None:
            raise InputError(f"--key ({key!r}) is for .npz, .parquet and .h5 files; {data!r} holds lines of text")
        return _text_file(data, shape, rows, columns), None, None
    if Path(data).suffix.lower() not in EXTENSIONS:
        raise InputError(f"{data!r} has an unknown extension; supported are {', '.join((*EXTENSIONS, *TEXT))}")
    vectors = read_vectors(data, key, input_shape=shape)
    return _slices(vectors, rows), len(vectors), vectors


def _slices(vectors: Any, rows: int) -> Iterator[Block]:
    n = len(vectors)
    for first in range(0, n, rows):
        stop = min(first + rows, n)
        yield Block(vectors[first:stop], None, stop / n)


def _text_file(path: str, shape: tuple[int, ...], rows: int, columns: Sequence[str]) -> Iterator[Block]:
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        for ids, values, payload in read_rows(file, math.prod(shape), rows, repr(path), columns=columns):
            yield Block(values, ids, file.tell() / size if size else math.nan, payload)


def _stream(
    file: IO[bytes], shape: tuple[int, ...], rows: int, columns: Sequence[str]
) -> tuple[Iterator[Block], int | None]:
    start = file.read(len(MAGIC))
    if not start:
        raise InputError("stdin is empty: expected a .npy array, or lines of JSON or CSV")
    if start != MAGIC:
        found = read_rows(file, math.prod(shape), rows, "stdin", start, columns)
        return (Block(x, ids, math.nan, payload) for ids, x, payload in found), None
    stream = NpyStream(file, "stdin")
    if stream.shape[1:] not in (shape, (math.prod(shape),)):  # before a block of a wrong width fills the memory
        raise InputError(f"stdin has rows of shape {stream.shape[1:]}, the store expects {shape}")
    return _npy(stream, rows), len(stream)


def _npy(stream: NpyStream, rows: int) -> Iterator[Block]:
    read = 0
    for x in stream.blocks(rows):
        read += len(x)
        yield Block(x, None, read / len(stream))
