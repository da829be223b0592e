"""Codebooks in parts: codes, an index in parts against a plain loop over decoded rows, files."""

from __future__ import annotations

import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

import interlace as il
from helpers import ID_KINDS, clustered, hand_made, ids_of
from interlace.files import storage
from interlace.index.parts import Parts, PartsIndex, Places
from interlace.quantizers import LOPQ, MSQ, PQ
from raising import raises

DIM = 5


def random_parts(rng: np.random.Generator, n_parts: int, *, one_cell: bool, n_words: int = 6) -> Parts:
    """Parts of random words, rotations and means."""
    parts = []
    for _ in range(n_parts):
        first = il.Book(np.zeros((1, 0)), []) if one_cell else il.Book(rng.normal(size=(n_words, DIM)), range(DIM))
        words = [il.Book(rng.normal(size=(n_words, len(dims))), dims) for dims in ([0, 1], [2, 3, 4])]
        rotation = np.linalg.qr(rng.normal(size=(DIM, DIM)))[0]
        parts.append(il.Codebooks([first, *words], dim=DIM, n_crude=2, mean=rng.normal(size=DIM), rotation=rotation))
    return Parts(parts, rng.normal(size=(n_parts, 2)))


def random_codes(rng: np.random.Generator, parts: Parts, n: int) -> NDArray[np.uint8]:
    return np.stack([rng.integers(0, size, n) for size in parts.column_sizes], 1).astype(np.uint8)


