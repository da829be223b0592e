"""What sequences of calls begin with, what is drawn for them, and the objects that live meanwhile."""

from __future__ import annotations

import atexit
import dataclasses
import functools
import math
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant
from orders_oracle import FloatArray, Mask, Payload, Rows, unit

import interlace as il
from helpers import HANGS, LAYOUTS, METRICS, clustered
from interlace.codec.embedding import Linear
from interlace.store import Limits, verify

DIM, RAW, LARGE = 8, 5, 2500
POOL = clustered(6000, DIM, seed=1)
LEARNING: dict[str, Any] = {"n_bytes": 4, "n_words": 16, "effort": "fast", "iterations": 1, "threads": 1}
COLUMNS = {"n": "int32", "tag": "string"}
#: Everything happens after a few writes.
SMALL = Limits(rows=40, records=5, bytes=6000, removed_share=0.3)
#: Metrics of the large beginnings of each layout, which take a second to make.
LARGE_METRICS = {"subspace": ("l2", "ip"), "hybrid": ("l2", "cosine"), "residual": ("l2", "ip")}
KINDS = ("default", "int64", "string")
#: Objects that live at the same time, and stores among them.
MOST, STORES = 6, 2
#: Rows that the slow rules (calibrate, relearn) may work through in one sequence: a large object once.
WORK = LARGE + 500
#: Different queries among those that repeat each other: too few for any target, also if noise makes some more of them.
FEW = 10
#: Rows from which on that is done in a quarter of the sequences only.
SLOW = 700


def named(kind: str, numbers: Any) -> list[Any]:
    """Ids of a kind for numbers; -1, which stands for no hit, is none of them."""
    if kind == "string":
        return [f"é{i}" for i in numbers]
    return [3 * i - 5 if kind == "int64" else i for i in numbers]


def values(n: int, seed: int) -> list[Payload]:
    """Columns of n rows, some of them null."""
    drawn = np.random.default_rng(seed).integers(0, 12, n).tolist()
    return [{"n": None if v % 4 == 0 else v - 6, "tag": None if v % 3 == 0 else f"é{v % 5}"} for v in drawn]


def _less(row: Payload, v: int) -> bool:
    return row["n"] is not None and row["n"] < v


#: Filters over columns: text, and what it means. A comparison with null is neither true nor false. Few of them, so that
#: the same one is asked before and after a write.
EXPRESSIONS: list[tuple[str, Callable[[Payload], bool]]] = [
    ("n < 1 or tag == 'é1'", lambda row: _less(row, 1) or row["tag"] == "é1"),
    ("not n < 0 and n != 2", lambda row: row["n"] is not None and not row["n"] < 0 and row["n"] != 2),
    ("tag is null or n in (-5, 1, 2)", lambda row: row["tag"] is None or row["n"] in (-5, 1, 2)),
]


# --- how calls are drawn


@dataclasses.dataclass(frozen=True)
class Ask:
    """Queries: ``n`` of them (0: a single one, 1-D), new ones or vectors of rows that are there."""

    n: int
    seed: int
    embedded: bool
    own: bool


@dataclasses.dataclass(frozen=True)
class How:
    k: int
    offset: int
    margin: float | str
    threads: int | None


@dataclasses.dataclass(frozen=True)
class Only:
    """A filter: what it is, and which share of the rows it allows (0 and below: none, or so many rows)."""

    kind: str
    share: float
    seed: int


@dataclasses.dataclass(frozen=True)
class Call:
    """A method of the machine, to be called with an object and these options."""

    name: str
    options: dict[str, Any]

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(f'{name}={value!r}' for name, value in self.options.items())})"


def call(name: str, **options: st.SearchStrategy[Any]) -> st.SearchStrategy[Call]:
    return st.fixed_dictionaries(options).map(functools.partial(Call, name))


