"""Files on a disk that all nodes see, or in an object store: any path or URL that fsspec or pyarrow can open."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterator
from os import PathLike
from typing import Any

from ..errors import BuildError, FileError, InterlaceError
from ..files import versions
from ..files.atomic import replace_file

CHUNK = 1 << 22  # bytes


def is_url(path: str) -> bool:
    """Whether a path is one of an object store; ``file://`` is a path of the disk."""
    return "://" in path and not path.startswith("file://")


def normal(path: str | PathLike[str]) -> str:
    """A URL as it is, a path of the disk in its absolute form: workers have another working directory."""
    text = os.fspath(path)
    return text.rstrip("/") if is_url(text) else os.path.abspath(text.removeprefix("file://"))


def join(folder: str, name: str) -> str:
    """A name below a folder."""
    return f"{folder}/{name}" if is_url(folder) else os.path.join(folder, name)


@contextlib.contextmanager
def reported(path: str, what: str) -> Iterator[None]:
    """Raise whatever an object store raises as a FileError that names the URL; errors of the disk stay."""
    try:
        yield
    except (InterlaceError, FileNotFoundError):
        raise
    except Exception as error:
        if not is_url(path):
            raise
        scheme = path.partition("://")[0]
        text = f"{path!r} cannot be {what} ({type(error).__name__}: {str(error)[:300]}). "
        if isinstance(error, ImportError):
            text += f"Install what fsspec needs for {scheme}:// on every node"
        else:
            text += f"Check the address, and the credentials for {scheme}:// in the environment of every node"
        raise FileError(text) from error


def file_system(path: str) -> tuple[Any, str]:
    """The fsspec file system of a URL and the path within it."""
    import fsspec

    try:
        found: tuple[Any, str] = fsspec.core.url_to_fs(path)
        return found
    except ImportError:
        from fsspec.implementations.arrow import ArrowFSWrapper
        from pyarrow import fs

        try:
            native, inner = fs.FileSystem.from_uri(path)
        except Exception:
            raise ImportError(f"neither fsspec nor pyarrow can open {path.partition('://')[0]}:// here") from None
        return ArrowFSWrapper(native), inner


def size(path: str) -> int:
    """Bytes of a file; FileNotFoundError without it."""
    if not is_url(path):
        return os.path.getsize(path)
    with reported(path, "read"):
        system, inner = file_system(path)
        return int(system.size(inner))


def identity(path: str) -> list[Any]:
    """What changes when a file changes: its size, and its time or tag."""
    if not is_url(path):
        found = os.stat(path)
        return [path, found.st_size, found.st_mtime_ns]
    with reported(path, "read"):
        system, inner = file_system(path)
        info = system.info(inner)
        tags = [str(info[name]) for name in ("ETag", "etag", "md5Hash", "mtime", "LastModified") if name in info]
        return [path, info["size"], *tags[:1]]


def exists(path: str) -> bool:
    """Whether there is such a file."""
    if not is_url(path):
        return os.path.exists(path)
    with reported(path, "read"):
        system, inner = file_system(path)
        return bool(system.exists(inner))


def listed(folder: str) -> list[str]:
    """Names of the files of a folder, sorted; none if there is no folder."""
    if not is_url(folder):
        return sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    with reported(folder, "listed"):
        system, inner = file_system(folder)
        if not system.exists(inner):
            return []
        return sorted(str(name).rstrip("/").rpartition("/")[2] for name in system.ls(inner, detail=False))


def read_bytes(path: str) -> bytes:
    """A small file."""
    if not is_url(path):
        with open(path, "rb") as file:
            return file.read()
    with reported(path, "read"):
        system, inner = file_system(path)
        return bytes(system.cat_file(inner))


def write_bytes(path: str, data: bytes) -> None:
    """Replace a small file, or leave it as it was."""
    if not is_url(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        replace_file(path, [data])
        return
    with reported(path, "written"):
        system, inner = file_system(path)
        system.makedirs(inner.rpartition("/")[0], exist_ok=True)
        system.pipe_file(inner, data)


def remove(path: str) -> None:
    """Remove a file, if it is there."""
    with contextlib.suppress(FileNotFoundError):
        if not is_url(path):
            os.unlink(path)
            return
        with reported(path, "removed"):
            system, inner = file_system(path)
            system.rm_file(inner)


@contextlib.contextmanager
def locked(folder: str) -> Iterator[None]:
    """Make a folder and let no other process that asks for it in; object stores, and systems without flock, have no
    such thing."""
    if is_url(folder):
        yield
        return
    os.makedirs(folder, exist_ok=True)
    held = os.open(folder, os.O_RDONLY)
    try:
        try:
            import fcntl

            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BuildError(f"another process is building in {folder!r}", (), ()) from None
        except (ImportError, OSError):  # a disk without locks
            pass
        yield
    finally:
        os.close(held)


@contextlib.contextmanager
def written(path: str) -> Iterator[str]:
    """A path of the disk to write a file to, which then appears at ``path`` as a whole."""
    if not is_url(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        yield path  # what is written to it replaces it atomically by itself
        return
    with tempfile.TemporaryDirectory() as folder:
        local = os.path.join(folder, "file")
        yield local
        with reported(path, "written"):
            system, inner = file_system(path)
            system.makedirs(inner.rpartition("/")[0], exist_ok=True)
            system.put_file(local, inner)


def fetched(path: str, cache: str | None, mark: str) -> str:
    """A path of the disk with the contents of a file: itself, or a copy in ``cache``, named by ``mark``.

    What a mark stands for is in other bytes in each version of the format, so that has a part in the name too.
    """
    if not is_url(path):
        return path
    folder = cache or os.path.join(tempfile.gettempdir(), f"interlace-cache-{os.getuid()}")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    if os.stat(folder).st_uid != os.getuid():
        raise FileError(f"the cache {folder!r} belongs to another user; pass cache= to il.ray.open")
    local = os.path.join(folder, f"v{versions.VERSION}-{mark}-{path.rpartition('/')[2]}")
    if not os.path.exists(local):
        with reported(path, "read"):
            system, inner = file_system(path)
            with system.open(inner, "rb") as file:
                replace_file(local, iter(lambda: file.read(CHUNK), b""))
    return local


def sha256(path: str) -> str:
    """Hex digest of a file of the disk."""
    found = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(CHUNK):
            found.update(block)
    return found.hexdigest()
