"""A sharded store on disk: which stores it consists of, and which shard an id belongs to."""

from __future__ import annotations

import json
import os
import zlib
from dataclasses import asdict, dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DamagedFileError, FileError, InputError, NotAnIndexError
from ..files.atomic import replace_file
from ..files.versions import FORMAT, VERSION, check_version
from ..index.id_values import IdArray
from . import places

NAME, KIND = "sharded-store.json", "interlace sharded store"


@dataclass(frozen=True)
class StoreLayout:
    """The file ``sharded-store.json``. A rebuild writes new stores beside the old ones, then replaces this file."""

    path: str  #: the directory; not stored
    shards: int
    generation: int
    model: str  #: fingerprint of the codebooks that all shards share

    def folder(self, shard: int) -> str:
        """The store of one shard."""
        return os.path.join(self.path, f"generation-{self.generation:04d}", f"shard-{shard:05d}")

    def write(self) -> None:
        """Replace the file."""
        about: dict[str, Any] = {name: value for name, value in asdict(self).items() if name != "path"}
        text = json.dumps(about | {"format": FORMAT, "kind": KIND, "version": VERSION}, indent=1, sort_keys=True)
        replace_file(os.path.join(self.path, NAME), [text.encode() + b"\n"])

    @classmethod
    def read(cls, path: str | PathLike[str]) -> StoreLayout:
        """Of a directory."""
        folder = checked_folder(path)
        try:
            with open(os.path.join(folder, NAME), encoding="utf-8") as file:
                about = json.load(file)
        except FileNotFoundError:
            raise FileNotFoundError(
                f"there is no {NAME} in {folder!r}: il.ray.create(path, codebooks, shards=...) makes a sharded store"
            ) from None
        except ValueError as error:
            raise DamagedFileError(f"{NAME} in {folder!r} is damaged: {error}") from error
        if not isinstance(about, dict) or about.get("kind") != KIND:
            raise NotAnIndexError(f"{NAME} in {folder!r} is not one of a sharded store")
        try:
            check_version(os.path.join(folder, NAME), about.get("format"), about.get("version"))
            return cls(folder, int(about["shards"]), int(about["generation"]), str(about["model"]))
        except (KeyError, ValueError, TypeError) as error:
            raise DamagedFileError(f"{NAME} in {folder!r} is damaged: {error!r}") from error

    def shard_of(self, ids: IdArray) -> NDArray[np.int64]:
        """The shard of each id."""
        return shard_of(ids, self.shards)


def checked_folder(path: str | PathLike[str]) -> str:
    """A directory of the disk: a store appends to its log, which object stores cannot."""
    folder = places.normal(path)
    if places.is_url(folder):
        raise InputError(f"a sharded store needs a disk that all nodes see, got {folder!r}")
    if os.path.isfile(folder):
        raise FileError(f"{folder!r} is a file, not the directory of a sharded store")
    return folder


def shard_of(ids: IdArray, shards: int) -> NDArray[np.int64]:
    """By a hash that is the same everywhere; of an integer, its bits are mixed first (splitmix64)."""
    if ids.dtype == object:
        return np.array([zlib.crc32(value.encode()) for value in ids.tolist()], np.int64) % shards
    with np.errstate(over="ignore"):
        bits = ids.astype(np.int64).view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        bits ^= bits >> np.uint64(31)
    return (bits % np.uint64(shards)).astype(np.int64)