SEEDS = st.integers(0, 999)
AT = st.integers(0, MOST - 1)
MARGINS = st.sampled_from([0.999, 0.9, 0.99, "exact", "paper", math.inf])
ASKS = st.builds(Ask, st.sampled_from([0, 1, 2, 9]), SEEDS, st.booleans(), st.booleans())
HOWS = st.builds(
    How, st.sampled_from([10, 1, 2, 37, 101]), st.sampled_from([0, 0, 0, 3, 90]), MARGINS, st.sampled_from([1, 2, None])
)
NO_FILTER = Only("none", 1, 0)
SOME_FILTERS = st.builds(
    Only,
    st.sampled_from(["mask", "ids", "expression", "expression", "arrow", "allow"]),
    st.sampled_from([0.3, 0, -1, 0.02, 0.95, 1]),
    SEEDS,
)
FILTERS = st.just(NO_FILTER) | SOME_FILTERS
NUMBERS = st.lists(st.integers(0, 30), unique=True, max_size=6)
COUNTS = st.sampled_from([3, 0, 1, 30, 120])
FORMS = st.sampled_from(["array", "blocks", "float64"])
EFFORTS = st.sampled_from([None, "fastest", "best"])
#: Of vectors too small for float32, as powers of ten.
EXPONENTS = st.sampled_from([-20, -40, -15.5])
#: Noise of queries that repeat each other, in units of the spread; None: they do not.
NOISE = st.sampled_from([None, 0.0, 1e-6, 1e-2])


# --- what sequences begin with


def made_once(make: Callable[..., Any]) -> Callable[..., Any]:
    """Remember what it makes, and let go of it at exit: nanobind takes native objects that are left for a leak."""
    kept = functools.cache(make)
    atexit.register(kept.cache_clear)
    return kept


@made_once
def shelf() -> tempfile.TemporaryDirectory[str]:
    """Where the large beginnings are kept."""
    return tempfile.TemporaryDirectory()


@made_once
def learned(layout: str, metric: str) -> il.Codebooks:
    return il.Index.build(POOL[:600], layout=layout, metric=metric, **LEARNING).codebooks


@made_once
def large_index(layout: str, metric: str) -> tuple[Path, Rows, str]:
    """A calibrated index in a file, what it holds, and the kind of its ids."""
    kind = KINDS[(LAYOUTS.index(layout) + METRICS.index(metric)) % 3]
    ids = named(kind, range(LARGE))
    index = il.Index.build(
        POOL[:LARGE], ids=None if kind == "default" else ids, layout=layout, metric=metric, **LEARNING
    )
    path = Path(shelf().name) / f"{layout} {metric}.index"
    index.save(path)
    return path, Rows.none(index.codebooks).put(POOL[:LARGE], ids), kind


@made_once
def large_store(layout: str, metric: str) -> tuple[Path, Rows, str]:
    """A calibrated store with columns and originals in a directory, what it holds, and the kind of its ids."""
    kind = KINDS[(LAYOUTS.index(layout) + METRICS.index(metric) + 1) % 3]
    originals = "int8" if metric == "ip" else "float16"
    path = Path(shelf().name) / f"{layout} {metric}.store"
    ids, payload = named(kind, range(LARGE)), values(LARGE, 1)
    with il.create(path, learned(layout, metric), columns=COLUMNS, originals=originals) as store:
        store.add(POOL[:LARGE], None if kind == "default" else ids, payload=payload, threads=1)
        store.calibrate(threads=1)
        rows = Rows.none(store.codebooks, originals).put(POOL[:LARGE], ids, payload)
    return path, dataclasses.replace(rows, calibrated=True), kind


# --- what lives


@dataclasses.dataclass(eq=False)
class Folder:
    """The directory of a store."""

    path: Path
    ids: str  # kind
    columns: bool
    limits: Limits
    learns: bool = False  # by itself


@dataclasses.dataclass(eq=False)
class Subject:
    """An object, and what it should hold."""

    thing: Any
    rows: Rows
    kind: str  # index, writer, reader, snapshot
    ids: str  # kind; of an index, "default" as long as it takes rows without ids
    folder: Folder | None = None
    touched: int = 0  # calls that may have changed what a filter was made for

    @property
    def columns(self) -> bool:
        return self.folder is not None and self.folder.columns

    def become(self, rows: Rows) -> None:
        if self.kind == "writer" and self.folder is not None and self.folder.learns:
            assert self.thing.wait_until_learned(HANGS)
            assert self.thing.health().learning_error is None
            if self.thing.codebooks != rows.books:
                rows = rows.recoded(self.thing.codebooks)
        self.rows, self.touched = rows, self.touched + 1


@dataclasses.dataclass(eq=False)
class Ready:
    """What ``allow`` made."""

    subject: Subject
    filter: Any
    allowed: Mask
    rows: Rows
    touched: int


