"""Bytes of a file -> other bytes, like those of a disk gone bad, or of somebody who wishes us harm.

Blind changes rarely come past a checksum. So there is a second kind, which knows the formats: it changes a value, an
array, a record, and makes all checksums right again. What readers do with sense and nonsense behind them is the point.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from interlace.files import storage
from interlace.files.header import DTYPES
from interlace.store import log as logs
from interlace.store import records

Rng = np.random.Generator
Change = Callable[[Rng, bytes], bytes]

#: Bytes of an Arrow file that a mutation makes: large files would use up the addresses that readers may take.
LARGEST = 1 << 20
NUMBERS = (0, 1, -1, 2, 7, 8, 63, 64, 65, 255, 256, 2**15, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40, 2**63 - 1)
#: Near the ends of float32, near where squares and sums of them leave it, and near where they vanish.
FLOATS = (3e37, -3e37, 3.4e38, -3.4e38, 1.8e19, -1.8e19, 4e11, 1e16, 1e-20, -1e-20, 1e-38, 1.4e-45, 65504.0, -0.0)
VALUES: tuple[Any, ...] = (
    *(0, 1, -1, 255, 2**31, 2**32, 2**62, 2**63, 10**30, 0.5, 1e-300, 1e308, float("nan"), float("inf")),
    *(None, True, False, "", "x", "0", "../../etc/passwd", "/etc/passwd", "segment-1.interlace", "é\0", "a" * 999),
    *([], {}, [[]], [0], {"n": 1}, [1, "a", None]),
)

#: What filters are made of, and characters of one to four bytes; the last is a byte that is none.
WORDS = (
    *("n", "größe", "e\u0301cole", "価格", "𐐀", "and", "or", "not", "in", "is null"),
    *("==", "<", "(", ")", ",", "'", '"', "-", "3"),
)
WIDE = "xé\u0301ß字孖\uffed😀\0\n\ufeff\u2028\udc80"


def blind(rng: Rng, data: bytes) -> bytes:
    """One to four changes that know nothing."""
    for _ in range(int(rng.integers(1, 5))):
        data = BLIND[int(rng.integers(len(BLIND)))](rng, data)
    return data


def _flip(rng: Rng, data: bytes) -> bytes:
    out = bytearray(data)
    for _ in range(int(rng.integers(1, 4)) if data else 0):
        out[_near(rng, len(out))] ^= 1 << int(rng.integers(8))
    return bytes(out)


def _set(rng: Rng, data: bytes) -> bytes:
    """A number where one may be: lengths, counts, offsets."""
    size = int(rng.choice([1, 2, 4, 8]))
    at = _near(rng, max(1, len(data) - size))
    value = NUMBERS[int(rng.integers(len(NUMBERS)))] & (2 ** (8 * size) - 1)
    return data[:at] + value.to_bytes(size, "little") + data[at + size :]


def _cut(rng: Rng, data: bytes) -> bytes:
    return data[: int(rng.integers(len(data) + 1))]


def _longer(rng: Rng, data: bytes) -> bytes:
    return data + (bytes(int(rng.integers(1, 200))) if rng.integers(2) else rng.bytes(int(rng.integers(1, 200))))


def _splice(rng: Rng, data: bytes) -> bytes:
    """A piece of the file in the place of another one, or between two bytes."""
    a, b = sorted(int(v) for v in rng.integers(0, len(data) + 1, 2))
    at = int(rng.integers(len(data) + 1))
    over = b - a if rng.integers(2) else 0
    return data[:at] + data[a:b][:4096] + data[at + over :]


def _without(rng: Rng, data: bytes) -> bytes:
    a = int(rng.integers(len(data) + 1))
    return data[:a] + data[a + int(rng.integers(1, 100)) :]


BLIND: tuple[Change, ...] = (_flip, _flip, _set, _cut, _longer, _splice, _without)


def _near(rng: Rng, size: int) -> int:
    """Often near the beginning, where headers are."""
    return int(rng.integers(min(size, 64) if rng.integers(3) == 0 else size))


def in_json(rng: Rng, value: Any) -> Any:
    """The same JSON with one node changed, taken away or doubled."""
    nodes = list(_nodes(value))
    if not nodes:
        return VALUES[int(rng.integers(len(VALUES)))]
    holder, key = nodes[int(rng.integers(len(nodes)))]
    what = int(rng.integers(6))
    if what == 0:
        del holder[key]
    elif what == 1 and isinstance(holder, list):
        holder.insert(key, holder[key])
    elif what == 2 and type(holder[key]) is int:
        holder[key] += int(rng.choice([-1, 1, 64, -64]))
    elif what == 3:  # that of another node
        other, name = nodes[int(rng.integers(len(nodes)))]
        holder[key] = json.loads(json.dumps(other[name]))
    else:
        holder[key] = VALUES[int(rng.integers(len(VALUES)))]
    return value


def _nodes(value: Any) -> Any:
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _nodes(value[key])


# --- files of storage.py


def container(rng: Rng, data: bytes) -> bytes:
    """Sections and description changed, checksums right."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    metadata = header.pop("__metadata__")
    meta = json.loads(metadata["interlace"])
    arrays: dict[str, NDArray[Any]] = {}
    for name, entry in header.items():
        if not name.startswith(".pad."):
            start, stop = (8 + length + offset for offset in entry["data_offsets"])
            dtype = DTYPES[entry["dtype"]]
            arrays[name] = np.frombuffer(data[start:stop], dtype).reshape(entry["shape"]).copy()
    description = meta["description"]
    for _ in range(int(rng.integers(1, 4))):
        if rng.integers(2):
            description = in_json(rng, description)
        elif arrays:
            arrays = _arrays(rng, arrays)
    description = description if isinstance(description, dict) else {}
    made = b"".join(bytes(part) for part in storage.contents(arrays, description))
    return _header(rng, made) if rng.integers(4) == 0 else made


