"""The log: what is written comes back, what is torn is dropped, what is damaged is named."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import interlace as il
from interlace.store import log as logs
from interlace.store.log import Log, Place
from interlace.store.records import Record
from raising import raises

MARK = "0123456789abcdef" * 2
INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@st.composite
def records(draw: st.DrawFn, only_width: int | None = None) -> Record:
    kind = INT64 if only_width else draw(st.sampled_from([INT64, TEXT]))
    values = draw(st.lists(kind, max_size=6))
    ids = np.array(values, np.int64) if kind is INT64 else np.empty(len(values), object)
    ids[:] = values
    width, dead = only_width or draw(st.integers(1, 9)), draw(st.lists(st.integers(0, 2**32 - 1), max_size=6))
    codes = np.frombuffer(draw(st.binary(min_size=len(ids) * width, max_size=len(ids) * width)), np.uint8)
    parts = np.array(draw(st.lists(st.integers(0, 99), min_size=len(dead), max_size=len(dead))), np.uint32)
    size = (only_width or draw(st.integers(0, 4))) * bool(len(ids))
    originals = np.frombuffer(draw(st.binary(min_size=len(ids) * size, max_size=len(ids) * size)), np.uint8)
    pieces = tuple(draw(st.lists(st.binary(max_size=9), max_size=3))) if len(ids) else ()
    rows = np.array(dead, np.uint32)
    return Record(ids, codes.reshape(len(ids), width), parts, rows, pieces, originals.reshape(len(ids), size))


def same(a: Record, b: Record) -> bool:
    return a.payload == b.payload and all(
        np.array_equal(getattr(a, k), getattr(b, k)) for k in ("ids", "codes", "parts", "rows", "vectors")
    )


def small(number: int) -> Record:
    ids = np.empty(2, object)
    ids[:] = [f"a{number}", "ILr1"]  # what a record begins with is no record by itself
    one = np.array([number], np.uint32)
    return Record(ids, np.full((2, 3), number, np.uint8), one, one)


def written(path: Path, count: int = 4) -> list[int]:
    """A log of some records; the end of each, that of the header first."""
    log = Log.create(str(path), MARK)
    ends = [log.place.offset]
    for number in range(count):
        log.append(small(number))
        ends.append(log.place.offset)
    log.close()
    assert ends[-1] == path.stat().st_size
    return ends


@given(records())
def test_a_record_comes_back(record: Record) -> None:
    assert same(Record.from_bytes(memoryview(record.to_bytes())), record)


@given(records(), st.data())
def test_a_payload_that_is_cut_is_no_record(record: Record, data: st.DataObject) -> None:
    payload = record.to_bytes()
    with pytest.raises(ValueError, match="record|UTF|utf|kind"):
        Record.from_bytes(memoryview(payload[: data.draw(st.integers(0, len(payload) - 1))]))
    with pytest.raises(ValueError, match="longer"):
        Record.from_bytes(memoryview(payload + b"\0"))


@settings(max_examples=30, deadline=None)
@given(st.lists(records(), max_size=5))
def test_what_is_appended_is_read(tmp_path_factory: pytest.TempPathFactory, listed: list[Record]) -> None:
    path = str(tmp_path_factory.mktemp("log") / "log")
    log = Log.create(path, MARK)
    for record in listed:
        log.append(record)
    found, place, size = logs.read(path, MARK)
    assert place == log.place
    assert (place.sequence, place.offset) == (len(listed), size) == (len(listed), os.path.getsize(path))
    assert all(same(a, b) for a, b in zip(found, listed, strict=True))


def test_torn_at_every_byte(tmp_path: Path) -> None:
    path = tmp_path / "log"
    ends = written(path)
    data = path.read_bytes()
    for size in range(len(data)):
        path.write_bytes(data[:size])
        if size < ends[0]:
            with pytest.raises(il.FileError):
                logs.read(str(path), MARK)
            continue
        whole = sum(size >= end for end in ends) - 1
        assert len(logs.read(str(path), MARK)[0]) == whole  # a reader leaves it as it is
        assert path.stat().st_size == size
        log, found, cut = Log.open(str(path), MARK)
        assert (len(found), cut, path.stat().st_size) == (whole, size - ends[whole], ends[whole])
        log.append(small(9))  # and goes on
        log.close()
        assert same(logs.read(str(path), MARK)[0][-1], small(9))


def test_garbage_behind_the_last_record_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "log"
    ends = written(path)
    data = path.read_bytes()
    other = logs.frame(small(4).to_bytes(), Place(12345, 0, 4))  # of another log
    for garbage in (b"\0" * 100, os.urandom(300), b"ILr1" * 20, data[ends[1] : ends[2] - 1], other):
        path.write_bytes(data[: ends[1]] + garbage)
        found, place, _ = logs.read(str(path), MARK)
        assert (len(found), place.offset) == (1, ends[1])


def test_a_flipped_bit_is_damage_or_the_end(tmp_path: Path) -> None:
    """In the last record it looks like a write that was cut short; anywhere else it is an error that names the byte."""
    path = tmp_path / "log"
    ends = written(path)
    data = path.read_bytes()
    for at in range(len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :])
        if at >= ends[-2]:
            assert len(logs.read(str(path), MARK)[0]) == 3
        else:
            with pytest.raises(il.FileError, match="damaged|not the log|another store|newer"):
                logs.read(str(path), MARK)


def test_a_record_that_is_gone_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "log"
    ends = written(path)
    data = path.read_bytes()
    path.write_bytes(data[: ends[1]] + data[ends[2] :])
    with raises(il.DamagedFileError, "record 1"):
        logs.read(str(path), MARK)


def test_other_logs_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "log"
    written(path)
    with pytest.raises(il.DamagedFileError, match="belongs to another store"):
        logs.read(str(path), "f" * 32)
    path.write_bytes(logs.header(MARK, 7, version=logs.VERSION + 1))
    with pytest.raises(il.NewerFormatError, match="install a newer one"):
        logs.read(str(path), MARK)
    path.write_bytes(b"hello")
    with pytest.raises(il.NotAnIndexError, match="not the log of a store"):
        logs.read(str(path), MARK)


def test_reading_goes_on_from_a_place(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = Log.create(str(path), MARK)
    _, place, _ = logs.read(str(path), MARK)
    for number in range(3):
        log.append(small(number))
        found, place, _ = logs.read(str(path), MARK, place)
        assert [same(record, small(number)) for record in found] == [True]
    assert logs.read(str(path), MARK, place)[0] == []


@given(st.lists(records(only_width=3), min_size=1, max_size=4))
def test_joined_is_one_after_the_other(listed: list[Record]) -> None:
    found = Record.joined(listed)
    for name in ("ids", "codes", "parts", "rows"):
        assert np.array_equal(getattr(found, name), np.concatenate([getattr(r, name) for r in listed]))
    born = [r for r in listed if len(r.ids)]
    assert np.array_equal(found.vectors, np.concatenate([np.empty((0, 3), np.uint8), *(r.vectors for r in born)])) or (
        not born and found.vectors.size == 0
    )
    assert found.payload == tuple(piece for r in born for piece in r.payload)
