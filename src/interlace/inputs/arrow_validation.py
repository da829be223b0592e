"""Arrow arrays are validated before they are used.

Arrow trusts the offsets, lengths and text of the buffers it is given. So every array from a user or a file passes two
checks: its *layout* (offsets ascend and stay inside, indices are valid), without which reading it may crash, and its
*text* (strings are UTF-8), without which some functions fail. Full validation by Arrow checks both at once; the layout
alone is checked by reading the same buffers as binary instead of string.
"""

from __future__ import annotations

from typing import Any

from .optional import require

Array = Any  # pyarrow.Array


def _pyarrow() -> Any:
    return require("pyarrow", "an Arrow array")


def as_binary(kind: Any) -> Any:
    """The type with the same layout in which text is bytes."""
    pa = _pyarrow()
    types = pa.types
    if types.is_string(kind):
        return pa.binary()
    if types.is_large_string(kind):
        return pa.large_binary()
    if types.is_struct(kind):
        return pa.struct([field.with_type(as_binary(field.type)) for field in kind])
    if types.is_map(kind):
        return pa.map_(as_binary(kind.key_type), as_binary(kind.item_type))
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        inner = kind.value_field.with_type(as_binary(kind.value_type))
        if types.is_fixed_size_list(kind):
            return pa.list_(inner, kind.list_size)
        return pa.large_list(inner) if types.is_large_list(kind) else pa.list_(inner)
    return kind


def has_valid_text(array: Array) -> bool:
    """Whether all strings of an array (or chunked array) are UTF-8. An invalid layout raises ArrowInvalid."""
    pa = _pyarrow()
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        loose = as_binary(array.type)
        if loose.equals(array.type):
            raise
        for chunk in array.chunks if isinstance(array, pa.ChunkedArray) else (array,):
            chunk.view(loose).validate(full=True)
        return False
    return True


def check_dictionary(array: Array) -> None:
    """Raise ArrowInvalid unless the layout of a dictionary array is valid; its text is not checked."""
    loose = array.dictionary.view(as_binary(array.dictionary.type))
    _pyarrow().DictionaryArray.from_arrays(array.indices, loose, safe=False).validate(full=True)


def first_invalid_row(array: Array) -> int | None:
    """The first row with a string that is not UTF-8, of an array with a valid layout; None if there is none."""
    pa, first = _pyarrow(), 0
    for chunk in array.chunks if isinstance(array, pa.ChunkedArray) else (array,):
        if not _is_text(chunk):
            low, high = 0, len(chunk)  # rows up to low are text, rows up to high are not
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if _is_text(chunk.slice(0, middle)) else (low, middle)
            return first + low
        first += len(chunk)
    return None


def _is_text(array: Array) -> bool:
    """Of these rows alone: a slice of lists still has the values of all rows, a copy has its own."""
    pa = _pyarrow()
    return has_valid_text(pa.concat_arrays([array]))
