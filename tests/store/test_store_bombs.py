"""Files with right checksums that would cost far more memory or time than their size allows."""

from __future__ import annotations

import base64
import json
import os
import struct
import types
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from store_helpers import BOOKS, LARGE, vectors

import interlace as il
from helpers import run_python
from interlace.files import storage
from interlace.store import log as logs
from interlace.store import manifest as manifests
from interlace.store import records
from interlace.store.columns import SECTION, Columns
from raising import raises

pa = pytest.importorskip("pyarrow", reason="the io extra is not installed")

MARK = "00" * 16
#: Whatever reads a store, in 200 MB of address space more than it takes to begin with.
USED = """
import resource, sys
import numpy as np, pyarrow as pa, pyarrow.compute as pc, pyarrow.acero
import interlace as il
from interlace.store import verify
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (200 << 20), resource.RLIM_INFINITY))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
path, refused = sys.argv[1], 0
def use(act):
    global refused
    try:
        act()
    except il.DamagedFileError:
        refused += 1
def write():
    with il.open(path, mode="a") as store:
        store.compact()
use(lambda: list(il.open(path)))
use(lambda: il.open(path).ids)
use(lambda: il.open(path).payload())
use(lambda: il.open(path).search(np.zeros(4), 5, filter=pc.field("tag") == "a"))
use(lambda: verify(path))
use(write)
print(refused)
"""
pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs /proc")


def made(path: Path, n: int, ids: Any = None) -> il.Store:
    store = il.create(path, BOOKS, columns={"tag": "string"}, limits=LARGE)
    store.add(vectors(n), ids, payload={"tag": ["a"] * n})
    return store


def rewritten(path: Path, **sections: Any) -> None:
    """A file with other sections, and right checksums."""
    file = storage.read(path)
    arrays = {name: np.array(file.array(name)) for name in file.names}
    data = b"".join(bytes(part) for part in storage.contents(arrays | sections, file.meta))
    path.write_bytes(data)


def file_of(folder: Path, role: str) -> Path:
    (found,) = folder.glob(f"{role}-*")
    return found


def appended(folder: Path, payload: bytes) -> None:
    """One more record in the log."""
    mark = json.loads((folder / manifests.NAME).read_text())["manifest"]["store"]
    path = file_of(folder, "log")
    _, place, _ = logs.read(str(path), mark)
    path.write_bytes(path.read_bytes() + logs.frame(payload, place))


def back_and_forth(n: int, length: int) -> Any:
    offsets = np.zeros(n + 1, np.uint64)
    offsets[1::2] = length
    offsets[-1] = length
    return offsets


def zeros(n: int, size: int) -> Any:
    """Strings of zero bytes, which take no memory before they are read."""
    offsets = np.arange(n + 1, dtype=np.int32) * size
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.zeros(n * size, np.uint8))]
    return pa.Array.from_buffers(pa.string(), n, buffers)


def piece_of(columns: Columns, codec: str | None, n: int, size: int) -> bytes:
    batch = pa.record_batch([zeros(n, size)], schema=columns.schema)
    options = pa.ipc.IpcWriteOptions(compression=codec)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, columns.schema, options=options) as writer:
        writer.write_batch(batch)
    reader = pa.ipc.MessageReader.open_stream(sink.getvalue())
    reader.read_next_message()
    return bytes(reader.read_next_message().serialize())


def test_strings_of_ids_do_not_overlap_in_a_log(tmp_path: Path) -> None:
    """A megabyte of text for each of 3,001 rows."""
    n, length = 3001, 1 << 20
    made(tmp_path / "s", 2, ["a", "b"]).close()
    columns = Columns.of({"tag": "string"})
    piece = columns.to_pieces(columns.table({"tag": ["a"] * n}, n))[0]
    parts = [records.COUNTS.pack(records.STRINGS | records.EXTRAS, n, 2, 0), back_and_forth(n, length).tobytes()]
    parts += [b"x" * length, bytes(n * 2), records.SIZES.pack(1, 0), struct.pack("<Q", len(piece)), piece]
    appended(tmp_path / "s", b"".join(parts))
    assert run_python(USED, str(tmp_path / "s")) == 6
    with pytest.raises(il.DamagedFileError, match="ascending"):
        il.open(tmp_path / "s")


def test_strings_of_ids_do_not_overlap_in_a_segment(tmp_path: Path) -> None:
    n, length = 3001, 1 << 20
    with made(tmp_path / "s", n, [f"{i:05}" for i in range(n)]) as store:
        store.compact()
    path = file_of(tmp_path / "s", "segment")
    rewritten(path, **{"ids.text": np.full(length, 120, np.uint8), "ids.offsets": back_and_forth(n, length)})
    assert run_python(USED, str(tmp_path / "s")) >= 4  # columns can still be read
    with pytest.raises(il.DamagedFileError, match="id"):
        _ = il.open(tmp_path / "s").ids


def test_an_index_with_strings_that_overlap(tmp_path: Path) -> None:
    index = il.Index.from_codes(BOOKS, np.zeros((2001, 2), np.uint8), [f"{i:05}" for i in range(2001)])
    index.save(tmp_path / "file")
    offsets = np.zeros(2002, np.uint64)
    offsets[1::2] = 1 << 16  # every other row has all of the text, and all ascend in pairs
    offsets[-1] = 1 << 16
    rewritten(tmp_path / "file", **{"ids.text": np.full(1 << 16, 120, np.uint8), "ids.offsets": offsets})
    damaged = il.Index.open(tmp_path / "file")
    with pytest.raises(il.DamagedFileError, match="id"):
        _ = damaged.ids
    with pytest.raises(il.DamagedFileError, match="overlaps"):
        damaged.ids_of_rows.take(np.arange(0, 2000, 2))
    assert damaged.ids_of_rows.take(np.array([0, 0, 0])).tolist() == ["x" * (1 << 16)] * 3


