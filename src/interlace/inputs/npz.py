"""Arrays of an ``.npz`` archive: mapped where they are stored as they are, decoded where they are compressed."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .streams import NPY_ERRORS


@dataclass(frozen=True)
class _Member:
    info: zipfile.ZipInfo
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool
    offset: int  #: of the values inside the member


def read_npz(name: str, key: str | None) -> NDArray[Any]:
    """The array called ``key``, or the only 2-D one."""
    try:
        with zipfile.ZipFile(name) as archive:
            members = {info.filename.removesuffix(".npy"): _member(archive, info) for info in archive.infolist()}
            member = members[_choose(name, key, members)]
            if member.dtype.hasobject:
                raise InputError(f"{name!r}: array {key!r} holds Python objects; only numbers are read")
            if member.info.compress_type == zipfile.ZIP_STORED and 0 not in member.shape:
                return _map(name, member)
            with archive.open(member.info) as file:
                array: NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
                return array
    except (zipfile.BadZipFile, NotImplementedError, *NPY_ERRORS) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{name!r} cannot be read as .npz (truncated, or something else): {error}") from error


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> _Member:
    with archive.open(info) as file:
        shape, fortran, dtype = _header(file)
        return _Member(info, shape, dtype, fortran, file.tell())


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(file)
    return shape, fortran, dtype


def _choose(name: str, key: str | None, members: dict[str, _Member]) -> str:
    listed = ", ".join(f"{k!r} {m.shape}" for k, m in members.items()) or "nothing"
    if key is not None:
        if key not in members:
            raise InputError(f"{name!r} has no array {key!r}; it holds {listed}")
        return key
    candidates = [k for k, m in members.items() if len(m.shape) == 2]
    if len(candidates) != 1:
        found = "more than one 2-D array" if candidates else "no 2-D array"
        raise InputError(f"{name!r} has {found}; it holds {listed}" + ("; choose one with key" if candidates else ""))
    return candidates[0]


def _map(name: str, member: _Member) -> NDArray[Any]:
    with open(name, "rb") as file:
        # The central directory does not say where the bytes start: the lengths of the local header may differ.
        file.seek(member.info.header_offset)
        local = file.read(30)
        start = (
            member.info.header_offset
            + 30
            + int.from_bytes(local[26:28], "little")
            + int.from_bytes(local[28:30], "little")
        )
    shape = member.shape[::-1] if member.fortran else member.shape
    values: NDArray[Any] = np.memmap(name, member.dtype, "r", start + member.offset, shape)
    return values.T if member.fortran else values
