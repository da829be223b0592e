"""Arrow data from files and from users -> arrays that are safe to read.

Arrow trusts the offsets, lengths and text of the buffers it is given. So every array passes two checks before it is
used: its *layout* (offsets ascend and stay inside, indices are valid), without which reading it may crash, and its
*text* (strings are UTF-8), without which some functions fail. Full validation by Arrow makes both at once; the layout
alone is that of the same buffers read as binary instead of string.

What a file holds is also bounded by its size: compressed batches are refused before they are decompressed, and
buffers that overlap, so that a few bytes stand for many values, before they are copied.
"""

from __future__ import annotations

import importlib
import struct
from collections.abc import Iterator
from typing import Any

Array = Any  # pyarrow.Array
Schema = Any  # pyarrow.Schema
Batch = Any  # pyarrow.RecordBatch
Table = Any  # pyarrow.Table

MAGIC = b"ARROW1\0\0"


def arrow() -> Any:
    """pyarrow, which whoever has something of Arrow has imported already."""
    return importlib.import_module("pyarrow")


def batch_in(data: Any, schema: Schema) -> Batch:
    """The record batch of one encapsulated IPC message; only its bounds are checked. Raises ValueError."""
    pa = arrow()
    return _batch(pa.ipc.read_message(pa.py_buffer(data)), schema)


def table_in(data: Any, schema: Schema) -> Table:
    """All batches of an Arrow IPC file with this schema, not copied; only their bounds are checked. Raises ValueError.

    They are read as the stream that such a file holds, not by its footer: that may name one batch many times.
    """
    pa = arrow()
    buffer = pa.py_buffer(data)
    if buffer.slice(0, len(MAGIC)).to_pybytes() != MAGIC:
        raise ValueError("it is not an Arrow IPC file")
    messages = _messages(pa.ipc.MessageReader.open_stream(pa.BufferReader(buffer.slice(len(MAGIC)))))
    first = next(messages, None)
    if first is None or first.type != "schema":
        raise ValueError("it does not begin with a schema")
    found = pa.ipc.read_schema(first)
    if not found.equals(schema):
        raise ValueError(f"it has the columns {shown(found)}, the store {shown(schema)}")
    return pa.Table.from_batches([_batch(message, schema) for message in messages], schema=schema)


def _messages(reader: Any) -> Iterator[Any]:
    while True:
        try:
            yield reader.read_next_message()
        except StopIteration:
            return


def _batch(message: Any, schema: Schema) -> Batch:
    if message.type != "record batch":
        raise ValueError(f"a message of type {message.type!r}, a record batch expected")
    if is_compressed(message.metadata.to_pybytes()):
        raise ValueError("its batches are compressed, and a store has none that are")
    batch = arrow().ipc.read_record_batch(message, schema)
    batch.validate()
    size = message.metadata.size + (0 if message.body is None else message.body.size)
    if batch.nbytes > size:
        raise ValueError(f"a batch of {size} bytes stands for {batch.nbytes}: its buffers overlap")
    return batch


def is_compressed(metadata: bytes) -> bool:
    """Whether the header of an IPC record batch names a codec; pyarrow has no way to ask. Raises ValueError.

    The header is a flatbuffer: ``Message.header`` (field 2) is a ``RecordBatch``, whose field 3 is ``compression``.
    """
    try:
        (root,) = struct.unpack_from("<I", metadata)
        header = _field(metadata, root, 2)
        return _field(metadata, header + struct.unpack_from("<I", metadata, header)[0], 3) != 0
    except struct.error as error:
        raise ValueError(f"the header of a batch cannot be read: {error}") from error


def _field(data: bytes, table: int, number: int) -> int:
    """Where a field of a flatbuffer table is, 0 if it is not there."""
    vtable = table - int(struct.unpack_from("<i", data, table)[0])
    if vtable < 0:
        raise struct.error(f"a table at {vtable}")
    entry = 4 + 2 * number
    if entry >= struct.unpack_from("<H", data, vtable)[0]:
        return 0
    (offset,) = struct.unpack_from("<H", data, vtable + entry)
    return table + int(offset) if offset else 0


def as_binary(kind: Any) -> Any:
    """The type with the same layout in which text is bytes."""
    pa = arrow()
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


def has_sound_text(array: Array) -> bool:
    """Whether all strings of an array (or chunked array) are UTF-8. A layout that is damaged raises ArrowInvalid."""
    pa = arrow()
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
    """Raise ArrowInvalid unless the layout of a dictionary array is sound; its text is not looked at."""
    loose = array.dictionary.view(as_binary(array.dictionary.type))
    arrow().DictionaryArray.from_arrays(array.indices, loose, safe=False).validate(full=True)


def row_of_bad_text(array: Array) -> int | None:
    """The first row with a string that is not UTF-8, of an array with a sound layout; None if there is none."""
    pa, first = arrow(), 0
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
    pa = arrow()
    return has_sound_text(pa.concat_arrays([array]))


def shown(schema: Schema) -> str:
    """Names and types, for messages."""
    return ", ".join(f"{field.name!r} ({field.type})" for field in schema)
