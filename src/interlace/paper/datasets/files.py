"""Files of named sets: where they are looked for, how to get them, and whether they are what they should be.

Files are looked for in ``root``, else in the folder named by INTERLACE_DATA, else in ``../shared/data`` beside the
checkout. Nothing is downloaded; what is found is compared with its checksum.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from ...errors import InputError

VARIABLE = "INTERLACE_DATA"


@dataclass(frozen=True)
class Source:
    """A set as it is distributed."""

    folders: tuple[str, ...]  #: sub-folders that its files may be in, the one to recommend first
    how: str  #: where to get it, for the message when it is missing


def find(source: Source, names: list[str], root: str | PathLike[str] | None) -> Path:
    """The first of ``names`` (forms of one file) in one of the folders, in a sub-folder of a known name or not."""
    folders = _folders(root)
    for base in folders:
        for place in (*(base / folder for folder in source.folders), base):
            for name in names:
                if (place / name).is_file():
                    return place / name
    looked = ", ".join(f"{base}{'' if base.is_dir() else ' (no such folder)'}" for base in dict.fromkeys(folders))
    others = f" (or {', '.join(names[1:])})" if len(names) > 1 else ""
    raise FileNotFoundError(
        f"{source.folders[0]}/{names[0]}{others} was not found in {looked}; name its folder by root= or by the "
        f"variable {VARIABLE}. To get it: {source.how}"
    )


def _folders(root: str | PathLike[str] | None) -> list[Path]:
    """Where to look, most wanted first; a folder the user names in the call is the only one."""
    if root is not None:
        return [Path(root)]
    named = [Path(os.environ[VARIABLE])] if os.environ.get(VARIABLE) else []
    checkout = Path(__file__).resolve().parents[4]
    # An installed copy has no checkout around it; then the current folder is the best guess.
    return [*named, checkout.parent / "shared" / "data", Path.cwd().parent / "shared" / "data"]


def read(path: Path) -> bytes:
    """Its content, unpacked if it is a .gz."""
    content = path.read_bytes()
    if path.suffix != ".gz":
        return content
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{str(path)!r} is damaged or truncated: {error}; get it anew") from error


def check(path: Path, content: bytes, checksum: str) -> None:
    """Compare what a file holds (unpacked) with its checksum: sha256, or md5 where only that was published."""
    kind = {64: "sha256", 32: "md5"}[len(checksum)]
    found = hashlib.new(kind, content, usedforsecurity=False).hexdigest()
    if found != checksum:
        raise InputError(
            f"{str(path)!r} is not the expected file: it holds {len(content):,} bytes of {kind} {found[:12]}... "
            f"instead of {checksum[:12]}...; it is damaged, truncated or another one: get it anew"
        )
