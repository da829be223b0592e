"""The container: sections come back as they were, readable by others, and what is not whole is named for what it is."""

from __future__ import annotations

import contextlib
import io
import json
import pickle
import re
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import interlace as il
from helpers import build, clustered, hand_made, small_index
from interlace.files import storage, versions
from interlace.files.versions import FORMAT, VERSION
from raising import raises

DTYPES = [np.uint8, np.uint32, np.uint64, np.int32, np.int64, np.float32]
SHAPES = st.lists(st.integers(0, 5), min_size=1, max_size=3)


def header_of(data: bytes) -> dict[str, Any]:
    return json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])


def sealed(header: dict[str, Any], data: bytes) -> bytes:
    """A file with this header and a right checksum over it, as somebody else might write it."""
    header["__metadata__"]["header_crc32"] = "00000000"
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % 64)
    length = len(text).to_bytes(8, "little")
    checksum = f"{zlib.crc32(text, zlib.crc32(length)):08x}"
    return length + text.replace(b'"header_crc32":"00000000"', f'"header_crc32":"{checksum}"'.encode()) + data


@pytest.fixture(scope="module")
def whole() -> bytes:
    """A small index file with every kind of section but norms: cross floors, string ids and a calibration."""
    index = small_index(ids="string", n=7, cross=True)
    index.calibrate(clustered(400, 4, seed=1), threads=1)
    return saved(index)


def saved(index: il.Index) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        index.save(Path(folder) / "i")
        return (Path(folder) / "i").read_bytes()


# --- sections ---------------------------------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(DTYPES), SHAPES), max_size=5), st.integers(0, 2**32))
def test_arrays_come_back_aligned_and_unchanged(tmp_path_factory, kinds: list[Any], seed: int) -> None:
    rng = np.random.default_rng(seed)
    arrays = {f"part.{i}": rng.integers(0, 100, shape).astype(dtype) for i, (dtype, shape) in enumerate(kinds)}
    path = tmp_path_factory.mktemp("s") / "f"
    storage.write(path, arrays, {"kind": "test", "text": 'a "quoted" 日本 \\'})
    file = storage.read(path)
    file.verify()
    assert file.names == list(arrays)
    assert file.meta == {"kind": "test", "text": 'a "quoted" 日本 \\'}
    for name, array in arrays.items():
        found = file.array(name)
        assert found.dtype == array.dtype
        assert found.ctypes.data % 64 == 0 or found.size == 0
        assert not found.flags.writeable
        np.testing.assert_array_equal(found, array)


def test_every_section_starts_at_a_multiple_of_64_bytes(whole: bytes) -> None:
    header = header_of(whole)
    start = 8 + int.from_bytes(whole[:8], "little")
    assert start % 64 == 0
    entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
    assert len(entries) > 15
    for name, entry in entries.items():
        if not name.startswith(".pad."):
            assert (start + entry["data_offsets"][0]) % 64 == 0, name
    assert len(whole) == start + max(entry["data_offsets"][1] for entry in entries.values())


