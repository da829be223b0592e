"""What can go wrong, in one place.

InterlaceError
├── InputError (ValueError)          an argument: what was expected, what came, where
│   └── DuplicateIdError
├── UnknownIdError (KeyError)        an id that is not in the index
└── FileError (OSError)              a file that cannot be used
    ├── NotAnIndexError              it is something else
    ├── DamagedFileError             it was an index once
    └── NewerFormatError             it needs a newer interlace
"""

from __future__ import annotations


class InterlaceError(Exception):
    """Base of every error this library raises on purpose."""


class InputError(InterlaceError, ValueError):
    """An argument is not what the call needs."""


class DuplicateIdError(InputError):
    """An id was given twice, or is in the index already."""


class UnknownIdError(InterlaceError, KeyError):
    """An id is not in the index."""

    def __str__(self) -> str:  # KeyError shows the repr of its argument, which hides the sentence
        return str(self.args[0]) if self.args else ""


class FileError(InterlaceError, OSError):
    """A file cannot be read as an interlace file."""


class NotAnIndexError(FileError):
    """The file is something else."""


class DamagedFileError(FileError):
    """The file is an interlace file whose bytes changed after it was written."""


class NewerFormatError(FileError):
    """The file was written by a newer version of interlace."""


class FewRowsWarning(UserWarning):
    """There are too few rows or dimensions for what was asked: books shrink."""
