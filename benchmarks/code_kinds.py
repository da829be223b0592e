"""Codes that the library does not have, compared with those it has, at equal bytes on text vectors.

    python benchmarks/code_kinds.py [--parts transform,anisotropic,anisotropic-16] [--results FILE]

``transform``: scalar codes of principal axes, by cosine, 40,000 rows. Bits are given to the axes one after the other,
each where it lowers the error of a Gaussian most; the levels of an axis are learned (Lloyd-Max). With ``cells``, a byte
names the nearest of 256 words, and the axes are those of the differences. With ``factor``, a byte scales the decoded
row so that its product with the row is right, as RaBitQ and SAQ do. Results of text_codes.py are the comparison.

``anisotropic``: additive codes for inner products, 10,000 rows times random lengths, 8 bytes;
``anisotropic-16``: 18,000 rows, 16 bytes. The error of a row along
the row itself counts ``weight`` times (score-aware loss of ScaNN), in coding (coordinate descent over all books) and in
the words (conjugate gradients). It begins with our books and codes. Weight 1 is the same procedure with the usual loss.

One seed. Queries are the test queries of text128k; nothing was chosen by them, all settings tried are in the file.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

import machine
from interlace import ICQ
from peers import RESULTS, write
from text_codes import K, load, nearest, recall

FloatArray = NDArray[np.float32]
Codes = NDArray[np.int64]
#: Error of the best scalar quantizer of a Gaussian of variance 1, by bits (Max 1960); a further bit divides it by 4.
GAUSSIAN = (1.0, 0.3634, 0.1175, 0.03454, 0.009497, 0.002499, 0.00064, 0.00016, 0.00004)
LEVEL_ROWS, LEVEL_ROUNDS = 10_000, 12
CELL_ROUNDS, N_WORDS = 8, 256
WEIGHTS = (1.0, 2.0, 4.0)
ROUNDS, GRADIENTS, LAST_SWEEPS = 2, 6, 2
RIDGE_ROWS = 0.5  # as in learn/refit.py
LENGTH_SPREAD = 0.3  # of the logarithm of the lengths


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


def anisotropic(n_rows: int, n_bytes: int = 8) -> list[dict[str, Any]]:
    """Recall of our codes for inner products, and of the same books and codes after rounds with other weights."""
    x, queries = load(n_rows)
    x = x * np.random.default_rng(0).lognormal(0.0, LENGTH_SPREAD, len(x)).astype(np.float32)[:, None]
    truth = nearest(-(queries @ x.T))
    model = ICQ(n_bytes, layout="residual", metric="ip", threads=1).fit(x)
    books = model.codebooks_
    coded = model.encode(x)
    cells, columns = books.split_codes(coded)
    codes = np.column_stack([cells, columns]).astype(np.int64)
    words = [book.words.copy() for book in books.books]
    if books.rotation is not None or not np.allclose(
        books.mean + _summed(words, codes), books.decode(coded), atol=1e-5
    ):
        raise SystemExit("the books are not plain sums of words over all dimensions")

    def judged(what: dict[str, Any], words: list[FloatArray], codes: Codes, seconds: float) -> dict[str, Any]:
        decoded = books.mean + _summed(words, codes)
        along = np.einsum("ij,ij->i", x - decoded, x) ** 2 / np.einsum("ij,ij->i", x, x)
        entry = what | {
            "rows": n_rows,
            "n_bytes": n_bytes,
            "recall": recall(-(queries @ decoded.T), truth),
            "error": float(f"{np.square(x - decoded).sum(1, dtype=np.float64).mean():.5g}"),
            "error_along": float(f"{along.mean(dtype=np.float64):.5g}"),
            "cpu_seconds": round(seconds, 1),
        }
        print(entry, file=sys.stderr, flush=True)
        return entry

    entries = [judged({"method": "ours"}, words, codes, 0.0)]
    y, along = x - books.mean, x / np.linalg.norm(x, axis=1, keepdims=True)
    for weight in WEIGHTS:
        started, now, chosen = time.process_time(), [w.copy() for w in words], codes.copy()
        for _ in range(ROUNDS):
            _sweep(y, along, now, chosen, weight)
            now = _refitted(y, along, now, chosen, weight)
        for _ in range(LAST_SWEEPS):
            _sweep(y, along, now, chosen, weight)
        what = {"method": "rounds", "weight": weight}
        entries.append(judged(what, now, chosen, time.process_time() - started))
    return entries


def _summed(words: list[FloatArray], codes: Codes) -> FloatArray:
    total = words[0][codes[:, 0]].copy()
    for j in range(1, len(words)):
        total += words[j][codes[:, j]]
    return total


def _sweep(y: FloatArray, along: FloatArray, words: list[FloatArray], codes: Codes, weight: float) -> None:
    """Each book takes the best word of every row given the others: |e - w|^2 + (weight - 1) ((e - w).along)^2."""
    left = y - _summed(words, codes)
    for j, book in enumerate(words):
        left += book[codes[:, j]]
        cost = np.einsum("ij,ij->i", book, book) - 2 * (left @ book.T)
        if weight != 1:
            cost += (weight - 1) * (np.einsum("ij,ij->i", left, along)[:, None] - along @ book.T) ** 2
        codes[:, j] = cost.argmin(1)
        left -= book[codes[:, j]]


def _refitted(
    y: FloatArray, along: FloatArray, words: list[FloatArray], codes: Codes, weight: float
) -> list[FloatArray]:
    """Words with a lower loss for the codes, near the old ones: a few rounds of conjugate gradients."""
    starts = np.cumsum([0, *(len(w) for w in words)])
    n, n_books = codes.shape
    ones = np.ones(n * n_books, np.float32)
    places = (codes + starts[:-1]).reshape(-1), np.arange(0, n * n_books + 1, n_books)
    chosen = sparse.csr_matrix((ones, *places), shape=(n, int(starts[-1])))
    back = chosen.T.tocsr()

    def weighted(rows: FloatArray) -> FloatArray:
        return rows + (weight - 1) * np.einsum("ij,ij->i", rows, along)[:, None] * along

    old = np.concatenate(words)
    gradient = back @ weighted(y - chosen @ old)
    scale = 1 / (np.asarray(chosen.sum(0)).reshape(-1, 1) + RIDGE_ROWS)
    moved, direction, length = np.zeros_like(old), scale * gradient, float((scale * gradient**2).sum())
    for _ in range(GRADIENTS):
        product = back @ weighted(chosen @ direction) + RIDGE_ROWS * direction
        step = length / float((direction * product).sum())
        moved += step * direction
        gradient = gradient - step * product
        before, length = length, float((scale * gradient**2).sum())
        direction = scale * gradient + (length / before) * direction
    return [np.asarray(part, np.float32) for part in np.split(old + moved, starts[1:-1])]


PARTS: dict[str, tuple[Callable[[int], list[dict[str, Any]]], int]] = {
    "transform": (transform, 40_000),
    "anisotropic": (anisotropic, 10_000),
    "anisotropic-16": (partial(anisotropic, n_bytes=16), 18_000),
}


def main(argv: list[str] | None = None) -> int:
    """Run the parts and write the JSON of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", type=lambda text: text.split(","), default=[*PARTS])
    parser.add_argument("--rows", type=int, help="rows of text128k (default: 40,000, 10,000 and 18,000)")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the JSON")
    options = parser.parse_args(argv)
    for part in options.parts:
        run, n_rows = PARTS[part]
        found = {
            "format": 1,
            "kind": f"code kinds: {part}",
            "data": {"name": "text128k", "metric": "cosine" if part == "transform" else "ip", "k": K},
            "environment": machine.environment(),
            "entries": run(options.rows or n_rows),
        }
        write(options.results / f"text128k-{part}.json", found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
