"""Whose files these are: stores that are moved, replaced, restored, or whose lock goes while they are written to."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from store_helpers import BOOKS, LARGE, SMALL, Model, check, filled, put, vectors

import interlace as il
from helpers import run_python
from interlace.store import files, lock, verify
from raising import raises


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def written(folder: Path, seed: int, n: int = 30) -> Model:
    """A store of one segment, closed; its name, generation and number of rows do not depend on the seed."""
    model = Model()
    with il.create(folder, BOOKS, limits=LARGE) as store:
        store.add(vectors(n, seed))
        model.put(vectors(n, seed), list(range(n)))
        store.compact()
    return model


# --- a directory that is renamed while it is written to


@pytest.mark.parametrize("rich", [False, True])
def test_a_writer_stays_with_its_directory(tmp_path: Path, rich: bool) -> None:
    """Another store takes its path: nothing of that one is touched, and nothing of its own is lost."""
    store, model = filled(tmp_path / "s", rich=rich)
    (tmp_path / "s").rename(tmp_path / "moved")
    written(tmp_path / "s", 7)
    other = contents(tmp_path / "s")
    put(store, "add", vectors(3, 50), [900, 901, 902])
    model.put(vectors(3, 50), [900, 901, 902])
    store.compact()
    store.remove([900])
    model.remove([900])
    check(store, model)
    store.verify()
    assert store.health().bytes > 0
    store.close()
    assert contents(tmp_path / "s") == other
    with il.open(tmp_path / "moved") as moved:
        check(moved, model)
    assert verify(str(tmp_path / "moved")).rows == len(model.rows)


def test_a_writer_whose_directory_was_removed(tmp_path: Path) -> None:
    store, model = filled(tmp_path / "s")
    shutil.rmtree(tmp_path / "s")
    written(tmp_path / "s", 7)
    other = contents(tmp_path / "s")
    for write in (lambda: store.add(vectors(1), [900]), store.compact, lambda: store.remove([11])):
        with pytest.raises(il.StoreError, match="LOCK"):
            write()
    check(store, model)  # nothing of it was acknowledged
    store.close()
    assert contents(tmp_path / "s") == other


def test_a_backup_that_is_copied_over_an_open_store(tmp_path: Path) -> None:
    """In place, the lock left alone: the writer sees that the files are not those that it wrote."""
    store, model = filled(tmp_path / "s")
    shutil.copytree(tmp_path / "s", tmp_path / "backup")
    store.add(vectors(40, 3), np.arange(40) + 5000)
    for path in (tmp_path / "backup").iterdir():
        if path.name != "LOCK":
            shutil.copyfile(path, tmp_path / "s" / path.name)
    before = contents(tmp_path / "s")
    for write in (lambda: store.add(vectors(1), [900]), lambda: store.add(vectors(50)), lambda: store.calibrate()):
        with raises(il.StoreError, "MANIFEST.json'"):
            write()
    assert contents(tmp_path / "s") == before
    store.close()
    with il.open(tmp_path / "s", mode="a", limits=SMALL) as again:
        check(again, model)
        again.add(vectors(1), [900])


def test_a_log_that_another_program_wrote_to(tmp_path: Path) -> None:
    store, model = filled(tmp_path / "s")
    log = tmp_path / "s" / store.session.state.manifest.log
    with open(log, "ab") as file:
        file.write(b"what is this")
    with pytest.raises(il.StoreError, match=re.escape(log.name)):
        store.add(vectors(1), [900])
    check(store, model)
    os.chmod(tmp_path / "s" / "MANIFEST.json", 0o600)  # which is no other manifest
    os.truncate(log, log.stat().st_size - len(b"what is this"))
    store.add(vectors(1), [900])


# --- a reader whose store is replaced


def test_a_reader_of_a_path_with_another_store(tmp_path: Path) -> None:
    """Same names, generation and number of rows: only the mark tells them apart."""
    model = written(tmp_path / "s", 1)
    other = written(tmp_path / "t", 2)
    reader = il.open(tmp_path / "s")
    mark = il.open(tmp_path / "t").session.state.manifest.store
    (tmp_path / "s").rename(tmp_path / "old")
    (tmp_path / "t").rename(tmp_path / "s")
    with pytest.raises(il.StoreError, match=f"is now another store .*{mark}"):
        reader.refresh()
    check(reader, model)  # it stays as it was
    check(il.open(tmp_path / "s"), other)
    shutil.rmtree(tmp_path / "s")
    with pytest.raises(il.NotAnIndexError, match="does not exist"):
        reader.refresh()
    (tmp_path / "old").rename(tmp_path / "s")
    assert not reader.refresh()


@pytest.mark.parametrize("rich", [False, True])
def test_a_reader_after_a_backup_was_restored(tmp_path: Path, rich: bool) -> None:
    """The restored store goes on by itself: the same names and generations stand for other rows."""
    store, model = filled(tmp_path / "s", rich=rich)
    store.close()
    shutil.copytree(tmp_path / "s", tmp_path / "backup")

    def go_on(seed: int) -> Model:
        after = model.copy()
        with il.open(tmp_path / "s", mode="a", limits=LARGE) as writer:
            put(writer, "add", vectors(30, seed), np.arange(30) + 600)
            after.put(vectors(30, seed), list(range(600, 630)))
            writer.compact()
            put(writer, "add", vectors(2, seed), [700, 701])
            after.put(vectors(2, seed), [700, 701])
        return after

    first = go_on(40)
    reader = il.open(tmp_path / "s")
    check(reader, first)
    generation, names = reader.generation, reader.session.state.manifest.names
    shutil.rmtree(tmp_path / "s")
    shutil.copytree(tmp_path / "backup", tmp_path / "s")
    assert reader.refresh()  # backwards
    check(reader, model)
    second = go_on(41)
    assert reader.refresh()
    check(reader, second)
    assert (reader.generation, reader.session.state.manifest.names) == (generation, names)
    # And from one to the other, without the state between them.
    shutil.rmtree(tmp_path / "s")
    shutil.copytree(tmp_path / "backup", tmp_path / "s")
    third = go_on(42)
    assert reader.refresh()
    check(reader, third)
    assert not reader.refresh()


def test_a_reader_after_the_log_was_restored(tmp_path: Path) -> None:
    """The same manifest, a log of the same length whose last record is the same, and another one before it."""
    with il.create(tmp_path / "s", BOOKS, limits=LARGE) as store:
        store.add(vectors(5), np.arange(5))
    shutil.copytree(tmp_path / "s", tmp_path / "backup")

    def go_on(seed: int) -> None:
        with il.open(tmp_path / "s", mode="a", limits=LARGE) as writer:
            writer.add(vectors(3, seed), [10, 11, 12])
            writer.remove([4])

    go_on(1)
    reader = il.open(tmp_path / "s")
    shutil.rmtree(tmp_path / "s")
    shutil.copytree(tmp_path / "backup", tmp_path / "s")
    go_on(2)
    assert reader.refresh()
    expected = il.open(tmp_path / "s")
    assert np.array_equal(reader.get([10, 11, 12]), expected.get([10, 11, 12]))
    assert reader.ids.tolist() == expected.ids.tolist()


# --- the lock


@pytest.mark.parametrize("how", ["removed", "replaced"])
@pytest.mark.parametrize("directories", [True, False])
def test_a_lock_that_goes_while_a_store_is_written_to(
    tmp_path: Path, how: str, directories: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first writer acknowledges nothing any more. A second one waits for its end, where directories can be locked;
    elsewhere it has the store, and loses nothing."""
    if not directories:
        monkeypatch.setattr(lock, "_lock_directory", lambda folder: None)
    first, model = filled(tmp_path / "s")
    (tmp_path / "s" / "LOCK").unlink()
    if how == "replaced":
        (tmp_path / "s" / "LOCK").write_text("")
    if directories:
        with raises(il.StoreLockedError, "LOCK"):
            il.open(tmp_path / "s", mode="a")
    else:
        second = il.open(tmp_path / "s", mode="a", limits=SMALL)
    for write in (lambda: first.add(vectors(5, 8), np.arange(5) + 800), first.compact, lambda: first.remove([11])):
        with raises(il.StoreError, "LOCK'"):
            write()
    if directories:
        first.close()
        second = il.open(tmp_path / "s", mode="a", limits=SMALL)
    second.add(vectors(5, 9), np.arange(5) + 900)
    second.compact()
    model.put(vectors(5, 9), list(range(900, 905)))
    first.close()
    second.close()
    with il.open(tmp_path / "s") as reader:
        check(reader, model)
        reader.verify()


