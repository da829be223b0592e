"""Backups and files at URLs: whole or not at all, checked, and read from a cache."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import interlace as il
from helpers import build, clustered
from interlace.files import remote
from raising import raises

fsspec = pytest.importorskip("fsspec", reason="the remote extra is not installed")
X = clustered(300, 6)


@pytest.fixture(autouse=True)
def places(tmp_path, monkeypatch):
    """An empty cache, and a file system in memory that is empty too."""
    monkeypatch.setenv("INTERLACE_CACHE", str(tmp_path / "cache"))
    memory = fsspec.filesystem("memory")
    memory.store.clear()
    memory.pseudo_dirs[:] = [""]
    return memory


@pytest.fixture
def store(tmp_path):
    made = il.create(tmp_path / "store", build(200, 6), columns={"n": "int64"}, payload={"n": np.arange(200)})
    made.remove([3, 5])
    made.add(X[200:210], payload={"n": np.arange(200, 210)})
    yield made
    made.close()


def assert_same(a, b) -> None:
    found, expected = a.search(X[:20], k=5), b.search(X[:20], k=5)
    assert_array_equal(found.ids, expected.ids)
    assert_array_equal(found.distances, expected.distances)


# --- bytes


@pytest.mark.parametrize("ids", ["default", "string"])
def test_an_index_as_bytes_is_its_file(tmp_path, ids):
    index = build(80, 6, ids=ids)
    index.save(tmp_path / "i")
    data = index.to_bytes()
    assert data == (tmp_path / "i").read_bytes()
    for given in (data, bytearray(data), memoryview(data)):
        assert_same(il.Index.from_bytes(given), index)
    with raises(il.DamagedFileError):
        il.Index.from_bytes(data[:-1])
    with raises(il.NotAnIndexError):
        il.Index.from_bytes(b"something else, of some length, that is no index")
    with raises(il.InputError, "data", "str"):
        il.Index.from_bytes("text")


# --- backups


@pytest.mark.parametrize("target", ["{tmp}/copy", "file://{tmp}/copy", "memory://bucket/deep/copy"])
def test_a_backup_restores_the_store(store, tmp_path, target):
    target = target.format(tmp=tmp_path)
    store.backup(target)
    store.remove([7])  # after the backup
    back = il.restore(target, tmp_path / "back")
    assert back.mode == "a"
    assert 7 in back
    assert 3 not in back
    assert len(back) == 208
    back.remove([7])
    assert_same(back, store)
    assert back.payload([209]).column("n").to_pylist() == [209]
    back.close()
    assert il.store.verify(str(tmp_path / "back"))


def test_a_backup_opens_for_reading_at_its_url(store):
    store.backup("memory://bucket/copy")
    opened = il.open("memory://bucket/copy")
    assert isinstance(opened, il.Store)
    assert opened.mode == "r"
    assert_same(opened, store)
    with raises(il.InputError, "mode", "restore"):
        il.open("memory://bucket/copy", mode="a")


def test_what_is_no_place_for_a_backup(store, tmp_path):
    store.backup(tmp_path / "copy")
    with raises(il.InputError, "backup"):
        store.backup(tmp_path / "copy")
    with raises(il.InputError, "itself"):
        store.backup(store.path)
    with raises(il.InputError, "empty"):
        il.restore(tmp_path / "copy", tmp_path)
    with raises(il.InputError, "local", "memory"):
        il.restore(tmp_path / "copy", "memory://bucket/copy")
    with raises(il.StoreError, "BACKUP.json"):
        il.restore(tmp_path / "nothing", tmp_path / "back")
    with raises(il.StoreError, "reading"):
        il.open(store.path).backup(tmp_path / "other")
    assert not (tmp_path / "back").exists()


def test_a_changed_missing_or_cut_file_of_a_backup(store, tmp_path):
    store.backup(tmp_path / "copy")
    (segment,) = (tmp_path / "copy").glob("segment-*")
    data = segment.read_bytes()
    for changed in (data[:-1] + bytes([data[-1] ^ 1]), data[: len(data) // 2], data + b"x"):
        segment.write_bytes(changed)
        with raises(il.DamagedFileError, segment.name):
            il.restore(tmp_path / "copy", tmp_path / "back")
    segment.unlink()
    with raises(il.StoreError, segment.name if os.name == "nt" else "restored"):
        il.restore(tmp_path / "copy", tmp_path / "back")
    assert [path.name for path in tmp_path.iterdir() if "back" in path.name] == []


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda listed: "{", il.DamagedFileError),
        (lambda listed: "[]", il.DamagedFileError),
        (lambda listed: json.dumps(listed | {"version": 9}), il.NewerFormatError),
        (lambda listed: json.dumps(listed | {"files": []}), il.DamagedFileError),
        (
            lambda listed: json.dumps(listed | {"files": [*listed["files"], listed["files"][0] | {"name": "../x"}]}),
            il.DamagedFileError,
        ),
    ],
)
def test_a_damaged_list(store, tmp_path, change, error):
    store.backup(tmp_path / "copy")
    path = tmp_path / "copy" / "BACKUP.json"
    path.write_text(change(json.loads(path.read_text())))
    with raises(error, "BACKUP.json"):
        il.restore(tmp_path / "copy", tmp_path / "back")
    assert not (tmp_path / "back").exists()


# --- files at URLs


def downloads(tmp_path) -> list[Path]:
    return [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


def test_an_index_at_a_url_is_downloaded_once_and_again_when_it_changes(places, tmp_path, monkeypatch):
    first, second = build(60, 6), build(90, 6, seed=1)
    places.pipe("/bucket/my.interlace", first.to_bytes())
    assert_same(il.open("memory://bucket/my.interlace"), first)
    assert len(downloads(tmp_path)) == 1
    with monkeypatch.context() as patch:
        patch.setattr(remote, "fetch", lambda *_: pytest.fail("it was in the cache"))
        opened = il.open("memory://bucket/my.interlace")
    assert opened.file.path.startswith(str(tmp_path / "cache"))
    places.pipe("/bucket/my.interlace", second.to_bytes())
    assert_same(il.open("memory://bucket/my.interlace"), second)
    assert_same(opened, first)


def test_a_file_url_is_opened_in_place(tmp_path):
    index = build(60, 6)
    (tmp_path / "a b").mkdir()
    index.save(tmp_path / "a b" / "i")
    assert_same(il.open(f"file://{tmp_path}/a%20b/i"), index)
    assert downloads(tmp_path) == []
    with raises(il.InputError, "absolute"):
        il.open("file://relative/i")


def test_missing_forbidden_and_unknown(places, monkeypatch):
    with raises(il.RemoteError, "memory://bucket/none") as caught:
        il.open("memory://bucket/none")
    assert caught.value.errno == errno.ENOENT
    with raises(il.InputError, "nonsense"):
        il.open("nonsense://bucket/name")

    places.pipe("/bucket/i", build(60, 6).to_bytes())

    def refuse(*args: object, **more: object) -> None:
        raise PermissionError("access denied")

    monkeypatch.setattr(type(places), "_open", refuse)
    with raises(il.RemoteError, "permission") as caught:
        il.open("memory://bucket/i")
    assert caught.value.errno == errno.EACCES


def test_half_a_download_is_not_kept(places, tmp_path, monkeypatch):
    data = build(60, 6).to_bytes()
    places.pipe("/bucket/cut", data[:-64])
    with raises(il.DamagedFileError, "memory://bucket/cut"):
        il.open("memory://bucket/cut")
    places.pipe("/bucket/changed", data[:-9] + bytes([data[-9] ^ 4]) + data[-8:])
    places.pipe("/bucket/whole", data)
    with monkeypatch.context() as patch:  # the connection ends early, or breaks
        patch.setattr(remote.RemotePlace, "size", lambda self, name: len(data) + 1)
        with raises(il.DamagedFileError, len(data), len(data) + 1):
            il.open("memory://bucket/whole")
        patch.setattr(remote, "copy", lambda source, target: (_ for _ in ()).throw(TimeoutError("too slow")))
        with raises(il.RemoteError, "TimeoutError", "too slow"):
            il.open("memory://bucket/whole")
    assert downloads(tmp_path) == []
    il.open("memory://bucket/whole").verify()


def test_without_fsspec(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "fsspec", None)
    with raises(il.RemoteError, "interlace[remote]"):
        il.open("s3://bucket/name")
