"""An index with an embedding: raw inputs go in, and everything is as if they had been embedded before."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import interlace as il
from helpers import METRICS, clustered, hand_made, ids_of, run_python, same_index
from interlace.codec.embedding import MLP, Embedding, Identity, Linear, Network
from interlace.files import storage
from raising import raises

MARGINS: tuple[Any, ...] = ("exact", 0.999, "paper", math.inf)


def embedding(seed: int = 0, raw: int = 9, kind: str = "mlp") -> Embedding:
    """To the four dimensions of :func:`hand_made` codebooks."""
    rng = np.random.default_rng(seed)
    if kind == "linear":
        return Linear(rng.normal(size=(4, raw)), rng.normal(size=4))
    return MLP([(rng.normal(size=(5, raw)), rng.normal(size=5)), (rng.normal(size=(4, 5)), rng.normal(size=4))])


def both(made: Embedding, x: Any, *, ids: Any = None, **books: Any) -> tuple[il.Index, il.Index]:
    """The same rows: raw in an index with the embedding, embedded in one without."""
    raw, plain = il.Index(hand_made(**books), made), il.Index(hand_made(**books))
    raw.add(x, ids, threads=1)
    plain.add(made(x), ids, threads=1)
    return raw, plain


def assert_same(a: il.Matches, b: il.Matches) -> None:
    assert_array_equal(a.ids, b.ids)
    assert_array_equal(a.distances, b.distances)
    assert_array_equal(a.counts, b.counts)
    assert a.stats.margin == b.stats.margin
    assert a.stats.lookups == b.stats.lookups


@settings(deadline=None)
@given(
    seed=st.integers(0, 999),
    kind=st.sampled_from(["linear", "mlp"]),
    metric=st.sampled_from(METRICS),
    n=st.integers(1, 90),
    k=st.integers(1, 12),
    margin=st.sampled_from(MARGINS),
)
def test_raw_queries_are_answered_as_embedded_ones(
    seed: int, kind: str, metric: str, n: int, k: int, margin: Any
) -> None:
    made, x, q = (
        embedding(seed, kind=kind),
        clustered(n, 9, seed=seed),
        clustered(400 if seed % 2 else 7, 9, seed=seed + 1),
    )
    raw, plain = both(made, x, metric=metric)
    if seed % 2:
        raw.calibrate(q, threads=1)
        plain.calibrate(made(q), threads=1)
    z = made(q)
    wanted = plain.search(z, k, margin=margin, threads=1)
    assert_same(raw.search(q, k, margin=margin, threads=1), wanted)
    assert_same(raw.search(z, k, margin=margin, threads=1, embedded=True), wanted)
    assert_same(plain.search(z, k, margin=margin, threads=1, embedded=True), wanted)
    for i in range(3):
        single = raw.search(q[i], k, margin=margin, threads=1)
        assert (single.ids.shape, single.distances.shape) == ((k,), (k,))
        assert_array_equal(single.ids, wanted.ids[i])
        assert_array_equal(single.distances, wanted.distances[i])


def test_without_an_embedding_embedded_means_nothing() -> None:
    index = il.Index(hand_made())
    index.add(clustered(30, 4), threads=1, embedded=True)
    other = il.Index(hand_made())
    other.add(clustered(30, 4), threads=1)
    assert same_index(index, other)
    assert (index.embedding, index.input_shape, index.dim) == (None, (4,), 4)
    assert "->" not in repr(index)


def test_images() -> None:
    rng = np.random.default_rng(2)
    made = Linear(rng.normal(size=(4, 18)), input_shape=(2, 3, 3))
    images = rng.integers(0, 255, (40, 2, 3, 3)).astype(np.uint8)
    raw, plain = both(made, images)
    assert (raw.input_shape, raw.dim) == ((2, 3, 3), 4)
    q = images[:5]
    wanted = plain.search(made(q), 6, threads=1)
    assert_same(raw.search(q, 6, threads=1), wanted)
    assert_same(raw.search(q.reshape(5, 18), 6, threads=1), wanted)
    for one in (q[2], q[2].ravel()):
        assert_array_equal(raw.search(one, 6, threads=1).ids, wanted.ids[2])
    for bad in (q[:, 0], q[0, 0], q.reshape(5, 9, 2), np.zeros(4)):
        with raises(il.InputError, "queries", "[n, 2, 3, 3]", "[n, 18]"):
            raw.search(bad)
    with raises(il.InputError, "x", "[n, 2, 3, 3]"):
        raw.add(q[:, 0])
    with raises(il.InputError, "x", 18, 4):
        raw.add(q.reshape(5, 18), embedded=True)
    assert len(raw) == 40


def test_rows_that_are_embedded_already_and_iterators() -> None:
    made, x = embedding(), clustered(70, 9)
    raw, _ = both(made, x, ids=ids_of("string", 70))
    mixed = il.Index(hand_made(), made)
    mixed.add(made(x[:30]), ids_of("string", 70)[:30], threads=1, embedded=True)
    mixed.add((x[i : i + 7] for i in range(30, 70, 7)), ids_of("string", 70)[30:], threads=1)
    assert_array_equal(raw.ids, mixed.ids)
    assert_array_equal(raw.reconstruct(raw.ids), mixed.reconstruct(raw.ids))
    assert raw.reconstruct(raw.ids).shape == (70, 4)


def test_calibrate_and_evaluate_take_raw_inputs() -> None:
    made, x, q = embedding(), clustered(300, 9), clustered(400, 9, seed=3)
    raw, plain = both(made, x)
    raw.calibrate(q, threads=1)
    plain.calibrate(made(q), threads=1)
    assert raw.calibration is not None
    assert plain.calibration is not None
    assert_array_equal(raw.calibration.shares, plain.calibration.shares)
    again = il.Index.from_codes(raw.codebooks, raw.engine.codes_of(np.arange(300)), embedding=made)
    again.calibrate(made(q), threads=1, embedded=True)
    assert again.calibration is not None
    assert_array_equal(again.calibration.shares, plain.calibration.shares)
    timed = {"queries_per_second", "queries_per_second_single"}
    for given_q in (q, None):
        ours = raw.evaluate(given_q, 5, x=x, threads=1)
        theirs = plain.evaluate(None if given_q is None else made(q), 5, x=made(x), threads=1)
        vectors = raw.evaluate(None if given_q is None else made(q), 5, x=made(x), threads=1, embedded=True)
        for other in (theirs, vectors):
            assert {k: v for k, v in ours.as_dict().items() if k not in timed} == {
                k: v for k, v in other.as_dict().items() if k not in timed
            }
    assert raw.evaluate(k=3, threads=1).queries_from.startswith("rows as coded")


def test_an_embedding_that_does_not_fit() -> None:
    with raises(il.InputError, 3, 4):
        il.Index(hand_made(), Identity(3))
    with raises(il.InputError, "embedding", "interlace.embedding", "'linear'"):
        il.Index(hand_made(), "linear")  # type: ignore[arg-type]
    with raises(il.InputError, "embedding", 3):
        il.Index.from_codes(hand_made(), np.zeros((2, 3), np.uint8), embedding=Identity(3))


def test_a_failed_add_adds_nothing() -> None:
    made = Linear(np.full((4, 3), 1e10))
    index = il.Index(hand_made(), made)
    x = np.ones((20, 3), np.float32)
    x[13] = 1e15
    with raises(il.InputError, "x[13]"):
        index.add(x)
    with raises(il.InputError, "queries[13]"):
        index.search(x)
    assert len(index) == 0


# --- files ------------------------------------------------------------------------------------------------------------

MADE = {"identity": Identity(4), "linear": embedding(kind="linear"), "mlp": embedding()}


@pytest.mark.parametrize("kind", MADE)
def test_save_open(kind: str, tmp_path: Path) -> None:
    made = MADE[kind]
    x = clustered(50, made.input_shape[0])
    raw, plain = both(made, x, ids=ids_of("int64", 50))
    raw.calibrate(clustered(400, made.input_shape[0], seed=5), threads=1)
    raw.save(tmp_path / "i")
    opened = il.open(tmp_path / "i")
    opened.verify()
    assert opened.embedding is not None
    assert (opened.embedding.kind, opened.embedding.fingerprint) == (kind, made.fingerprint)
    assert (opened.input_shape, repr(opened)) == (raw.input_shape, repr(raw))
    for margin in MARGINS:
        assert_same(opened.search(x, 5, margin=margin, threads=1), raw.search(x, 5, margin=margin, threads=1))
    opened.add(x[:3], [-9, -8, -7], threads=1)
    plain.add(made(x[:3]), [-9, -8, -7], threads=1)
    assert_same(opened.search(x, 5, margin="exact", threads=1), plain.search(made(x), 5, margin="exact", threads=1))
    opened.save(tmp_path / "again")
    assert il.Codebooks.load(tmp_path / "again") == raw.codebooks
    assert il.open(tmp_path / "i", made).embedding is made  # the same may be passed
    with raises(il.InputError, "differs", "file"):
        il.open(tmp_path / "i", embedding=object())


def test_files_without_the_key_open_as_before(tmp_path: Path) -> None:
    index = il.Index(hand_made())
    index.add(clustered(30, 4), threads=1)
    index.save(tmp_path / "new")
    file = storage.read(tmp_path / "new")
    assert file.meta.pop("embedding", "absent") is None
    storage.write(tmp_path / "old", {name: file.array(name) for name in file.names}, file.meta)
    assert same_index(il.open(tmp_path / "old"), index)
    for path in ("old", "new"):
        with raises(il.InputError, "embedding=object"):
            il.open(tmp_path / path, embedding=object())


def test_every_flipped_byte_of_the_embedding_is_named(tmp_path: Path) -> None:
    path = tmp_path / "i"
    raw, _ = both(embedding(kind="linear"), clustered(20, 9))
    raw.save(path)
    data = path.read_bytes()
    file = storage.read(path)
    start = 8 + int.from_bytes(data[:8], "little")
    ours = [name for name in file.names if name.startswith("embedding.")]
    assert ours == ["embedding.weight.0", "embedding.bias.0"]
    for name in ours:
        first, last = file.header.entries[name]["data_offsets"]
        for at in {first, (first + last) // 2, last - 1}:
            damaged = bytearray(data)
            damaged[start + at] ^= 1
            path.write_bytes(damaged)
            with pytest.raises(il.DamagedFileError, match=f"section '{name}' does not match its checksum"):
                il.open(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "fourier"}, "embedding: .* kind 'fourier'"),
        ({"dim": 5}, "embedding: .* 4 dimensions, .* 5"),
        ({"n_layers": 2}, "embedding: 'weight.1'"),
        ({"input_shape": [3]}, r"embedding: .* takes 9 values, .* \(3,\) has 3"),
        ({"input_shape": None}, "embedding: 'NoneType' object is not iterable"),
    ],
)
def test_descriptions_that_make_no_sense_are_damage(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    raw, _ = both(embedding(kind="linear"), clustered(20, 9))
    raw.save(tmp_path / "i")
    file = storage.read(tmp_path / "i")
    file.meta["embedding"] |= change
    storage.write(tmp_path / "j", {name: file.array(name) for name in file.names}, file.meta)
    with pytest.raises(il.DamagedFileError, match=message):
        il.open(tmp_path / "j")


def test_an_embedding_that_does_not_fit_the_books_is_damage(tmp_path: Path) -> None:
    raw, _ = both(embedding(kind="linear"), clustered(20, 9))
    raw.save(tmp_path / "i")
    file = storage.read(tmp_path / "i")
    file.meta["embedding"] = Identity(3).to_arrays()[1]
    storage.write(tmp_path / "j", {name: file.array(name) for name in file.names}, file.meta)
    with raises(il.DamagedFileError, "embedding", 3, 4):
        il.open(tmp_path / "j")


def test_the_report_counts_the_embedding(tmp_path: Path) -> None:
    made = embedding(kind="linear")
    raw, plain = both(made, clustered(20, 9))
    with_it, without = raw.report(), plain.report()
    assert (with_it.embedding, with_it.embedding_kind) == (4 * (4 * 9 + 4), "linear")
    assert with_it.total == without.total + with_it.embedding
    assert f"{with_it.embedding:,} bytes (linear)" in str(with_it)
    assert (without.embedding, without.embedding_kind) == (0, None)
    assert "embedding" not in str(without)
    raw.save(tmp_path / "i")
    assert il.open(tmp_path / "i").report().embedding == with_it.embedding


def test_a_network_opens_without_torch_and_says_what_it_needs(tmp_path: Path) -> None:
    """Searching vectors never needs torch; raw inputs do, where a network makes vectors of them."""
    index = il.Index(hand_made(), Network("lenet", (1, 28, 28), 4, {"w": np.ones(3)}))
    index.add(clustered(9, 4), threads=1, embedded=True)
    index.save(tmp_path / "i")
    code = """
import json, sys
sys.modules["torch"] = None  # as if it were not installed
import numpy as np
import interlace as il
index = il.open(sys.argv[1])
index.verify()
found = index.search(np.zeros((2, 4)), 3, embedded=True).ids.shape
try:
    index.search(np.zeros((2, 1, 28, 28)))
except il.InputError as error:
    print(json.dumps([list(found), index.report().embedding_kind, str(error)]))
"""
    shape, kind, message = run_python(code, str(tmp_path / "i"))
    assert (shape, kind) == ([2, 3], "lenet")
    assert "pip install 'interlace[train]'" in message
