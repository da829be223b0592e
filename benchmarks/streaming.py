"""The crude scan compared with the streaming limit, the rate at which the same bytes can be read."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from interlace import _native
from machine import simd_levels
from measure import quiet

BLOCK = 64
COLUMNS = (2, 4)
SIZES = {"cache": 256 << 10, "L3": 8 << 20, "memory": 256 << 20}
CALL_BLOCKS = 16_384  # per call: its masks (128 KB) stay in cache, as the few of a real search do
MIN_SECONDS = 0.05  # of one timing


def run(rounds: int, quick: bool, say: Callable[[str], None]) -> list[dict[str, Any]]:
    """Both rates and their ratio for every level, number of columns and size."""
    before = _native.simd_level()
    sizes = {"cache": SIZES["cache"]} if quick else SIZES
    out = []
    try:
        for level in simd_levels():
            _native.force_simd_level(level)
            for n_columns in COLUMNS:
                for where, n_bytes in sizes.items():
                    say(f"streaming: {level}, {n_columns} columns, {where}")
                    out.append(
                        {"level": level, "columns": n_columns, "where": where} | _measure(n_columns, n_bytes, rounds)
                    )
    finally:
        _native.force_simd_level(before)
    return out


def _measure(n_columns: int, n_bytes: int, rounds: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    n_blocks = n_bytes // (n_columns * BLOCK)
    blocks = aligned(n_blocks * n_columns * BLOCK).reshape(n_blocks, n_columns, BLOCK)
    blocks[:] = rng.integers(0, 256, blocks.shape, dtype=np.uint8)
    tables = rng.uniform(0, 1, (n_columns, 256)).astype(np.float32)
    masks = np.empty(min(n_blocks, CALL_BLOCKS), np.uint64)
    parts = [blocks[a : a + CALL_BLOCKS] for a in range(0, n_blocks, CALL_BLOCKS)]
    words = [part.reshape(-1).view(np.uint64) for part in parts]

    def scan() -> None:
        for part in parts:
            _native.scan_blocks(part, tables, 254.0, 10, masks[: len(part)])

    def stream() -> None:
        for part in words:
            _native.stream_bytes(part)

    # The small tables of one query are quantized in every call; it takes part of the scan as it does in a search.
    with quiet():
        rates = _rates({"scan": scan, "stream": stream}, blocks.nbytes, rounds)
    return {
        "bytes": blocks.nbytes,
        "scan_gb_s": rates["scan"],
        "stream_gb_s": rates["stream"],
        "scan_gvec_s": round(rates["scan"] / n_columns, 3),
        "ratio": round(rates["scan"] / rates["stream"], 4),
    }


def _rates(what: dict[str, Callable[[], None]], n_bytes: int, rounds: int) -> dict[str, float]:
    """GB/s by the median of interleaved rounds."""
    repeats = {}
    for name, run_once in what.items():
        run_once()
        started = time.perf_counter()
        run_once()
        repeats[name] = max(1, round(MIN_SECONDS / max(time.perf_counter() - started, 1e-9)))
    seconds: dict[str, list[float]] = {name: [] for name in what}
    for _ in range(rounds):
        for name, run_once in what.items():
            started = time.perf_counter()
            for _ in range(repeats[name]):
                run_once()
            seconds[name].append((time.perf_counter() - started) / repeats[name])
    return {name: round(n_bytes / median(times) / 1e9, 3) for name, times in seconds.items()}


def aligned(n_bytes: int) -> NDArray[np.uint8]:
    """Bytes that start on a cache line, as the blocks of an index opened from a file do."""
    buffer = np.empty(n_bytes + 64, np.uint8)
    start = -buffer.ctypes.data % 64
    return buffer[start : start + n_bytes]
