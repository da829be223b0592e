"""Which files this library reads: those of one version of one format, whatever they hold.

Every file names the format and the version: headers, manifests, logs and lists of backups. Each change of their bytes
raises the version by one.
"""

from __future__ import annotations

from typing import Any

from ..errors import NewerFormatError, OlderFormatError

FORMAT = "interlace file"
VERSION = 2


def check_version(name: str, format: Any, version: Any) -> None:
    """Raise an error that says which interlace reads the file ``name``, or ValueError if it names no version.

    Call it after the checksum was compared: damage must not look like another version.
    """
    if format != FORMAT:
        raise OlderFormatError(
            f"{name!r} was written by interlace 0.2 or earlier, and this version does not read its files: "
            "build it again from the vectors, or open it with the interlace that wrote it"
        )
    if type(version) is not int or version < 1:
        raise ValueError(f"version {version!r:.60}")
    found = f"{name!r} has format version {version}, and this interlace reads version {VERSION}"
    if version > VERSION:
        raise NewerFormatError(f"{found}: install a newer one")
    if version < VERSION:
        raise OlderFormatError(f"{found}: build it again, or open it with the interlace that wrote it")
