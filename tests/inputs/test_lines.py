"""Rows as text and through pipes: every form gives the same values, bounds are kept, what is wrong is named."""

from __future__ import annotations

import io
import json
import re
import tracemalloc
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import interlace as il
from interlace.cli.inputs import read_ids
from interlace.data import read_lines
from interlace.inputs import lines
from interlace.inputs.streams import MAGIC, NpyStream
from raising import raises

FLOATS = st.floats(-1e15, 1e15)
TABLES = st.integers(1, 4).flatmap(lambda w: st.lists(st.lists(FLOATS, min_size=w, max_size=w), min_size=1, max_size=9))


def gathered(text: bytes, width: int, rows: int = 4, start: int = 0) -> tuple[list[Any] | None, np.ndarray]:
    """All blocks as one."""
    found = list(read_lines(io.BytesIO(text[start:]), width, rows, start=text[:start]))
    assert all(1 <= len(x) <= rows for _, x in found)
    assert all(len(x) == rows for _, x in found[:-1])
    ids = [i for part, _ in found for i in part or []]
    return ids or None, np.concatenate([x for _, x in found])


def taken(blocks: Iterable[Any]) -> tuple[list[Any], str | None]:
    """What comes before an error, and what it says."""
    found = []
    try:
        for block in blocks:
            found.append(block)
    except il.InputError as error:
        return found, str(error)
    return found, None


@given(TABLES, st.sampled_from([",", "\t", ";", " ", " , "]), st.integers(1, 5), st.integers(0, 6))
def test_every_form_gives_the_same_values(table: list[list[float]], separator: str, rows: int, start: int) -> None:
    """JSON lists, objects, CSV with any separator; blocks of any size; some bytes read already."""
    width = len(table[0])
    as_json = "".join(f"{json.dumps(row)}\n" for row in table).encode()
    objects = "".join(f"{json.dumps({'vector': row, 'id': str(i)})}\n" for i, row in enumerate(table)).encode()
    as_csv = "".join(separator.join(map(repr, row)) + "\n" for row in table).encode()
    for text in (as_json, as_csv, as_csv.replace(b"\n", b"\r\n"), b"\n\n" + as_json.removesuffix(b"\n")):
        ids, values = gathered(text, width, rows, min(start, len(text)))
        assert ids is None
        np.testing.assert_array_equal(values, table)
    ids, values = gathered(objects, width, rows, min(start, len(objects)))
    assert ids == [str(i) for i in range(len(table))]
    np.testing.assert_array_equal(values, table)


def test_a_header_may_name_a_column_of_ids() -> None:
    assert gathered(b'x;"Id";y\n1;a b;2\n3;"c";4\n', 2)[0] == ["a b", "c"]
    ids, values = gathered(b"x,y\n1,2\n", 2)
    assert (ids, values.tolist()) == (None, [[1, 2]])


@given(st.binary(max_size=80), st.integers(1, 3))
@example(b"\x1c", 1)  # blank to text, and not to bytes
@example("\ufeff\n1".encode(), 1)
def test_any_bytes_are_rows_or_refused(data: bytes, width: int) -> None:
    found, message = taken(read_lines(io.BytesIO(data), width, 5))
    for _, x in found:
        assert x.shape[1] == width
        assert np.isfinite(x).all()
    assert message is None or message.startswith(("input: line ", "input has "))
    assert found or message


@pytest.mark.parametrize("good", [0, 1, 5, 7])
def test_rows_before_a_bad_line_come_first(good: int) -> None:
    text = b"[1, 2]\n" * good + b"[1]\n" + b"[1, 2]\n"
    found, message = taken(read_lines(io.BytesIO(text), 2, 5, "here"))
    assert message == f"here: line {good + 1}: it has 1 values, 2 expected"
    assert sum(len(x) for _, x in found) == good


def test_a_line_without_end_does_not_fill_the_memory() -> None:
    class Endless(io.RawIOBase):
        def readline(self, size: int | None = -1) -> bytes:
            assert size is not None
            assert 0 < size <= lines.LONGEST + 1
            return b"1" * size

    with raises(il.InputError, "line 1", 1048576):
        list(read_lines(Endless(), 3, 10))


