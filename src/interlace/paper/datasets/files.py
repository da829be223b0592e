"""Files of named data sets: where they are searched, where to get them, and their checksums.

Files are searched in ``root``, else in the folder named by INTERLACE_DATA, else in ``../shared/data`` next to the
checkout. Nothing is downloaded; files are compared with their checksums.
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
    """A data set as it is distributed."""

    folders: tuple[str, ...]  #: sub-folders of its files, the recommended one first
    how: str  #: where to get it, for error messages


def find(source: Source, names: list[str], root: str | PathLike[str] | None) -> Path:
    """The first existing file of ``names`` (variants of one file), in the folders or their known sub-folders."""
    folders = _folders(root)
    for base in folders:
        for place in (*(base / folder for folder in source.folders), base):
            for name in names:
                if (place / name).is_file():
                    return place / name
    looked = ", ".join(f"{base}{'' if base.is_dir() else ' (no such folder)'}" for base in dict.fromkeys(folders))
    others = f" (or {', '.join(names[1:])})" if len(names) > 1 else ""
    raise FileNotFoundError(
        f"{source.folders[0]}/{names[0]}{others} was not found in {looked}; pass its folder as root= or in the "
        f"environment variable {VARIABLE}. To get it: {source.how}"
    )


def _folders(root: str | PathLike[str] | None) -> list[Path]:
    """Folders to search, in order; only ``root`` if it is given."""
    if root is not None:
        return [Path(root)]
    named = [Path(os.environ[VARIABLE])] if os.environ.get(VARIABLE) else []
    checkout = Path(__file__).resolve().parents[4]
    # An installed copy is not in a checkout, so the current folder is searched as well.
    return [*named, checkout.parent / "shared" / "data", Path.cwd().parent / "shared" / "data"]


def read(path: Path) -> bytes:
    """Content of a file, decompressed if it is a .gz."""
    content = path.read_bytes()
    if path.suffix != ".gz":
        return content
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{str(path)!r} is damaged or truncated: {error}; download it again") from error


def check(path: Path, content: bytes, checksum: str) -> None:
    """Compare the (decompressed) content of a file with its checksum: sha256, or md5 if only that is published."""
    kind = {64: "sha256", 32: "md5"}[len(checksum)]
    found = hashlib.new(kind, content, usedforsecurity=False).hexdigest()
    if found != checksum:
        raise InputError(
            f"{str(path)!r} is not the expected file: it holds {len(content):,} bytes of {kind} {found[:12]}... "
            f"instead of {checksum[:12]}...; it is damaged, truncated or a different file: download it again"
        )
