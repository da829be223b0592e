"""The manifest: the list of the files of a store. Replacing it, in one step, makes a change of files take effect.

The file is JSON with a checksum over all of its bytes (with zeros in the field itself). The checksum is compared before
the version, so that damage is never reported as a newer format. Only file names that a store generates are accepted, so
that no name leads out of the directory.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from ..codec.originals import KINDS, WHOLE, Loss
from ..engine.segments import MAX_ROWS
from ..errors import DamagedFileError, NotAnIndexError
from ..files.versions import FORMAT, VERSION, check_version
from . import files
from .drift import Drift
from .files import Folder
from .learning_plan import LearningPlan

NAME = "MANIFEST.json"
UNFINISHED = "CREATING"  # exists while a store is created; files without it and without a manifest are damage
LARGEST = 16 << 20  # bytes; a manifest has a few hundred per segment

KIND = "interlace store"  # earlier versions named it as the format
_CRC = '"crc32":"%s"'
_FILE = re.compile(r"(books|segment|payload|originals|removed|log)-([1-9][0-9]{0,17})\.(interlace|log)")
_ID_KINDS = ("", "int64", "string")


@dataclass(frozen=True)
class Entry:
    """A segment and its files."""

    file: str
    rows: int  #: including removed rows
    removed: int = 0  #: removed rows
    removed_file: str | None = None  #: which rows are removed
    payload_file: str | None = None  #: columns of the rows
    originals_file: str | None = None  #: originals of the rows

    @property
    def files(self) -> list[str]:
        """Names of all files of the segment."""
        names = (self.file, self.removed_file, self.payload_file, self.originals_file)
        return [name for name in names if name is not None]


@dataclass(frozen=True)
class Manifest:
    """One generation of a store."""

    generation: int
    books: str  #: file of an index without rows: codebooks, embedding, calibration
    store: str  #: mark of the store: 32 hex digits that all of its files contain
    segments: tuple[Entry, ...]  #: in insertion order
    log: str  #: writes after this manifest
    ids: str  #: int64 or string; empty if no row was ever added
    next_id: int  #: larger than every integer id ever used
    next_file: int  #: larger than every file number ever used
    drift: Drift = field(default_factory=Drift)  #: errors of the rows added so far
    loss: Loss = field(default_factory=Loss)  #: what the originals of the rows so far lost in conversion
    columns: str | None = None  #: schema of the payload (columns.py), if there is one
    originals: str | None = None  #: format of the originals (originals.py), if they are kept
    learning: LearningPlan | None = None  #: how the store learns codebooks, if it started without

    @property
    def names(self) -> list[str]:
        """All files but the manifest itself."""
        return [self.books, self.log, *(name for entry in self.segments for name in entry.files)]


def file_name(role: str, number: int) -> str:
    """Name of a file of a store; each number is used once."""
    return f"{role}-{number}.{'log' if role == 'log' else 'interlace'}"


def is_store_file(name: str) -> bool:
    """Whether a store generates this name, for a file or a temporary file; lock and manifest do not count."""
    return _FILE.fullmatch(name) is not None or name in (f"{NAME}.tmp", UNFINISHED)


def to_bytes(manifest: Manifest) -> bytes:
    """Contents of the file."""
    content = {"format": FORMAT, "kind": KIND, "version": VERSION, "crc32": "0" * 8, "manifest": asdict(manifest)}
    text = (json.dumps(content, separators=(",", ":")) + "\n").encode()
    return text.replace((_CRC % ("0" * 8)).encode(), (_CRC % f"{zlib.crc32(text):08x}").encode(), 1)


def from_bytes(text: bytes, path: str) -> Manifest:
    """Inverse of :func:`to_bytes`; ``path`` is for messages."""
    if not text.startswith(tuple(f'{{"format":"{name}",'.encode() for name in (FORMAT, KIND))):
        raise NotAnIndexError(f"{path!r} is not the manifest of a store, or its first bytes are damaged")
    found = re.search(_CRC.encode() % b"([0-9a-f]{8})", text)
    if found is None:
        raise DamagedFileError(f"{path!r} is damaged: it has no checksum")
    zeroed = text[: found.start(1)] + b"0" * 8 + text[found.end(1) :]
    if f"{zlib.crc32(zeroed):08x}".encode() != found[1]:
        raise DamagedFileError(f"{path!r} is damaged: it does not match its checksum")
    try:
        content = json.loads(text.decode())  # decoded here, because json.loads(bytes) also accepts UTF-16
        check_version(path, content["format"], content["version"])
        if content["kind"] != KIND:
            raise NotAnIndexError(f"{path!r} holds {content['kind']!r:.60}, not {KIND!r}")
        return _parsed(content["manifest"])
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise DamagedFileError(f"{path!r} is damaged: {error}") from error


def read(folder: str | Folder) -> Manifest:
    """Read the manifest of a store; NotAnIndexError if there is none."""
    path = folder if isinstance(folder, str) else folder.path
    try:
        at = (Folder(folder) if isinstance(folder, str) else folder) / NAME
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotAnIndexError(f"{path!r} does not exist") from error
    try:
        with open(files.open_to_read(at), "rb") as file:
            text = file.read(LARGEST + 1)
    except FileNotFoundError as error:
        what = f"is a directory, but not a store: it has no {NAME}" if os.path.isdir(path) else "does not exist"
        raise NotAnIndexError(f"{path!r} {what}") from error
    if len(text) > LARGEST:
        raise DamagedFileError(f"{os.fspath(at)!r} is damaged: a manifest has at most {LARGEST} bytes")
    return from_bytes(text, os.fspath(at))


def write(folder: Folder, manifest: Manifest, check: Callable[[], None] | None = None) -> None:
    """Replace the manifest, unless ``check`` raises. After an error, either of the two may be on disk."""
    files.replace(folder / NAME, to_bytes(manifest), check)


def sweep(folder: Folder, manifest: Manifest) -> list[str]:
    """Remove files of the store that the manifest does not name; other files stay.

    Only for the writer: a reader cannot distinguish such files from those being written.
    """
    named = set(manifest.names)
    leftovers = [name for name in folder.names() if is_store_file(name) and name not in named]
    for name in leftovers:
        files.remove(folder / name)
    return leftovers


def _parsed(found: dict[str, Any]) -> Manifest:
    segments = tuple(
        Entry(
            _name(entry, "file", "segment"),
            _number(entry, "rows", 1, MAX_ROWS),
            _number(entry, "removed", 0, MAX_ROWS),
            None if entry["removed_file"] is None else _name(entry, "removed_file", "removed"),
            None if entry["payload_file"] is None else _name(entry, "payload_file", "payload"),
            None if entry["originals_file"] is None else _name(entry, "originals_file", "originals"),
        )
        for entry in found["segments"]
    )
    manifest = Manifest(
        generation=_number(found, "generation", 1),
        books=_name(found, "books", "books"),
        store=str(found["store"]),
        segments=segments,
        log=_name(found, "log", "log"),
        ids=found["ids"],
        next_id=_number(found, "next_id", 0, 2**63),
        next_file=_number(found, "next_file", 1),
        drift=Drift.stored(found["drift"]),
        loss=Loss.stored(found["loss"]),
        columns=found["columns"],
        originals=found["originals"],
        learning=None if found["learning"] is None else LearningPlan.stored(found["learning"]),
    )
    if re.fullmatch("[0-9a-f]{32}", manifest.store) is None:
        raise ValueError(f"store is {manifest.store!r:.100}")
    if manifest.ids not in _ID_KINDS:
        raise ValueError(f"ids of kind {manifest.ids!r}")
    if manifest.columns is not None and not isinstance(manifest.columns, str):
        raise ValueError(f"columns is {manifest.columns!r:.100}")
    plan = manifest.learning
    kinds = (None, *KINDS) if plan is None else (WHOLE,) if plan.collecting else (plan.originals,)
    if manifest.originals not in kinds:
        raise ValueError(f"originals is {manifest.originals!r:.100}")
    if len(set(manifest.names)) != len(manifest.names):
        raise ValueError("it names the same file twice")
    for entry in segments:
        if entry.removed > entry.rows or (entry.removed > 0) != (entry.removed_file is not None):
            raise ValueError(f"{entry.removed} of {entry.rows} rows of {entry.file!r} removed")
        if (entry.payload_file is None) != (manifest.columns is None):
            raise ValueError(f"payload_file of {entry.file!r} is {entry.payload_file!r}")
        if (entry.originals_file is None) != (manifest.originals is None):
            raise ValueError(f"originals_file of {entry.file!r} is {entry.originals_file!r}")
    return manifest


def _name(found: dict[str, Any], key: str, role: str) -> str:
    """A name that a store generates for a file of this role; ValueError for anything else, such as a path."""
    name = found[key]
    match = _FILE.fullmatch(name) if isinstance(name, str) else None
    if match is None or name != file_name(role, int(match[2])):
        raise ValueError(f"{key} is {name!r:.100}, which is not the name of a {role} file")
    return str(name)


def _number(found: dict[str, Any], key: str, least: int, most: int = 2**62) -> int:
    value = found[key]
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{key} is {value!r:.100}")
    return value