def npy(x: np.ndarray, version: tuple[int, int] = (1, 0)) -> io.BytesIO:
    file = io.BytesIO()
    np.lib.format.write_array(file, x, version)
    file.seek(len(MAGIC))
    return file


@pytest.mark.parametrize("version", [(1, 0), (2, 0)])
@pytest.mark.parametrize("dtype", ["f2", "<f4", ">f4", "f8", "i1", "u2"])
@pytest.mark.parametrize("rows", [1, 3, 100])
def test_a_stream_gives_the_array(version: tuple[int, int], dtype: str, rows: int) -> None:
    x = np.arange(42).reshape(7, 3, 2).astype(dtype)
    stream = NpyStream(npy(x, version))
    assert (len(stream), stream.shape) == (7, (7, 3, 2))
    blocks = list(stream.blocks(rows))
    assert max(map(len, blocks)) <= rows
    np.testing.assert_array_equal(np.concatenate(blocks), x)


def test_a_stream_that_is_cut_anywhere() -> None:
    x = np.arange(20.0).reshape(5, 4)
    data = npy(x).getvalue()[len(MAGIC) :]
    whole = len(data) - x.nbytes
    for size in range(len(data)):
        cut = io.BytesIO(data[:size])
        found, message = taken(block for stream in [cut] for block in NpyStream(stream).blocks(2))
        assert message is not None
        assert re.search("cannot be read as .npy|version|ends after", message)
        rows = max(0, size - whole) // 32
        assert sum(map(len, found)) == rows
        if rows:
            np.testing.assert_array_equal(np.concatenate(found), x[:rows])


def test_a_stream_that_claims_the_world() -> None:
    """A header is believed only as far as bytes come."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": (10**15, 4)})
    header.write(np.zeros((3, 4), np.float32).tobytes())
    header.seek(len(MAGIC))
    tracemalloc.start()
    try:
        assert taken(NpyStream(header).blocks(1000))[1] == f"input ends after 3 of {10**15} rows"
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    bad = io.BytesIO()
    np.lib.format.write_array_header_1_0(bad, {"descr": "<f4", "fortran_order": False, "shape": (-3, 4)})
    bad.seek(len(MAGIC))
    with pytest.raises(il.InputError, match="got shape"):
        NpyStream(bad)


def test_objects_are_refused_unread() -> None:
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "|O", "fortran_order": False, "shape": (3, 4)})
    file.seek(len(MAGIC))
    with pytest.raises(il.InputError, match="must hold real numbers"):
        NpyStream(file)


@pytest.mark.parametrize(
    "shape",
    [
        f"({2**40}, 4)",
        f"({10**30}, 4)",
        f"({10**30},)",
        f"(0, {10**30})",
        f"({10**25}, 0)",
        f"(4, {2**61})",
        "(" + "-" * 3000 + "4, 4)",
        "[4, 4]",
    ],
    ids=lambda text: text[:20],
)
def test_headers_of_arrays_that_announce_too_much(tmp_path: Path, shape: str) -> None:
    """InputError from every reader, and no memory for rows that never come."""
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}"
    text += " " * (-(11 + len(text)) % 64) + "\n"
    data = MAGIC + b"\1\0" + len(text).to_bytes(2, "little") + text.encode() + bytes(64)
    (tmp_path / "x.npy").write_bytes(data)
    for name, how in (("stored", zipfile.ZIP_STORED), ("deflated", zipfile.ZIP_DEFLATED)):
        with zipfile.ZipFile(tmp_path / f"{name}.npz", "w", how) as archive:
            archive.writestr("x.npy", data)
    readers: list[Callable[[], Any]] = [
        lambda: read_ids(str(tmp_path / "x.npy")),
        lambda: il.data.read_labels(tmp_path / "x.npy"),
        lambda: il.data.read_vectors(tmp_path / "x.npy"),
        lambda: il.data.read_vectors(tmp_path / "stored.npz"),
        lambda: il.data.read_vectors(tmp_path / "deflated.npz"),
        lambda: list(NpyStream(io.BytesIO(data[len(MAGIC) :])).blocks(10)),
    ]
    with np.errstate(over="ignore"):
        for reader in readers:
            with pytest.raises(il.InputError):
                reader()