@pytest.mark.parametrize("layout", ["subspace", "residual", "hybrid"])
@pytest.mark.parametrize("ids", ["default", "int64", "string"])
def test_the_official_safetensors_reader_sees_the_same_values(layout: str, ids: str, tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors")
    index = build(layout=layout, ids=ids)
    index.save(tmp_path / "i.safetensors")
    ours = storage.read(tmp_path / "i.safetensors")
    with safetensors.safe_open(tmp_path / "i.safetensors", "numpy") as theirs:
        assert {n for n in theirs.keys() if not n.startswith(".pad.")} == set(ours.names)  # noqa: SIM118
        for name in ours.names:
            found = theirs.get_tensor(name)
            assert found.dtype == ours.array(name).dtype
            np.testing.assert_array_equal(found, ours.array(name))
        assert all(not theirs.get_tensor(n).any() for n in theirs.keys() if n.startswith(".pad."))  # noqa: SIM118
        assert theirs.metadata()["format"] == FORMAT


def test_the_same_index_is_the_same_bytes(tmp_path: Path) -> None:
    assert saved(build(ids="string", seed=3)) == saved(build(ids="string", seed=3))
    assert saved(build(seed=3)) != saved(build(seed=4))
    index = build(ids="int64")
    index.save(tmp_path / "i")
    il.open(tmp_path / "i").save(tmp_path / "j")
    assert (tmp_path / "i").read_bytes() == (tmp_path / "j").read_bytes()


def test_no_section_of_another_kind_can_be_asked_for(tmp_path: Path) -> None:
    storage.write(tmp_path / "f", {"a": np.zeros(3, np.uint8)}, {"kind": "test"})
    file = storage.read(tmp_path / "f")
    with raises(il.DamagedFileError, "f'", "'b'"):
        file.array("b")
    with raises(il.NotAnIndexError, "f'", "'test'"):
        file.description("codebooks")


# --- damage -----------------------------------------------------------------------------------------------------------


def test_a_file_cut_at_any_length_is_named(whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "cut"
    header = 8 + int.from_bytes(whole[:8], "little")
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(il.FileError) as caught:
            il.open(path)
        assert repr(str(path)) in str(caught.value)
        if length == 0:
            assert "is empty" in str(caught.value)
        elif length > 8:
            expected = f"is truncated: {length} bytes, "
            expected += f"its header alone needs {header}" if length < header else f"{len(whole)} expected"
            assert isinstance(caught.value, il.DamagedFileError)
            assert expected in str(caught.value)


@pytest.mark.parametrize("more", [b"\0", b"\n", b"x" * 64])
def test_a_file_with_more_at_its_end_is_named(whole: bytes, more: bytes, tmp_path: Path) -> None:
    (tmp_path / "long").write_bytes(whole + more)
    expected = f"longer than it should be: {len(whole + more)} bytes, {len(whole)} expected"
    with pytest.raises(il.DamagedFileError, match=expected):
        il.open(tmp_path / "long")


def test_every_flipped_bit_is_detected_at_open_or_by_verify(whole: bytes, tmp_path: Path) -> None:
    """All bits of the file; and before anybody verifies, a damaged section gives answers or our errors, no crash."""
    path = tmp_path / "flipped"
    path.write_bytes(whole)
    il.open(path).verify()
    start = 8 + int.from_bytes(whole[:8], "little")
    q = clustered(1, 4, seed=9)[0]
    at_open = by_verify = 0
    with path.open("r+b", buffering=0) as file:
        for position, byte in enumerate(whole):
            for bit in range(8):
                file.seek(position)
                file.write(bytes([byte ^ 1 << bit]))
                try:
                    index = il.open(path)
                except il.FileError:
                    at_open += 1
                    continue
                assert position >= start, f"bit {bit} of byte {position} of the header was not noticed"
                with pytest.raises(il.DamagedFileError, match=r"section '\w+\.[\w.]+' does not match its checksum"):
                    index.verify()
                by_verify += 1
                for use in (lambda i: i.search(q, 3, threads=1), lambda i: i.reconstruct(i.ids)):
                    with contextlib.suppress(il.InterlaceError):
                        use(index)
            file.seek(position)
            file.write(bytes([byte]))
    assert at_open + by_verify == 8 * len(whole)
    assert at_open > 8 * start
    assert by_verify > 8 * 64 * 5
    il.open(path).verify()


def test_codebooks_files_are_checked_whole_when_loaded(tmp_path: Path) -> None:
    path = tmp_path / "c"
    hand_made(norms=True).save(path)
    data = path.read_bytes()
    for position in range(0, len(data), 7):
        path.write_bytes(data[:position] + bytes([data[position] ^ 16]) + data[position + 1 :])
        with pytest.raises(il.FileError):
            il.Codebooks.load(path)


def test_damage_is_told_from_a_file_of_another_kind(whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "i"
    at = whole.index(b'"segment.low"')
    path.write_bytes(whole[:at] + b"#" + whole[at + 1 :])
    with pytest.raises(il.DamagedFileError, match="is damaged: its header cannot be read"):
        il.open(path)
    at = whole.index(f'"version":"{VERSION}"'.encode()) + len(b'"version":"')
    path.write_bytes(whole[:at] + b"3" + whole[at + 1 :])  # one flipped bit must not send people to look for an upgrade
    with pytest.raises(il.DamagedFileError, match="is damaged: its header does not match its checksum"):
        il.open(path)


# --- files of others --------------------------------------------------------------------------------------------------


def npy() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.zeros((3, 4), np.float32))
    return buffer.getvalue()


def npz(save: Callable[..., None]) -> bytes:
    buffer = io.BytesIO()
    save(buffer, x=np.zeros((3, 4), np.float32))
    return buffer.getvalue()


def safetensors(metadata: dict[str, str] | None) -> bytes:
    header: dict[str, Any] = {"x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}
    header |= {} if metadata is None else {"__metadata__": metadata}
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(4)


LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 123456\n"
FOREIGN = {
    "empty": (b"", "empty"),
    "git-lfs": (LFS, "not an interlace file but a git-lfs pointer; run `git lfs pull` to fetch the file itself"),
    "npy": (npy(), r"not an interlace file but a NumPy .npy array"),
    "npz": (npz(np.savez), r"not an interlace file but a zip archive \(.npz\?\)"),
    "npz compressed": (npz(np.savez_compressed), r"not an interlace file but a zip archive \(.npz\?\)"),
    **{f"pickle {p}": (pickle.dumps({"a": 1}, p), "not an interlace file but a pickle") for p in range(2, 6)},
    "pickle 0": (pickle.dumps({"a": 1}, 0), "not an interlace file"),
    "faiss": (b"IxF2" + bytes(60), "not an interlace file but a faiss index"),
    "faiss ivf": (b"IwPQ" + bytes(60), "not an interlace file but a faiss index"),
    "hdf5": (b"\x89HDF\r\n\x1a\n" + bytes(60), "not an interlace file but an HDF5 file"),
    "parquet": (b"PAR1" + bytes(60), "not an interlace file but a parquet file"),
    "gzip": (b"\x1f\x8b\x08" + bytes(60), "not an interlace file but a gzip file"),
    "safetensors": (safetensors(None), "not an interlace file"),
    "safetensors pt": (safetensors({"format": "pt"}), "a safetensors file, but not one of interlace"),
    "zeros": (bytes(4096), "not an interlace file"),
    "one byte": (b"\0", "not an interlace file"),
    "text": (b"id,vector\n1,0.5\n" * 50, "not an interlace file"),
    "json": (b'{"x": [1, 2, 3]}', "not an interlace file"),
    "noise": (np.random.default_rng(0).bytes(4096), "not an interlace file"),
    "json list": ((2).to_bytes(8, "little") + b"{}", "not an interlace file"),
    "deep json": ((90_000).to_bytes(8, "little") + b'{"a":' * 18_000, "not an interlace file"),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_file_of_another_kind_is_named(name: str, tmp_path: Path) -> None:
    data, message = FOREIGN[name]
    path = tmp_path / "foreign"
    path.write_bytes(data)
    for read in (il.open, il.Codebooks.load):
        with pytest.raises(il.NotAnIndexError, match=f"{re.escape(repr(str(path)))} .*{message}"):
            read(path)


def test_an_index_written_by_faiss(tmp_path: Path) -> None:
    faiss = pytest.importorskip("faiss")
    x = clustered(300, 8)
    for factory in ("Flat", "PQ2x4", "IVF4,Flat", "PCA4,PQ2x4", "HNSW8"):
        index = faiss.index_factory(8, factory)
        index.train(x)
        index.add(x)
        faiss.write_index(index, str(tmp_path / "f"))
        with raises(il.NotAnIndexError, "faiss", "index"):
            il.open(tmp_path / "f")


def test_a_directory_and_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(il.NotAnIndexError, match="is a directory, but not a store"):
        il.open(tmp_path)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        il.open(tmp_path / "nowhere")


def test_codebooks_are_no_index_but_an_index_has_codebooks(tmp_path: Path) -> None:
    hand_made().save(tmp_path / "c")
    with raises(il.NotAnIndexError, "c'", "'codebooks'", "Codebooks.load(path)"):
        il.open(tmp_path / "c")
    storage.write(tmp_path / "l", {"a": np.zeros(1, np.float32)}, {"kind": ["index"]})
    with raises(il.NotAnIndexError, "l'", "['index']"):
        il.open(tmp_path / "l")
    small_index().save(tmp_path / "i")
    assert il.Codebooks.load(tmp_path / "i") == hand_made()


@pytest.mark.parametrize(
    ("metadata", "error", "what"),
    [
        ({"version": str(VERSION + 1)}, il.NewerFormatError, "install a newer one"),
        ({"version": "0"}, il.DamagedFileError, "version 0"),
        ({"format": "interlace"}, il.OlderFormatError, "written by interlace 0.2 or earlier"),
    ],
)
def test_files_of_other_versions_are_refused(
    whole: bytes, tmp_path: Path, metadata: dict[str, str], error: type[il.FileError], what: str
) -> None:
    header = header_of(whole)
    header["__metadata__"] |= metadata | {"interlace": "whatever another version writes here"}
    (tmp_path / "i").write_bytes(sealed(header, whole[8 + int.from_bytes(whole[:8], "little") :]))
    with raises(error, str(tmp_path / "i"), what):
        il.open(tmp_path / "i")


def test_an_older_version_of_the_same_format_is_refused(
    whole: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "i").write_bytes(whole)
    monkeypatch.setattr(versions, "VERSION", VERSION + 1)
    with raises(il.OlderFormatError, f"format version {VERSION}", f"reads version {VERSION + 1}", "build it again"):
        il.open(tmp_path / "i")


# --- headers that lie: the checksum is right, what it covers is not ---------------------------------------------------


def lies(whole: bytes) -> dict[str, Callable[[dict[str, Any], dict[str, Any]], None]]:
    """Changes to the header and to the description in it."""

    def entry(name: str, **change: Any) -> Callable[[dict[str, Any], dict[str, Any]], None]:
        return lambda header, meta: header[name].update(change)

    def described(*keys: Any, value: Any) -> Callable[[dict[str, Any], dict[str, Any]], None]:
        def change(header: dict[str, Any], meta: dict[str, Any]) -> None:
            for key in keys[:-1]:
                meta = meta[key]
            meta[keys[-1]] = value

        return change

    def without(name: str) -> Callable[[dict[str, Any], dict[str, Any]], None]:
        def change(header: dict[str, Any], meta: dict[str, Any]) -> None:
            del meta["checksums"][name]

        return change

    def renamed(old: str, new: str) -> Callable[[dict[str, Any], dict[str, Any]], None]:
        def change(header: dict[str, Any], meta: dict[str, Any]) -> None:
            entries = [(n.replace(old, new), e) for n, e in header.items()]
            header.clear()
            header.update(entries)
            meta["checksums"] = {n.replace(old, new): c for n, c in meta["checksums"].items()}

        return change

    sections = [name for name in header_of(whole) if name not in ("__metadata__",) and not name.startswith(".pad.")]
    return {
        **{f"{s} reshaped": entry(s, shape=[2**32, 2**32]) for s in sections},
        **{f"{s} of dtype U8": entry(s, dtype="U8") for s in ("codebooks.words.0", "segment.low", "ids.offsets")},
        # Older files have no strays: their calibration is read, and not used.
        **{f"{s} renamed": renamed(s, f"{s[:-1]}_") for s in sections if s != "calibration.strays"},
        **{f"{s} unchecked": without(s) for s in sections},
        "dtype unknown": entry("segment.low", dtype="F64"),
        "dtype a list": entry("segment.low", dtype=["U64"]),
        "negative shape": entry("segment.low", shape=[-1, -2]),
        "fractional shape": entry("segment.low", shape=[2.0]),
        "no shape": entry("segment.low", shape=None),
        "bool shape": entry("codebooks.crude_dims", shape=[False]),
        "offsets overlap": entry("segment.low", data_offsets=[0, 16]),
        "offsets beyond the file": entry("segment.low", data_offsets=[2**40, 2**40 + 16]),
        "three offsets": entry("segment.low", data_offsets=[0, 16, 32]),
        "no description": lambda header, meta: meta.pop("description") and None,
        "a description of text": lambda header, meta: meta.update(description="index"),
        "no checksums": lambda header, meta: meta.pop("checksums") and None,
        "checksums of text": lambda header, meta: meta.update(checksums="none"),
        "another number of rows": described("description", "n", value=8),
        "no number of rows": described("description", "n", value=None),
        "another kind of ids": described("description", "ids", value="int64"),
        "no codebooks": described("description", "codebooks", value=None),
        "another dimension": described("description", "codebooks", "dim", value=5),
        "a fractional dimension": described("description", "codebooks", "dim", value=4.5),
        "another metric": described("description", "codebooks", "metric", value="hamming"),
        "more books": described("description", "codebooks", "n_books", value=4),
        "fewer books": described("description", "codebooks", "n_books", value=2),
        "too many crude books": described("description", "codebooks", "n_crude", value=4),
        "fewer crude books": described("description", "codebooks", "n_crude", value=1),
        "a norm without values": described("description", "codebooks", "norms", value=[{"covers": [1], "crude": True}]),
        "norms of text": described("description", "codebooks", "norms", value="x"),
        "a beam of zero": described("description", "codebooks", "beam", value=0),
        "calibration of text": described("description", "calibration", value="x"),
        "calibration without n": described("description", "calibration", value={}),
        "calibration without reach": described("description", "calibration", value={"n": 7, "least": 0.0}),
        "sweeps of text": described("description", "codebooks", "sweeps", value="x"),
        "version of nothing": lambda header, meta: header["__metadata__"].update(version="0"),
        "version of text": lambda header, meta: header["__metadata__"].update(version="one"),
        "no version": lambda header, meta: header["__metadata__"].pop("version") and None,
    }


def test_a_header_that_lies_is_damage_and_never_another_error(whole: bytes, tmp_path: Path) -> None:
    data = whole[8 + int.from_bytes(whole[:8], "little") :]
    for name, change in lies(whole).items():
        header = header_of(whole)
        meta = json.loads(header["__metadata__"]["interlace"])
        change(header, meta)
        header["__metadata__"]["interlace"] = json.dumps(meta)
        (tmp_path / "i").write_bytes(sealed(header, data))
        try:
            il.open(tmp_path / "i").verify()
        except il.FileError as error:
            caught = error
        else:
            pytest.fail(f"{name} was not noticed")
        assert not isinstance(caught, il.NewerFormatError), name


def test_sections_that_lie_are_found_by_verify(whole: bytes, tmp_path: Path) -> None:
    """Every checksum is right, so only the invariants can tell."""
    start = 8 + int.from_bytes(whole[:8], "little")

    def rewritten(section: str, change: Callable[[np.ndarray], None]) -> bytes:
        header, data = header_of(whole), bytearray(whole[start:])
        meta = json.loads(header["__metadata__"]["interlace"])
        begin, end = header[section]["data_offsets"]
        dtype = {"U8": np.uint8, "U32": np.uint32, "U64": np.uint64, "I32": np.int32}[header[section]["dtype"]]
        change(np.frombuffer(data, dtype, (end - begin) // np.dtype(dtype).itemsize, begin))
        padding = header.get(f".pad.{section}", {"data_offsets": [end, end]})["data_offsets"][1]
        meta["checksums"][section] = f"{zlib.crc32(data[begin:padding]):08x}"
        header["__metadata__"]["interlace"] = json.dumps(meta)
        return sealed(header, bytes(data))

    def put(position: Any, value: int) -> Callable[[np.ndarray], None]:
        def change(section: np.ndarray) -> None:
            section[position] = value

        return change

    for section, change, message in [
        ("segment.rest", put(0, 3), "a code names a word that its book does not have"),
        ("segment.crude", put(0, 200), "a code names a word that its book does not have"),
        ("segment.crude", put(63, 1), "its rows do not pack to the bytes stored"),
        ("segment.cross_floors", put(1, 2**31 - 1), "its rows do not pack to the bytes stored"),
        ("segment.cross_floors", put(slice(None), -(2**31)), "its rows do not pack to the bytes stored"),
        ("segment.high", put(slice(None), 0), "row numbers are damaged"),
        ("segment.high", put(0, 2**63), "damaged"),
        ("segment.low", put(slice(None), 2**64 - 1), "damaged"),
        ("segment.samples", put(0, 2**32 - 1), "damaged"),
        ("segment.cell_starts", put(1, 2**64 - 1), "damaged"),
        ("segment.cell_starts", put(0, 1), "damaged"),
        ("ids.text", put(slice(None), 0xFF), "is not text"),
        ("ids.offsets", put(3, 2**63), "damaged"),
        ("ids.order", put(0, 2**32 - 1), "damaged"),
        ("ids.order", put(slice(None), 0), "ids and their sorted section disagree|wrong hash"),
        ("ids.sorted", put(slice(None), 0), "ids and their sorted section disagree|wrong hash"),
        ("ids.offsets", put(slice(1, None), 0), "ids and their sorted section disagree|wrong hash"),
    ]:
        (tmp_path / "i").write_bytes(rewritten(section, change))
        with pytest.raises(il.DamagedFileError, match=message):
            il.open(tmp_path / "i").verify()
        # Used without verifying, it answers or says so.
        with contextlib.suppress(il.InterlaceError):
            index = il.open(tmp_path / "i")
            index.search(clustered(3, 4), 5, threads=1)
            index.reconstruct(index.ids)
            index.add(clustered(9, 4), [f"new {i}" for i in range(9)], threads=1)