CASES = st.tuples(
    st.integers(0, 2**32 - 1), st.integers(1, 5), st.booleans(), st.sampled_from([0, 1, 2, 70, 333]), st.integers(1, 40)
)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 256), st.integers(0, 2000))
def test_places_against_a_list_of_rows(seed: int, n_parts: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    part_of = rng.integers(0, n_parts, n).astype(np.uint8)
    places = Places(part_of, n_parts)
    rows = [[row for row in range(n) if part_of[row] == part] for part in range(n_parts)]
    pairs = [(part, number) for part in range(n_parts) for number in range(len(rows[part]))]
    pairs = [pairs[i] for i in rng.permutation(len(pairs))]
    parts, numbers = (np.array([pair[i] for pair in pairs], np.int64) for i in (0, 1))
    assert places.rows(parts, numbers).tolist() == [rows[part][number] for part, number in pairs]
    assert places.before.nbytes <= n / 8 + 8 * n_parts


@settings(max_examples=60, deadline=None)
@given(CASES)
def test_a_search_is_that_of_the_decoded_rows(case: tuple[int, int, bool, int, int]) -> None:
    seed, n_parts, one_cell, n, k = case
    rng = np.random.default_rng(seed)
    parts = random_parts(rng, n_parts, one_cell=one_cell)
    codes, queries = random_codes(rng, parts, n), rng.normal(size=(3, DIM)).astype(np.float32)
    index = PartsIndex.from_codes(parts, codes)
    assert len(index) == n
    assert_array_equal(index.codes(), codes)
    decoded = parts.decode(codes).astype(np.float64)
    oracle = ((queries[:, None] - decoded[None]) ** 2).sum(2)
    for margin in (math.inf, "exact", 0.99):
        found = index.search(queries, k, margin=margin, threads=1)
        count = min(k, n)
        assert (found.counts == count).all()
        assert (found.ids[:, count:] == -1).all()
        assert np.isinf(found.distances[:, count:]).all()
        assert_allclose(found.distances[:, :count], np.sort(oracle, 1)[:, :count], atol=2e-3)
        assert_allclose(np.take_along_axis(oracle, found.ids[:, :count], 1), found.distances[:, :count], atol=2e-3)
        assert all(len(set(row)) == count for row in found.ids[:, :count].tolist())
    assert found.stats.rows == n


def test_decode_is_that_of_the_part() -> None:
    rng = np.random.default_rng(0)
    for one_cell in (True, False):
        parts = random_parts(rng, 3, one_cell=one_cell)
        codes = random_codes(rng, parts, 50)
        assert parts.n_bytes == codes.shape[1] == (3 if one_cell else 4)
        assert parts.n_books == parts.n_bytes
        for code, vector in zip(codes, parts.decode(codes), strict=True):
            inner = np.array([0, *code[1:]] if one_cell else code[1:], np.uint8)
            assert_allclose(vector, parts.codebooks[code[0]].decode(inner[None])[0], rtol=1e-5, atol=1e-5)


def test_the_best_candidate_is_kept() -> None:
    rng = np.random.default_rng(1)
    parts, x = random_parts(rng, 4, one_cell=True), rng.normal(size=(60, DIM)).astype(np.float32)

    def errors(codes: Any) -> Any:
        return ((parts.decode(codes) - x) ** 2).sum(1)

    each = [errors(parts.encode(x, np.full((60, 1), part), 1)) for part in range(4)]
    candidates = np.stack([rng.permutation(4)[:3] for _ in range(60)])
    codes = parts.encode(x, candidates, 1)
    best = np.array([min(each[part][row] for part in candidates[row]) for row in range(60)])
    assert_allclose(errors(codes), best, rtol=1e-5)
    assert all(code[0] in row for code, row in zip(codes, candidates, strict=True))


def test_equal_distances_come_in_the_order_of_the_parts() -> None:
    parts = random_parts(np.random.default_rng(2), 1, one_cell=True)
    twice = Parts([parts.codebooks[0]] * 2, np.zeros((2, 1)))
    codes = np.zeros((6, 3), np.uint8)
    codes[::2, 0] = 1
    assert PartsIndex.from_codes(twice, codes).search(np.zeros(DIM), 6).ids.tolist() == [1, 3, 5, 0, 2, 4]


@pytest.mark.parametrize("kind", ID_KINDS)
@pytest.mark.parametrize("quantizer", [LOPQ, MSQ])
def test_save_and_open(quantizer: Any, kind: str, tmp_path: Path) -> None:
    x = clustered(300, 6)
    model = quantizer(4, n_words=16, iterations=2, threads=1).fit(x)
    ids = ids_of(kind, 300)
    index = model.index(x, ids)
    index.save(tmp_path / "i")
    again = PartsIndex.open(tmp_path / "i")
    assert again.codebooks == index.codebooks
    assert_array_equal(again.ids, index.ids)
    assert_array_equal(again.codes(), index.codes())
    assert_array_equal(index.codes(), model.encode(x))
    for one in (index, again):
        found = one.search(x[:20], 5)
        assert_array_equal(found.ids, index.search(x[:20], 5).ids)
        some = found.ids[0]
        rows = [[*index.ids].index(i) for i in some]
        assert_allclose(one.reconstruct(list(some)), model.transform(x)[rows], rtol=1e-5, atol=1e-5)
        alone = one.reconstruct(some[0].item() if kind != "string" else some[0])
        assert_allclose(alone, one.reconstruct([some[0]])[0], rtol=1e-5, atol=1e-5)
        assert index.ids[7] in one
        assert "no such row" not in one
    again.save(tmp_path / "j")
    assert (tmp_path / "i").read_bytes() == (tmp_path / "j").read_bytes()
    report = index.report()
    assert report.code_bytes_per_vector > 4
    assert report.ids == 0 or kind != "default"
    assert "PartsIndex(300 rows" in repr(index)


def test_files_that_are_something_else(tmp_path: Path) -> None:
    x = clustered(200, 6)
    model = LOPQ(3, n_words=8, n_cells=3, iterations=1, threads=1).fit(x)
    model.save(tmp_path / "m")
    model.index(x).save(tmp_path / "i")
    with raises(il.NotAnIndexError, "'model'"):
        PartsIndex.open(tmp_path / "m")
    with raises(il.NotAnIndexError, "interlace.parts.PartsIndex.open(path)"):
        il.open(tmp_path / "i")
    with raises(il.NotAnIndexError, "LOPQ", "MSQ"):
        MSQ.load(tmp_path / "m")
    for path in ("m", "i"):
        with pytest.raises(il.NotAnIndexError, match="holds codebooks in parts"):
            il.Codebooks.load(tmp_path / path)
    index = pickle.loads(pickle.dumps(model.index(x)))
    assert np.array_equal(index.search(x[:3]).ids, model.index(x).search(x[:3]).ids)


def test_flipped_bytes_are_named(tmp_path: Path) -> None:
    path = tmp_path / "i"
    LOPQ(3, n_words=8, n_cells=3, iterations=1, threads=1).fit(clustered(90, 6)).index(clustered(90, 6)).save(path)
    data, file = path.read_bytes(), storage.read(path)
    start = 8 + int.from_bytes(data[:8], "little")
    for name in file.names:
        first, last = file.header.entries[name]["data_offsets"]
        if first < last:
            damaged = bytearray(data)
            damaged[start + last - 1] ^= 4
            path.write_bytes(damaged)
            with pytest.raises(il.DamagedFileError, match=f"section '{name}' does not match its checksum"):
                PartsIndex.open(path)


def test_shared_words_are_stored_once(tmp_path: Path) -> None:
    x = clustered(600, 6)
    model = LOPQ(3, n_words=32, n_cells=5, books="shared", iterations=1, threads=1).fit(x)
    names = set(model.codebooks_.to_arrays()[0])
    assert {"0.words.1", "0.words.2", "4.rotation", "4.mean"} <= names
    assert not {"1.words.1", "4.words.2"} & names
    local = LOPQ(3, n_words=32, n_cells=5, books="local", iterations=1, threads=1).fit(x)
    assert "4.words.2" in local.codebooks_.to_arrays()[0]
    local.save(tmp_path / "m")
    assert LOPQ.load(tmp_path / "m").codebooks_ == local.codebooks_


def test_parts_that_cannot_be() -> None:
    one = hand_made()
    other = PQ(2, n_words=4, iterations=1, threads=1).fit(clustered(50, 6)).codebooks_
    with raises(il.InputError, 1, 256, 0):
        Parts([], np.zeros((0, 1)))
    with raises(il.InputError, 2, 1):
        Parts([one, one], np.zeros((1, 1)))
    with raises(il.InputError, "parts", "part 1"):
        Parts([one, other], np.zeros((2, 1)))
    parts = Parts([one, one], np.zeros((2, 1)))
    assert parts != 3
    assert parts == Parts([one, one], np.zeros((2, 1)))
    for codes, facts in (
        (np.zeros((3, 3), np.uint8), ("codes", "uint8", "[n, 4]")),
        (np.full((3, 4), 2, np.uint8), ("codes[0, 0]", 2)),
        (np.array([[1, 0, 3, 0]], np.uint8), ("codes[:, 2]", 3, "part 1")),
    ):
        with raises(il.InputError, *facts):
            PartsIndex.from_codes(parts, codes)
    index = PartsIndex.from_codes(parts, np.zeros((3, 4), np.uint8))
    with raises(il.InputError, "k", "integer"):
        index.search(np.zeros(4), 0)
    with raises(il.InputError, "queries", 3):
        index.search(np.zeros(3))
    with raises(il.UnknownIdError, "id 3"):
        index.reconstruct(3)
