"""Public methods of indexes and stores in any order, each answer compared with that of ``orders_oracle``.

A sequence begins with an index or a store, empty, small, or of 2,500 rows and calibrated. Rules then ask, write, copy,
save and open whatever there is by then: several objects live side by side, each with what it should hold.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import pickle
import shutil
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule
from orders_oracle import FloatArray, Payload, Rows
from orders_questions import QUESTIONS, Questions
from orders_world import (
    AT,
    COLUMNS,
    COUNTS,
    DIM,
    EFFORTS,
    EXPONENTS,
    FORMS,
    KINDS,
    LARGE_METRICS,
    LEARNING,
    NOISE,
    NUMBERS,
    POOL,
    RAW,
    SEEDS,
    SLOW,
    SMALL,
    STORES,
    Call,
    Folder,
    Subject,
    call,
    large_index,
    large_store,
    learned,
    named,
    values,
)

import interlace as il
from helpers import LAYOUTS, METRICS
from interlace.codec.embedding import Linear
from interlace.engine.margins import TARGETS
from interlace.store import Limits
from raising import raises

CHANGES = st.one_of(
    call("add", n=COUNTS, seed=SEEDS, embedded=st.booleans(), effort=EFFORTS, form=FORMS),
    call("add_known", numbers=NUMBERS, seed=SEEDS),
    call("upsert", numbers=NUMBERS, seed=SEEDS, embedded=st.booleans()),
    call("upsert_one", number=st.integers(0, 30), seed=SEEDS),
    call("remove", numbers=NUMBERS, every=st.sampled_from([7, 0, 4, 5, 2, 1]), seed=SEEDS),
    call("batch", steps=st.lists(st.tuples(st.booleans(), NUMBERS, SEEDS), max_size=3), fails=st.booleans()),
    call("compact"),
    call("add_small", n=st.integers(1, 4), exponent=EXPONENTS, seed=SEEDS),
)


LIFE = st.one_of(
    call("calibrate", given=st.booleans(), noise=NOISE, seed=SEEDS),
    call("relearn", layout=st.sampled_from([None, *LAYOUTS])),
    call("build", seed=SEEDS, kind=st.sampled_from(KINDS), metric=st.sampled_from(METRICS)),
    call("copied", deep=st.booleans()),
    call("save_and_open", again=st.booleans()),
    call("to_store", columns=st.booleans(), limits=st.sampled_from([SMALL, Limits()])),
    call("create", originals=st.sampled_from(["float16", "int8"]), limits=st.sampled_from([SMALL, Limits()]), n=COUNTS),
    call("to_file", again=st.booleans()),
    call("open_reader"),
    call("refresh"),
    call("snapshot"),
    call("reopen"),
)


#: Kinds of objects that know a call.
TAKES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(["add", "add_known", "add_small", "calibrate"], ("index", "writer")),
    **dict.fromkeys(["upsert", "upsert_one", "remove", "batch", "compact", "relearn", "open_reader"], ("writer",)),
    **dict.fromkeys(["save_and_open", "to_store"], ("index",)),
    **dict.fromkeys(["to_file", "snapshot", "reopen"], ("writer", "reader")),
    "create": ("index", "writer", "reader"),
    "refresh": ("reader",),
    **dict.fromkeys(["build", "copied"], ()),  # all
}


class StopError(Exception):
    """Raised inside a batch."""


def formed(x: FloatArray, form: str) -> Any:
    """The same rows as something else that holds vectors."""
    if form == "blocks":
        return iter([x[:2], x[2:]])
    return x.astype(np.float64) if form == "float64" else np.asfortranarray(x)[::-1][::-1]


def refuses(call: Callable[[], Any]) -> bool:
    """Whether a call of a closed store says so."""
    try:
        call()
    except il.StoreError as error:
        return "closed" in str(error)
    return False


class Orders(Questions):
    """All rules."""

    beginning: str | None = None  # of every sequence; None: any

    # --- beginnings

    @initialize(
        begin=st.sampled_from(
            ["large store", "rich store", "empty store", "large store", "large index", "store", "index"]
        ),
        metric=st.sampled_from(METRICS),
        ids=st.sampled_from(KINDS),
        embedded=st.booleans(),
        n=st.sampled_from([60, 0, 1, 300]),
        limits=st.sampled_from([SMALL, Limits()]),
        originals=st.sampled_from(["float16", "int8"]),
        learns=st.booleans(),
    )
    def begin(
        self,
        begin: str,
        metric: str,
        ids: str,
        embedded: bool,
        n: int,
        limits: Limits,
        originals: str,
        learns: bool,
    ) -> None:
        begin = self.beginning or begin
        if begin.startswith("large"):
            some = LARGE_METRICS[self.layout]
            metric = some[METRICS.index(metric) % len(some)]
        if begin == "large index":
            path, rows, ids = large_index(self.layout, metric)
            self.keep(Subject(il.open(path), rows, "index", ids))
            return
        if begin == "large store":
            path, rows, ids = large_store(self.layout, metric)
            folder = Folder(self.path("store"), ids, True, limits)
            shutil.copytree(path, folder.path)
            self.keep(Subject(il.open(folder.path, mode="a", limits=limits), rows, "writer", ids, folder))
            return
        if begin == "empty store":
            self.empty(metric, ids, None if embedded else originals, limits, learns)
            self._add(self.subjects[0], n, 1)
            return
        books = learned(self.layout, metric)
        if embedded:
            self.embedding = Linear(np.random.default_rng(5).normal(size=(DIM, RAW)).astype(np.float32) / 2)
        index = Subject(il.Index(books, self.embedding), Rows.none(books), "index", ids)
        if begin == "rich store":
            folder = Folder(self.path("store"), ids, True, limits)
            store = il.create(folder.path, index.thing, columns=COLUMNS, originals=originals, limits=limits)
            self.keep(Subject(store, Rows.none(books, originals), "writer", ids, folder))
            self._add(self.subjects[0], n, 1)
            return
        self._add(index, n, 1)
        self.keep(index)
        if begin == "store":
            self._to_store(index, bool(n % 7), limits)

    def empty(self, metric: str, ids: str, originals: str | None, limits: Limits, learns: bool) -> None:
        """A store without codebooks, which ``learns`` by itself, or by ``relearn``."""
        folder = Folder(self.path("store"), ids, True, limits, learns)
        how = {"layout": self.layout, "metric": metric, "relearn": "auto" if learns else "manual", "learn_at": 100}
        options: dict[str, Any] = {"columns": COLUMNS, "originals": originals, "limits": limits, **how, **LEARNING}
        store = il.create(folder.path, dim=DIM, **options)
        self.keep(Subject(store, Rows.none(store.codebooks, originals, exact=True), "writer", ids, folder))

    @rule(at=AT, what=LIFE)
    def live(self, at: int, what: Call) -> None:
        """An object changes as a whole, or another one comes to life."""
        found = self.some(*TAKES[what.name])
        if what.name in ("create", "to_store") and len(self.some("writer")) == STORES:
            return
        if found:
            self.run(found[at % len(found)], [what])

    # --- writes

    @rule(
        at=AT,
        first=st.lists(QUESTIONS, max_size=2),
        changes=st.lists(CHANGES, min_size=1, max_size=3),
        then=st.lists(QUESTIONS, max_size=2),
    )
    def write(self, at: int, first: list[Call], changes: list[Call], then: list[Call]) -> None:
        """The same questions before and after a write, whose answers must not be those of before, and others.

        An index takes those changes that it knows.
        """
        found = self.some("writer") or self.some("index")
        if at == 0:
            found = self.some("index") or found
        if found:
            subject = found[at % len(found)]
            known = [change for change in changes if subject.kind in TAKES[change.name]]
            self.run(subject, first + known + first + then)

    def _add(
        self,
        subject: Subject,
        n: int,
        seed: int,
        embedded: bool = False,
        effort: str | None = None,
        form: str = "array",
    ) -> None:
        """Rows with ids that are new, or without ids."""
        x, vectors = self.inputs(n, seed, embedded)
        options: dict[str, Any] = {"embedded": embedded, "effort": effort, "threads": 1 + seed % 2}
        rows, payload = subject.rows, None
        if subject.columns:
            payload = options["payload"] = values(n, seed)
        ids: list[Any] | None = None
        if subject.ids == "default" and seed % 5:
            first = rows.next_id if subject.kind == "writer" else len(rows)
            names = list(range(first, first + n))
        else:
            ids = names = self.new_ids(subject, n)
        came = subject.thing.add(formed(x, form), ids, **options)
        if subject.kind == "writer":
            assert came.tolist() == names
        elif ids and subject.ids == "default":
            subject.ids = "explicit"
        subject.become(rows.put(vectors, names, payload, effort))
        if subject.kind == "index" and subject.ids != "default" and len(subject.rows):
            with pytest.raises(il.InputError, match="ids"):
                subject.thing.add(self.inputs(1, 0, embedded)[0], embedded=embedded)

    def _upsert_one(self, subject: Subject, number: int, seed: int) -> None:
        """A vector and an id, not arrays of them."""
        value, (x, vectors) = named(subject.ids, [number])[0], self.inputs(1, seed, False)
        payload = {"payload": values(1, seed)[0]} if subject.columns else {}
        assert subject.thing.upsert(x[0], value, **payload).tolist() == [value]
        subject.become(subject.rows.put(vectors, [value], list(payload.values()) or None))

    def new_ids(self, subject: Subject, n: int) -> list[Any]:
        """Ids that no row here has."""
        taken = [value for value in subject.rows.ids if not isinstance(value, str)]
        first = max([10_000 + self.made, *(value + 1 for value in taken)])
        self.made += n
        return named("string" if subject.ids == "string" else "default", range(first, first + n))

    def _add_known(self, subject: Subject, numbers: list[int], seed: int) -> None:
        """Ids some of which may be here already: all rows are added, or none."""
        if subject.kind == "index" and subject.ids == "default":
            return
        ids = named(subject.ids, numbers)
        x, vectors = self.inputs(len(ids), seed, False)
        payload = values(len(ids), seed) if subject.columns else None
        options = {} if payload is None else {"payload": payload}
        if any(value in subject.rows.row_of for value in ids):
            with pytest.raises(il.DuplicateIdError):
                subject.thing.add(x, ids, **options)
        else:
            subject.thing.add(x, ids, **options)
            subject.become(subject.rows.put(vectors, ids, payload))

    def _add_small(self, subject: Subject, n: int, exponent: float, seed: int) -> None:
        """Rows of which the last is too small for float32 are refused; by cosine only their directions count."""
        x, ids = self.small(n, exponent, seed), self.new_ids(subject, n)
        options: dict[str, Any] = {"payload": values(n, seed)} if subject.columns else {}
        if subject.rows.books.metric == "cosine":
            if subject.kind == "writer":
                subject.thing.upsert(x, ids, embedded=True, **options)
                subject.become(subject.rows.put(x, ids, options.get("payload")))
            return
        x[:-1] = POOL[: n - 1]
        with raises(il.InputError, "too small", f"x[{n - 1}]"):
            subject.thing.add(x, ids, embedded=True, **options)

    def _upsert(self, subject: Subject, numbers: list[int], seed: int, embedded: bool) -> None:
        subject.become(self.replaced(subject, subject.rows, numbers, seed, embedded))

    def replaced(self, subject: Subject, rows: Rows, numbers: list[int], seed: int, embedded: bool) -> Rows:
        ids = named(subject.ids, numbers)
        x, vectors = self.inputs(len(ids), seed, embedded)
        payload = values(len(ids), seed) if subject.columns else None
        options = {} if payload is None else {"payload": payload}
        assert subject.thing.upsert(x, ids, embedded=embedded, **options).tolist() == ids
        return rows.put(vectors, ids, payload)

    def _remove(self, subject: Subject, numbers: list[int], every: int, seed: int) -> None:
        """Rows by number, or every so many-th one, or all."""
        rows = subject.rows
        ids = list(rows.ids)[seed % every :: every] if every else named(subject.ids, numbers)
        there = [value for value in ids if value in rows.row_of]
        if len(there) < len(ids):
            with pytest.raises(il.UnknownIdError):
                subject.thing.remove(ids)
        assert subject.thing.remove(ids, missing="ignore") == len(there)
        subject.become(rows.without(ids))

    def _batch(self, subject: Subject, steps: list[tuple[bool, list[int], int]], fails: bool) -> None:
        """Searches see it when it ends, also where an error ended it."""
        before = after = subject.rows
        with contextlib.suppress(StopError), subject.thing.batch():
            for adding, numbers, seed in steps:
                if adding:
                    after = self.replaced(subject, after, numbers, seed, False)
                else:
                    ids = named(subject.ids, numbers)
                    subject.thing.remove(ids, missing="ignore")
                    after = after.without(ids)
            assert subject.thing.ids.tolist() == list(before.ids)
            for refused in (subject.thing.compact, subject.thing.calibrate, subject.thing.close):
                with pytest.raises(il.InputError, match="batch"):
                    refused()
            if fails:
                raise StopError
        subject.become(after)

    def _compact(self, subject: Subject) -> None:
        subject.thing.compact()
        subject.become(subject.rows)
        health = subject.thing.health()
        assert (health.removed, health.log_rows) == (0, 0)
        assert health.segments == bool(len(subject.rows))

    def _calibrate(self, subject: Subject, given: bool, noise: float | None, seed: int) -> None:
        """With ``noise``, few queries that repeat each other, which support no margin."""
        n = len(subject.rows)
        if n > self.work or (n > SLOW and seed % 4):
            return
        self.work -= n
        wanted = min(1000, max(400, n))
        q = self.inputs(wanted, 9000 + seed, False)[0] if noise is None else self.repeated(wanted, noise, 9000 + seed)
        queries = q if given else None
        if not n:
            with pytest.raises(il.InputError, match="empty"):
                subject.thing.calibrate(queries)
            return
        subject.thing.calibrate(queries, threads=1)
        if subject.kind == "writer":  # an index keeps its filters
            subject.become(dataclasses.replace(subject.rows, calibrated=subject.rows.originals is not None))
        if given and noise is not None:
            rules = [subject.thing.search(q[0], margin=margin).stats.rule for margin in TARGETS]
            assert rules == ["exact"] * len(TARGETS)

    def _relearn(self, subject: Subject, layout: str | None) -> None:
        n = len(subject.rows)
        if (subject.rows.originals is None and not subject.rows.exact) or not n:
            with pytest.raises(il.InputError):
                subject.thing.relearn()
            return
        if 3 * n > self.work:  # it takes longer than a calibration, which is a part of it
            return
        self.work -= 3 * n
        settings = {"n_words": 16, "iterations": 1, "effort": "fastest", "threads": 1}
        subject.thing.relearn(**settings | ({} if layout is None else {"layout": layout}))
        subject.become(subject.rows.recoded(subject.thing.codebooks))

    # --- copies, files, processes

    def _build(self, subject: Subject, seed: int, kind: str, metric: str) -> None:
        x = POOL[np.random.default_rng(seed).integers(len(POOL), size=40)]
        ids = named(kind, range(40))
        index = il.Index.build(
            x, ids=None if kind == "default" else ids, layout=self.layout, metric=metric, seed=seed, **LEARNING
        )
        if self.embedding is None:  # else it would take other inputs than the rest
            self.keep(Subject(index, Rows.none(index.codebooks).put(x, ids), "index", kind))

    def _copied(self, subject: Subject, deep: bool) -> None:
        books = pickle.loads(pickle.dumps(subject.thing.codebooks)) if subject.kind != "snapshot" else None
        assert books is None or books == subject.rows.books
        if subject.kind != "index":
            return
        thing = copy.deepcopy(subject.thing) if deep else pickle.loads(pickle.dumps(subject.thing))
        self.keep(dataclasses.replace(subject, thing=thing))

    def _save_and_open(self, subject: Subject, again: bool) -> None:
        """``again``: over a file that others may have open."""
        path = self.home / "same.index" if again else self.path("index")
        subject.thing.save(path)
        self.keep(dataclasses.replace(subject, thing=il.open(path)))

    def _to_store(self, subject: Subject, columns: bool, limits: Limits) -> None:
        rows = subject.rows
        kind = "default" if subject.ids == "explicit" else subject.ids
        folder = Folder(self.path("store"), kind, columns, limits)
        how: dict[str, Any] = {"limits": limits}
        payload: tuple[Payload, ...] = ({},) * len(rows)
        if columns:
            payload = tuple(values(len(rows), self.made))
            how |= {"columns": COLUMNS, "payload": list(payload)}
        store = subject.thing.to_store(folder.path, **how)
        numbers = [value + 1 for value in rows.ids if not isinstance(value, str)]
        rows = dataclasses.replace(rows, payload=payload, next_id=max([0, *numbers]))
        self.keep(Subject(store, rows, "writer", kind, folder))

    def _create(self, subject: Subject, originals: str, limits: Limits, n: int) -> None:
        """A store with originals, of the books of whatever there is."""
        kind = "default" if subject.ids == "explicit" else subject.ids
        if subject.rows.exact:
            with pytest.raises(il.InputError, match="source"):
                il.create(self.path("store"), subject.thing.codebooks)
            self.empty(subject.rows.books.metric, kind, originals, limits, n > 3)
            self._add(self.subjects[-1], n, 2)
            return
        folder = Folder(self.path("store"), kind, True, limits)
        source = il.Index(subject.thing.codebooks, self.embedding)
        store = il.create(folder.path, source, columns=COLUMNS, originals=originals, limits=limits)
        self.keep(Subject(store, Rows.none(subject.rows.books, originals), "writer", kind, folder))
        self._add(self.subjects[-1], n, 2)

    def _to_file(self, subject: Subject, again: bool) -> None:
        """``again``: over a file that others may have open."""
        if subject.rows.exact:
            with pytest.raises(il.InputError, match="relearn"):
                subject.thing.to_file(self.path("index"), payload=False)
            return
        rows = subject.rows.plain()
        path = self.home / "same.index" if again else self.path("index")
        if subject.columns:
            with pytest.raises(il.InputError, match="payload=False"):
                subject.thing.to_file(path)
        subject.thing.to_file(path, payload=False)
        runs = rows.ids == tuple(range(len(rows)))
        kind = "string" if subject.ids == "string" else "default" if runs else "explicit"
        self.keep(Subject(il.open(path), rows, "index", kind))

    def _open_reader(self, subject: Subject) -> None:
        self.keep(dataclasses.replace(subject, thing=il.open(subject.folder.path), kind="reader"))

    def _refresh(self, subject: Subject) -> None:
        writer = next(s for s in self.some("writer") if s.folder is subject.folder)
        changed = subject.thing.refresh()
        if subject.rows.ids != writer.rows.ids:
            assert changed
        subject.become(writer.rows)
        assert not subject.thing.refresh()

    def _snapshot(self, subject: Subject) -> None:
        self.keep(dataclasses.replace(subject, thing=subject.thing.snapshot, kind="snapshot"))

    def _reopen(self, subject: Subject) -> None:
        """Closed, it refuses everything; opened again, it is as it was, or, a reader, as the writer left it."""
        store, folder = subject.thing, subject.folder
        q = POOL[0]
        if subject.kind == "writer":
            with pytest.raises(il.StoreLockedError):
                il.open(folder.path, mode="a")
        store.close()
        calls: dict[str, Callable[[], Any]] = {
            "search": lambda: store.search(q, embedded=True),
            "search_by_id": lambda: store.search_by_id([]),
            "range_search": lambda: store.range_search(q, 1.0, embedded=True),
            "explain": lambda: store.explain(q, 0, embedded=True),
            "allow": lambda: store.allow([]),
            "evaluate": lambda: store.evaluate(q, embedded=True),
            "get": lambda: store.get([]),
            "payload": store.payload,
            "ids": lambda: store.ids,
            "len": lambda: len(store),
            "iter": lambda: list(store),
            "snapshot": lambda: store.snapshot,
            "report": store.report,
            "health": store.health,
            "verify": store.verify,
            "refresh": store.refresh,
            "add": lambda: store.add(POOL[:1], embedded=True),
            "remove": lambda: store.remove([]),
            "compact": store.compact,
            "calibrate": store.calibrate,
            "relearn": store.relearn,
            "to_file": lambda: store.to_file(self.home / "none", payload=False),
        }
        answered = [name for name, call in calls.items() if not refuses(call)]
        assert not answered
        store.close()
        assert "Store" in repr(store)
        if subject.kind == "writer":
            subject.thing = il.open(folder.path, mode="a", limits=folder.limits)
            subject.become(subject.rows)
        else:
            subject.thing = il.open(folder.path)
            subject.become(next(s for s in self.some("writer") if s.folder is folder).rows)


class SubspaceOrders(Orders):
    layout = "subspace"


class HybridOrders(Orders):
    layout = "hybrid"


class ResidualOrders(Orders):
    layout = "residual"


class EmptyOrders(Orders):
    """Stores without codebooks, which learn some."""

    layout = "hybrid"
    beginning = "empty store"
