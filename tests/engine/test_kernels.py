"""The scan kernels alone: no row within the threshold is lost, on any level, at any size.

The other kernels have no bindings of their own: `make levels` compares each of them with the scalar level. Here they
are reached by encoding and searching.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from books import index_of, random_codebooks, random_codes
from interlace import _native, reference
from interlace.engine.margins import EXACT
from interlace.engine.scan import search_rows

SIMD = Path(__file__).parents[2] / "cpp" / "simd"
#: Loops over float tables in tables_impl.h: vectors of the level's own width, compiled once for each level.
VECTOR_TYPES = {"squared_distances", "inner_products", "rotate", "add_terms", "minima", "max_abs", "argmin"}
#: Sums over the dimensions of stored rows in stored_impl.h: the same.
STORED = {"stored_distances", "stored_products"}


def scan(blocks, tables, scale, threshold):
    masks = np.empty(len(blocks), np.uint64)
    _native.scan_blocks(blocks, tables, scale, threshold, masks)
    return np.unpackbits(masks.view(np.uint8), bitorder="little").reshape(len(blocks), 64).astype(bool)


def true_sums(blocks, tables):
    looked_up = [tables[j].astype(np.float64)[blocks[:, j]] - tables[j].min() for j in range(len(tables))]
    return np.sum(looked_up, axis=0) if len(tables) else np.zeros((len(blocks), 64))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 2**32),
    n_blocks=st.sampled_from([0, 1, 2, 15, 16, 17, 40]),
    n_columns=st.integers(0, 16),
    unread=st.integers(0, 2),
    threshold=st.integers(0, 254),
)
def test_the_byte_sum_is_a_lower_bound(simd, seed, n_blocks, n_columns, unread, threshold):
    rng = np.random.default_rng(seed)
    blocks = rng.integers(0, 256, (n_blocks, n_columns + unread, 64), dtype=np.uint8)
    tables = (rng.normal(size=(n_columns, 256)) * 10.0 ** rng.uniform(-3, 3)).astype(np.float32)
    spread = float(np.ptp(tables)) if n_columns else 1.0
    scale = np.float32(254 / (spread * rng.uniform(0.2, 2)))
    kept = scan(blocks, tables, scale * np.float32(1 - 2.0**-20), threshold)
    within = true_sums(blocks, tables) * float(scale) <= threshold
    assert not (within & ~kept).any()


def test_levels_with_full_tables_agree_bit_for_bit():
    rng = np.random.default_rng(0)
    blocks = rng.integers(0, 256, (33, 3, 64), dtype=np.uint8)
    tables = rng.random((3, 256)).astype(np.float32)
    before = _native.simd_level()
    full = [level for level in _native.simd_levels() if level != "avx2"]  # avx2 compares a smaller sum: see below
    kept = []
    for level in full:
        _native.force_simd_level(level)
        kept.append(scan(blocks, tables, np.float32(100), 60))
    _native.force_simd_level(before)
    assert all((k == kept[0]).all() for k in kept)
    assert 0 < kept[0].mean() < 1


def test_the_avx2_scan_lets_few_more_rows_through_when_near_words_share_a_group():
    if "avx2" not in _native.simd_levels():
        pytest.skip("this machine has no AVX2")
    rng = np.random.default_rng(1)
    blocks = rng.integers(0, 256, (50, 3, 64), dtype=np.uint8)
    values = np.sort(rng.random((3, 128)), axis=1)
    tables = np.tile(values, 2).astype(np.float32) + rng.random((3, 256)).astype(np.float32) * 0.01
    before, kept = _native.simd_level(), {}
    for level in ("scalar", "avx2"):
        _native.force_simd_level(level)
        kept[level] = scan(blocks, tables, np.float32(100), 60)
    _native.force_simd_level(before)
    assert (kept["avx2"] | kept["scalar"]).sum() == kept["avx2"].sum()
    assert kept["avx2"].sum() < 1.1 * kept["scalar"].sum()


def test_infinite_entries_are_dead(simd):
    tables = np.full((1, 256), np.inf, np.float32)
    tables[0, :3] = [0.0, 1.0, 2.0]
    blocks = np.zeros((1, 1, 64), np.uint8)
    blocks[0, 0, :4] = [0, 1, 2, 131]
    kept = scan(blocks, tables, np.float32(100), 150)
    assert kept[0, :2].all()
    assert simd == "avx2" or not kept[0, 2]
    assert simd == "avx2" or not kept[0, 3]


def test_an_unknown_level_is_refused_with_the_known_ones():
    with pytest.raises(RuntimeError, match=r"'sse9'.*scalar"):
        _native.force_simd_level("sse9")


def test_the_environment_forces_a_level():
    import os
    import subprocess
    import sys

    code = "import interlace; print(interlace.simd_level())"
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "INTERLACE_SIMD": "scalar"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == "scalar"
    bad = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "INTERLACE_SIMD": "mmx"}, capture_output=True, text=True
    )
    assert bad.returncode != 0
    assert "INTERLACE_SIMD" in bad.stderr


def defined_in(path):
    """Names of the functions that a level's file defines, those of the parts it includes among them."""
    text = path.read_text()
    parts = set(re.findall(r'^#include "(\w+_impl\.h)"', text, re.MULTILINE)) - {"tables_impl.h", "stored_impl.h"}
    return set(re.findall(r"^[\w:]+ (\w+)\(", text, re.MULTILINE)).union(*(defined_in(SIMD / part) for part in parts))


