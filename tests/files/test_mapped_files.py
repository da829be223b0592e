"""Mapped files that other programs cut or write over, and files that a killed process left."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import interlace as il
from helpers import clustered, hand_made, run_python
from interlace.files import storage
from raising import raises

CUT = """
import json, os, sys
import numpy as np
import interlace as il
path, cut, act, kind = sys.argv[1:]
index = il.open(path)
q = np.zeros((3, index.dim), np.float32)
acts = {
    "search": lambda: index.search(q, 5, threads=1),
    "exhaustive": lambda: index.search(q, 5, margin=float("inf"), threads=1),
    "range": lambda: index.range_search(q, 1e9),
    "filter": lambda: index.search(q, 5, filter=np.arange(len(index)) % 3 == 0),
    "by id": lambda: index.search_by_id(index.ids[:2], 5),
    "get": lambda: index.get(index.ids[-3:]) if kind == "store" else index.reconstruct(index.ids[-3:]),
    "ids": lambda: index.ids.sum(),
    "find": lambda: 12345 in index,
    "save": lambda: index.save(path + ".2") if kind == "index" else index.to_file(path + ".2", payload=False),
    "calibrate": lambda: index.calibrate() if kind == "index" else index.evaluate(q, 5),
    "rerank": lambda: index.search(q, 5, rerank=50),
    "originals": lambda: index.get(6, originals=True),
    "payload": lambda: index.payload(),
    "where": lambda: index.search(q, 5, filter="n > 3"),
}
os.truncate(cut, os.stat(cut).st_size // 2)
try:
    acts[act]()
    print(json.dumps("an answer"))
except il.errors.DamagedFileError as error:
    print(json.dumps(str(error)))
"""
N = 40_000


@pytest.fixture(scope="module")
def cut_index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Large enough that its codes and ids are mapped."""
    path = tmp_path_factory.mktemp("cut") / "i"
    ids = np.random.default_rng(0).permutation(N) * 3
    codes = np.random.default_rng(1).integers(0, 2, (N, hand_made().n_bytes)).astype(np.uint8)
    il.Index.from_codes(hand_made(), codes, ids).save(path)
    return path


@pytest.mark.parametrize(
    "act", ["search", "exhaustive", "range", "filter", "by id", "get", "ids", "find", "save", "calibrate"]
)
def test_an_index_file_that_was_cut(cut_index: Path, tmp_path: Path, act: str) -> None:
    (tmp_path / "i").write_bytes(cut_index.read_bytes())
    said = run_python(CUT, str(tmp_path / "i"), str(tmp_path / "i"), act, "index")
    assert str(tmp_path / "i") in said
    assert "when it was opened" in said


@pytest.fixture(scope="module")
def cut_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cut") / "s"
    with il.create(path, hand_made(), columns={"n": "int64"}, originals="float16") as store:
        ids = np.random.default_rng(0).permutation(N) * 3
        store.add(clustered(N, 4), ids, payload={"n": np.arange(N)}, threads=1)
        store.compact()
    return path


@pytest.mark.parametrize(
    ("role", "act"),
    [
        ("segment", "search"),
        ("segment", "get"),
        ("segment", "find"),
        ("segment", "save"),
        ("originals", "rerank"),
        ("originals", "originals"),
        ("payload", "payload"),
        ("payload", "where"),
    ],
)
def test_a_file_of_a_store_that_was_cut(cut_store: Path, tmp_path: Path, role: str, act: str) -> None:

    shutil.copytree(cut_store, tmp_path / "s")
    name = next(path for path in (tmp_path / "s").iterdir() if path.name.startswith(role))
    said = run_python(CUT, str(tmp_path / "s"), str(name), act, "store")
    assert str(name) in said
    assert "when it was opened" in said


def test_small_sections_are_copied(tmp_path: Path) -> None:
    """All of a small index: nothing is lost when its file is cut."""
    index = il.Index(hand_made())
    index.add(clustered(200, 4), threads=1)
    index.save(tmp_path / "i")
    opened = il.open(tmp_path / "i")
    os.truncate(tmp_path / "i", 100)
    q = clustered(3, 4, seed=5)
    np.testing.assert_array_equal(opened.search(q, 5).ids, index.search(q, 5).ids)
    opened.verify()
    large, small = np.zeros(storage.COPIED + 1, np.uint8), np.arange(storage.COPIED, dtype=np.uint8)
    storage.write(tmp_path / "f", {"a": small, "large": large, "b": small}, {"kind": "test"})
    file = storage.read(tmp_path / "f")
    with open(tmp_path / "f", "r+b") as changed:
        changed.write(b"\xff" * (tmp_path / "f").stat().st_size)
    np.testing.assert_array_equal(file.array("a"), small)
    np.testing.assert_array_equal(file.array("b"), small)
    assert not file.array("a").flags.writeable
    file.check("a")
    with raises(il.DamagedFileError, "section", "'large'"):
        file.verify()


# --- what a killed process leaves

WRITE = """
import sys, time
import numpy as np
from interlace.files import storage
def blocks():
    yield np.zeros(100, np.uint8)
    if done: print("writing", flush=True); time.sleep(60)
    done.append(1)
done = []
storage.write(sys.argv[1], {"a": storage.Blocks(np.dtype(np.uint8), (100,), blocks)}, {"kind": "test"})
"""


def begun(path: Path) -> subprocess.Popen[str]:
    """A process in the middle of writing a file."""
    process = subprocess.Popen([sys.executable, "-c", WRITE, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "writing\n"
    return process


def temporaries(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.suffix == ".tmp")


def test_what_a_killed_writer_left_is_swept(tmp_path: Path) -> None:
    """By the next write to the same target; not what is still being written, and no file of others."""
    others = [
        "i.tmp",
        "i.0123456789ab.tmp",
        "i.~0123.tmp",
        "i.~zzzzzzzzzz.tmp",
        "j.~0123456789.tmp",
        "ii.~0123456789.tmp",
    ]
    for name in others:
        (tmp_path / name).write_text("mine")
    killed, alive = begun(tmp_path / "i"), begun(tmp_path / "i")
    try:
        assert len(temporaries(tmp_path)) == len(others) + 2
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        storage.write(tmp_path / "i", {"a": np.ones(3, np.uint8)}, {"kind": "test"})
        left = set(temporaries(tmp_path)) - set(others)
        assert len(left) == 1
        storage.read(tmp_path / "i").verify()
    finally:
        for process in (killed, alive):
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
    storage.write(tmp_path / "i", {"a": np.ones(4, np.uint8)}, {"kind": "test"})
    assert temporaries(tmp_path) == sorted(others)


def test_a_folder_that_cannot_be_listed_is_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*arguments: object) -> object:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(storage.os, "listdir", refused)
    storage.write(tmp_path / "i", {"a": np.ones(3, np.uint8)}, {"kind": "test"})
    assert storage.read(tmp_path / "i").array("a").tolist() == [1, 1, 1]
