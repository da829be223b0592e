"""A store finds what an index of the same rows finds, whatever was removed, replaced or compacted on the way."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_helpers import BOOKS, LARGE, Model, check, vectors

import interlace as il
from books import LAYOUTS, index_of, index_with, random_codebooks, random_codes
from helpers import ID_KINDS, build, clustered, ids_of, same_index
from interlace.codec.embedding import Linear
from interlace.engine.engine import WIDEST, hits_to_ask
from interlace.engine.tombstones import Tombstones
from interlace.index.ids import Ids
from interlace.index.index import Index
from interlace.store import Limits
from interlace.store.ids import JoinedIds
from raising import raises


def index_with_removed(
    rng: np.random.Generator, layout: str, sizes: list[int], share: float, *, integers: bool = False, metric: str = "l2"
) -> tuple[Index, np.ndarray, np.ndarray]:
    """An index of random codes in several segments, some rows of which are removed; all codes, and which are kept."""
    books = random_codebooks(rng, layout, integers=integers, metric=metric)
    codes = [random_codes(rng, books, n) for n in sizes]
    whole = index_of(books, *codes)
    dead = [np.flatnonzero(rng.random(n) < share) for n in sizes]
    parts = [(Ids.default(n, 0), Tombstones(n).adding(d)) for n, d in zip(sizes, dead, strict=True)]
    first = 0
    for ids, _ in parts:
        ids.first = first
        first += ids.n
    ids = JoinedIds(parts, "int64")
    index = index_with(books, whole.engine.segments, ids)
    kept = np.ones(sum(sizes), bool) if ids.removed is None else ids.removed.kept()
    return index, np.concatenate(codes), kept


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**20),
    layout=st.sampled_from(LAYOUTS),
    sizes=st.lists(st.integers(1, 150), min_size=1, max_size=4),
    share=st.sampled_from([0.0, 0.02, 0.3, 0.7, 0.98, 1.0]),
    k=st.sampled_from([1, 3, 10, 50]),
    integers=st.booleans(),
    margin=st.sampled_from(["exact", np.inf]),
)
def test_removed_rows_are_as_if_they_were_not_there(
    seed: int, layout: str, sizes: list[int], share: float, k: int, integers: bool, margin: Any
) -> None:
    """The oracle is an index of the kept rows alone: the same rows, distances, order of ties."""
    rng = np.random.default_rng(seed)
    index, codes, kept = index_with_removed(rng, layout, sizes, share, integers=integers)
    alone = index_of(index.codebooks, codes[kept])
    q = rng.integers(-3, 4, (5, 12)).astype(np.float32) if integers else rng.normal(size=(5, 12)).astype(np.float32)
    found, expected = (i.search(q, k, margin=margin, threads=1) for i in (index, alone))
    rows = np.flatnonzero(kept)
    wanted = np.where(expected.ids < 0, -1, rows[expected.ids] if len(rows) else -1)
    assert np.array_equal(found.ids, wanted)
    assert np.array_equal(found.distances, expected.distances)
    assert np.array_equal(found.counts, expected.counts)
    assert len(index) == found.stats.rows == kept.sum()
    assert found.stats.rule == ("exact" if margin == "exact" else "exhaustive")
    one_by_one = [index.search(one, k, margin=margin, threads=1).ids for one in q]
    assert np.array_equal(np.array(one_by_one), found.ids)


def test_neighbours_that_were_all_removed(tmp_path: Path) -> None:
    """Then asking for a few more hits is not enough, and the others are found all the same."""
    x = np.concatenate([clustered(400, 6, seed=1) * 0.01, clustered(4000, 6, seed=2) + 5])
    store = build(300, 6, seed=2).to_store(tmp_path / "s")
    store.remove(store.ids)
    ids = store.add(x)
    store.remove(ids[:400])
    q = np.zeros((3, 6), np.float32)
    found = store.search(q, 10, margin="exact", threads=1)
    assert (found.ids >= ids[400]).all()
    assert (found.counts == 10).all()
    expected = store.search(q, 10, margin="exact", filter=store.ids, threads=1)
    assert np.array_equal(found.ids, expected.ids)


class RemovedShare(NamedTuple):
    n: int
    count: int


@given(st.integers(1, 60), st.floats(0, 0.95))
def test_enough_hits_are_asked_for(k: int, share: float) -> None:
    """Fewer than k kept ones among them come once in a hundred draws, at most."""
    n = 10**9
    asked = hits_to_ask(k, RemovedShare(n, int(share * n)))
    assert asked >= k + (share >= 1e-6)
    short = sum(math.comb(asked, kept) * (1 - share) ** kept * share ** (asked - kept) for kept in range(k))
    assert short < 0.01
    assert hits_to_ask(k, RemovedShare(n, n)) > WIDEST * k


def test_the_calibrated_margin_survives_removals(tmp_path: Path) -> None:
    """One removed row neither makes searches exact nor wrong; after many the agreement is still what was asked for."""
    x = clustered(10_800, 12, seed=3, clusters=30)
    x, q, more = x[:6000], x[6000:6400], x[6400:]
    index = il.Index.build(x, n_bytes=4, layout="residual", threads=1)
    store = il.create(tmp_path / "s", index, limits=LARGE)
    label = store.search(q, 10, threads=1).stats.margin
    assert label.startswith("0.999 (share")
    rng = np.random.default_rng(0)
    for n in (1, 1500):
        store.remove(rng.choice(store.ids, n, replace=False))
        for k in (10, 60):  # of three quarters of the rows, 60 are spread as 80 were
            found, exact = (store.search(q, k, margin=m, threads=1) for m in (0.99, "exact"))
            assert found.stats.rule == "calibrated"
            agreement = np.mean([len(np.intersect1d(a, b)) / k for a, b in zip(found.ids, exact.ids, strict=True)])
            assert agreement >= 0.99
            assert found.stats.scanned < exact.stats.scanned
    grown = store.add(np.concatenate([x, x]))
    with pytest.warns(il.CalibrationWarning, match="6,000 rows, there are 16,499"):
        assert (store.search(q, 10, threads=1).stats.fallback or "").startswith("0.999 was calibrated for 6,000 rows")
    store.calibrate(more, threads=1)
    assert store.search(q, 10, threads=1).stats.rule == "calibrated"
    assert store.session.state.snapshot.books.calibration.n == len(index) + len(grown)
    store.close()
    with il.open(tmp_path / "s") as again:
        assert again.search(q, 10, threads=1).stats.rule == "calibrated"


@pytest.mark.parametrize("metric", ["l2", "ip", "cosine"])
@pytest.mark.parametrize("kind", ID_KINDS)
def test_an_index_goes_into_a_store_and_back(tmp_path: Path, kind: str, metric: str) -> None:
    index = build(200, 6, ids=kind, metric=metric)
    store = index.to_store(tmp_path / "s")
    q = clustered(20, 6, seed=9)
    for k in (1, 7, 300):
        for margin in ("exact", 0.99, "paper"):
            ours, theirs = (i.search(q, k, margin=margin, threads=1) for i in (store, index))
            assert np.array_equal(ours.ids, theirs.ids)
            assert np.array_equal(ours.distances, theirs.distances)
            assert (ours.stats.margin, ours.stats.scanned) == (theirs.stats.margin, theirs.stats.scanned)
    store.to_file(tmp_path / "f")
    back = il.open(tmp_path / "f")
    assert isinstance(back, il.Index)
    assert same_index(back, index)
    assert back.calibration.n == index.calibration.n
    back.verify()
    some = store.ids[3:50]
    store.remove(some)
    store.upsert(clustered(5, 6, seed=8), [10**6, 7**7, 5, 6, 4] if kind == "default" else ids_of(kind, 5, first=900))
    store.to_file(tmp_path / "g")
    smaller = il.open(tmp_path / "g")
    smaller.verify()
    assert np.array_equal(smaller.ids, store.ids)
    assert np.array_equal(smaller.reconstruct(smaller.ids), store.get(store.ids))
    ours, theirs = (i.search(q, 20, margin="exact", threads=1) for i in (store, smaller))
    assert np.array_equal(ours.ids, theirs.ids)


def test_an_empty_store(tmp_path: Path) -> None:
    store = il.create(tmp_path / "s", BOOKS)
    check(store, Model())
    assert store.search(np.zeros(4), 3).ids.tolist() == [-1, -1, -1]
    assert 0 not in store
    store.compact()
    store.to_file(tmp_path / "f")
    assert len(il.open(tmp_path / "f")) == 0
    store.add(vectors(3), ["a", "b", "c"])
    store.remove(["a", "b", "c"])
    store.compact()
    assert store.search(np.zeros(4), 2).ids.tolist() == [None, None]
    with pytest.raises(il.InputError, match="string ids"):  # what they are is never forgotten
        store.add(vectors(1), [1])
    store.close()
    with il.open(tmp_path / "s", mode="a") as again:
        assert again.search(np.zeros(4), 2).ids.tolist() == [None, None]
        again.add(vectors(1), ["d"])


@pytest.mark.parametrize("source", ["model", "codebooks", "index"])
def test_what_a_store_is_made_from(tmp_path: Path, source: str) -> None:
    x = clustered(300, 6)
    model = il.ICQ(n_bytes=4, threads=1).fit(x)
    made = {"model": model, "codebooks": model.codebooks_, "index": model.index(x)}[source]
    store = il.create(tmp_path / "s", made)
    assert store.codebooks == model.codebooks_
    if source != "index":
        assert len(store) == 0
        store.add(x, threads=1)
        assert store.search(x[:3], 5).stats.fallback == "0.999 not calibrated"
    assert same_index(model.index(x), _as_index(store, tmp_path))


def _as_index(store: il.Store, folder: Path) -> il.Index:
    store.to_file(folder / "as_index")
    return il.open(folder / "as_index")


def test_an_embedding_travels_with_the_store(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    embedding = Linear(rng.normal(size=(4, 7)), rng.normal(size=4))
    store = il.create(tmp_path / "s", il.Index(BOOKS, embedding))
    raw = rng.normal(size=(40, 7)).astype(np.float32)
    store.add(raw[:30])
    store.add(embedding(raw[30:]), embedded=True)
    store.add(iter([raw[:2], raw[2:5]]))
    store.add(raw[0], 777)
    assert store.input_shape == (7,)
    q = rng.normal(size=(5, 7)).astype(np.float32)
    expected = store.search(q, 8, margin="exact")
    assert np.array_equal(expected.ids, store.search(embedding(q), 8, margin="exact", embedded=True).ids)
    store.calibrate()
    store.compact()
    store.close()
    for again in (il.open(tmp_path / "s"), il.open(tmp_path / "s", embedding)):
        assert again.embedding.fingerprint == embedding.fingerprint
        assert np.array_equal(again.search(q, 8, margin="exact").ids, expected.ids)
        again.verify()


def test_automatic_compaction_gives_space_back(tmp_path: Path) -> None:
    store = il.create(tmp_path / "s", BOOKS, limits=Limits(rows=100, records=10, bytes=10**6, removed_share=0.25))
    ids = store.add(vectors(1000))
    before = store.report()
    assert (before.rows, before.file) == (
        1000,
        sum(p.stat().st_size for p in (tmp_path / "s").iterdir() if p.name != "LOCK"),
    )
    for start in range(0, 600, 20):
        store.remove(ids[start : start + 20])
    snapshot = store.snapshot
    assert snapshot.rows.ids.n < 600  # rows that are still there, removed or not
    assert store.report().file < before.file
    assert store.ids.tolist() == ids[600:].tolist()
    kept = il.create(tmp_path / "t", BOOKS, limits=Limits(rows=100, records=10, bytes=10**6, removed_share=None))
    kept.add(vectors(1000))
    for start in range(0, 600, 20):
        kept.remove(ids[start : start + 20])
    assert kept.snapshot.rows.ids.n == 1000
    kept.compact()
    assert (kept.snapshot.rows.ids.n, len(kept)) == (400, 400)


def test_the_report_and_the_text_of_a_store(tmp_path: Path) -> None:
    store = build(200, 6).to_store(tmp_path / "s")
    assert store.report().rows == 200
    assert "code bytes per vector" in str(store.report())
    assert repr(store).startswith(f"Store('{tmp_path / 's'}', mode='a': 200 rows, int64 ids, 1 segments")
    assert (store.dim, store.metric, store.mode, store.generation) == (6, "l2", "a", 1)


def test_default_ids_are_never_given_again(tmp_path: Path) -> None:
    store = il.create(tmp_path / "s", BOOKS)
    assert store.add(vectors(3)).tolist() == [0, 1, 2]
    store.remove([1, 2])
    store.compact()
    assert store.add(vectors(1)).tolist() == [3]
    store.remove(3)
    store.close()
    with il.open(tmp_path / "s", mode="a") as again:
        assert again.add(vectors(1)).tolist() == [4]
        again.upsert(vectors(1), [100])
        again.remove(100)
        again.compact()
    with il.open(tmp_path / "s", mode="a") as again:
        assert again.add(vectors(2)).tolist() == [101, 102]
        again.add(vectors(1), [2**63 - 1])
        with pytest.raises(il.InputError, match="default ids.*int64"):
            again.add(vectors(1))
        again.add(vectors(1), [-(2**63)])
        assert -(2**63) in again
        assert again.get(2**63 - 1).shape == (4,)


def test_rows_are_scanned_once_where_k_exceeds_those_that_are_left(tmp_path: Path) -> None:
    x = clustered(300, 8)
    with il.Index.build(x, n_bytes=3, n_words=16, layout="hybrid", threads=1).to_store(tmp_path / "s") as store:
        store.remove(np.arange(20))
        found = store.search(x[:5], 290, margin="exact", threads=1)
        assert (found.counts == 280).all()
        assert found.stats.scanned == 5 * 300


def test_the_depth_of_search_by_id_is_refused_by_the_numbers_of_the_user(tmp_path: Path) -> None:
    x = clustered(300, 8)
    books = il.Index.build(x, n_bytes=3, n_words=16, layout="hybrid", threads=1).codebooks
    with il.create(tmp_path / "s", books, originals="float16") as store:
        store.add(x, threads=1)
        with raises(il.InputError, "rerank", "k=4", 3):
            store.search_by_id([1, 2], 4, rerank=3)