def _arrays(rng: Rng, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """One of them with other values, of another length, type or name, or gone."""
    name = list(arrays)[int(rng.integers(len(arrays)))]
    array, what = arrays[name], int(rng.integers(10))
    if what >= 8:
        return arrays | {name: _hostile(rng, name, array)}
    if what < 4 and array.size:  # values
        flat = array.reshape(-1)
        view = flat.view(np.uint8)
        for _ in range(int(rng.integers(1, 6))):
            if what == 0 or array.dtype.kind == "f":
                view[int(rng.integers(len(view)))] ^= 1 << int(rng.integers(8))
            else:
                limits = np.iinfo(array.dtype)
                value = NUMBERS[int(rng.integers(len(NUMBERS)))]
                flat[int(rng.integers(len(flat)))] = min(max(value, limits.min), limits.max)
        if array.dtype.kind == "f" and what == 3:
            value = rng.choice([np.nan, np.inf, -np.inf, 1e38, 3e37, -3e37, 1e18, 1e-20, 1e-40, 0, -1])
            flat[int(rng.integers(len(flat))) if rng.integers(2) else slice(None)] = value
    elif what == 4:
        arrays[name] = array[: int(rng.integers(len(array) + 1))]
    elif what == 5:
        arrays[name] = np.concatenate([array, array[-int(rng.integers(1, 3)) :]])
    elif what == 6:
        arrays[name] = array.astype(list(DTYPES.values())[int(rng.integers(6))], casting="unsafe")
    elif rng.integers(2):
        del arrays[name]
    else:
        arrays[f"{name}x"] = array
    return arrays


def _hostile(rng: Rng, name: str, array: NDArray[Any]) -> NDArray[Any]:
    """Values that are allowed one by one, and cost the most together: time, memory, range."""
    flat = array.reshape(-1).copy()
    if name == "arrow":
        return np.frombuffer(arrow(rng, flat.tobytes()), np.uint8).copy()
    if array.dtype == np.float32 and flat.size:  # one of them, some of them, or all
        some = rng.random(len(flat)) < rng.choice([0.5 / len(flat), 0.1, 1.0])
        some[int(rng.integers(len(flat)))] = True
        flat[some] = rng.choice(np.array(FLOATS, np.float32), int(some.sum()))
        return flat.reshape(array.shape)
    if array.dtype != np.uint8 and flat.size:
        largest = flat.max()
        if rng.integers(2):  # offsets that go back and forth; nearly all rows of one key; counts that end early
            flat[: len(flat) - 1 : 2], flat[1 : len(flat) - 1 : 2] = 0, largest
        else:
            flat[:] = flat[int(rng.integers(len(flat)))]
        return flat.reshape(array.shape)
    wide = (2 ** int(rng.choice([10, 31, 40, 58])), 0)  # rows of no bytes
    return np.empty(wide if rng.integers(2) else wide[::-1], array.dtype)


def _header(rng: Rng, data: bytes) -> bytes:
    """Any value of the header changed, its checksum right."""
    length = int.from_bytes(data[:8], "little")
    header = in_json(rng, json.loads(data[8 : 8 + length]))
    if isinstance(header, dict) and isinstance(header.get("__metadata__"), dict):
        header["__metadata__"]["header_crc32"] = "0" * 8
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % 64)
    size = len(text).to_bytes(8, "little")
    crc = f"{zlib.crc32(text, zlib.crc32(size)):08x}".encode()
    return size + text.replace(b'"header_crc32":"00000000"', b'"header_crc32":"' + crc + b'"') + data[8 + length :]