def kernel_names():
    struct = (SIMD / "kernels.h").read_text().partition("struct Kernels {")[2].partition("};")[0]
    return set(re.findall(r"\([&*](\w+)\)\(", struct))


@pytest.mark.parametrize("level", ["scalar", "avx2", "avx512", "neon"])
def test_every_level_has_its_own_version_of_every_kernel(level):
    """A plain loop that several levels share is one that the compiler vectorizes for none of them."""
    assert len(kernel_names()) >= 16
    assert kernel_names() - defined_in(SIMD / f"{level}.cpp") == VECTOR_TYPES | STORED
    assert defined_in(SIMD / "tables_impl.h") & kernel_names() == VECTOR_TYPES
    assert defined_in(SIMD / "stored_impl.h") & kernel_names() == STORED


@pytest.mark.parametrize("dim", [1, 7, 8, 63, 64, 65])
def test_full_books_of_every_width_equal_the_reference(simd, dim):
    """Words of all 256 numbers, and sums and products whose last vector is full, empty or in between."""
    rng = np.random.default_rng(dim)
    codebooks = random_codebooks(rng, "additive", dim=dim, n_books=3, n_words=256, n_crude=1, beam=4, sweeps=1)
    for n in (0, 1, 5):
        x = rng.normal(size=(n, dim)).astype(np.float32)
        codes = np.empty((n, 3), np.uint8)
        _native.encode(codebooks.native, x, 4, 1, 1, codes)
        assert (codes == reference.encode(codebooks, x, 4, 1)).all()
    codes = random_codes(rng, codebooks, 65)
    query, rule = rng.normal(size=(1, dim)).astype(np.float32), EXACT
    rows, distances = search_rows(codebooks, index_of(codebooks, codes).engine.segments, query, 7, rule, 1)[:2]
    hits, _ = reference.search(codebooks, codes, query[0], 7, rule, None, (65,))
    assert rows[0].tolist() == [hit.row for hit in hits]
    assert distances[0].tobytes() == np.array([hit.distance for hit in hits], np.float32).tobytes()


@pytest.mark.parametrize("n_blocks", [1, 7, 8, 63, 64, 65])
def test_levels_with_full_tables_agree_at_every_number_of_blocks(simd, n_blocks):
    rng = np.random.default_rng(n_blocks)
    blocks = rng.integers(0, 256, (n_blocks, 9, 64), dtype=np.uint8)
    tables = rng.random((9, 256)).astype(np.float32)
    kept = scan(blocks, tables, np.float32(60), 200)
    sums = sum(((tables[j] - tables[j].min()) * np.float32(60)).astype(np.uint8)[blocks[:, j]] * 1.0 for j in range(9))
    assert not ((sums <= 200) & ~kept).any()
    assert simd == "avx2" or (kept == (sums <= 200)).all()
