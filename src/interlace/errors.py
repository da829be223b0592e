"""All exceptions and warnings.

InterlaceError
├── InputError (ValueError)          an argument is invalid: what was expected, what came, where
│   ├── DuplicateIdError             an id is given twice, or is in the index already
│   └── PartlyAddedError             a stream of blocks failed; the blocks before were added
├── UnknownIdError (KeyError)        an id is not in the index
├── NotFittedError (ValueError, AttributeError)   an estimator is used before fit
├── ClusterError (RuntimeError)      Ray, or a shard on it, cannot do what was asked
│   ├── BuildError                   a build on Ray stopped; the shards that are done are kept
│   └── ShardUnavailableError (TimeoutError)   no replica of a shard answered in time
└── FileError (OSError)              a file cannot be used
    ├── NotAnIndexError              it is another kind of file
    ├── DamagedFileError             its bytes changed after it was written
    ├── NewerFormatError             it needs a newer interlace
    ├── OlderFormatError             an older interlace wrote it
    ├── RemoteError                  a file at a URL cannot be read or written
    └── StoreError                   a store cannot be used as asked, or a write to it failed
        └── StoreLockedError         another process writes to it

UserWarning
├── FewRowsWarning                   too few rows or dimensions: smaller codebooks are learned
├── CalibrationWarning               margins are stale, or of few queries: searches run exactly
│   └── UnlikeQueriesWarning         many queries are unlike those of the calibration and were searched exactly
├── RelearnWarning                   new rows of a store fit its codebooks badly
├── FitInterruptedWarning            Ctrl-C ended learning early
├── EmbeddingCollapsedWarning        learning maps all rows to one point
├── DegeneratePsiWarning             psi holds little of the variance
└── PriorCollapsedWarning            one mode of the prior took all variances
"""

from __future__ import annotations

import functools
import sys
import warnings
from typing import Any


class InterlaceError(Exception):
    """Base of all exceptions that this library raises on purpose."""


class InputError(InterlaceError, ValueError):
    """An argument is invalid."""


class DuplicateIdError(InputError):
    """An id is given twice, or is in the index already."""


class PartlyAddedError(InputError):
    """A stream of blocks failed before its end; the ``added`` rows of the blocks before were added."""

    def __init__(self, message: str, added: int = 0) -> None:
        super().__init__(message)
        self.added = added


class UnknownIdError(InterlaceError, KeyError):
    """An id is not in the index."""

    def __str__(self) -> str:  # KeyError prints the repr of its argument
        return str(self.args[0]) if self.args else ""


class NotFittedError(InterlaceError, ValueError, AttributeError):
    """An estimator is used before ``fit``."""


class ClusterError(InterlaceError, RuntimeError):
    """Ray, or a shard on it, cannot do what was asked; ``shards`` are the numbers of the shards concerned."""

    def __init__(self, message: str, shards: tuple[int, ...] = ()) -> None:
        super().__init__(message)
        self.shards = shards


class BuildError(ClusterError):
    """A build on Ray stopped. ``done`` are the finished shards, which the next build with the same input keeps."""

    def __init__(self, message: str, shards: tuple[int, ...] = (), done: tuple[int, ...] = ()) -> None:
        super().__init__(message, shards)
        self.done = done


class ShardUnavailableError(ClusterError, TimeoutError):
    """No replica of a shard answered in time."""


class FileError(InterlaceError, OSError):
    """A file cannot be read as an interlace file."""


class NotAnIndexError(FileError):
    """The file is another kind of file."""


class DamagedFileError(FileError):
    """The file is an interlace file whose bytes changed after it was written."""


class NewerFormatError(FileError):
    """The file was written by a newer version of interlace."""


class OlderFormatError(FileError):
    """The file was written by an older version of interlace, whose format this one does not read."""


class RemoteError(FileError):
    """A file at a URL cannot be read or written: ``errno`` and the message say why, ``filename`` is the URL."""


class StoreError(FileError):
    """A store cannot be used as asked, or a write to it failed (disk full, ...) and was undone."""


class StoreLockedError(StoreError):
    """Another process, or another part of this one, has the store open for writing."""


def not_fitted(message: str) -> NotFittedError:
    """A :class:`NotFittedError`; if scikit-learn is loaded, it is an instance of its NotFittedError, too."""
    theirs = sys.modules.get("sklearn.exceptions")
    return NotFittedError(message) if theirs is None else _joint(theirs.NotFittedError)(message)


@functools.cache
def _joint(theirs: type[Exception]) -> type[NotFittedError]:
    def reduce(
        self: NotFittedError,
    ) -> Any:  # pickle finds no class that is made here; worker processes pickle their errors
        return not_fitted, self.args

    return type("NotFittedError", (NotFittedError, theirs), {"__module__": __name__, "__reduce__": reduce})


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn with the line of the caller outside of this package."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == __package__:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


class FewRowsWarning(UserWarning):
    """There are too few rows or dimensions for the settings: smaller codebooks are learned, or small cells."""


class CalibrationWarning(UserWarning):
    """Searches with a calibrated margin run exactly, because the rows have changed since then, or because the queries
    of ``calibrate`` were too few for the default margin (docs/searching.md)."""


class UnlikeQueriesWarning(CalibrationWarning):
    """Many queries are unlike those of the calibration and were searched exactly: calibrate with queries like them."""


class EmbeddingCollapsedWarning(UserWarning):
    """The learned embedding maps all rows to one point (docs/joint.md)."""


class RelearnWarning(UserWarning):
    """New rows of a store have much larger errors than those its codebooks were learned from (docs/store.md)."""


class FitInterruptedWarning(UserWarning):
    """Ctrl-C ended learning early: the model is usable but not converged."""


class DegeneratePsiWarning(UserWarning):
    """psi holds so little of the variance that the crude books tell few rows apart (docs/joint.md)."""


class PriorCollapsedWarning(UserWarning):
    """One mode of the prior took all variances: the crude dimensions are arbitrary (docs/joint.md)."""
