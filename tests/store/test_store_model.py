"""The store against a dict of vectors: any sequence of writes, searches, compactions, crashes and new processes."""

from __future__ import annotations

import gc
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from store_helpers import BOOKS, EMPTY, RICH, SMALL, Model, check, check_extras, files_of, put, vectors

import interlace as il
from interlace.store import verify

NUMBERS = st.lists(st.integers(-4, 14).filter(lambda i: i != -1), unique=True, max_size=6)
SEEDS = st.integers(0, 2**20)


class StoreMachine(RuleBasedStateMachine):
    """Numbers stand for ids; in a store of strings each is a text."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.path = self.folder / "store"
        self.model = Model()
        self.reader: il.Store | None = None
        self.seen = Model()

    @initialize(
        kind=st.sampled_from(["int64", "string"]), rows=st.integers(0, 30), rich=st.booleans(), books=st.booleans()
    )
    def make(self, kind: str, rows: int, rich: bool, books: bool) -> None:
        """With books, or with vectors that are kept as they are."""
        self.kind, self.rich, self.books = kind, rich, books
        if not books:
            self.model = Model(exact=True)
            extras = EMPTY if rich else {**EMPTY, "columns": None, "originals": None}
            self.store = il.create(self.path, limits=SMALL, **extras, relearn="manual")
            return
        if rich:
            self.store = il.create(self.path, BOOKS, limits=SMALL, **RICH)
            return
        index = il.Index(BOOKS)
        if rows:
            ids = self.ids(range(rows))
            index.add(vectors(rows), None if kind == "int64" else ids, threads=1)
            self.model.put(vectors(rows), ids)
        self.store = il.create(self.path, index, limits=SMALL)

    def ids(self, numbers: Any) -> list[Any]:
        return [f"id {i}" if self.kind == "string" else i for i in numbers]

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            assert verify(str(self.path)).rows == len(self.model.rows)
        shutil.rmtree(self.folder)

    # --- writes

    @rule(numbers=NUMBERS, seed=SEEDS)
    def add(self, numbers: list[int], seed: int) -> None:
        ids, x = self.ids(numbers), vectors(len(numbers), seed)
        taken = [i for i in ids if i in self.model.rows]
        if taken:
            with pytest.raises(il.DuplicateIdError, match=str(taken[0])):
                put(self.store, "add", x, ids)
        else:
            assert put(self.store, "add", x, ids).tolist() == ids
            self.model.put(x, ids)

    @precondition(lambda self: self.kind == "int64")
    @rule(n=st.integers(0, 16), seed=SEEDS)
    def add_without_ids(self, n: int, seed: int) -> None:
        x, first = vectors(n, seed), self.model.next_id
        assert put(self.store, "add", x).tolist() == list(range(first, first + n))
        self.model.put(x, list(range(first, first + n)))

    @rule(numbers=NUMBERS, seed=SEEDS)
    def upsert(self, numbers: list[int], seed: int) -> None:
        ids, x = self.ids(numbers), vectors(len(numbers), seed)
        put(self.store, "upsert", x, ids)
        self.model.put(x, ids)

    @rule(numbers=NUMBERS)
    def remove(self, numbers: list[int]) -> None:
        ids = self.ids(numbers)
        there = [i for i in ids if i in self.model.rows]
        if len(there) < len(ids):
            with pytest.raises(il.UnknownIdError):
                self.store.remove(ids)
        assert self.store.remove(ids, missing="ignore") == len(there)
        self.model.remove(ids)

    @rule(steps=st.lists(st.tuples(st.sampled_from(["add", "upsert", "remove"]), NUMBERS, SEEDS), max_size=4))
    def batch(self, steps: list[tuple[str, list[int], int]]) -> None:
        before = self.model.copy()
        with self.store.batch():
            for what, numbers, seed in steps:
                if what == "remove":
                    self.store.remove(self.ids(numbers), missing="ignore")
                    self.model.remove(self.ids(numbers))
                    continue
                if what == "add":
                    numbers = [i for i in numbers if self.ids([i])[0] not in self.model.rows]
                put(self.store, what, vectors(len(numbers), seed), self.ids(numbers))
                self.model.put(vectors(len(numbers), seed), self.ids(numbers))
            assert self.store.ids.tolist() == list(before.rows)  # searches see it when it is durable

    @rule()
    def compact(self) -> None:
        self.store.compact()
        assert len(self.store.snapshot.rows.parts) <= 1
        assert self.store.snapshot.rows.ids.removed is None
        beside = 3 if self.rich else 1 if self.books else 2
        assert len(files_of(self.path)) == 3 + bool(self.model.rows) * beside  # nothing is left behind

    @rule()
    def calibrate(self) -> None:
        if self.model.rows:
            self.store.calibrate(threads=1)

    # --- other processes

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = il.open(self.path, mode="a", limits=SMALL)

    @rule(torn=st.binary(max_size=60))
    def crash(self, torn: bytes) -> None:
        """The process ends in the middle of something: a record half written, files that no manifest names."""
        log = self.path / self.store.session.state.manifest.log
        with log.open("ab") as file:
            file.write(torn)
        del self.store
        gc.collect()
        (self.path / "segment-999999.interlace").write_bytes(torn)
        (self.path / "MANIFEST.json.tmp").write_bytes(torn)
        (self.path / "notes.txt").write_text("not ours")
        self.store = il.open(self.path, mode="a", limits=SMALL)
        assert not [n for n in files_of(self.path) if n.endswith("999999.interlace") or n.endswith(".tmp")]
        (self.path / "notes.txt").unlink()

    @rule()
    def open_reader(self) -> None:
        self.reader, self.seen = il.open(self.path), self.model.copy()

    @precondition(lambda self: self.reader is not None)
    @rule()
    def refresh(self) -> None:
        self.reader.refresh()
        self.seen = self.model.copy()
        assert not self.reader.refresh()

    # --- what must hold

    @rule(seed=SEEDS, numbers=NUMBERS, k=st.integers(1, 40))
    def filtered(self, seed: int, numbers: list[int], k: int) -> None:
        allowed = [i for i in self.ids(numbers) if i in self.model.rows]
        mask = np.array([i in allowed for i in self.model.rows], bool)
        q = vectors(1, seed)[0]
        expected, _ = self.model.search(q, k, allowed)
        for given in (mask, allowed):
            found = self.store.search(q, k, margin="exact", filter=given)
            assert found.ids.tolist()[: found.counts] == expected

    @precondition(lambda self: self.rich)
    @rule(seed=SEEDS, number=st.integers(-8, 8), k=st.integers(1, 40))
    def filtered_by_columns(self, seed: int, number: int, k: int) -> None:
        rows = zip(self.model.rows, self.model.payload, strict=True)
        allowed = {i for i, v in rows if (v["n"] is not None and v["n"] < number) or v["tag"] == "é1"}
        q, text = vectors(1, seed)[0], f"n < {number} or tag == 'é1'"
        for found in (self.store.search(q, k, margin="exact", filter=text) for _ in range(2)):
            assert found.ids.tolist()[: found.counts] == self.model.search(q, k, allowed)[0]
        found = self.store.search(q, k, margin="exact", filter=text, rerank=k + 3)
        assert found.ids.tolist()[: found.counts] == self.model.rerank(q, k, k + 3, allowed)[0]

    @rule(seed=SEEDS, k=st.integers(1, 60))
    def search(self, seed: int, k: int) -> None:
        check(self.store, self.model, seed=seed, k=k)

    @invariant()
    def same_rows(self) -> None:
        if hasattr(self, "store"):
            assert self.store.ids.tolist() == list(self.model.rows)
        if self.reader is not None:
            assert self.reader.ids.tolist() == list(self.seen.rows)
            if self.seen.rows:
                assert np.array_equal(self.reader.get(list(self.seen.rows)), np.array(list(self.seen.rows.values())))
            if self.rich:
                check_extras(self.reader, self.seen)


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(
    max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
