"""Exceptions of the library and the codes that stand for them in answers of a server, most specific first."""

from __future__ import annotations

from .. import errors

CODES: dict[type[errors.InterlaceError], str] = {
    errors.DuplicateIdError: "duplicate_id",
    errors.PartlyAddedError: "partly_added",
    errors.InputError: "input",
    errors.UnknownIdError: "unknown_id",
    errors.NotFittedError: "not_fitted",
    errors.NotAnIndexError: "not_an_index",
    errors.DamagedFileError: "damaged",
    errors.NewerFormatError: "newer_format",
    errors.OlderFormatError: "older_format",
    errors.StoreLockedError: "locked",
    errors.StoreError: "store",
    errors.FileError: "file",
    errors.InterlaceError: "error",
}
