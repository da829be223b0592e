"""Files at URLs: read and written through fsspec, downloaded to a cache before they are mapped.

Local paths and ``file://`` URLs need no fsspec; ``memory://`` needs fsspec, ``s3://`` also s3fs, ``gs://`` gcsfs, etc.
Credentials are those that these libraries find by themselves.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import importlib
import os
import re
from collections.abc import Callable, Iterator
from os import PathLike
from typing import Any, BinaryIO, Protocol

from ..errors import DamagedFileError, InputError, InterlaceError, RemoteError

#: Bytes that are copied at a time.
CHUNK = 1 << 22
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]+://")


class FilePlace(Protocol):
    """A directory, or a file if the name is empty, that files are copied from and to."""

    url: str  #: for messages

    def size(self, name: str) -> int:
        """Bytes of a file; FileNotFoundError if there is none."""

    def version(self, name: str) -> str:
        """Changes when the file does."""

    def reading(self, name: str) -> contextlib.AbstractContextManager[Any]:
        """A binary file."""

    def writing(self, name: str) -> contextlib.AbstractContextManager[Any]:
        """A new binary file; whether an old one is replaced at once depends on the file system."""


def is_url(path: Any) -> bool:
    """Whether it is a text such as ``s3://bucket/name``."""
    return isinstance(path, str) and _URL.match(path) is not None


def local_path(path: str | PathLike[str]) -> str | None:
    """The path of a local file or ``file://`` URL; None for other URLs."""
    text = os.fspath(path)
    if not is_url(text):
        return text
    scheme, _, rest = text.partition("://")
    if scheme.lower() != "file":
        return None
    from urllib.parse import unquote

    if not rest.startswith("/"):
        raise InputError(f"a file URL has an absolute path, file:///folder/name, got {text!r}")
    return unquote(rest)


def place_of(path: str | PathLike[str]) -> FilePlace:
    """The place of a path or URL; RemoteError if no library is installed that opens such URLs."""
    found = local_path(path)
    return LocalPlace(found) if found is not None else RemotePlace(os.fspath(path))


class LocalPlace:
    """A directory or file of this machine."""

    def __init__(self, path: str) -> None:
        self.url = path

    def _path(self, name: str) -> str:
        return os.path.join(self.url, name) if name else self.url

    def size(self, name: str) -> int:
        return os.stat(self._path(name)).st_size

    def version(self, name: str) -> str:
        status = os.stat(self._path(name))
        return f"{status.st_size} {status.st_mtime_ns}"

    def reading(self, name: str) -> BinaryIO:
        return open(self._path(name), "rb")

    @contextlib.contextmanager
    def writing(self, name: str) -> Iterator[BinaryIO]:
        os.makedirs(self.url, exist_ok=True)
        with open(self._path(name), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())


class RemotePlace:
    """A directory or file of an fsspec file system."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        scheme = url.partition("://")[0]
        try:
            fsspec = importlib.import_module("fsspec")
        except ImportError as error:
            raise RemoteError(errno.ENOPKG, "URLs need fsspec: pip install 'interlace[remote]'", url) from error
        try:
            self._system, self._root = fsspec.core.url_to_fs(self.url)
        except ImportError as error:  # of a known scheme whose library is missing
            raise RemoteError(errno.ENOPKG, f"{scheme} URLs need another library ({error})", url) from error
        except ValueError as error:
            raise InputError(f"no file system for {scheme!r} URLs is known to fsspec: {error} ({url!r})") from error

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}" if name else str(self._root)

    def size(self, name: str) -> int:
        with _errors(self.url, name):
            return int(self._system.info(self._path(name))["size"])

    def version(self, name: str) -> str:
        with _errors(self.url, name):
            return str(self._system.ukey(self._path(name)))

    @contextlib.contextmanager
    def reading(self, name: str) -> Iterator[Any]:
        self._system.invalidate_cache()
        with _errors(self.url, name), self._system.open(self._path(name), "rb") as file:
            yield file

    @contextlib.contextmanager
    def writing(self, name: str) -> Iterator[Any]:
        with _errors(self.url, name):
            self._system.makedirs(self._path("") if name else os.path.dirname(self._root), exist_ok=True)
            with self._system.open(self._path(name), "wb") as file:
                yield file


@contextlib.contextmanager
def _errors(url: str, name: str) -> Iterator[None]:
    """Any error of a file system as a RemoteError; libraries of file systems raise all kinds of errors."""
    where = f"{url}/{name}" if name else url
    try:
        yield
    except InterlaceError:
        raise
    except Exception as error:
        number = getattr(error, "errno", None)
        if isinstance(error, FileNotFoundError):
            raise RemoteError(errno.ENOENT, "there is no such file", where) from error
        if isinstance(error, NotADirectoryError | FileExistsError):  # the parent of the name is a file
            raise RemoteError(errno.ENOTDIR, f"it is no directory ({error})", where) from error
        if isinstance(error, PermissionError):
            raise RemoteError(errno.EACCES, f"no permission ({error})", where) from error
        raise RemoteError(number or errno.EIO, f"{type(error).__name__}: {error}", where) from error


def copy(source: Any, target: Any) -> tuple[int, str]:
    """Copy a binary file; returns its bytes and their SHA-256."""
    digest, n = hashlib.sha256(), 0
    while chunk := source.read(CHUNK):
        target.write(chunk)
        digest.update(chunk)
        n += len(chunk)
    return n, digest.hexdigest()


def fetch(place: FilePlace, name: str, target: str, size: int | None = None, sha256: str | None = None) -> None:
    """Copy a file to the local path ``target``; DamagedFileError if it has another size or checksum than it should.

    Nothing is left after an error.
    """
    where = f"{place.url}/{name}" if name else place.url
    expected = place.size(name) if size is None else size
    try:
        with place.reading(name) as source, open(target, "wb") as file:
            n, found = copy(source, file)
            file.flush()
            os.fsync(file.fileno())
        if n != expected:
            raise DamagedFileError(f"{where!r} gave {n} bytes, {expected} expected: half a download, or it has changed")
        if sha256 is not None and found != sha256:
            raise DamagedFileError(f"{where!r} has SHA-256 {found}, {sha256} expected: it has changed")
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(target)
        raise


def cache_folder() -> str:
    """Where downloads are kept: ``INTERLACE_CACHE``, or else ``interlace`` in the cache of the user."""
    named = os.environ.get("INTERLACE_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = named or os.path.join(base, "interlace")
    os.makedirs(folder, exist_ok=True)
    return folder


def cached(url: str, version: str, make: Callable[[str], None]) -> str:
    """The path in the cache of what ``make(path)`` downloads from ``url``, once for each version of it.

    It is made under another name and renamed, so that what is in the cache is whole.
    """
    folder = os.path.join(cache_folder(), hashlib.sha256(url.encode()).hexdigest()[:32])
    path = os.path.join(folder, hashlib.sha256(version.encode()).hexdigest()[:32])
    if os.path.exists(path):
        return path
    os.makedirs(folder, exist_ok=True)
    import shutil  # here, as this is the rare case
    import tempfile

    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        unfinished = os.path.join(temporary, "download")
        make(unfinished)
        try:
            os.rename(unfinished, path)
        except OSError:  # another process was faster, with a directory
            if not os.path.exists(path):
                raise
            shutil.rmtree(unfinished, ignore_errors=True)
    return path
