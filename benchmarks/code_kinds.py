"""Scalar codes, which the library does not have, compared with those it has, at equal bytes on text vectors.

    python benchmarks/code_kinds.py [--rows 40000] [--results FILE]

Scalar codes of principal axes, by cosine. Bits are given to the axes one after the other, each where it lowers the
error of a Gaussian most; the levels of an axis are learned (Lloyd-Max). With ``cells``, a byte names the nearest of 256
words, and the axes are those of the differences. With ``factor``, a byte scales the decoded row so that its product
with the row is right, as RaBitQ and SAQ do. Results of text_codes.py are the comparison.

One seed. Queries are the test queries of text128k; nothing was chosen by them, all settings tried are in the file.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

import machine
from peers import RESULTS, write
from text_codes import K, load, nearest, recall

FloatArray = NDArray[np.float32]
#: Error of the best scalar quantizer of a Gaussian of variance 1, by bits (Max 1960); a further bit divides it by 4.
GAUSSIAN = (1.0, 0.3634, 0.1175, 0.03454, 0.009497, 0.002499, 0.00064, 0.00016, 0.00004)
LEVEL_ROWS, LEVEL_ROUNDS = 10_000, 12
CELL_ROUNDS, N_WORDS = 8, 256


def transform(n_rows: int) -> list[dict[str, Any]]:
    """Recall and error of scalar codes on principal axes."""
    x, queries = load(n_rows)
    truth = nearest(-(queries @ x.T))
    cells = faiss.Kmeans(x.shape[1], N_WORDS, niter=CELL_ROUNDS, seed=0)
    cells.train(x)
    words = cells.centroids[cells.assign(x)[1]]
    entries = []
    for n_bytes in (64, 128):
        for with_cells in (False, True):
            for with_factor in (False, True):
                started = time.process_time()
                start = words if with_cells else np.broadcast_to(x.mean(0), x.shape)
                n_bits = 8 * (n_bytes - with_cells - with_factor)
                decoded = start + _scalar_coded(x - start, n_bits)
                if with_factor:
                    decoded = decoded * _byte(1 / np.maximum(np.einsum("ij,ij->i", x, decoded), 1e-3))[:, None]
                products, squares = queries @ decoded.T, np.einsum("ij,ij->i", decoded, decoded)
                by = {
                    "squares": recall(squares - 2 * products, truth),
                    "products": recall(-products, truth),
                    "cosines": recall(-products / np.sqrt(squares), truth),
                }
                entry: dict[str, Any] = {
                    "rows": n_rows,
                    "n_bytes": n_bytes,
                    "cells": with_cells,
                    "factor": with_factor,
                    "recall": max(by.values()),
                    "recall_by": by,
                    "error": float(f"{np.square(x - decoded).sum(1, dtype=np.float64).mean():.5g}"),
                    "cpu_seconds": round(time.process_time() - started, 1),
                }
                entries.append(entry)
                print(entry, file=sys.stderr, flush=True)
    return entries


def _scalar_coded(x: FloatArray, n_bits: int) -> FloatArray:
    """Rows of mean about 0 as their scalar codes of ``n_bits`` in all have them."""
    variances, axes = np.linalg.eigh(np.cov(x.T))
    y = np.asarray(x @ axes, np.float32)
    out = np.zeros_like(y)
    for axis, bits in enumerate(_bits(np.maximum(variances, 0), n_bits)):
        if bits:
            levels = _levels(np.sort(y[:LEVEL_ROWS, axis]), 1 << bits)
            out[:, axis] = levels[np.searchsorted((levels[1:] + levels[:-1]) / 2, y[:, axis])]
    return np.asarray(out @ axes.T, np.float32)


def _bits(variances: NDArray[np.float64], n_bits: int) -> list[int]:
    """Bits of each axis: one after the other where it lowers the error most."""
    bits = np.zeros(len(variances), np.int64)
    gains = -np.diff(np.array([*GAUSSIAN, GAUSSIAN[-1]]))  # no more than 8 bits
    for _ in range(n_bits):
        bits[np.argmax(variances * gains[bits])] += 1
    return [int(b) for b in bits]


def _levels(values: FloatArray, n: int) -> FloatArray:
    """Lloyd's iterations in one dimension, from quantiles; ``values`` ascend."""
    levels = np.quantile(values, (np.arange(n) + 0.5) / n)
    sums = np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])
    for _ in range(LEVEL_ROUNDS):
        bounds = np.concatenate([[0], np.searchsorted(values, (levels[1:] + levels[:-1]) / 2), [len(values)]])
        counts = np.diff(bounds)
        levels = np.where(counts > 0, np.diff(sums[bounds]) / np.maximum(counts, 1), levels)
    return np.asarray(levels, np.float32)


def _byte(factors: FloatArray) -> FloatArray:
    """Positive factors, each as one of 256 in equal steps of the logarithm."""
    logs = np.log(factors)
    low, high = np.quantile(logs, (0.001, 0.999))
    step = max((high - low) / 255, 1e-9)
    return np.asarray(np.exp(low + step * np.clip(np.rint((logs - low) / step), 0, 255)), np.float32)


def main(argv: list[str] | None = None) -> int:
    """Run all of it and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=40_000, help="rows of text128k")
    parser.add_argument("--results", type=Path, default=RESULTS / "text128k-transform.json")
    options = parser.parse_args(argv)
    found = {
        "format": 1,
        "kind": "code kinds: transform",
        "data": {"name": "text128k", "metric": "cosine", "k": K},
        "environment": machine.environment(),
        "entries": transform(options.rows),
    }
    write(options.results, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