def test_equal_keys_of_ids_are_compared_with_their_strings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a look-up goes through all rows, and all look-ups through all rows of all."""
    index = il.Index.from_codes(BOOKS, np.zeros((1000, 2), np.uint8), [f"{i:05}" for i in range(1000)])
    index.save(tmp_path / "file")
    rewritten(tmp_path / "file", **{"ids.sorted": np.full(1000, index.ids_of_rows.keys()[999], np.uint64)})
    damaged, looked = il.Index.open(tmp_path / "file"), [0]
    real = type(damaged.ids_of_rows).take

    def take(self: Any, rows: Any) -> Any:
        looked[0] += len(rows)
        return real(self, rows)

    monkeypatch.setattr(type(damaged.ids_of_rows), "take", take)
    with pytest.raises(il.DamagedFileError, match="hash"):
        damaged.ids_of_rows.rows_of(["00999"])
    assert looked[0] < 10


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_compressed_columns_are_refused_before_they_are_decompressed(tmp_path: Path, codec: str) -> None:
    n, size = 80, 4 << 20  # 320 MB of zeros
    columns = Columns.of({"tag": "string"})
    with made(tmp_path / "segment", n) as store:
        store.compact()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, columns.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        writer.write_batch(pa.record_batch([zeros(n, size)], schema=columns.schema))
    data = np.frombuffer(sink.getvalue(), np.uint8)
    assert len(data) < 8 << 20
    rewritten(file_of(tmp_path / "segment", "payload"), **{SECTION: data})
    made(tmp_path / "log", 2).close()
    piece = piece_of(columns, codec, n, size)
    none = np.zeros(0, np.uint32)
    record = records.Record(np.arange(10, 10 + n), np.zeros((n, 2), np.uint8), none, none, (piece,))
    appended(tmp_path / "log", record.to_bytes())
    for where in ("segment", "log"):
        # All but the ids; and a segment alone needs no compaction.
        assert run_python(USED, str(tmp_path / where)) == (3 if where == "segment" else 4)
        with pytest.raises(il.DamagedFileError, match="compressed"):
            il.open(tmp_path / where).payload()


def test_buffers_of_a_batch_do_not_overlap() -> None:
    """Many columns that share one text."""
    names = [f"c{i}" for i in range(50)]
    columns = Columns.of(dict.fromkeys(names, "string"))
    (piece,) = columns.to_pieces(columns.table({name: ["x" * 7001 if name == "c0" else "y"] for name in names}, 1))
    assert len(columns.of_pieces([piece], 1)[0]) == 1
    size = len("x" * 7001)
    (first,) = (at for at in range(0, len(piece) - 8, 4) if piece[at : at + 8] == struct.pack("<q", size))
    buffer = piece[first - 8 : first + 8]  # where the long text is, as (offset, length)
    damaged, at = bytearray(piece), first + 8
    for _ in names[1:]:  # validity, offsets, text of each column
        damaged[at + 32 : at + 48] = buffer
        at += 48
    body = len(piece) - pa.ipc.read_message(pa.py_buffer(piece)).body.size
    for start in range(body, len(piece) - 7, 8):  # the offsets (0, 1) of the others become (0, 7001)
        if piece[start : start + 8] == struct.pack("<ii", 0, 1):
            damaged[start : start + 8] = struct.pack("<ii", 0, size)
    with pytest.raises(il.DamagedFileError, match="overlap"):
        columns.of_pieces([bytes(damaged)], 1)


@pytest.mark.parametrize(
    "kind", [pa.dictionary(pa.int8(), pa.string()), pa.run_end_encoded(pa.int32(), pa.string()), pa.null()]
)
def test_types_that_a_store_does_not_keep_are_refused_in_manifests(kind: Any) -> None:
    """Ones in which few bytes stand for many values among them."""
    text = base64.b64encode(pa.schema([("c", kind)]).serialize().to_pybytes()).decode()
    with raises(il.DamagedFileError, "columns", "'c'"):
        _ = Columns(text).schema


def test_a_log_is_read_once_whatever_it_announces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Headers with right checksums, each of which announces all the rest of the file."""
    salt, n, size = 5, 4000, logs.FRAME.size
    out = logs.header(MARK, salt)
    for i in range(n):
        start = logs.FRAME.pack(logs.MAGIC, 0, size * (n - 1 - i), 12345, 0)[:-4]
        out += start + zlib.crc32(start, salt).to_bytes(4, "little")
    (tmp_path / "log").write_bytes(out)
    summed = [0]

    def crc32(data: Any, value: int = 0) -> int:
        summed[0] += len(data)
        return zlib.crc32(data, value)

    monkeypatch.setattr(logs, "zlib", types.SimpleNamespace(crc32=crc32))
    records, place, end = logs.read(str(tmp_path / "log"), MARK)
    assert (records, place.sequence, end) == ([], 0, len(out))
    assert summed[0] < 3 * len(out)


def test_a_later_header_is_damage_though_its_payload_was_cut(tmp_path: Path) -> None:
    """It was written after the record before was acknowledged."""
    salt = 5
    place = logs.Place(salt, logs.HEADER.size, 0)
    out = logs.header(MARK, salt)
    payloads = [b"\1" * 40, b"\2" * 40]
    for payload in payloads:
        framed = logs.frame(payload, place)
        out += framed
        place = place.after(framed)
    damaged = bytearray(out)
    damaged[logs.HEADER.size + logs.FRAME.size] ^= 1
    (tmp_path / "log").write_bytes(bytes(damaged[:-10]))
    with pytest.raises(il.DamagedFileError, match="record 0"):
        logs.read(str(tmp_path / "log"), MARK)
