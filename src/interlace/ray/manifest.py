"""The manifest: which files an index in shards consists of, written last, and compared with the files at every use."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, fields
from os import PathLike
from typing import Any

from ..codec.codebooks import Codebooks
from ..codec.embedding import Embedding
from ..codec.embedding.base import digest
from ..errors import DamagedFileError, FileError, NotAnIndexError
from ..files.versions import FORMAT, VERSION, check_version
from ..index.index import Index
from . import places

NAME, MODEL, CALIBRATION = "manifest.json", "model.interlace", "calibration.interlace"
KIND = "interlace shards"


@dataclass(frozen=True)
class Shard:
    """One index file: rows ``first`` to ``first + rows - 1`` of all."""

    number: int
    file: str  #: its name beside the manifest
    first: int
    rows: int
    n_bytes: int  #: of the file
    sha256: str  #: of the whole file
    header: str  #: of its header, which has a checksum of every section

    def __str__(self) -> str:
        return f"shard {self.number} ({self.file!r}, rows {self.first:,} to {self.first + self.rows - 1:,})"


@dataclass(frozen=True)
class ShardManifest:
    """What :func:`interlace.ray.build` made. It is small, whatever the number of rows."""

    folder: str  #: where it was read from; not stored
    rows: int
    dim: int
    metric: str
    n_bytes: int  #: bytes of a code
    ids: str  #: ``default`` for row numbers, ``int64`` or ``string``
    originals: str | None
    model: str  #: fingerprint of codebooks and embedding, the same in every shard
    calibrated: bool  #: whether there is a calibration for all shards together
    key: str  #: of the build: source, settings and number of shards
    shards: tuple[Shard, ...]

    @property
    def path(self) -> str:
        """The manifest file."""
        return places.join(self.folder, NAME)

    def file(self, name: str) -> str:
        """A file beside the manifest."""
        return places.join(self.folder, name)

    @property
    def file_bytes(self) -> int:
        """Bytes of all shards."""
        return sum(shard.n_bytes for shard in self.shards)

    def write(self) -> None:
        """Replace the manifest file; the same manifest gives the same bytes."""
        about = {name: value for name, value in asdict(self).items() if name != "folder"}
        about |= {"format": FORMAT, "kind": KIND, "version": VERSION}
        text = json.dumps(about | {"checksum": _checksum(about)}, indent=1, sort_keys=True)
        places.write_bytes(self.path, text.encode() + b"\n")

    @classmethod
    def read(cls, path: str | PathLike[str]) -> ShardManifest:
        """The manifest of this path, or of this folder."""
        where = places.normal(path)
        folder = where.rpartition("/")[0] if where.endswith(".json") else where
        target = where if where.endswith(".json") else places.join(where, NAME)
        try:
            data = places.read_bytes(target)
        except (FileNotFoundError, NotADirectoryError):
            raise FileNotFoundError(
                f"there is no {NAME} in {folder!r}: il.ray.build(source, settings, folder, shards=...) makes one, and "
                "a build that has not finished has none"
            ) from None
        try:
            about = json.loads(data)
            kind, checksum = about["kind"], about.pop("checksum")
        except (ValueError, KeyError, AttributeError, TypeError, UnicodeDecodeError) as error:
            raise NotAnIndexError(f"{target!r} is no manifest of shards: {error!r:.100}") from error
        if kind != KIND:
            raise NotAnIndexError(f"{target!r} holds {kind!r:.60}, not {KIND!r}")
        if checksum != _checksum(about):
            raise DamagedFileError(f"{target!r} is damaged: its checksum does not match")
        try:
            check_version(target, about.pop("format", None), about.pop("version", None))
            del about["kind"]
            shards = tuple(Shard(**shard) for shard in about.pop("shards"))
            return cls(folder=folder, shards=shards, **about)
        except (TypeError, ValueError) as error:
            raise DamagedFileError(f"{target!r} is damaged: {error}") from error

    def open_shard(self, number: int, cache: str | None = None) -> Index:
        """The index of one shard, compared with the manifest; errors name the shard."""
        shard = self.shards[number]
        path = self.file(shard.file)
        try:
            index = Index.open(places.fetched(path, cache, shard.sha256[:16]))
        except FileNotFoundError:
            raise FileError(f"{shard}: the file is missing in {self.folder!r}") from None
        except FileError as error:
            raise type(error)(f"{shard}: {error}") from error
        if fingerprint(index.codebooks, index.embedding) != self.model:
            raise FileError(f"{shard} was made with another model than the manifest says: a file of another build?")
        if header_of(index) != shard.header or len(index) != shard.rows:
            raise DamagedFileError(f"{shard} is not the file that the manifest describes: it was changed or replaced")
        return index

    def verify_shard(self, number: int, cache: str | None = None) -> None:
        """Every byte of one shard."""
        shard, index = self.shards[number], self.open_shard(number, cache)
        try:
            index.verify()
        except FileError as error:
            raise type(error)(f"{shard}: {error}") from error

    def __str__(self) -> str:
        kept = f", originals in {self.originals}" if self.originals else ""
        return (
            f"{self.rows:,} rows x {self.dim} dimensions ({self.metric}), {self.n_bytes} bytes per code, "
            f"{self.ids} ids{kept}: {len(self.shards)} shards, {self.file_bytes:,} bytes in {self.folder!r}"
        )


def _checksum(about: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()


def fingerprint(codebooks: Codebooks, embedding: Embedding | None) -> str:
    """Equal for equal codes of equal inputs."""
    arrays, description = codebooks.to_arrays(halves=False)  # as they are, however a file stores them
    return digest([description, None if embedding is None else embedding.fingerprint], arrays)


def header_of(index: Index) -> str:
    """Digest of the header of an index file: it has the checksums of all sections, so it stands for all bytes."""
    assert index.file is not None
    return hashlib.sha256(index.file.header.text).hexdigest()


def as_shard(data: bytes) -> Shard | None:
    """A shard of its record; None if it is not a record, or one of another version."""
    try:
        about = json.loads(data)
        return Shard(**about) if about.keys() == {field.name for field in fields(Shard)} else None
    except (ValueError, TypeError, AttributeError):
        return None
