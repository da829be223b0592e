"""Golden stores: those of the present version open, answer as they did, and take writes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from store_helpers import SMALL, put, vectors

import interlace as il
from interlace.files import versions
from raising import raises

STORES = Path(__file__).parents[1] / "golden" / "stores"  # each with its answers in JSON beside it


@pytest.mark.parametrize("name", ["collecting", "learned", "cells"])
def test_a_golden_store(name: str, tmp_path: Path) -> None:
    stored = json.loads((STORES / f"{name}.json").read_text())
    shutil.copytree(STORES / name, tmp_path / "s")
    ids, found = stored["ids"], np.array(stored["vectors"], np.float32)

    def check(store: il.Store) -> None:
        assert store.ids.tolist()[: len(ids)] == ids
        np.testing.assert_array_equal(store.get(ids), found)
        if "payload" in stored:
            assert store.payload(ids).to_pylist() == stored["payload"]
            np.testing.assert_array_equal(store.get(ids, originals=True), stored["originals"])
        if "searched" in stored and len(store) == len(ids):
            hits = store.search(vectors(3, 1000), 5, margin="exact", threads=1)
            np.testing.assert_array_equal(hits.ids, stored["searched"]["ids"])
            np.testing.assert_array_equal(hits.distances, np.array(stored["searched"]["distances"], np.float32))

    with il.open(tmp_path / "s") as reader:
        check(reader)
        reader.verify()
        mark = reader.session.state.manifest.store
        with il.open(tmp_path / "s", mode="a", limits=SMALL) as writer:
            check(writer)
            new = [f"n{i}" for i in range(20)] if isinstance(ids[0], str) else list(range(10_000, 10_020))
            for i in range(0, 20, 4):  # a checkpoint, which keeps the large segment as it is
                put(writer, "add", vectors(4, i), new[i : i + 4])
            check(writer)
        assert reader.refresh()
        check(reader)
        with il.open(tmp_path / "s", mode="a") as writer:
            writer.compact()
            check(writer)
            assert len(writer) == len(ids) + 20
        assert reader.refresh()
        check(reader)
        reader.verify()
        assert reader.session.state.manifest.store == mark


def test_a_store_has_more_cells_than_a_byte_can_number() -> None:
    store = il.open(STORES / "cells")
    assert store.codebooks.n_cells == 300
    assert {part.segment.unpack().shape[1] for part in store.snapshot.rows.parts} == {2 + 2}


def test_stores_that_learn_by_themselves_say_so() -> None:
    stores = [il.open(STORES / name) for name in ("collecting", "learned")]
    assert [store.health().state for store in stores] == ["collecting", "learned"]
    assert [store.originals for store in stores] == ["float16"] * 2
    assert [store.session.state.manifest.originals for store in stores] == ["float32", "float16"]


@pytest.mark.parametrize("changed", [1, -1])
def test_a_store_of_another_version_says_which_one(changed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "VERSION", versions.VERSION - changed)
    error = il.NewerFormatError if changed > 0 else il.OlderFormatError
    with raises(error, f"version {versions.VERSION + changed}", f"version {versions.VERSION}", "MANIFEST.json"):
        il.open(STORES / "cells")
