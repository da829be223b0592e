"""Embeddings in NumPy: a plain loop says what they are, their files and fingerprints tell them apart."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import interlace as il
from helpers import clustered
from interlace.codec.embedded import EmbeddedRows, embed_queries
from interlace.codec.embedding import MLP, Embedding, Identity, Linear, Network, embedding_of, layers
from raising import Facts, raises

Floats = NDArray[np.float32]


def layers_of(rng: np.random.Generator, widths: list[int]) -> list[tuple[Floats, Floats]]:
    return [
        (rng.normal(size=(n_out, n_in)).astype(np.float32), rng.normal(size=n_out).astype(np.float32))
        for n_in, n_out in zip(widths[:-1], widths[1:], strict=True)
    ]


def by_loop(layers: list[tuple[Floats, Floats]], x: Floats) -> NDArray[np.float64]:
    """Layer by layer, sum by sum."""
    out = []
    for row in x.tolist():
        for number, (weight, bias) in enumerate(layers):
            row = [max(0.0, v) for v in row] if number else row
            row = [
                sum(float(w) * v for w, v in zip(weights, row, strict=True)) + float(b)
                for weights, b in zip(weight, bias, strict=True)
            ]
        out.append(row)
    return np.array(out).reshape(len(x), len(layers[-1][0]))


widths = st.lists(st.integers(1, 9), min_size=2, max_size=4)
seeds = st.integers(0, 2**32 - 1)


@given(widths=widths, n=st.integers(0, 9), seed=seeds)
def test_layers_equal_a_plain_loop(widths: list[int], n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    layers = layers_of(rng, widths)
    x = rng.normal(size=(n, widths[0])).astype(np.float32)
    made: Embedding = Linear(*layers[0]) if len(layers) == 1 else MLP(layers)
    assert (made.input_shape, made.dim, made.kind) == ((widths[0],), widths[-1], "mlp" if len(layers) > 1 else "linear")
    z = made(x)
    assert (z.dtype, z.shape) == (np.float32, (n, widths[-1]))
    np.testing.assert_allclose(z, by_loop(layers, x), rtol=1e-4, atol=1e-4)


@settings(deadline=None)
@given(
    raw=st.sampled_from([1, 3, 17, 64, 130, 784]),
    hidden=st.sampled_from([None, 5, 33, 300]),
    dim=st.sampled_from([1, 2, 7, 16, 65]),
    n=st.integers(1, 40),
    block=st.integers(1, 17),
    seed=seeds,
)
def test_a_row_is_embedded_alike_in_any_company(
    raw: int, hidden: int | None, dim: int, n: int, block: int, seed: int
) -> None:
    """To the last bit: or a search would depend on how many queries are asked at once."""
    rng = np.random.default_rng(seed)
    made = MLP(layers_of(rng, [raw, *([] if hidden is None else [hidden]), dim]))
    x = rng.normal(size=(n, raw)).astype(np.float32)
    whole = made(x)
    for start in range(0, n, block):
        np.testing.assert_array_equal(made(x[start : start + block]), whole[start : start + block])
    np.testing.assert_array_equal(np.concatenate([made.embed(x[i : i + 1]) for i in range(n)]), whole)


@given(n=st.integers(0, 30), rows=st.integers(1, 12), step=st.integers(1, 12), seed=seeds)
def test_embedded_rows_are_the_embedded_input(n: int, rows: int, step: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    made = Linear(rng.normal(size=(4, 6)), rng.normal(size=4), input_shape=(2, 3))
    x = rng.integers(0, 255, size=(n, 2, 3)).astype(np.uint8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layers, "BLOCK_VALUES", 6 * step)  # blocks of a few rows
        assert made.block_rows == step
        whole = made(x)
        embedded = EmbeddedRows(x, made)
        assert (len(embedded), embedded.dim) == (n, 4)
        blocks = [*embedded.blocks(rows)]
        chosen = np.flatnonzero(rng.random(n) < 0.5)
        taken = embedded.take(chosen)
    assert [len(block) for block in blocks] == [min(rows, n - start) for start in range(0, n, rows)]
    np.testing.assert_array_equal(np.concatenate([np.empty((0, 4), np.float32), *blocks]), whole)
    np.testing.assert_array_equal(taken, whole[chosen])
    np.testing.assert_array_equal(made(x.reshape(n, 6)), whole)


def test_inputs_of_every_kind() -> None:
    made = Linear(np.arange(12.0).reshape(2, 6), [1, -1], input_shape=(2, 3))
    images = np.arange(24.0, dtype=np.float32).reshape(4, 2, 3)
    z = made(images)
    for same in (
        images.reshape(4, 6),
        images.astype(np.float64),
        images.astype(np.int16),
        images.tolist(),
        [*images],
        (images[i : i + 2] for i in (0, 2)),
        (images.reshape(4, 6)[i : i + 2] for i in (0, 2)),
    ):
        np.testing.assert_array_equal(made(same), z)


def nan_at(row: int) -> Floats:
    x = np.zeros((5, 2, 3), np.float32)
    x[row, 1, 2] = np.nan
    return x


@pytest.mark.parametrize(
    ("x", "facts"),
    [
        (
            np.zeros((5, 3, 2)),
            ("x", "[n, 2, 3]", "[n, 6]", "ndarray", "(5, 3, 2)"),
        ),
        (np.zeros((5, 5)), ("[n, 6]", "ndarray", "(5, 5)")),
        (np.zeros(6), ("ndarray", "(6,)")),
        (np.zeros((1, 5, 2, 3)), ("ndarray", "(1, 5, 2, 3)")),
        (nan_at(3), ("x[3, 5]", "nan")),
        (np.zeros((5, 2, 3), complex), ("x", "numbers")),
        (np.full((5, 2, 3), "a"), ("x", "numbers")),
        (np.zeros((5, 2, 3), bool), ("x", "numbers")),
        (iter([np.zeros((5, 3, 2))]), ("block 0", "[n, 2, 3]")),
        ("vectors.npy", ("x", "path")),
    ],
)
def test_inputs_that_cannot_be(x: Any, facts: Facts) -> None:
    made = Linear(np.ones((2, 6)), input_shape=(2, 3))
    with raises(il.InputError, *facts):
        made(x)


def test_what_overflows_is_named() -> None:
    made = Linear(np.full((2, 3), 1e10))
    x = np.ones((9, 3), np.float32)
    x[7] = 1e15
    with raises(il.InputError, "x[7]"):
        made(x)
    with raises(il.InputError, "rows[7]"):
        EmbeddedRows(x, made, name="rows").take(np.array([0, 2, 7]))
    with raises(il.InputError, "x[7, 0]", "nan"):
        EmbeddedRows(np.where(x > 1e10, np.nan, x), made).take(np.array([0, 2, 7]))


@pytest.mark.parametrize(
    ("make", "facts"),
    [
        (lambda: Linear(np.ones(3)), ("weight", "layer 0", 2)),
        (lambda: Linear(np.ones((3, 0))), ("layer 0",)),
        (lambda: Linear(np.ones((2, 3)), np.ones(3)), ("layer 0", "[outputs, inputs]", "[outputs]")),
        (lambda: Linear([[np.nan]]), ("weight", "layer 0")),
        (lambda: Linear(np.ones((2, 6)), input_shape=(2, 2)), (6, "(2, 2)", 4)),
        (lambda: Linear(np.ones((2, 6)), input_shape=6), ("input_shape", "input")),
        (lambda: MLP([]), ("at least one layer",)),
        (lambda: MLP([(np.ones((4, 2)), None), (np.ones((2, 3)), None)]), ("layer 1", 3, 4)),
        (lambda: Identity(0), ("positive", "integer")),
        (lambda: Network("lenet", (1, 28, 28), 8, {"w": np.array(["a"])}), ("weight", "'w'")),
        (lambda: Network("lenet", (1, 28, 28), 8, {"w": np.array([np.inf])}), ("weight", "'w'")),
    ],
)
def test_embeddings_that_cannot_be(make: Any, facts: Facts) -> None:
    with raises(il.InputError, *facts):
        make()


# --- files and fingerprints -------------------------------------------------------------------------------------------


def examples() -> list[Embedding]:
    rng = np.random.default_rng(0)
    weights = {"a.weight": rng.normal(size=(3, 2)), "count": np.array(5)}
    return [
        Identity(4),
        Linear(*layers_of(rng, [6, 4])[0]),
        Linear(*layers_of(rng, [6, 4])[0], input_shape=(2, 3)),
        MLP(layers_of(rng, [6, 5, 4])),
        MLP(layers_of(rng, [6, 4])),
        Network("lenet", (1, 28, 28), 8, weights),
    ]


@pytest.mark.parametrize("made", examples(), ids=repr)
def test_arrays_and_back(made: Embedding) -> None:
    arrays, description = made.to_arrays()
    again = embedding_of(arrays, json.loads(json.dumps(description)))
    assert type(again) is type(made)
    assert (again.kind, again.input_shape, again.dim) == (made.kind, made.input_shape, made.dim)
    assert again.fingerprint == made.fingerprint == description["fingerprint"]
    assert again.n_bytes == made.n_bytes == sum(array.nbytes for array in arrays.values())
    pickled = pickle.loads(pickle.dumps(made))
    assert pickled.fingerprint == made.fingerprint
    if made.kind != "network":
        x = clustered(20, 6 if made.kind != "identity" else 4)
        np.testing.assert_array_equal(again(x), made(x))
        np.testing.assert_array_equal(pickled(x), made(x))


def test_fingerprints_tell_embeddings_apart() -> None:
    rng = np.random.default_rng(1)
    (weight, bias), other = layers_of(rng, [6, 4])[0], layers_of(rng, [4, 4])
    changed = weight.copy()
    changed[2, 3] = np.nextafter(changed[2, 3], 9)
    made = [
        *examples(),
        Linear(weight, bias),
        Linear(changed, bias),
        Linear(weight, bias + 1),
        Linear(weight, bias, input_shape=(3, 2)),
        MLP([(weight, bias)]),
        MLP([(weight, bias), *other]),
        Network("alexnet", (1, 28, 28), 8, {}),
        Network("lenet", (1, 28, 28), 8, {}),
    ]
    assert len({e.fingerprint for e in made}) == len(made)
    assert Linear(weight, bias).fingerprint == Linear(weight.astype(np.float64), bias.tolist()).fingerprint


def test_weights_are_copied_and_frozen() -> None:
    weight = np.ones((2, 3), np.float32)
    made = Linear(weight)
    weight[0] = 5
    assert made.layers[0][0][0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        made.layers[0][0][0] = 1
    network = Network("lenet", (1, 28, 28), 8, {"w": weight})
    weight[0] = 7
    assert network.weights["w"][0, 0] == 5


def test_descriptions_that_cannot_be() -> None:
    arrays, description = Linear(np.ones((2, 3))).to_arrays()
    with pytest.raises(il.InputError, match="kind 'fourier'"):
        embedding_of(arrays, description | {"kind": "fourier"})
    with raises(il.InputError, 2, 5):
        embedding_of(arrays, description | {"dim": 5})
    with pytest.raises(KeyError):
        embedding_of({}, description)
    same = Linear(np.ones((2, 3)))
    assert embedding_of(arrays, description, same) is same
    with raises(il.InputError, "embedding=", "Linear(3 -> 2)"):
        embedding_of(arrays, description, Linear(np.zeros((2, 3))))


# --- queries ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(6,), (2, 3), (1, 2, 3), (6, 1, 1), (1, 6)])
def test_a_single_query_is_one_input(shape: tuple[int, ...]) -> None:
    made = Linear(np.arange(12.0).reshape(2, 6), input_shape=shape)
    x = np.arange(18.0, dtype=np.float32).reshape(3, *shape)
    whole = made(x)
    for q, wanted, single in (
        (x, whole, False),
        (x.reshape(3, 6), whole, False),
        (x[:1], whole[:1], False),
        (x[1].ravel(), whole[1:2], True),
        (x[1].ravel().tolist(), whole[1:2], True),
        (x[1], whole[1:2], shape != (1, 6)),  # two dimensions and six columns: that is rows
        (x[:0], whole[:0], False),
    ):
        vectors, alone = embed_queries(made, q)
        assert alone is single, q
        np.testing.assert_array_equal(vectors, wanted)
    with raises(il.InputError, "queries", "[n"):
        embed_queries(made, np.zeros(5))
    with raises(il.InputError, "queries[0, 2]", "nan"):
        embed_queries(made, np.where(np.arange(6) == 2, np.nan, 0))
