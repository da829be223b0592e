"""Pickles and copies, by the bytes of our files; what cannot be pickled says what to do instead."""

from __future__ import annotations

import copy
import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import interlace as il
from books import random_codebooks, random_codes
from helpers import clustered
from interlace.codec.embedding import Linear
from interlace.index.parts import PartsIndex
from raising import raises

X = clustered(400, 8, seed=1)


def again(thing: Any) -> Any:
    return pickle.loads(pickle.dumps(thing))


class Watched(pickle.Unpickler):
    """Remembers the packages that a pickle calls into."""

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data))
        self.packages: set[str] = set()

    def find_class(self, module: str, name: str) -> Any:
        self.packages.add(module.partition(".")[0])
        return super().find_class(module, name)


def packages_in(thing: Any) -> set[str]:
    watched = Watched(pickle.dumps(thing))
    watched.load()
    return watched.packages


@pytest.mark.parametrize("kind", ["subspace", "additive", "hybrid"])
@pytest.mark.parametrize("copied", [again, copy.copy, copy.deepcopy])
def test_codebooks_before_and_after_their_first_use(kind: str, copied: Any) -> None:
    books = random_codebooks(np.random.default_rng(1), kind)
    first = copied(books)
    index = il.Index.from_codes(books, random_codes(np.random.default_rng(2), books, 50))
    q = np.zeros(books.dim, np.float32)
    index.search(q)
    for other in (first, copied(books)):
        assert other == books
        assert not other.books[0].words.flags.writeable
        other_index = il.Index.from_codes(other, index.engine.codes_of(np.arange(50)))
        assert np.array_equal(other_index.search(q).distances, index.search(q).distances)


@pytest.mark.parametrize("ids", [None, [7 * i for i in range(400)], [f"é{i}" for i in range(400)]])
@pytest.mark.parametrize("copied", [again, copy.copy, copy.deepcopy])
def test_an_index_answers_as_before_and_grows_by_itself(ids: Any, copied: Any, tmp_path: Path) -> None:
    index = il.Index.build(X, ids=ids, n_bytes=3, layout="hybrid", threads=1, iterations=1)
    opened = index.save(tmp_path / "i") or il.open(tmp_path / "i")
    for one in (index, opened):
        one.search(X[:3])
        other = copied(one)
        for margin in ("exact", 0.99):
            mine, theirs = one.search(X[:9], 5, margin=margin), other.search(X[:9], 5, margin=margin)
            assert mine.ids.tolist() == theirs.ids.tolist()
            assert np.array_equal(mine.distances, theirs.distances)
            assert mine.stats.margin == theirs.stats.margin
        assert other.choice == one.choice
        other.verify()
        other.add(X[:5], None if ids is None else ([10**6 + i for i in range(5)] if ids[0] == 0 else list("abcde")))
        assert (len(one), len(other)) == (400, 405)
    other = copied(index)
    other.save(tmp_path / "a")
    index.save(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_pickles_of_an_index_run_nothing_of_others() -> None:
    index = il.Index.build(X, n_bytes=3, layout="hybrid", threads=1, iterations=1)
    for thing in (index, il.Index(index.codebooks, Linear(np.ones((8, 5), np.float32)))):
        assert packages_in(thing) == {"interlace"}
        assert again(thing).codebooks == index.codebooks
    assert packages_in(index.codebooks) == {"interlace", "numpy"}


def test_an_index_in_parts() -> None:
    index = il.quantizers.LOPQ(3, n_cells=2, n_words=8, iterations=1, threads=1).fit(X).index(X)
    for other in (again(index), copy.deepcopy(index)):
        assert isinstance(other, PartsIndex)
        assert np.array_equal(other.search(X[:5]).ids, index.search(X[:5]).ids)


def test_answers_travel() -> None:
    index = il.Index.build(X, n_bytes=2, layout="subspace", threads=1, iterations=1)
    for found in (index.search(X[:3], 4), index.search(X[0], 4), index.range_search(X[:3], 1.0)):
        for other in (again(found), copy.deepcopy(found)):
            assert np.array_equal(other.ids, found.ids)
            assert np.array_equal(other.distances, found.distances)
            assert other.stats == found.stats
    assert again(index.report()) == index.report()
    assert again(index.explain(X[0], 3)) == index.explain(X[0], 3)


def test_what_cannot_travel_says_what_to_do(tmp_path: Path) -> None:
    index = il.Index.build(X, n_bytes=2, layout="subspace", threads=1, iterations=1)
    allowed = index.allow([1, 2])
    with raises(TypeError, "allow()"):
        pickle.dumps(allowed)
    assert np.array_equal(index.search(X[0], filter=copy.deepcopy(allowed)).ids, index.search(X[0], filter=allowed).ids)
    with index.to_store(tmp_path / "s") as store:
        for act in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match=rf"pass its path, .*{tmp_path.name}.*il\.open"):
                act(store)
            with pytest.raises(TypeError, match="pass the path of its store"):
                act(store.snapshot)
        assert len(again(store.snapshot.to_index())) == 400
