"""All collections of a directory. One server has it at a time; each store is open for writing."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import re
import secrets
import shutil
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ... import store as stores
from ...errors import InputError, InterlaceError, StoreLockedError
from ..problems import OUT_OF_RANGE, ProblemDetails, bad_input, unsupported
from ..requests import fields
from ..requests.models import AliasAction, CreateCollection, VectorParams
from ..requests.tuning import COMPRESSIONS
from ..requests.types import CREATED, MOST_BYTES, SERVED
from ..settings import ServerSettings
from .aliases import Aliases
from .collection import DISTANCES, Broken, Collection, unnamed

LOCK = ".interlace-serve.lock"
SNAPSHOTS = ".snapshots"
DELETED = ".deleted-"
MANIFEST = "MANIFEST.json"
log = logging.getLogger("interlace.serve")


class CollectionsByName:
    """What requests find in a directory."""

    def __init__(self, settings: ServerSettings) -> None:
        self.settings, self.root = settings, Path(os.path.realpath(settings.folder))
        self.ready = False
        self._found: dict[str, Collection | Broken] = {}
        self.aliases = Aliases(self.root)  #: other names; a process that only reads knows none and asks the writer

    @property
    def names(self) -> list[str]:
        """Of all collections."""
        return sorted(self._found)

    def state(self, name: str) -> Collection | Broken:
        """A collection by name, open or not."""
        if not self.ready:
            raise ProblemDetails(503, "starting", "the server is opening its stores", {"Retry-After": "1"})
        found = self._found.get(name) or self._found.get(self.aliases.target(name))
        if found is None:
            raise ProblemDetails(404, "unknown_collection", f"there is no collection {name!r:.140}")
        return found

    def get(self, name: str) -> Collection:
        """An open collection."""
        found = self.state(name)
        if isinstance(found, Broken):
            raise ProblemDetails(503, "damaged", f"the collection {name!r} cannot be opened: {found.reason}")
        return found

    @property
    def collections(self) -> list[Collection]:
        """Those that are open."""
        return [each for each in list(self._found.values()) if isinstance(each, Collection)]

    def open_all(self) -> None:
        """Open every store; afterwards it is ready."""
        raise NotImplementedError

    def create(self, name: str, given: CreateCollection) -> Collection:
        """A new, empty collection."""
        raise NotImplementedError

    def delete(self, name: str) -> bool:
        """Remove a collection with all of its files; whether there was one."""
        raise NotImplementedError

    def change_aliases(self, actions: Sequence[AliasAction]) -> None:
        """Create, delete and rename aliases, in one step."""
        raise NotImplementedError

    def close(self) -> None:
        """Close all stores."""
        raise NotImplementedError


class Catalog(CollectionsByName):
    """All collections of a directory, for writing. :meth:`open_all` opens those that are there."""

    def __init__(self, settings: ServerSettings) -> None:
        super().__init__(settings)
        self._changing = threading.Lock()  # one creation or deletion at a time
        self._lock = self._take_lock()

    def _take_lock(self) -> int:
        try:
            file = os.open(self.root / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise InputError(f"{str(self.root)!r} cannot be written to: {error.strerror}") from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            raise StoreLockedError(f"{str(self.root)!r} is being served by another process") from None
        return file

    def open_all(self) -> None:
        """Open every store of the directory; one that cannot be opened is listed with the reason."""
        for path in sorted(self.root.iterdir()):
            if path.name.startswith(DELETED):
                shutil.rmtree(path, ignore_errors=True)
            elif re.fullmatch(SERVED, path.name) and path.is_dir() and (path / MANIFEST).exists():
                self._found[path.name] = self._opened(path)
        self.aliases.read()
        self.ready = True

    def _opened(self, path: Path) -> Collection | Broken:
        try:
            return Collection(path.name, stores.open(path, mode="a"), self.settings)
        except (InterlaceError, OSError) as error:
            log.error("collection %r cannot be opened: %s", path.name, error)
            return Broken(path.name, error)

    def create(self, name: str, given: CreateCollection) -> Collection:
        """A new, empty collection."""
        if not re.fullmatch(CREATED, name):
            text = f"a name has 1 to 128 of the characters A-Z a-z 0-9 _ -, got {name!r:.140}"
            raise ProblemDetails(OUT_OF_RANGE, "input", text)
        settings = creation_settings(given, self.settings)
        with self._changing:
            if name in self.aliases:
                raise ProblemDetails(409, "conflict", f"{name!r} is an alias of {self.aliases.target(name)!r}")
            if name in self._found or (self.root / name / MANIFEST).exists():
                raise ProblemDetails(409, "conflict", f"the collection {name!r} already exists")
            store = stores.create(self.root / name, **settings)
            made = self._found[name] = Collection(name, store, self.settings)
        return made

    def delete(self, name: str) -> bool:
        """Remove a collection with all of its files; whether there was one."""
        with self._changing:
            if name not in self._found:
                return False
            found = self._found[name]
            if isinstance(found, Broken) and found.is_locked:
                found = self._opened(self.root / name)  # the other process may have ended
                if isinstance(found, Broken) and found.is_locked:
                    self._found[name] = found
                    raise ProblemDetails(503, "locked", f"another process writes to {name!r}: it is not deleted")
            self.aliases.forget(name)
            del self._found[name]
            if isinstance(found, Collection):
                found.store.close()
            gone = self.root / f"{DELETED}{name}-{secrets.token_hex(4)}"
            with contextlib.suppress(FileNotFoundError):
                os.rename(self.root / name, gone)  # in one step: what follows may be interrupted
            shutil.rmtree(gone, ignore_errors=True)
            shutil.rmtree(self.root / SNAPSHOTS / name, ignore_errors=True)
        return True

    def change_aliases(self, actions: Sequence[AliasAction]) -> None:
        """Create, delete and rename aliases, in one step."""
        with self._changing:
            self.aliases.change(actions, self._found)

    def close(self) -> None:
        """Close all stores and let another server in."""
        for each in self.collections:
            each.store.close()
        os.close(self._lock)


def creation_settings(given: CreateCollection, settings: ServerSettings) -> dict[str, Any]:
    """Arguments of ``il.create`` for a request."""
    vectors: VectorParams = unnamed(given.vectors, "vectors")
    if vectors.distance not in DISTANCES:
        if vectors.distance == "Manhattan":
            raise unsupported("the distance Manhattan")
        raise bad_input(f"distance must be one of {', '.join(DISTANCES)}, got {vectors.distance!r:.40}")
    if vectors.datatype not in (None, "float32", "float16"):
        raise unsupported(f"the datatype {vectors.datatype!r:.40}")
    columns = {fields.PAYLOAD: "string"} if given.interlace.columns is None else given.interlace.columns
    for name, kind in columns.items():
        if name.startswith("$") and (name, kind) != (fields.PAYLOAD, "string"):
            raise bad_input(f"names of columns must not begin with '$', got {name!r:.60}")
    return {
        "dim": vectors.size,
        "metric": DISTANCES[vectors.distance],
        "n_bytes": _code_bytes(given, vectors, settings),
        "originals": given.interlace.originals,
        "columns": columns,
        "relearn": "auto",
        "learn_at": given.interlace.learn_at,
    }


def _code_bytes(given: CreateCollection, vectors: VectorParams, settings: ServerSettings) -> int:
    if given.interlace.n_bytes is not None:
        return given.interlace.n_bytes
    quantization = vectors.quantization_config or given.quantization_config
    if quantization is None or quantization.product is None:
        return settings.n_bytes
    return max(1, min(MOST_BYTES, 4 * vectors.size // COMPRESSIONS[quantization.product.compression]))