class World(RuleBasedStateMachine):
    layout = "subspace"

    def __init__(self) -> None:
        super().__init__()
        self.home = Path(tempfile.mkdtemp())
        self.subjects: list[Subject] = []
        self.ready: list[Ready] = []
        self.embedding: Linear | None = None
        self.work = WORK
        self.made = 0  # numbers of files and of new ids

    def path(self, what: str) -> Path:
        self.made += 1
        return self.home / f"{what} {self.made}"

    def keep(self, subject: Subject) -> None:
        """Among the living; the oldest that is no writer makes room."""
        self.subjects.append(subject)
        if len(self.subjects) > MOST:
            oldest = next(s for s in self.subjects if s.kind != "writer")
            self.subjects.remove(oldest)
            if oldest.kind == "reader":
                oldest.thing.close()

    def some(self, *kinds: str) -> list[Subject]:
        return [s for s in self.subjects if s.kind in kinds or not kinds]

    def teardown(self) -> None:
        failed = sys.exc_info()[0] is not None  # a rule has: what it left half done is no second failure
        try:
            for subject in [] if failed else self.subjects:
                self._facts(subject)
            for subject in self.some("writer", "reader"):
                subject.thing.close()
            for subject in [] if failed else self.some("writer"):
                assert verify(str(subject.thing.path), self.embedding).rows == len(subject.rows)
        finally:
            shutil.rmtree(self.home)

    def run(self, subject: Subject, calls: list[Call]) -> None:
        for call in calls:
            getattr(self, f"_{call.name}")(subject, **call.options)

    @invariant()
    def as_many_rows(self) -> None:
        for subject in self.subjects:
            assert len(subject.thing) == len(subject.rows)

    # --- inputs

    def inputs(self, n: int, seed: int, embedded: bool) -> tuple[FloatArray, FloatArray]:
        """Rows to pass, and the vectors that are coded."""
        rng = np.random.default_rng(seed)
        if self.embedding is None:
            x = POOL[rng.integers(len(POOL), size=n)]
            return x, x
        raw = rng.normal(size=(n, RAW)).astype(np.float32)
        vectors = self.embedding(raw)
        return (vectors if embedded else raw), vectors

    def small(self, n: int, exponent: float, seed: int) -> FloatArray:
        """Vectors that are much smaller than all others."""
        rows = POOL[np.random.default_rng(seed).integers(len(POOL), size=n)]
        return (rows * 10.0**exponent).astype(np.float32)

    def repeated(self, n: int, noise: float, seed: int) -> FloatArray:
        """Queries to pass, a few of them again and again."""
        rng = np.random.default_rng(seed)
        q, _ = self.inputs(FEW, seed, False)
        return (q[rng.integers(FEW, size=n)] + noise * POOL.std() * rng.normal(size=(n, q.shape[1]))).astype(np.float32)

    def queries(self, subject: Subject, ask: Ask) -> tuple[FloatArray, FloatArray, bool]:
        """Queries to pass, the vectors [n, dim] that are searched, and whether the former are vectors already."""
        n, rows, embedded = max(1, ask.n), subject.rows, ask.embedded
        q, vectors = self.inputs(n, 5000 + ask.seed, embedded)
        if ask.own and len(rows):
            near = rows.vectors[np.random.default_rng(ask.seed).integers(len(rows), size=n)].astype(np.float32)
            if near.any(1).all():
                q, vectors, embedded = near, near, True
        if rows.books.metric == "cosine":
            vectors = unit(vectors)
        return (q if ask.n else q[0]), vectors, embedded

    def filter(self, subject: Subject, only: Only) -> tuple[Any, Mask | None]:
        """What to pass, and which rows it allows."""
        rows, rng = subject.rows, np.random.default_rng(only.seed)
        if only.kind == "none":
            return None, None
        if only.kind in ("expression", "arrow") and subject.columns:
            text, meaning = EXPRESSIONS[only.seed % len(EXPRESSIONS)]
            if only.kind == "expression":
                return text, np.array([meaning(row) for row in rows.payload], np.bool_)
            import pyarrow.compute as pc

            return pc.field("n") < 0, np.array([_less(row, 0) for row in rows.payload], np.bool_)
        allowed = rng.random(len(rows)) < only.share
        if only.share < 0 and len(rows):
            allowed[rng.integers(len(rows))] = True
        if only.kind == "ids":
            return [rows.ids[i] for i in rng.permutation(np.flatnonzero(allowed))], allowed
        return (subject.thing.allow(allowed) if only.kind == "allow" else allowed), allowed
