"""Backups: the files of a store in another directory or at a URL, with a list of their sizes and checksums."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
from os import PathLike
from typing import Any

from ..errors import DamagedFileError, InputError, InterlaceError, StoreError
from ..files import remote, storage
from ..files.remote import FilePlace
from ..files.versions import FORMAT, VERSION, check_version
from . import files, manifest
from .session import Session

#: The list of files, which is written last: without it there is no backup.
LIST = "BACKUP.json"
KIND = "interlace backup"  # earlier versions named it as the format
#: Bytes of a list, at most.
LARGEST = 64 << 20


def write_backup(session: Session, target: str | PathLike[str]) -> None:
    """Copy the files of a store that is open for writing; other writes of the process wait."""
    with session.writing() as writer:
        session.check_no_batch("backup()")
        folder = writer.folder
        place = remote.place_of(target)
        if _listed(place) is not None:
            raise InputError(f"{place.url!r} has a backup already: give another path, or remove it")
        local = remote.local_path(target)
        if local is not None and os.path.realpath(local) == os.path.realpath(session.path):
            raise InputError(f"path must not be the directory of the store itself, got {local!r}")
        found: list[dict[str, Any]] = []
        try:
            for name in (manifest.NAME, *manifest.read(folder).names):
                with os.fdopen(files.open_to_read(folder / name), "rb") as source, place.writing(name) as copied:
                    size, digest = remote.copy(source, copied)
                found.append({"name": name, "size": size, "sha256": digest})
            listed = {"format": FORMAT, "kind": KIND, "version": VERSION, "files": found}
            with place.writing(LIST) as file:
                file.write(json.dumps(listed, indent=1).encode())
        except OSError as error:
            if isinstance(error, InterlaceError):
                raise
            raise StoreError(error.errno, f"the backup failed ({error.strerror or error})", place.url) from error


def restore_files(source: str | PathLike[str], path: str | PathLike[str]) -> str:
    """Copy a backup to a new or empty directory, whole or not at all; returns its real path."""
    place = remote.place_of(source)
    listed = _listed(place)
    if listed is None:
        raise StoreError(errno.ENOENT, f"there is no backup, because {LIST} is missing", place.url)
    if remote.is_url(path):
        raise InputError(f"path must be a local directory, got the URL {path!r}")
    where = os.path.realpath(path)
    if os.path.lexists(where) and (not os.path.isdir(where) or os.listdir(where)):
        raise InputError(f"path must be a new or empty directory, got {where!r}")
    unfinished = f"{where}.restoring-{os.getpid()}"
    try:
        _download(place, listed, unfinished)
        files.sync_folder(unfinished)
        os.replace(unfinished, where)  # an empty directory is replaced
        files.sync_folder(os.path.dirname(where))
    except BaseException as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        if isinstance(error, OSError) and not isinstance(error, InterlaceError):
            text = f"the store could not be restored ({error.strerror or error})"
            raise StoreError(error.errno, text, where) from error
        raise
    return where


def downloaded(url: str) -> str:
    """The local path of the index file or the backup of a store at a URL, in the cache."""
    place = remote.place_of(url)
    listed = _listed(place)
    if listed is None:
        return remote.cached(url, place.version(""), lambda target: _download_index(place, target))
    return remote.cached(url, json.dumps(listed), lambda target: _download(place, listed, target))


def _download_index(place: FilePlace, target: str) -> None:
    remote.fetch(place, "", target)
    try:
        storage.read(target).verify()
    except InterlaceError as error:
        raise type(error)(str(error).replace(repr(target), repr(place.url))) from error


def _download(place: FilePlace, listed: list[dict[str, Any]], target: str) -> None:
    os.mkdir(target)
    for entry in listed:
        remote.fetch(place, entry["name"], os.path.join(target, entry["name"]), entry["size"], entry["sha256"])


def _listed(place: FilePlace) -> list[dict[str, Any]] | None:
    """The files of a backup; None if there is no list."""
    try:
        with contextlib.ExitStack() as stack:
            data = stack.enter_context(place.reading(LIST)).read(LARGEST)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return None
        raise
    where = f"{place.url}/{LIST}"
    try:
        found = json.loads(data)
        if KIND not in (found["format"], found.get("kind")):
            raise DamagedFileError(f"{where!r} is not the list of a backup")
        check_version(where, found["format"], found["version"])
        entries = [{key: entry[key] for key in ("name", "size", "sha256")} for entry in found["files"]]
        names = [entry["name"] for entry in entries]
        if manifest.NAME not in names or not all(n == manifest.NAME or manifest.is_store_file(n) for n in names):
            raise DamagedFileError(f"{where!r} lists other files than those of a store")
        return entries
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise DamagedFileError(f"{where!r} is damaged: {error}") from error
