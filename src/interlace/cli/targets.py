"""Checks of output files before minutes of work: they can be written, and nothing else is overwritten."""

from __future__ import annotations

import os

from ..errors import FileError, InputError, NotAnIndexError


def check_folder(output: str, what: str, *sources: str | None) -> None:
    """Raise unless the folder of the output exists and is writable, and the output is not an input."""
    if os.path.isdir(output):
        raise InputError(f"cannot write {what} to {output!r}: it is a directory")
    folder = os.path.dirname(os.path.realpath(output))
    if not os.path.isdir(folder):
        raise InputError(f"cannot write {what} to {output!r}: there is no folder {os.path.dirname(output)!r}")
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"cannot write {what} to {output!r}: no permission to write in its folder")
    for source in sources:
        if (
            source is not None
            and os.path.exists(output)
            and os.path.exists(source)
            and os.path.samefile(output, source)
        ):
            raise InputError(f"{output!r} is also an input and would be overwritten: choose another name")


def check_interlace_target(output: str, what: str, *sources: str | None) -> None:
    """The same for an interlace file, which may replace only another interlace file."""
    from ..files.storage import read

    check_folder(output, what, *sources)
    if not os.path.exists(output):
        return
    try:
        read(output)
    except NotAnIndexError as error:
        if os.path.getsize(output):
            raise InputError(
                f"not overwriting {output!r}, which is not an interlace file: remove it or choose another name"
            ) from error
    except FileError:
        pass  # a damaged or newer one may be replaced
