"""Reads X as scikit-learn does: rows, names of columns, torch data sets; and the errors that scikit-learn expects."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, warn_user
from ..inputs.arrays import describe, to_matrix
from ..inputs.spool import yields_blocks
from ..inputs.tables import FrameRows, arrow_rows, is_frame

#: Names that an error lists before it writes "...".
LISTED_NAMES = 5


class NotNumbersError(InputError, TypeError):
    """X holds values that are not numbers. It is a TypeError too, which scikit-learn expects here."""


def read_features(x: Any) -> tuple[Any, NDArray[Any] | None]:
    """Returns the rows of X, converted only where necessary, and the names of its columns (None without names).

    Raises the errors that scikit-learn expects for a wrong shape or dtype. Values are checked later, when the rows are
    read. Arrays of objects become float64, as in scikit-learn.
    """
    names: Any = None
    if is_dataset(x):
        raise InputError(f"X must be an array when learning without labels, got a torch {type(x).__name__}")
    if (table := arrow_rows(x, "X")) is not None:
        x, names = table, table.titles  # of the numeric columns; the others are skipped
    elif is_frame(x):
        x = FrameRows(x, "X")
        names = x.titles
    elif not hasattr(x, "shape") and not yields_blocks(x):
        x = to_matrix(x, "X")
    shape, dtype = getattr(x, "shape", None), getattr(x, "dtype", None)
    if shape is not None and len(shape) != 2:
        raise InputError(
            f"Expected 2D array, got {len(shape)}D array instead: {describe(x)}. Reshape your data: X.reshape(-1, 1) "
            "if it has a single feature, X.reshape(1, -1) if it is a single sample"
        )
    if shape is not None and 0 in shape:
        what = "feature" if shape[0] else "sample"
        raise InputError(f"Found array with 0 {what}(s) (shape={tuple(shape)}) while a minimum of 1 is required.")
    if isinstance(dtype, np.dtype) and dtype.kind == "c":
        raise InputError(f"Complex data not supported: {describe(x)}")
    if isinstance(dtype, np.dtype) and dtype.kind == "O":
        try:
            x = np.asarray(x, np.float64)
        except (TypeError, ValueError) as error:
            kind = NotNumbersError if isinstance(error, TypeError) else InputError
            raise kind(f"X has values that are not numbers: {error}") from error
    return x, None if names is None or shape is None or len(names) != shape[1] else _string_names(names)


def _string_names(names: list[Any]) -> NDArray[Any] | None:
    """Names if all are strings; None if none is (pandas numbers columns that have no names)."""
    if not any(isinstance(name, str) for name in names):
        return None
    if not all(isinstance(name, str) for name in names):
        types = sorted({type(name).__qualname__ for name in names})
        raise NotNumbersError(
            f"Feature names are only supported if all input features have string names, but X has {types}; "
            "convert them with X.columns = X.columns.astype(str)"
        )
    return np.array(names, dtype=object)


def compare_names(fitted: NDArray[Any] | None, given: NDArray[Any] | None, estimator: str) -> None:
    """Warns if only one of fit and X has names of columns; raises InputError if the names differ."""
    if fitted is None or given is None:
        if given is not None:
            warn_user(f"X has feature names, but {estimator} was fitted without feature names")
        if fitted is not None:
            warn_user(f"X does not have valid feature names, but {estimator} was fitted with feature names")
        return
    if not np.array_equal(fitted, given):
        unseen, missing = sorted({*given} - {*fitted}), sorted({*fitted} - {*given})
        text = "The feature names should match those that were passed during fit.\n"
        text += _name_list("Feature names unseen at fit time:\n", unseen)
        text += _name_list("Feature names seen at fit time, yet now missing:\n", missing)
        if not unseen and not missing:
            text += "Feature names must be in the same order as they were in fit.\n"
        raise InputError(text)


def _name_list(title: str, names: list[str]) -> str:
    lines = [*names[:LISTED_NAMES], "..."] if len(names) > LISTED_NAMES else names
    return "".join([title, *(f"- {name}\n" for name in lines)]) if names else ""


def is_dataset(x: Any) -> bool:
    """Whether x is a torch Dataset or DataLoader. The check does not import torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.utils.data.Dataset | torch.utils.data.DataLoader)


def dataset_inputs(dataset: Any) -> Any:
    """The inputs of a torch Dataset or DataLoader, in order, as an iterator of blocks."""
    from ..learn.joint.batches import input_blocks

    return input_blocks(dataset)


def dataset_labels(dataset: Any) -> Any:
    """The labels of a torch Dataset or DataLoader, in the same order."""
    from ..learn.joint.batches import dataset_labels

    return dataset_labels(dataset)
