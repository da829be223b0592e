"""The header of a file: JSON that names the sections, their places and their checksums (docs/format.md)."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import DamagedFileError, NotAnIndexError
from .versions import FORMAT, VERSION, check_version

ALIGNMENT = 64
LARGEST_HEADER = 16 << 20

DTYPES = {
    **{"U8": np.uint8, "U32": np.uint32, "U64": np.uint64, "I32": np.int32, "I64": np.int64},
    **{"F16": np.float16, "F32": np.float32},
}
DTYPE_NAMES = {np.dtype(t): name for name, t in DTYPES.items()}
_PADDING = ".pad."
_ZERO_CRC = "00000000"
# First bytes of files that people open by mistake.
_FOREIGN = [
    (b"version https://git-lfs", "a git-lfs pointer; run `git lfs pull` to fetch the file itself"),
    (b"\x93NUMPY", "a NumPy .npy array; build an index from it first"),
    (b"PK\x03\x04", "a zip archive (.npz?); build an index from its array first"),
    (b"\x80\x02", "a pickle"),
    (b"\x80\x03", "a pickle"),
    (b"\x80\x04", "a pickle"),
    (b"\x80\x05", "a pickle"),
    *((magic, "a faiss index") for magic in (b"Ix", b"Iw", b"Iv", b"Im", b"IBx", b"IBw", b"IBH")),
    *((magic, "a faiss index") for magic in (b"IHN", b"INS", b"INN", b"IPf", b"ILf", b"IRM")),
    (b"\x89HDF", "an HDF5 file; build an index from its data set first"),
    (b"PAR1", "a parquet file; build an index from its column first"),
    (b"\x1f\x8b", "a gzip file"),
]


def checksum(parts: Iterable[Any]) -> str:
    """CRC-32 of the bytes of all parts, as 8 hexadecimal digits."""
    value = 0
    for part in parts:
        value = zlib.crc32(part, value)
    return f"{value:08x}"


@dataclass(frozen=True)
class Header:
    """A checked header. ``entries`` have the dtype, shape and data_offsets of sections and of their paddings."""

    text: bytes  # of the file, padded with spaces
    entries: dict[str, dict[str, Any]]
    checksums: dict[str, str]  # of each section and its padding
    description: dict[str, Any]

    @property
    def names(self) -> list[str]:
        """Sections, without paddings."""
        return [name for name in self.entries if not name.startswith(_PADDING)]

    @property
    def data_bytes(self) -> int:
        """Bytes after the header."""
        return max((entry["data_offsets"][1] for entry in self.entries.values()), default=0)

    def span(self, name: str) -> tuple[int, int]:
        """Where a section begins, and where its padding ends, counted from the end of the header."""
        start, stop = self.entries[name]["data_offsets"]
        padding = self.entries.get(_PADDING + name)
        return start, padding["data_offsets"][1] if padding else stop


def make_header(
    sections: Mapping[str, tuple[np.dtype[Any], tuple[int, ...]]],
    checksums: dict[str, str],
    description: dict[str, Any],
) -> bytes:
    """The first bytes of a file with sections of these dtypes and shapes, in this order, each padded and aligned."""
    header: dict[str, Any] = {}
    offset = 0
    for name, (dtype, shape) in sections.items():
        size = math.prod(shape) * dtype.itemsize
        header[name] = {"dtype": DTYPE_NAMES[dtype], "shape": list(shape), "data_offsets": [offset, offset + size]}
        offset += size
        if padding := padding_of(size):  # a tensor of its own, because the container allows no holes
            places = [offset, offset + padding]
            header[_PADDING + name] = {"dtype": "U8", "shape": [padding], "data_offsets": places}
            offset += padding
    header["__metadata__"] = {
        "format": FORMAT,
        "version": str(VERSION),
        "header_crc32": _ZERO_CRC,
        "interlace": json.dumps({"description": description, "checksums": checksums}, separators=(",", ":")),
    }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * padding_of(8 + len(text))
    length = len(text).to_bytes(8, "little")
    return length + text.replace(_crc_field(_ZERO_CRC), _crc_field(checksum((length, text))))


def padding_of(size: int) -> int:
    """Bytes that fill a section of this size up to the alignment."""
    return -size % ALIGNMENT


def _crc_field(value: str) -> bytes:
    return f'"header_crc32":"{value}"'.encode()


def header_length(name: str, head: bytes) -> int:
    """Length of the JSON text, from the first 32 bytes of the file; NotAnIndexError if it is something else."""
    for magic, what in _FOREIGN:
        if head.startswith(magic):
            raise NotAnIndexError(f"{name!r} is not an interlace file but {what}")
    length = int.from_bytes(head[:8], "little")
    if head[8:9] != b"{" or length > LARGEST_HEADER:
        raise NotAnIndexError(f"{name!r} is not an interlace file (or its first bytes are damaged)")
    return length


def parse_header(name: str, length: bytes, text: bytes) -> Header:
    """The header of the file ``name``, from its first 8 bytes and the text after them."""
    try:
        header = json.loads(text.decode())  # of bytes, json would also take UTF-16
        metadata = header.pop("__metadata__")
        ours = str(metadata.get("format")).startswith("interlace")  # earlier versions wrote this word alone
        stored = metadata.get("header_crc32", "")
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        if b'"header_crc32"' in text:
            raise DamagedFileError(f"{name!r} is damaged: its header cannot be read") from error
        raise NotAnIndexError(f"{name!r} is not an interlace file") from error
    if not ours and b'"header_crc32"' not in text:
        raise NotAnIndexError(f"{name!r} is a safetensors file, but not one of interlace")
    # The checksum comes before the version, in every version: a flipped bit must not look like a newer format.
    if checksum((length, text.replace(_crc_field(str(stored)), _crc_field(_ZERO_CRC)))) != stored:
        raise DamagedFileError(f"{name!r} is damaged: its header does not match its checksum")
    try:
        check_version(name, metadata["format"], int(metadata["version"]))
        meta = json.loads(metadata["interlace"])
        _check_sections(name, header, meta["checksums"], 8 + len(text))
        if not isinstance(meta["description"], dict):
            raise TypeError("no description")
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise DamagedFileError(f"{name!r} is damaged: its header is invalid ({error})") from error
    return Header(text, header, meta["checksums"], meta["description"])


def _check_sections(name: str, entries: dict[str, Any], checksums: dict[str, str], data_start: int) -> None:
    """Sections must follow each other, each aligned, with a checksum, and with its padding behind it."""
    end, before = 0, ""
    for key, entry in entries.items():
        (start, stop), shape, dtype = entry["data_offsets"], entry["shape"], entry["dtype"]
        fits = (
            start == end and dtype in DTYPES and all(type(size) is int and size >= 0 for size in (*shape, start, stop))
        )
        fits = fits and math.prod(shape) * np.dtype(DTYPES[dtype]).itemsize == stop - start
        if key.startswith(_PADDING):
            fits = fits and key == _PADDING + before
        else:
            fits = fits and key in checksums and (data_start + start) % ALIGNMENT == 0
        if not fits:
            raise DamagedFileError(f"{name!r} is damaged: section {key!r} does not fit its place")
        end, before = stop, key
