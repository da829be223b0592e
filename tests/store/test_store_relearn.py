"""Codebooks learned again from kept originals: smaller errors, the same rows, and nothing lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from store_helpers import BOOKS, LARGE

import interlace as il
from helpers import clustered
from interlace.codec.encode import encode
from interlace.store import adding as module
from interlace.store import files
from raising import raises

DIM = 16
SETTINGS: dict[str, Any] = {"iterations": 2, "threads": 1, "layout": "hybrid"}


def made(folder: Path, *, kind: str = "float16", metric: str = "l2", **settings: Any) -> tuple[il.Store, np.ndarray]:
    """Books of one kind of rows, and a store of another."""
    books = il.Index.build(
        clustered(600, DIM), n_bytes=4, n_words=32, metric=metric, iterations=2, threads=1, layout="hybrid"
    ).codebooks
    x = ((5 if metric == "l2" else 0) + clustered(900, DIM, seed=1)[:, ::-1]).astype(np.float32)
    store = il.create(folder, books, originals=kind, limits=LARGE, **settings)
    store.add(x[:500], threads=1, **_payload(settings, 500))
    store.add(x[500:], threads=1, **_payload(settings, 400))
    return store, x


def _payload(settings: dict[str, Any], n: int) -> dict[str, Any]:
    return {"payload": {"n": np.arange(n)}} if "columns" in settings else {}


def error(store: il.Store, x: np.ndarray) -> float:
    return float(((store.get(store.ids) - x) ** 2).sum(1).mean())


@pytest.mark.parametrize("kind", ["float16", "int8"])
def test_rows_stay_and_are_coded_better(tmp_path: Path, kind: str) -> None:
    store, x = made(tmp_path / "s", kind=kind, columns={"n": "int64"})
    store.remove([3, 700])
    left = np.delete(x, [3, 700], axis=0)
    reader = il.open(tmp_path / "s")
    before, ids, payload = error(store, left), store.ids, store.payload()
    old = reader.search(x[:5], 4)
    store.relearn(**SETTINGS)
    assert error(store, left) < before / 2
    assert np.array_equal(store.ids, ids)
    assert store.payload().equals(payload)
    assert store.codebooks.n_bytes == 4
    assert len(store.snapshot.rows.parts) == 1
    assert np.allclose(store.get([5, 800], originals=True), x[[5, 800]], atol=0.2)
    assert store.search(x[:2], 3, margin=0.99).stats.rule == "calibrated"  # calibrated
    health = store.health()
    assert (health.training_error or np.inf) < before / 2
    assert "held out" in health.training_from
    store.verify()
    assert np.array_equal(reader.search(x[:5], 4).ids, old.ids)  # until it looks again
    assert reader.refresh()
    assert np.array_equal(reader.search(x[:5], 4).ids, store.search(x[:5], 4).ids)
    store.add(x[:3], [10_000, 10_001, 10_002], payload={"n": [1, 2, 3]})
    store.close()
    again = il.open(tmp_path / "s", mode="a")
    again.verify()
    assert len(again) == 901


def test_bytes_and_layout_may_change_and_cosine_stays(tmp_path: Path) -> None:
    store, x = made(tmp_path / "s", metric="cosine")
    store.relearn(**{**SETTINGS, "layout": "subspace", "n_bytes": 6})
    assert (store.codebooks.layout, store.codebooks.n_bytes, store.metric) == ("subspace", 6, "cosine")
    found = store.search(x[:20], 1, rerank=50)
    assert (found.ids[:, 0] == np.arange(20)).mean() > 0.9
    store.verify()


def test_after_a_failure_the_store_is_what_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, x = made(tmp_path / "s")
    before = store.search(x[:5], 4, margin="exact")
    real = files.call

    def full(name: str, *arguments: Any, **where: int) -> Any:
        if name == "fsync":
            raise OSError(28, "No space left on device")
        return real(name, *arguments, **where)

    with monkeypatch.context() as patch:
        patch.setattr(files, "call", full)
        with pytest.raises(il.StoreError, match="No space left"):
            store.relearn(**SETTINGS)
    for one in (store, il.open(tmp_path / "s")):
        found = one.search(x[:5], 4, margin="exact")
        assert np.array_equal(found.ids, before.ids)
        assert np.array_equal(found.distances, before.distances)
    store.relearn(**SETTINGS)
    store.verify()


def test_bad_input(tmp_path: Path) -> None:
    plain = il.create(tmp_path / "plain", BOOKS)
    with raises(il.InputError, "relearn", "originals"):
        plain.relearn()
    empty = il.create(tmp_path / "empty", BOOKS, originals="float16")
    with pytest.raises(il.InputError, match="relearn.*empty"):
        empty.relearn()
    store, _ = made(tmp_path / "s")
    unchecked: Any = store
    with pytest.raises(TypeError, match="'metric'"):
        unchecked.relearn(metric="ip")
    with pytest.raises(TypeError, match="'bytes'"):
        unchecked.relearn(bytes=3)
    with pytest.raises(il.InputError, match="relearn.*'penalty'.*ICQ"):
        store.relearn(penalty=3.0)
    with pytest.raises(il.InputError, match="n_bytes.*300"):
        store.relearn(n_bytes=300)
    with store.batch(), pytest.raises(il.InputError, match=r"relearn\(\)"):
        store.relearn()
    with pytest.raises(il.StoreError, match="open for reading"):
        il.open(tmp_path / "s").relearn()


def test_rows_that_were_coded_while_books_changed_are_coded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread learns new books between the coding of rows and their write."""
    store, x = made(tmp_path / "s")
    real, n_calls = module.encode_rows, []

    def meanwhile(*arguments: Any) -> Any:
        n_calls.append(len(n_calls))
        codes = real(*arguments)
        if len(n_calls) == 1:
            store.relearn(**SETTINGS)
        return codes

    monkeypatch.setattr(module, "encode_rows", meanwhile)
    store.add(x[:50] + 0.001, np.arange(5000, 5050), threads=1)
    assert len(n_calls) == 2
    expected = store.codebooks.decode(encode(store.codebooks, (x[:50] + 0.001).astype(np.float32), 1))
    assert np.array_equal(store.get(np.arange(5000, 5050)), expected)
    store.calibrate()  # the same books, read again: nothing to code twice
    n_calls[:] = [0]
    store.add(x[:2], [6000, 6001], threads=1)
    assert len(n_calls) == 2


