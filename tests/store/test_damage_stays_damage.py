"""What writes stored data again verifies it first: damage never gets a valid checksum."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import interlace as il
from interlace.errors import DamagedFileError
from interlace.files import storage

X = np.random.default_rng(0).normal(size=(900, 24)).astype(np.float32)
IDS = np.random.default_rng(1).permutation(10**6)[:900]
VALUES = np.arange(900) * 1_000_003


def built() -> il.Index:
    return il.Index.build(
        X, originals="float16", ids=IDS, n_bytes=6, n_words=32, effort="fastest", iterations=1, threads=1
    )


def flip(path: Path, within: bytes) -> None:
    """One bit in the middle of these bytes of a file."""
    data = bytearray(path.read_bytes())
    data[data.index(within) + len(within) // 2] ^= 4
    path.write_bytes(data)


@pytest.mark.parametrize("section", ["segment.crude", "ids.words", "originals"])
@pytest.mark.parametrize("how", ["save", "to_bytes", "to_store", "create"])
def test_a_damaged_index_is_not_written_again(tmp_path: Path, section: str, how: str) -> None:
    path = tmp_path / "index"
    built().save(path)
    flip(path, storage.read(path).array(section).tobytes())
    index = il.Index.open(path)
    write = {
        "save": lambda: index.save(tmp_path / "again"),
        "to_bytes": index.to_bytes,
        "to_store": lambda: index.to_store(tmp_path / "store"),
        "create": lambda: il.create(tmp_path / "store", index),
    }[how]
    with pytest.raises(DamagedFileError):
        write()
    assert not (tmp_path / "again").exists()


def store_of(path: Path) -> Path:
    with built().to_store(path, columns={"p": "int64"}, payload={"p": VALUES}):
        return path


@pytest.mark.parametrize("section", ["ids.words", "ids.bases", "segment.crude"])
def test_relearning_refuses_damaged_segments(tmp_path: Path, section: str) -> None:
    path = store_of(tmp_path / "store")
    segment = next(path.glob("segment-*"))
    flip(segment, storage.read(segment).array(section).tobytes())
    with pytest.raises(DamagedFileError), il.open(path, mode="a") as store:
        store.relearn(threads=1)


@pytest.mark.parametrize("how", ["add_columns", "drop_columns"])
def test_changing_columns_refuses_damaged_ones(tmp_path: Path, how: str) -> None:
    path = tmp_path / "store"
    columns, payload = {"p": "int64", "r": "int64"}, {"p": VALUES, "r": VALUES}
    with built().to_store(path, columns=columns, payload=payload):
        pass
    flip(next(path.glob("payload-*")), np.int64(VALUES[500]).tobytes())
    arguments = {"add_columns": {"z": "int64"}, "drop_columns": ["r"]}[how]
    with il.open(path, mode="a") as store, pytest.raises(DamagedFileError):
        getattr(store, how)(arguments)


def test_vectors_too_small_for_float16_are_refused() -> None:
    """They were kept as zeros, and a recall was promised of these."""
    with pytest.raises(il.errors.InputError, match="float16 loses digits"):
        il.Index.build(X * 1e-7, originals="float16", n_bytes=4, n_words=16, effort="fastest", iterations=1)
    few_small = X.copy()
    few_small[:300] *= 1e-9
    assert (
        len(il.Index.build(few_small, originals="float16", n_bytes=4, n_words=16, effort="fastest", iterations=1))
        == 900
    )
