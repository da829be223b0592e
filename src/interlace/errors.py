"""What can go wrong, in one place.

InterlaceError
├── InputError (ValueError)          an argument: what was expected, what came, where
│   ├── DuplicateIdError
│   └── PartlyAddedError             a stream of blocks: rows before the bad one were added
├── UnknownIdError (KeyError)        an id that is not in the index
├── NotFittedError (ValueError, AttributeError)   an estimator asked before its fit
└── FileError (OSError)              a file that cannot be used
    ├── NotAnIndexError              it is something else
    ├── DamagedFileError             it was an index once
    ├── NewerFormatError             it needs a newer interlace
    └── StoreError                   a store that cannot be used as asked, or a write that failed
        └── StoreLockedError         another process writes to it
"""

from __future__ import annotations

import functools
import sys
import warnings
from typing import Any


class InterlaceError(Exception):
    """Base of every error this library raises on purpose."""


class InputError(InterlaceError, ValueError):
    """An argument is not what the call needs."""


class DuplicateIdError(InputError):
    """An id was given twice, or is in the index already."""


class PartlyAddedError(InputError):
    """A stream of blocks could not be read to its end; ``added`` rows, those of the blocks before, were added."""

    def __init__(self, message: str, added: int = 0) -> None:
        super().__init__(message)
        self.added = added


class UnknownIdError(InterlaceError, KeyError):
    """An id is not in the index."""

    def __str__(self) -> str:  # KeyError shows the repr of its argument, which hides the sentence
        return str(self.args[0]) if self.args else ""


class NotFittedError(InterlaceError, ValueError, AttributeError):
    """An estimator is asked for something that only ``fit`` makes."""


class FileError(InterlaceError, OSError):
    """A file cannot be read as an interlace file."""


class NotAnIndexError(FileError):
    """The file is something else."""


class DamagedFileError(FileError):
    """The file is an interlace file whose bytes changed after it was written."""


class NewerFormatError(FileError):
    """The file was written by a newer version of interlace."""


class StoreError(FileError):
    """A store cannot be used as asked, or a write to it failed (disk full, ...) and was not kept."""


class StoreLockedError(StoreError):
    """Another process, or another part of this one, has the store open for writing."""


def not_fitted(message: str) -> NotFittedError:
    """A :class:`NotFittedError`; where scikit-learn is loaded its error of that name too, which its users catch."""
    theirs = sys.modules.get("sklearn.exceptions")
    return NotFittedError(message) if theirs is None else _joint(theirs.NotFittedError)(message)


@functools.cache
def _joint(theirs: type[Exception]) -> type[NotFittedError]:
    def reduce(self: NotFittedError) -> Any:  # a class made here is found by no name; workers send errors home pickled
        return not_fitted, self.args

    return type("NotFittedError", (NotFittedError, theirs), {"__module__": __name__, "__reduce__": reduce})


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """A warning at the first line outside of this package, however deep inside it was found."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == __package__:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


class FewRowsWarning(UserWarning):
    """There are too few rows or dimensions for what was asked: books shrink."""


class CalibrationWarning(UserWarning):
    """Searches with a calibrated margin run exactly, because the rows have changed since (docs/searching.md)."""


class EmbeddingCollapsedWarning(UserWarning):
    """Learning shrank the embedding of all rows to one point (docs/joint.md)."""


class RelearnWarning(UserWarning):
    """Rows that a store is given are coded much worse than those its books were learned for (docs/store.md)."""


class FitInterruptedWarning(UserWarning):
    """Ctrl-C ended learning early: the model is usable but not converged."""


class PriorCollapsedWarning(UserWarning):
    """One mode of the prior on the variances took everything: the split does not say much (docs/joint.md)."""