def test_a_lock_that_goes_in_the_middle_of_a_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the record is on disk, before the answer: it is not acknowledged, and may be found, whole."""
    store, model = il.create(tmp_path / "s", BOOKS), Model()
    store.add(vectors(3), [1, 2, 3])
    model.put(vectors(3), [1, 2, 3])
    real = files.call

    def removes(name: str, *arguments: object, **where: int) -> object:
        if name == "fdatasync":
            (tmp_path / "s" / "LOCK").unlink(missing_ok=True)
        return real(name, *arguments, **where)

    monkeypatch.setattr(files, "call", removes)
    for write in (lambda: store.add(vectors(1), [4]), store.compact):
        with pytest.raises(il.StoreError, match="LOCK"):
            write()
    monkeypatch.undo()
    check(store, model)
    store.close()
    verify(str(tmp_path / "s"))


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_lock_that_is_a_link_to_another_file(tmp_path: Path, link: object) -> None:
    """What it leads to is neither truncated nor written to."""
    written(tmp_path / "s", 1)
    (tmp_path / "victim").write_text("a thesis, chapter 1\n" * 20)
    (tmp_path / "s" / "LOCK").unlink()
    link(tmp_path / "victim", tmp_path / "s" / "LOCK")
    with raises(il.StoreError, "LOCK"):
        il.open(tmp_path / "s", mode="a")
    assert (tmp_path / "victim").read_text() == "a thesis, chapter 1\n" * 20
    assert len(il.open(tmp_path / "s")) == 30
    (tmp_path / "new").mkdir()
    link(tmp_path / "victim", tmp_path / "new" / "LOCK")
    with raises(il.StoreError, "LOCK"):
        il.create(tmp_path / "new", BOOKS)
    assert (tmp_path / "victim").read_text() == "a thesis, chapter 1\n" * 20


# --- what is not a file, and what is no store any more

OPEN = """
import json, sys
import interlace as il
try:
    il.open(sys.argv[1], mode=sys.argv[2])
