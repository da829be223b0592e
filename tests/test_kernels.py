"""The scan kernels alone: no row within the threshold is lost, on any level, at any size."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlace import _native


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
