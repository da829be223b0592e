"""Files of a store that are damaged, missing, foreign or of another version: named for what they are."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_helpers import BOOKS, check, files_of, filled, vectors

import interlace as il
from interlace.files.versions import VERSION
from interlace.index.ids import RunIds
from interlace.store import manifest as manifests
from interlace.store import verify
from interlace.store.manifest import Entry, Manifest

KINDS = ("int64", "string", "rich", "empty")  # of ids; one with columns and originals, one without codebooks


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    opened, model = filled(
        tmp_path / "s", kind=request.param, rich=request.param == "rich", books=request.param != "empty"
    )
    check(opened, model)
    opened.close()
    names = files_of(tmp_path / "s")
    assert any(n.startswith("removed") for n in names)
    assert sum(n.startswith("segment") for n in names) >= 2
    return tmp_path / "s"


def changed(store: Path, change: Any) -> None:
    """Rewrite the manifest with a sound checksum."""
    path = store / manifests.NAME
    content = json.loads(path.read_text())
    change(content)
    text = json.dumps({**content, "crc32": "0" * 8}, separators=(",", ":")).encode() + b"\n"
    crc = f"{zlib.crc32(text):08x}".encode()
    path.write_bytes(text.replace(b'"crc32":"00000000"', b'"crc32":"' + crc + b'"'))


def refused(store: Path, match: str, kind: type[Exception] = il.DamagedFileError) -> None:
    """By readers, writers, and whoever verifies; the writer lets its lock go."""
    for act in (lambda: il.open(store), lambda: il.open(store, mode="a"), lambda: verify(str(store))):
        with pytest.raises(kind, match=match):
            act()


def test_it_is_sound_at_first(store: Path) -> None:
    found = verify(str(store))
    assert found.files == len(files_of(store))
    assert found.n_bytes == sum((store / name).stat().st_size for name in files_of(store))


def test_every_flipped_bit_is_noticed(store: Path) -> None:
    """Of each file: the first bytes, the last ones, and a few hundred between."""
    rng = np.random.default_rng(0)
    for name in files_of(store):
        path = store / name
        data = path.read_bytes()
        places = {*range(0, 60), *range(len(data) - 20, len(data)), *rng.integers(0, len(data), 60).tolist()}
        log_end = _last_record(store, data) if name.endswith(".log") else len(data)
        for at in sorted(p for p in places if 0 <= p < log_end):
            path.write_bytes(data[:at] + bytes([data[at] ^ 1 << int(rng.integers(8))]) + data[at + 1 :])
            with pytest.raises(il.FileError):
                verify(str(store))
        path.write_bytes(data)
    verify(str(store))


def _last_record(store: Path, data: bytes) -> int:
    """Where the last record of a log begins: damage there looks like a write that was cut short (test_store_log)."""
    return data.rindex(b"ILr1")


def test_every_truncation_is_noticed(store: Path) -> None:
    for name in files_of(store):
        if name.endswith(".log"):
            continue  # test_store_log
        path = store / name
        data = path.read_bytes()
        for size in (0, 1, 8, 30, len(data) // 2, len(data) - 1):
            path.write_bytes(data[:size])
            with pytest.raises(il.FileError):
                verify(str(store))
        path.write_bytes(data + b"\0")
        if not name.endswith(".log"):
            with pytest.raises(il.FileError):
                verify(str(store))
        path.write_bytes(data)


def test_every_missing_file_is_named(store: Path) -> None:
    for name in files_of(store):
        data = (store / name).read_bytes()
        (store / name).unlink()
        if name == manifests.NAME:
            refused(store, "it has no MANIFEST.json", il.NotAnIndexError)
        else:
            refused(store, f"its manifest names '{name}'")
        (store / name).write_bytes(data)
    il.open(store, mode="a").close()


def test_foreign_files_are_noticed(store: Path, tmp_path: Path) -> None:
    """Of the very same kind, with the same codebooks, from another store."""
    empty = il.open(store).snapshot.collecting
    other, _ = filled(tmp_path / "t", rich=any(n.startswith("payload") for n in files_of(store)), books=not empty)
    other.close()
    for name in files_of(store):
        if name == manifests.NAME:
            continue
        data = (store / name).read_bytes()
        shutil.copy(tmp_path / "t" / name, store / name)
        refused(store, f"{name}' belongs to another store")
        (store / name).write_bytes(data)


def test_a_file_in_the_place_of_another(store: Path) -> None:
    segments = [n for n in files_of(store) if n.startswith("segment")]
    books = next(n for n in files_of(store) if n.startswith("books"))
    data = (store / segments[0]).read_bytes()
    shutil.copy(store / books, store / segments[0])
    refused(store, "'index', expected 'segment'")
    shutil.copy(store / segments[1], store / segments[0])
    refused(store, "rows, but the manifest says")
    (store / segments[0]).write_bytes(data)


ESCAPES = (
    "../segment-1.interlace",
    "/etc/passwd",
    "segment-1.interlace/..",
    "segment-1.interlace\0",
    "segment-1.interlace\n",
    "sub/segment-1.interlace",
    "..",
    "",
    "segment-01.interlace",
    "log-1.log",
    "SEGMENT-1.interlace",
    17,
    None,
)


@pytest.mark.parametrize("name", ESCAPES, ids=repr)
def test_no_name_leads_out_of_the_folder(store: Path, name: Any) -> None:
    changed(store, lambda c: c["manifest"]["segments"][0].update(file=name))
    refused(store, "damaged: file is ")


@pytest.mark.parametrize("key", ["books", "log"])
def test_nor_one_of_another_role(store: Path, key: str) -> None:
    changed(store, lambda c: c["manifest"].update({key: "../books-1.interlace"}))
    refused(store, f"damaged: {key} is '../books-1.interlace'")


CHANGES = {
    "generation": (lambda m: m.update(generation=0), "generation is 0"),
    "boolean": (lambda m: m.update(generation=True), "generation is True"),
    "rows": (lambda m: m["segments"][0].update(rows=2**40), "rows is"),
    "more removed": (lambda m: m["segments"][0].update(removed=10**6), "removed"),
    "kind": (lambda m: m.update(ids="uuid"), "ids of kind 'uuid'"),
    "mark": (lambda m: m.update(store="x"), "store is 'x'"),
    "twice": (lambda m: m["segments"].append(m["segments"][0]), "file twice"),
    "no log": (lambda m: m.pop("log"), "'log'"),
    "a list": (lambda m: m.update(segments=7), "int"),
    "columns": (lambda m: m.update(columns=7, originals=None), "columns is 7|payload_file|originals_file"),
    "originals": (lambda m: m.update(originals="float8"), "originals is 'float8'"),
    "no payload": (lambda m: m.update(columns="AAAA") or m["segments"][0].pop("payload_file", None), "payload_file"),
    "other kind": (lambda m: m.update(ids="string" if m["ids"] == "int64" else "int64"), "ids, but its store"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_manifest_that_makes_no_sense(store: Path, name: str) -> None:
    change, match = CHANGES[name]
    changed(store, lambda content: change(content["manifest"]))
    refused(store, match)


PLANS = {
    "codes without books": ({"learned": 60}, "originals is 'float32'"),
    "relearn": ({"relearn": "never"}, "relearn is 'never'"),
    "rows": ({"learn_at": 0}, "learn_at is 0"),
    "learned": ({"learned": -1}, "learned is -1"),
    "learned by half": ({"learned": 0.5}, "learned is 0.5"),
    "originals": ({"originals": "float32"}, "originals after learning are 'float32'"),
    "setting": ({"settings": {"n_bytes": 4000}}, "n_bytes must be at most"),
    "no setting": ({"settings": {"speed": 3}}, "speed"),
    "settings": ({"settings": 3}, "int"),
}


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_that_makes_no_sense(tmp_path: Path, name: str) -> None:
    change, match = PLANS[name]
    filled(tmp_path / "s", books=False)[0].close()
    changed(tmp_path / "s", lambda content: content["manifest"]["learning"].update(change))
    refused(tmp_path / "s", match)


def test_vectors_belong_to_a_store_without_books(tmp_path: Path) -> None:
    filled(tmp_path / "s", rich=True)[0].close()
    changed(tmp_path / "s", lambda content: content["manifest"].update(originals="float32"))
    refused(tmp_path / "s", "originals is 'float32'")


def test_versions(store: Path) -> None:
    changed(store, lambda content: content.update(version=99))
    refused(store, f"format version 99, and this interlace reads version {VERSION}", il.NewerFormatError)
    for version in (0, "1", None, True):
        changed(store, lambda content, version=version: content.update(version=version))
        refused(store, f"version {version!r}")


def test_other_directories(tmp_path: Path) -> None:
    refused(tmp_path, "a directory, but not a store", il.NotAnIndexError)
    assert not list(tmp_path.iterdir())  # no lock is left where there is no store
    (tmp_path / manifests.NAME).write_text('{"name": "a page", "start_url": "/"}')
    refused(tmp_path, "not the manifest of a store", il.NotAnIndexError)
    with pytest.raises(FileNotFoundError):
        il.open(tmp_path / "nothing")
    with pytest.raises(il.NotAnIndexError, match="directory"):
        il.Index.open(tmp_path)


def test_an_id_in_two_segments_is_damage(tmp_path: Path) -> None:
    """Which no reader notices without reading everything, and verify does."""
    store = il.create(tmp_path / "s", BOOKS)
    first = store.add(vectors(20_000))
    store.remove(first[5])
    store.compact()
    store.add(vectors(1), first[5:6])
    store.compact()
    assert store.generation > 2
    store.close()
    part = il.open(tmp_path / "s").snapshot.rows.parts[0]
    part.verify(BOOKS)
    twice = RunIds(20_000, {"run_starts": np.array([0, 5]), "run_rows": np.array([0, 10_000], np.uint32)})
    with pytest.raises(il.DamagedFileError, match="sorted section disagree"):
        dataclasses.replace(part, ids=twice).verify(BOOKS)


@given(st.binary(max_size=300))
def test_any_bytes_are_no_manifest(data: bytes) -> None:
    for text in (data, b'{"format":"interlace store",' + data):
        with pytest.raises(il.FileError):
            manifests.from_bytes(text, "here")


NAMES = st.integers(1, 10**9)


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.integers(2, 2**32 - 1), st.booleans()), max_size=5), st.sampled_from(["", "int64", "string"])
)
def test_a_manifest_comes_back(rows: list[tuple[int, bool]], kind: str) -> None:
    entries = tuple(
        Entry(f"segment-{i + 1}.interlace", n, 1 if dead else 0, f"removed-{i + 1}.interlace" if dead else None)
        for i, (n, dead) in enumerate(rows)
    )
    made = Manifest(3, "books-7.interlace", "ab" * 16, entries, "log-9.log", kind, 2**63, 12)
    text = manifests.to_bytes(made)
    assert manifests.from_bytes(text, "here") == made
    assert json.loads(text)["manifest"]["generation"] == 3
    for at in range(len(text)):
        with pytest.raises(il.FileError):
            manifests.from_bytes(text[:at] + bytes([text[at] ^ 1]) + text[at + 1 :], "here")


def test_messages_name_the_place(store: Path) -> None:
    path = store / next(n for n in files_of(store) if n.startswith("segment"))
    data = bytearray(path.read_bytes())
    data[-70] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(il.DamagedFileError, match=re.escape(path.name)):
        verify(str(store))


@pytest.mark.parametrize("role", ["payload", "originals"])
def test_damaged_data_is_not_rewritten(tmp_path: Path, role: str) -> None:
    """A flipped bit of a value, which looks like any other, is found before compaction gives it a new checksum."""
    store, _ = filled(tmp_path / "s", rich=True)
    store.close()
    path = max((tmp_path / "s").glob(f"{role}-*"), key=lambda p: p.stat().st_size)
    data = bytearray(path.read_bytes())
    at = data.index("é".encode()) if role == "payload" else len(data) - 70
    data[at + 1] ^= 1
    path.write_bytes(bytes(data))
    with il.open(tmp_path / "s", mode="a") as again:
        generation = again.generation
        with pytest.raises(il.FileError, match="does not match its checksum"):
            again.compact()
        assert again.generation == generation
    assert path.exists()