except il.errors.FileError as error:
    print(json.dumps(str(error)))
"""


@pytest.mark.parametrize("role", ["MANIFEST", "segment", "log", "books", "LOCK"])
def test_a_pipe_is_not_waited_for(tmp_path: Path, role: str) -> None:
    written(tmp_path / "s", 1)
    path = next(path for path in (tmp_path / "s").iterdir() if path.name.startswith(role))
    path.unlink()
    os.mkfifo(path)
    for mode in ("r", "a") if role != "LOCK" else ("a",):
        said = run_python(OPEN, str(tmp_path / "s"), mode)
        assert path.name in said
        assert "named pipe" in said or role == "LOCK"


def test_an_index_file_that_is_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "i")
    assert "'" + str(tmp_path / "i") + "' is a named pipe" in run_python(OPEN, str(tmp_path / "i"), "r")


def test_files_that_are_links_are_read(tmp_path: Path) -> None:
    """As download caches keep them; a writer does not append through one."""
    model = written(tmp_path / "s", 1)
    (tmp_path / "links").mkdir()
    for path in (tmp_path / "s").iterdir():
        if path.name != "LOCK":
            (tmp_path / "links" / path.name).symlink_to(path)
    check(il.open(tmp_path / "links"), model)
    with pytest.raises(il.StoreError, match="log-"):
        il.open(tmp_path / "links", mode="a")


@pytest.mark.parametrize("size", [0, 30])
def test_a_store_that_lost_its_manifest_is_not_made_again(tmp_path: Path, size: int) -> None:
    store = il.create(tmp_path / "s", BOOKS)
    store.add(vectors(5))
    if size:
        store.add(vectors(size))
        store.compact()
    store.close()
    (tmp_path / "s" / "MANIFEST.json").rename(tmp_path / "kept")
    before = contents(tmp_path / "s")
    with raises(il.InputError, "MANIFEST.json"):
        il.create(tmp_path / "s", BOOKS)
    assert contents(tmp_path / "s") == before
    (tmp_path / "kept").rename(tmp_path / "s" / "MANIFEST.json")
    assert len(il.open(tmp_path / "s")) == 5 + size


def test_a_creation_that_was_cut_short_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At any call: what it left is in nobody's way, and no trace of it stays in the store."""
    real, n = files.call, [0]

    def stops(name: str, *arguments: object, **where: int) -> object:
        n[0] -= 1
        if n[0] == 0:
            raise KeyboardInterrupt
        return real(name, *arguments, **where)

    index = il.Index.from_codes(BOOKS, np.zeros((20, 2), np.uint8))
    monkeypatch.setattr(files, "call", stops)
    cut = 0
    for last in range(1, 100):
        n[0] = last
        try:
            il.create(tmp_path / "s", index).close()
            break
        except KeyboardInterrupt:
            cut += 1
        if (tmp_path / "s" / "MANIFEST.json").exists():  # made, and not yet opened
            il.open(tmp_path / "s", mode="a").close()
            assert "CREATING" not in os.listdir(tmp_path / "s")
            shutil.rmtree(tmp_path / "s")
    assert cut > 10
    assert sorted(os.listdir(tmp_path / "s")) == [
        "LOCK", "MANIFEST.json", "books-1.interlace", "log-2.log", "segment-3.interlace"
    ]  # fmt: skip