def arrow(rng: Rng, data: bytes) -> bytes:
    """An Arrow IPC file with the same rows, compressed, in one batch for each row, of other types, or changed."""
    import pyarrow as pa

    try:
        table = pa.ipc.open_file(pa.py_buffer(data)).read_all()
    except (pa.ArrowException, ValueError, OSError):  # changed before
        return data
    what = int(rng.integers(5))
    codec = ("zstd", "lz4")[int(rng.integers(2))] if what in (0, 1) else None
    if what == 1 and table.num_rows:  # few bytes that stand for many
        many = pa.array([b"\0" * ((1 << 27) // table.num_rows)] * table.num_rows).view(pa.string())
        table = table.set_column(table.schema.get_field_index("tag"), "tag", many)
    if what == 2:
        columns = [column.combine_chunks().dictionary_encode() for column in table.columns]
        table = pa.table(dict(zip(table.schema.names, columns, strict=True)))
    if what == 3:
        table = pa.Table.from_batches(table.to_batches(max_chunksize=1), schema=table.schema)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        writer.write_table(table)
    made: bytes = sink.getvalue().to_pybytes()
    if len(made) > LARGEST:  # a bomb of an earlier mutation, not compressed any more
        return data
    return _set(rng, made) if what == 4 else made


# --- files of a store


def manifest(rng: Rng, data: bytes) -> bytes:
    """Any value of a manifest changed, its checksum right."""
    content = json.loads(data)
    for _ in range(int(rng.integers(1, 3))):
        content["manifest"] = in_json(rng, content["manifest"])
    if rng.integers(8) == 0:
        content["version"] = VALUES[int(rng.integers(len(VALUES)))]
    content["crc32"] = "0" * 8
    text = (json.dumps(content, separators=(",", ":")) + "\n").encode()
    return text.replace(b'"crc32":"00000000"', f'"crc32":"{zlib.crc32(text):08x}"'.encode(), 1)


def log(rng: Rng, data: bytes) -> bytes:
    """Records changed, doubled, gone or in another order; checksums and numbers right, or as good as right."""
    head = logs.HEADER.size
    salt, at = struct.unpack_from("<Q", data, head - 12)[0], head
    payloads = []
    while (header := logs.header_at(memoryview(data), at, salt)) is not None:
        found = logs.payload_at(memoryview(data), at, salt, header[0])
        if found is None:
            break
        payloads.append(bytes(found))
        at += logs.FRAME.size + len(found)
    for _ in range(int(rng.integers(1, 4))):
        if not payloads:
            break
        i, what = int(rng.integers(len(payloads))), int(rng.integers(8))
        if what == 0:
            del payloads[i]
        elif what == 1:
            payloads.insert(int(rng.integers(len(payloads) + 1)), payloads[i])
        elif what == 2:  # its counts
            payloads[i] = _set(rng, payloads[i][:16]) + payloads[i][16:]
        elif what == 3:
            payloads[i] = _overlapping(payloads[i])
        else:
            payloads[i] = blind(rng, payloads[i])
    out, place = data[:head], logs.Place(salt, head, 0)
    for payload in payloads:
        framed = logs.frame(payload, place)
        out += framed
        place = place.after(framed)
    return out + announcing(rng, place, 2000) if rng.integers(8) == 0 else out


def _overlapping(payload: bytes) -> bytes:
    """Where the ids are strings: long text, and offsets that go back and forth."""
    kind, n, _, dead = records.COUNTS.unpack_from(payload.ljust(records.COUNTS.size, b"\0"))
    start = records.COUNTS.size + 8 * dead
    if kind & 0xFF != records.STRINGS or start + 8 * (n + 1) > len(payload):
        return payload
    offsets = np.frombuffer(payload, "<u8", n + 1, start).copy()
    end, length = int(offsets[-1]), 1 << 20
    offsets[::2], offsets[1::2] = 0, length
    offsets[-1] = length
    rest = payload[start + 8 * (n + 1) + end :]
    return payload[:start] + offsets.tobytes() + b"x" * length + rest


def announcing(rng: Rng, place: logs.Place, n: int) -> bytes:
    """Headers one after the other, each of which announces the rest of the file, with a wrong checksum of it."""
    seed, size = place.salt & 0xFFFFFFFF, logs.FRAME.size
    out = b""
    for i in range(n):
        number = place.sequence if rng.integers(2) else 0
        start = logs.FRAME.pack(logs.MAGIC, number, size * (n - 1 - i), int(rng.integers(2**32)), 0)[:-4]
        out += start + zlib.crc32(start, seed).to_bytes(4, "little")
    return out


# --- filter strings


def filter_text(rng: Rng, data: bytes) -> bytes:
    """Runs of characters of any width, most of them in values, and words anywhere; up to four of them."""
    text = data.decode(errors="surrogateescape")
    for _ in range(int(rng.integers(1, 5))):
        quotes = [i + 1 for i, character in enumerate(text) if character == "'"]
        if quotes and rng.integers(8):
            at, over = quotes[int(rng.integers(len(quotes)) // 2 * 2)], 0  # mostly where a value begins
            put = WIDE[int(rng.integers(len(WIDE)))] * int(rng.choice([1, 2, 33, 100, 400]))
        else:
            at, over = int(rng.integers(len(text) + 1)), int(rng.integers(9))
            put = f" {WORDS[int(rng.integers(len(WORDS)))]} "
        text = text[:at] + put + text[at + over :]
    return text.encode(errors="surrogateescape")