@pytest.mark.parametrize("name", ["PQ", "OPQ", "CQ", "CKMeans"])
def test_books_of_other_methods_are_learned_by_them_again(tmp_path: Path, name: str) -> None:
    x = clustered(600, 8, seed=1)
    model = getattr(il.quantizers, name)(3, n_words=16, iterations=2, threads=1).fit(clustered(300, 8)[:, ::-1] + 5)
    store = il.create(tmp_path / "s", model, originals="float16", limits=LARGE)
    store.add(x, threads=1)
    before = error(store, x)
    store.relearn(n_words=16, iterations=2, threads=1)
    assert error(store, x) < before / 2
    assert (store.codebooks.layout, store.codebooks.n_bytes) == (model.codebooks_.layout, 3)
    store.relearn(n_bytes=2, n_words=16, iterations=1, threads=1)
    assert (store.codebooks.layout, store.codebooks.n_bytes) == (model.codebooks_.layout, 2)
    with raises(il.InputError, "'effort'"):
        store.relearn(effort="best")
    with raises(il.InputError, "n_bytes", "n_books"):
        store.relearn(n_bytes=2, n_books=2)
    store.relearn(layout="subspace", n_words=16, iterations=1, threads=1)
    assert store.codebooks.layout == "subspace"
    store.verify()


def test_books_that_no_method_learns_again(tmp_path: Path) -> None:
    books = il.Codebooks(BOOKS.books, dim=BOOKS.dim, n_crude=BOOKS.n_crude)
    store = il.create(tmp_path / "s", books, originals="float16")
    store.add(np.ones((20, 4)))
    with pytest.raises(il.InputError, match=r"layout 'custom'.*relearn\(layout="):
        store.relearn()
    store.relearn(layout="subspace", n_words=2, iterations=1, threads=1)
    assert np.allclose(store.get(store.ids), 1)


@pytest.mark.parametrize("name", ["LOPQ", "MSQ"])
def test_a_store_has_one_set_of_books(tmp_path: Path, name: str) -> None:
    model = getattr(il.quantizers, name)(3, n_words=8, iterations=1, threads=1)
    with pytest.raises(il.InputError, match=rf"source must be fitted.*{name}"):
        il.create(tmp_path / "s", model)
    model.fit(clustered(200, 8))
    with pytest.raises(il.InputError, match=rf"one set of codebooks.*{name}.*model\.index"):
        il.create(tmp_path / "s", model)
    assert not (tmp_path / "s").exists()
