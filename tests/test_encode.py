"""Native encoding against the reference, and what its beam is good for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from books import LAYOUTS, random_codebooks
from interlace import Codebooks, reference
from interlace.encode import encode


@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_equals_the_reference(simd, layout, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    n_books = data.draw(st.integers(1, 5))
    codebooks = random_codebooks(
        rng,
        layout,
        dim=data.draw(st.integers(n_books, 14)),
        n_books=n_books,
        n_words=data.draw(st.sampled_from([1, 5, 16, 64])),
        beam=data.draw(st.integers(1, 6)),
        metric=data.draw(st.sampled_from(["l2", "ip"])),
        integers=data.draw(st.booleans()),
    )
    x = rng.normal(size=(data.draw(st.sampled_from([0, 1, 3, 4, 5, 9])), codebooks.dim)).astype(np.float32)
    assert (encode(codebooks, x, 1) == reference.encode(codebooks, x)).all()


def test_same_codes_for_any_number_of_threads():
    rng = np.random.default_rng(0)
    codebooks = random_codebooks(rng, "hybrid", dim=16, n_books=5, n_words=64)
    x = rng.normal(size=(3_000, 16)).astype(np.float32)
    one = encode(codebooks, x, 1)
    assert all((encode(codebooks, x, t) == one).all() for t in (2, 5))


@pytest.mark.parametrize("layout", ["hybrid", "residual"])
def test_a_wider_beam_codes_better(layout):
    rng = np.random.default_rng(1)
    base = random_codebooks(rng, layout, dim=16, n_books=5, n_words=64)
    x = rng.normal(size=(500, 16)).astype(np.float32)
    errors = []
    for beam in (1, 4, 16):
        codebooks = Codebooks(
            base.books, dim=16, n_crude=2, mean=base.mean, rotation=base.rotation, norms=base.norms, beam=beam
        )
        decoded = codebooks.decode(encode(codebooks, x, 1))
        errors.append(((decoded - x) ** 2).sum(1).mean())
    assert errors[0] > errors[1] >= errors[2]


def test_decode_is_the_sum_of_words_rotated_back():
    rng = np.random.default_rng(2)
    codebooks = random_codebooks(rng, "residual", dim=6, n_books=3, n_words=8)
    x = rng.normal(size=(5, 6)).astype(np.float32)
    codes = encode(codebooks, x, 1)
    order = [0, *codebooks.columns]
    for code, decoded in zip(codes, codebooks.decode(codes), strict=True):
        total = sum(codebooks.books[b].words[code[p]] for p, b in enumerate(order) if b >= 0)
        assert np.allclose(decoded, codebooks.mean + codebooks.rotation @ total, atol=1e-5)
