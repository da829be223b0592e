"""Arrow IPC data from files and requests -> record batches that take no more memory than the data have bytes.

Compressed batches are refused before they are decompressed. Overlapping buffers, in which a few bytes represent many
values, are refused before they are copied. ``inputs/arrow_validation.py`` validates the arrays themselves.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from ..inputs.payload_table import arrow, describe_schema

Schema = Any  # pyarrow.Schema
Batch = Any  # pyarrow.RecordBatch
Table = Any  # pyarrow.Table

MAGIC = b"ARROW1\0\0"


def batch_in(data: Any, schema: Schema) -> Batch:
    """The record batch of one encapsulated IPC message; only its bounds are checked. ValueError if they are invalid."""
    pa = arrow()
    return _batch(pa.ipc.read_message(pa.py_buffer(data)), schema)


def table_in(data: Any, schema: Schema) -> Table:
    """All batches of an Arrow IPC file with this schema, not copied; only their bounds are checked. Raises ValueError.

    They are read as a stream, not by the footer of the file, which could refer to one batch many times.
    """
    pa = arrow()
    buffer = pa.py_buffer(data)
    if buffer.slice(0, len(MAGIC)).to_pybytes() != MAGIC:
        raise ValueError("it is not an Arrow IPC file")
    found, batches = stream_in(buffer.slice(len(MAGIC)))
    if not found.equals(schema):
        raise ValueError(f"it has the columns {describe_schema(found)}, but the store {describe_schema(schema)}")
    return pa.Table.from_batches(list(batches), schema=schema)


def stream_in(data: Any) -> tuple[Schema, Iterator[Batch]]:
    """Schema and batches of an Arrow IPC stream, not copied; only their bounds are checked. Raises ValueError."""
    pa = arrow()
    messages = _messages(pa.ipc.MessageReader.open_stream(pa.BufferReader(data)))
    first = next(messages, None)
    if first is None or first.type != "schema":
        raise ValueError("it does not begin with a schema")
    schema = pa.ipc.read_schema(first)
    return schema, (_batch(message, schema) for message in messages)


def _messages(reader: Any) -> Iterator[Any]:
    while True:
        try:
            yield reader.read_next_message()
        except StopIteration:
            return


def _batch(message: Any, schema: Schema) -> Batch:
    if message.type != "record batch":
        raise ValueError(f"a message of type {message.type!r}, expected a record batch without dictionaries")
    if is_compressed(message.metadata.to_pybytes()):
        raise ValueError("a batch is compressed; it must be written without compression")
    batch = arrow().ipc.read_record_batch(message, schema)
    batch.validate()
    size = message.metadata.size + (0 if message.body is None else message.body.size)
    if batch.nbytes > size:
        raise ValueError(f"a batch of {size} bytes represents {batch.nbytes}: its buffers overlap")
    return batch


def is_compressed(metadata: bytes) -> bool:
    """Whether the header of an IPC record batch names a codec, which pyarrow does not expose. ValueError if invalid.

    The header is a flatbuffer: ``Message.header`` (field 2) is a ``RecordBatch``, whose field 3 is ``compression``.
    """
    try:
        (root,) = struct.unpack_from("<I", metadata)
        header = _field(metadata, root, 2)
        return _field(metadata, header + struct.unpack_from("<I", metadata, header)[0], 3) != 0
    except struct.error as error:
        raise ValueError(f"the header of a batch cannot be read: {error}") from error


def _field(data: bytes, table: int, number: int) -> int:
    """Offset of a field of a flatbuffer table; 0 if the field is missing."""
    vtable = table - int(struct.unpack_from("<i", data, table)[0])
    if vtable < 0:
        raise struct.error(f"a table at {vtable}")
    entry = 4 + 2 * number
    if entry >= struct.unpack_from("<H", data, vtable)[0]:
        return 0
    (offset,) = struct.unpack_from("<H", data, vtable + entry)
    return table + int(offset) if offset else 0
