"""What people are told when something about a store is wrong, word for word, and that nothing is lost by it."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from store_helpers import BOOKS, SMALL, Model, check, files_of, filled, vectors
from test_store_damage import changed

import interlace as il
from interlace.files import header, storage
from interlace.files.versions import VERSION
from interlace.store import files
from interlace.store import log as logs
from interlace.store import manifest as manifests
from raising import raises


@pytest.fixture
def made(tmp_path: Path) -> tuple[Path, Model]:
    store, model = filled(tmp_path / "s")
    store.close()
    return tmp_path / "s", model


def said(act: Callable[[], Any], kind: type[Exception]) -> str:
    with pytest.raises(kind) as error:
        act()
    assert type(error.value) is kind
    return str(error.value)


def opened_both(store: Path, kind: type[Exception]) -> str:
    """By a reader and by a writer, who say the same."""
    one, other = said(lambda: il.open(store), kind), said(lambda: il.open(store, mode="a"), kind)
    assert one == other
    return one


# --- other versions


def test_a_newer_store(made: tuple[Path, Model]) -> None:
    changed(made[0], lambda content: content.update(version=99))
    path = str(made[0] / manifests.NAME)
    expected = f"{path!r} has format version 99, and this interlace reads version {VERSION}: install a newer one"
    assert opened_both(made[0], il.NewerFormatError) == expected


@pytest.mark.parametrize("role", ["segment", "books", "removed"])
def test_a_newer_file(made: tuple[Path, Model], role: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name = next(n for n in files_of(made[0]) if n.startswith(role))
    file = storage.read(made[0] / name)
    arrays = {n: np.array(file.array(n)) for n in file.names}
    monkeypatch.setattr(header, "VERSION", 99)
    (made[0] / name).write_bytes(b"".join(bytes(p) for p in storage.contents(arrays, file.meta)))
    expected = (
        f"{str(made[0] / name)!r} has format version 99, and this interlace reads version {VERSION}: "
        "install a newer one"
    )
    assert opened_both(made[0], il.NewerFormatError) == expected


def test_a_newer_log(made: tuple[Path, Model]) -> None:
    name = next(n for n in files_of(made[0]) if n.endswith(".log"))
    data = (made[0] / name).read_bytes()
    mark = manifests.read(str(made[0])).store
    (made[0] / name).write_bytes(logs.header(mark, 7, version=99) + data[logs.HEADER.size :])
    expected = (
        f"{str(made[0] / name)!r} has format version 99, and this interlace reads version {VERSION}: "
        "install a newer one"
    )
    assert opened_both(made[0], il.NewerFormatError) == expected


@pytest.mark.parametrize("seed", ["store-int64", "store-string"])
def test_an_older_store_is_read_and_goes_on(seed: str, tmp_path: Path) -> None:
    """One that an earlier version wrote, byte for byte, is opened, verified, written to and compacted."""
    source = Path(__file__).resolve().parents[1] / "fuzz" / "seeds" / seed
    shutil.copytree(source, tmp_path / "s")
    expected = filled(tmp_path / "again", kind=seed.partition("-")[2])[1]
    check(il.open(tmp_path / "s"), expected)
    with il.open(tmp_path / "s", mode="a") as store:
        store.verify()
        ids = ["x"] if seed.endswith("string") else [5000]
        store.add(vectors(1), ids)
        expected.put(vectors(1), ids)
        store.compact()
        check(store, expected)


# --- files that are missing, or of somebody else


def test_a_missing_segment(made: tuple[Path, Model]) -> None:
    name = next(n for n in files_of(made[0]) if n.startswith("segment"))
    (made[0] / name).unlink()
    expected = f"the store {str(made[0])!r} is damaged: its manifest names {name!r}, which does not exist"
    for mode in ("r", "a"):
        with pytest.raises(il.DamagedFileError) as error:
            il.open(made[0], mode=mode)
        assert str(error.value) == expected


def test_a_foreign_segment(made: tuple[Path, Model], tmp_path: Path) -> None:
    other, _ = filled(tmp_path / "t")
    other.close()
    name = next(n for n in files_of(made[0]) if n.startswith("segment"))
    shutil.copy(tmp_path / "t" / name, made[0] / name)
    assert opened_both(made[0], il.DamagedFileError) == f"{str(made[0] / name)!r} belongs to another store"


def test_a_name_that_leads_elsewhere(made: tuple[Path, Model]) -> None:
    changed(made[0], lambda c: c["manifest"]["segments"][0].update(file="../../etc/passwd"))
    path = str(made[0] / manifests.NAME)
    expected = f"{path!r} is damaged: file is '../../etc/passwd', which is not the name of a segment file"
    assert opened_both(made[0], il.DamagedFileError) == expected


def test_a_segment_that_is_a_link_out_of_the_store(made: tuple[Path, Model], tmp_path: Path) -> None:
    """Its content must still have the mark of the store, and its checksums."""
    name = next(n for n in files_of(made[0]) if n.startswith("segment"))
    (made[0] / name).rename(tmp_path / "elsewhere")
    (made[0] / name).symlink_to(tmp_path / "elsewhere")
    check(il.open(made[0]), made[1])  # a user may move large files
    (tmp_path / "elsewhere").write_bytes(b"secret")
    assert "is not an interlace file" in opened_both(made[0], il.NotAnIndexError)


# --- who is in the way


def test_two_writers(made: tuple[Path, Model]) -> None:
    with il.open(made[0], mode="a"):
        text = said(lambda: il.open(made[0], mode="a"), il.StoreLockedError)
    start, _, rest = text.partition(" since ")
    assert start == f"{str(made[0])!r} is being written to by process {os.getpid()}"
    assert rest.endswith(
        " UTC, and only one process can write at a time: close the store there, or open it with mode='r'"
    )


def test_a_reader_whose_segments_were_compacted_away(made: tuple[Path, Model]) -> None:
    """It keeps what it has, searches, and sees the new ones when it asks."""
    reader, (path, model) = il.open(made[0]), made
    before = files_of(path)
    with il.open(path, mode="a", limits=SMALL) as store:
        store.remove([400, 402])
        store.compact()
    assert not {n for n in before if n.startswith("segment")} & set(files_of(path))
    check(reader, model)
    reader.report(), reader.health(), repr(reader)
    assert reader.refresh()
    model.remove([400, 402])
    check(reader, model)


def test_a_reader_and_a_closed_store(made: tuple[Path, Model]) -> None:
    reader = il.open(made[0])
    expected = f"{str(made[0])!r} is open for reading; il.open(path, mode='a') opens it for writing"
    assert said(lambda: reader.add(vectors(1)), il.StoreError) == expected
    reader.close()
    assert said(lambda: reader.search(vectors(1)), il.StoreError) == f"the store {str(made[0])!r} is closed"


# --- the disk


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """A disk that can be full."""
    state = {"full": False}

    def call(name: str, *arguments: Any, **where: int) -> Any:
        if name == "write" and state["full"]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return getattr(os, name)(*arguments, **where)

    monkeypatch.setattr(files, "call", call)
    return lambda value: state.update(full=value)


def test_a_disk_that_is_full(made: tuple[Path, Model], full: Callable[[bool], None]) -> None:
    path, model = made
    with il.open(path, mode="a", limits=SMALL) as store:
        full(True)
        writes: list[Callable[[], Any]] = [
            lambda: store.add(vectors(2), [5000, 5001]),
            lambda: store.remove([400]),
            lambda: store.compact(),
            lambda: store.add(iter([vectors(2), vectors(2)])),
        ]
        for write in writes:
            with pytest.raises(il.StoreError) as error:
                write()
            assert error.value.errno == errno.ENOSPC
            assert error.value.filename == str(path)
            assert "a write failed and is not part of the store (No space left on device)" in error.value.strerror
        check(store, model)  # nothing of it is seen
        full(False)
        store.add(vectors(2), [5000, 5001])  # and it goes on
        model.put(vectors(2), [5000, 5001])
        check(store, model)
    check(il.open(path), model)
    il.open(path).verify()


def test_a_disk_that_is_full_half_way_through_a_stream(tmp_path: Path, full: Callable[[bool], None]) -> None:
    store = il.create(tmp_path / "s", BOOKS)

    def blocks() -> Iterator[Any]:
        yield vectors(3)
        full(True)
        yield vectors(4, 1)

    text = said(lambda: store.add(blocks()), il.StoreError)
    assert text.endswith(f"the 3 rows before block 1 were added: {str(tmp_path / 's')!r}")
    assert len(store) == 3


def test_a_new_store_on_a_full_disk(tmp_path: Path, full: Callable[[bool], None]) -> None:
    full(True)
    text = said(lambda: il.create(tmp_path / "s", BOOKS), il.StoreError)
    assert "the store could not be created (No space left on device)" in text
    full(False)
    il.create(tmp_path / "s", BOOKS).close()  # what was begun is in nobody's way


def test_a_stream_whose_own_reader_finds_something_wrong(tmp_path: Path) -> None:
    """As a block of the wrong width: what came before is kept and counted."""
    store = il.create(tmp_path / "s", BOOKS)

    def blocks() -> Iterator[Any]:
        yield vectors(3)
        raise il.InputError("line 4 is no row")

    with raises(il.PartlyAddedError, "block 1", "row 3", "line 4", 3) as error:
        store.add(blocks())
    assert error.value.added == 3
    assert len(store) == 3

    def other() -> Iterator[Any]:
        yield vectors(1)
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        store.add(other())
    assert len(store) == 4


def test_damage_does_not_get_a_new_checksum(made: tuple[Path, Model]) -> None:
    """A bit that flips in a segment is found before its rows are written into another one."""
    path = made[0]
    name = max((n for n in files_of(path) if n.startswith("segment")), key=lambda n: (path / n).stat().st_size)
    data = bytearray((path / name).read_bytes())
    section = storage.read(path / name)
    at = 8 + int.from_bytes(data[:8], "little") + section.header.span("segment.crude")[0]
    data[at] ^= 1
    (path / name).write_bytes(bytes(data))
    with il.open(path, mode="a", limits=SMALL) as store:
        before = files_of(path)
        with pytest.raises(il.DamagedFileError, match=f"{name}' is damaged: section 'segment.crude' does not match"):
            store.compact()
        assert files_of(path) == before
        with pytest.raises(il.DamagedFileError, match="does not match"):
            store.to_file(path.parent / "i")
