"""The file format: a safetensors container with aligned tensors and a checksum over every byte (docs/format.md).

Nothing here knows what the tensors mean. Files are replaced whole or not at all, opened by mmap, and never executed.

A page of a mapped file that another program cut off cannot be read: the system ends the process with SIGBUS. So small
sections are copied when a file is opened, and :meth:`File.check_size` compares the size of the file before large ones
are used (docs/format.md, "Mapped files").
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import math
import os
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..errors import DamagedFileError, NewerFormatError, NotAnIndexError

T = TypeVar("T")

VERSION = 3  # older ones are read too
USUAL_VERSION = 2  # what is written unless a file has something that version 2 did not know
ALIGNMENT = 64
LARGEST_HEADER = 16 << 20
COPIED = 1 << 16  # bytes; sections up to this size are copied when a file is opened

_DTYPES = {"U8": np.uint8, "U32": np.uint32, "U64": np.uint64, "I32": np.int32, "I64": np.int64, "F32": np.float32}
_NAMES = {np.dtype(t): name for name, t in _DTYPES.items()}
_ZERO_CRC = "00000000"
# What people open by mistake, by its first bytes.
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


def _crc(*parts: Any) -> str:
    return _crc_of(parts)


def _crc_of(parts: Iterable[Any]) -> str:
    value = 0
    for part in parts:
        value = zlib.crc32(part, value)
    return f"{value:08x}"


def _bytes(array: NDArray[Any]) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


@dataclass(frozen=True, eq=False)
class Blocks:
    """An array that may be larger than memory: its blocks of rows, made anew each time they are asked for."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    blocks: Callable[[], Iterable[NDArray[Any]]]


def _pieces(array: NDArray[Any] | Blocks) -> Iterator[memoryview]:
    """Its bytes."""
    for block in array.blocks() if isinstance(array, Blocks) else (array,):
        yield _bytes(block)


def write(
    path: str | PathLike[str],
    arrays: dict[str, NDArray[Any]],
    description: dict[str, Any],
    version: int = USUAL_VERSION,
) -> None:
    """Replace ``path`` by a file with these arrays, or leave it as it was.

    The bytes go to a temporary file beside the target, reach the disk, and then take its name in one step. Temporary
    files of earlier writes to the same target whose processes were killed are removed.
    """
    _replace(path, contents(arrays, description, version))


def contents(
    arrays: Mapping[str, NDArray[Any] | Blocks], description: dict[str, Any], version: int = USUAL_VERSION
) -> Iterator[Any]:
    """The bytes of such a file, part by part; arrays are not copied, and blocks are made twice: once to be summed up.

    ``description`` is JSON-able and comes back from :attr:`File.meta`. ``version`` is the oldest format that has what
    the arrays say.
    """
    header: dict[str, Any] = {}
    checksums: dict[str, str] = {}
    sections: list[tuple[NDArray[Any] | Blocks, bytes]] = []
    offset = 0
    for name, array in arrays.items():
        size, shape = math.prod(array.shape) * array.dtype.itemsize, list(array.shape)
        padding = bytes(-size % ALIGNMENT)
        header[name] = {"dtype": _NAMES[array.dtype], "shape": shape, "data_offsets": [offset, offset + size]}
        checksums[name] = _crc_of(itertools.chain(_pieces(array), (padding,)))
        offset += size
        if padding:  # a tensor of its own, because the container allows no holes
            header[f".pad.{name}"] = {
                "dtype": "U8",
                "shape": [len(padding)],
                "data_offsets": [offset, offset + len(padding)],
            }
            offset += len(padding)
        sections.append((array, padding))
    meta = {"description": description, "checksums": checksums}
    header["__metadata__"] = {
        "format": "interlace",
        "version": str(version),
        "header_crc32": _ZERO_CRC,
        "interlace": json.dumps(meta, separators=(",", ":")),
    }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    length = len(text).to_bytes(8, "little")
    text = text.replace(_crc_field(_ZERO_CRC), _crc_field(_crc(length, text)))
    return _flattened([length, text], sections)


def _flattened(start: list[bytes], sections: list[tuple[NDArray[Any] | Blocks, bytes]]) -> Iterator[Any]:
    yield from start
    for array, padding in sections:
        yield from _pieces(array)
        yield padding


def _crc_field(value: str) -> bytes:
    return f'"header_crc32":"{value}"'.encode()


