"""Imports of a framework: an error that says which version is needed, and how to install it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version


@contextlib.contextmanager
def framework(package: str, least: str, extra: str) -> Iterator[None]:
    """Import names of ``package`` inside; ImportError if it is missing, older than ``least``, or lacks a name.

    ``extra`` is the extra of interlace that installs it.
    """
    try:
        found = version(package)
    except PackageNotFoundError:
        found = ""
    needs = f"interlace.integrations.{extra.replace('-', '_')} needs {package} {least} or newer"
    how = f"pip install 'interlace[{extra}]'"
    if found and _release(found) < _release(least):
        raise ImportError(f"{needs}, found {found}: {how}")
    try:
        yield
    except ImportError as error:
        if not found:
            raise ImportError(f"{needs}, which is not installed: {how}") from error
        raise ImportError(f"{needs}; {found} is installed, but lacks a name ({error})") from error


def _release(text: str) -> tuple[int, ...]:
    """The numbers of a version: (1, 2) of 1.2rc1."""
    numbers = re.match(r"\d+(\.\d+)*", text)
    return tuple(map(int, numbers[0].split("."))) if numbers else ()