def _replace(path: str | PathLike[str], parts: Iterable[Any]) -> None:
    target = os.path.realpath(path)  # a link keeps pointing at the file
    if os.path.isdir(target):
        raise IsADirectoryError(errno.EISDIR, "cannot write an interlace file over a directory", target)
    _sweep(target)
    temporary = ""
    try:
        descriptor, temporary = _new_temporary(target)
        with open(descriptor, "wb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            if os.path.exists(target):
                os.fchmod(file.fileno(), stat.S_IMODE(os.stat(target).st_mode))
            os.fsync(file.fileno())
            os.replace(temporary, target)  # before it is closed, which frees its lock
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError):  # name the file that was asked for, not the temporary one
            raise OSError(error.errno, f"cannot write an interlace file ({error.strerror})", target) from error
        raise
    try:
        folder = os.open(os.path.dirname(target), os.O_RDONLY)
    except PermissionError:  # a folder that may be written but not listed; the file itself is on disk
        return
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _new_temporary(target: str) -> tuple[int, str]:
    """A file that becomes ``target``: open, and locked for as long as it is, so that nobody else sweeps it away."""
    while True:
        temporary = f"{target}.~{os.urandom(5).hex()}.tmp"  # a name of its own for every thread and process
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o666)
        if not _locked(file, wait=True) or os.fstat(file).st_nlink:
            return file, temporary
        os.close(file)  # swept before it was locked


def _sweep(target: str) -> None:
    """Remove temporary files of this target whose process has ended: the system freed their locks.

    Only names that :func:`_new_temporary` gives count, and only where the system has locks. Leftovers are no reason for
    a write to fail.
    """
    folder, name = os.path.split(target)
    with contextlib.suppress(OSError):
        for left in os.listdir(folder):
            digits = left.removeprefix(f"{name}.~").removesuffix(".tmp")
            if left != f"{name}.~{digits}.tmp" or len(digits) != 10 or set(digits) - set("0123456789abcdef"):
                continue
            with contextlib.suppress(OSError):
                file = os.open(os.path.join(folder, left), os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
                try:
                    if stat.S_ISREG(os.fstat(file).st_mode) and _locked(file):
                        os.unlink(os.path.join(folder, left))
                finally:
                    os.close(file)


def _locked(file: int, wait: bool = False) -> bool:
    """Lock a file until it is closed; whether that was possible."""
    try:
        import fcntl
    except ImportError:  # Windows
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:  # another one has it, or the file system knows no locks
        return False
    return True


class File:
    """An opened file: header checked, tensors mapped but not read."""

    def __init__(
        self,
        path: str,
        n_bytes: int,
        header: dict[str, Any],
        data: NDArray[np.uint8],
        meta: dict[str, Any],
        version: int,
        text: bytes = b"",
        copies: Mapping[str, NDArray[np.uint8]] | None = None,
        mapping: Any = None,
    ) -> None:
        self.path = path
        self.n_bytes = n_bytes  # of the whole file
        self._header = header
        self._data = data
        self._copies = copies or {}  # small sections, with their padding
        self._mapping = mapping  # a mmap, which has a descriptor of the file; None where all of it was copied
        self._text = text  # the header, which has the checksums of all sections
        self.meta: dict[str, Any] = meta["description"]
        self._checksums: dict[str, str] = meta["checksums"]
        self.version = version  # 1 to VERSION

    def same_as(self, other: File) -> bool:
        """Whether both have the same header, and so the same checksum for every section: equal contents."""
        return self._text == other._text

    def check_size(self) -> None:
        """Raise if the file was cut or grew since it was opened: to read what it lost would end the process."""
        if self._mapping is not None and self._mapping.size() != self.n_bytes:
            raise DamagedFileError(
                f"{self.path!r} has {self._mapping.size()} bytes, and had {self.n_bytes} when it was opened: another "
                "program truncated it or wrote over it; restore it under a temporary name, rename it into place, and "
                "open it again"
            )

    @property
    def names(self) -> list[str]:
        """Tensors, padding left out."""
        return [name for name in self._header if not name.startswith(".pad.")]

    def entry(self, name: str) -> tuple[str, tuple[int, ...], int]:
        """dtype, shape and bytes of a tensor."""
        entry = self._header[name]
        return entry["dtype"], tuple(entry["shape"]), entry["data_offsets"][1] - entry["data_offsets"][0]

    def description(self, key: str) -> dict[str, Any]:
        """One part of the description, or a clear error."""
        value = self.meta.get(key)
        if not isinstance(value, dict):
            raise NotAnIndexError(f"{self.path!r} holds {self.meta.get('kind')!r}, which has no {key}")
        return value

    def array(self, name: str) -> NDArray[Any]:
        """A tensor, read-only; a large one is still on disk until it is touched."""
        if name not in self._header:
            raise DamagedFileError(f"{self.path!r} has no section {name!r}")
        entry = self._header[name]
        start, stop = entry["data_offsets"]
        data = self._copies[name][: stop - start] if name in self._copies else self._data[start:stop]
        array: NDArray[Any] = data.view(_DTYPES[entry["dtype"]]).reshape(entry["shape"])
        return array

    def check(self, name: str) -> None:
        """Compare a section, its padding included, with its checksum."""
        data = self._copies.get(name)
        if data is None:
            self.check_size()
            data = self._data[slice(*_padded(self._header, name))]
        if _crc(data.data) != self._checksums[name]:
            raise DamagedFileError(f"{self.path!r} is damaged: section {name!r} does not match its checksum")

    def verify(self) -> None:
        """Check every byte; the header was checked when the file was opened."""
        for name in self.names:
            self.check(name)

    @contextlib.contextmanager
    def damage_named(self, part: str) -> Iterator[None]:
        """Errors inside come from the file, not from the caller's arguments."""
        try:
            yield
        except (LookupError, ValueError, TypeError, AttributeError, ArithmeticError) as error:
            raise DamagedFileError(f"{self.path!r} is damaged: {part}: {error}") from error


def _padded(header: dict[str, Any], name: str) -> tuple[int, int]:
    """Where a section begins, and where its padding ends."""
    start, stop = header[name]["data_offsets"]
    padding = header.get(f".pad.{name}")
    return start, padding["data_offsets"][1] if padding else stop


def open_regular(target: str, path: str | None = None, **where: int) -> int:
    """A descriptor to read a file with; a pipe or a device, which may never give a byte, is refused without waiting.

    ``path`` is for messages, ``where`` may have the ``dir_fd`` of ``target``.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    file = os.open(target, flags, **where)
    mode = os.fstat(file).st_mode
    if not stat.S_ISREG(mode):
        os.close(file)
        kinds = {stat.S_IFDIR: "a directory", stat.S_IFIFO: "a named pipe"}
        what = kinds.get(stat.S_IFMT(mode), "a device or socket")
        raise NotAnIndexError(f"{path or target!r} is {what}, not an interlace file")
    return file


def read(path: str | PathLike[str], descriptor: int | None = None) -> File:
    """Open by mmap and check the header; the tensors are checked by :meth:`File.verify`.

    ``descriptor`` is the file, opened already, which is closed here; then ``path`` is only for messages.
    """
    name = os.fspath(path)
    if descriptor is None and os.path.isdir(name):
        raise NotAnIndexError(f"{name!r} is a directory, not an interlace file")
    with open(open_regular(name) if descriptor is None else descriptor, "rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        head = file.read(32)
        if size == 0:
            raise NotAnIndexError(f"{name!r} is empty")
        for magic, what in _FOREIGN:
            if head.startswith(magic):
                raise NotAnIndexError(f"{name!r} is not an interlace file but {what}")
        length = int.from_bytes(head[:8], "little")
        if head[8:9] != b"{" or length > LARGEST_HEADER:
            raise NotAnIndexError(f"{name!r} is not an interlace file (or its first bytes are damaged)")
        if size < 8 + length:
            raise DamagedFileError(f"{name!r} is truncated: {size} bytes, its header alone needs {8 + length}")
        text = _read_at(file, 8, length, name).tobytes()
        header, meta, version = _parse_header(name, head[:8], text)
        expected = max((entry["data_offsets"][1] for entry in header.values()), default=0)
        if size != 8 + length + expected:
            how = "truncated" if size < 8 + length + expected else "longer than it should be"
            raise DamagedFileError(f"{name!r} is {how}: {size} bytes, {8 + length + expected} expected")
        copies, large = _small_sections(name, file, header, 8 + length)
        data, mapping = np.frombuffer(b"", np.uint8), None
        if large:
            import mmap  # what is small is never mapped

            # The same descriptor: the name may belong to another file by now.
            mapping = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
            # And a plain array: a look at a part of a np.memmap costs microseconds, which single queries would notice.
            data = np.frombuffer(mapping, np.uint8, expected, 8 + length)
    return File(name, size, header, data, meta, version, text, copies, mapping)


def _small_sections(
    name: str, file: Any, header: dict[str, Any], first: int
) -> tuple[dict[str, NDArray[np.uint8]], bool]:
    """Copies of the small sections with their padding, and whether there are large ones.

    Read, not mapped: a file that is cut meanwhile gives fewer bytes, and no signal.
    """
    spans = {key: _padded(header, key) for key in header if not key.startswith(".pad.")}
    small = {key: span for key, span in spans.items() if span[1] - span[0] <= COPIED}
    copies: dict[str, NDArray[np.uint8]] = {}
    run: list[str] = []  # sections that follow each other, read by one call

    def take() -> None:
        if run:
            begin, end = small[run[0]][0], small[run[-1]][1]
            data = _read_at(file, first + begin, end - begin, name)
            copies.update((key, data[small[key][0] - begin : small[key][1] - begin]) for key in run)
            run.clear()

    for key, (start, stop) in small.items():
        if run and (small[run[-1]][1] != start or stop - small[run[0]][0] > COPIED):
            take()
        run.append(key)
    take()
    return copies, len(small) < len(spans)


def _read_at(file: Any, offset: int, size: int, name: str) -> NDArray[np.uint8]:
    """So many bytes of a file, aligned as sections are."""
    room = np.empty(size + ALIGNMENT, np.uint8)
    first = -room.ctypes.data % ALIGNMENT
    data, done = room[first : first + size], 0
    file.seek(offset)
    while done < size:
        if not (read := file.readinto(data[done:].data)):
            raise DamagedFileError(f"{name!r} is truncated: it ends at byte {offset + done}, {offset + size} expected")
        done += read
    data.flags.writeable = False
    return data


def _parse_header(name: str, length: bytes, text: bytes) -> tuple[dict[str, Any], dict[str, Any], int]:
    try:
        header = json.loads(text.decode())  # of bytes, json would also take UTF-16
        metadata = header.pop("__metadata__")
        ours = metadata.get("format") == "interlace"
        stored = metadata.get("header_crc32", "")
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        if b'"header_crc32"' in text:
            raise DamagedFileError(f"{name!r} is damaged: its header cannot be read") from error
        raise NotAnIndexError(f"{name!r} is not an interlace file") from error
    if not ours and b'"header_crc32"' not in text:
        raise NotAnIndexError(f"{name!r} is a safetensors file, but not one of interlace")
    # The checksum comes before the version, in every version: a flipped bit must not look like a newer format.
    if _crc(length, text.replace(_crc_field(str(stored)), _crc_field(_ZERO_CRC))) != stored:
        raise DamagedFileError(f"{name!r} is damaged: its header does not match its checksum")
    try:
        version = int(metadata["version"])
        if version > VERSION:
            raise NewerFormatError(
                f"{name!r} has format version {version}, this interlace reads up to {VERSION}: install a newer one"
            )
        if version < 1:
            raise ValueError(f"version {version}")
        meta = json.loads(metadata["interlace"])
        _check_sections(name, header, meta["checksums"], 8 + len(text))
        if not isinstance(meta["description"], dict):
            raise TypeError("no description")
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise DamagedFileError(f"{name!r} is damaged: its header makes no sense ({error})") from error
    return header, meta, version


def _check_sections(name: str, header: dict[str, Any], checksums: dict[str, str], data_start: int) -> None:
    """Sections one after the other, each aligned and with a checksum, its padding behind it."""
    end, before = 0, ""
    for key, entry in header.items():
        (start, stop), shape, dtype = entry["data_offsets"], entry["shape"], entry["dtype"]
        fits = (
            start == end and dtype in _DTYPES and all(type(size) is int and size >= 0 for size in (*shape, start, stop))
        )
        fits = fits and math.prod(shape) * np.dtype(_DTYPES[dtype]).itemsize == stop - start
        if key.startswith(".pad."):
            fits = fits and key == f".pad.{before}"
        else:
            fits = fits and key in checksums and (data_start + start) % ALIGNMENT == 0
        if not fits:
            raise DamagedFileError(f"{name!r} is damaged: section {key!r} does not fit its place")
        end, before = stop, key


def to_bytes(save: Callable[[str], None]) -> bytes:
    """What ``save(path)`` writes, for pickles: our own file format, in which nothing is executable."""
    import tempfile  # here, because it brings modules that a search does without

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "saved.interlace")
        save(path)
        with open(path, "rb") as file:
            return file.read()


def from_bytes(data: bytes, read: Callable[[str], T]) -> T:
    """What ``read(path)`` makes of the bytes; a map it keeps outlives the file's name."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "saved.interlace")
        with open(path, "wb") as file:
            file.write(data)
        return read(path)
