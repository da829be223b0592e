"""Kinds of cells at equal number: how many rows a query visits, what the words cost, how long learning takes.

    python benchmarks/cell_kinds.py [--quick] [--data sift-grown-10m]

Three kinds, by the k-means of faiss and NumPy, without codes: flat words; pairs (the sum of a word of a first book and
one of a second, learned on the residuals of the first); trees (words learned within each cell of a coarse level). A row
belongs to its nearest cell; for pairs and trees it is found through the best few first words. A query visits cells in
ascending order of distance. Reported is the mean share of the rows that it visits until 99 % of the ten nearest rows of
all queries are found, by one number of cells for all queries, and the mean squared distance of a row from its cell. Of
more than a million rows, a random half million stands for all.
Nothing is timed but learning, in CPU seconds. Writes benchmarks/results/cell-kinds[-10m].json.
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

import bench_sets
import machine
from cache import write_json
from peers import RESULTS

FORMAT, KIND = 1, "cell-kinds"
K, SHARE, QUERIES, ROUNDS, SAMPLE = 10, 0.99, 500, 8, 32
CELLS = {"sift-grown-1m": (1024, 4096), "sift-grown-10m": (16384,)}
MOST, COUNTED = 1_000_000, 500_000  # rows that are all assigned, or else so many of them
FIRST = 8  # first words that a row is compared with through pairs or a tree
Floats = NDArray[np.float32]


def learned(x: Floats, n: int, seed: int) -> Floats:
    """Words by k-means."""
    if len(x) <= n:
        return x.copy()
    kmeans = faiss.Kmeans(
        x.shape[1], n, niter=ROUNDS, seed=seed, min_points_per_centroid=1, max_points_per_centroid=256
    )
    kmeans.train(x)
    return np.asarray(kmeans.centroids)


def nearest(x: Floats, words: Floats, k: int) -> NDArray[np.int64]:
    """Numbers of the k nearest words."""
    index = faiss.IndexFlatL2(words.shape[1])
    index.add(words)
    return np.asarray(index.search(x, min(k, len(words)))[1])


def flat(x: Floats, n: int, seed: int) -> tuple[Floats, int, None]:
    """Every cell has a word of its own."""
    return learned(x, n, seed), n, None


def pairs(x: Floats, n: int, seed: int) -> tuple[Floats, int, NDArray[np.int64]]:
    """256 words, and n / 256 words of their residuals, in all sums."""
    first = learned(x, 256, seed)
    second = learned(x - first[nearest(x, first, 1)[:, 0]], n // 256, seed + 1)
    words = (first[:, None] + second[None]).reshape(-1, x.shape[1])
    return words, 256 + n // 256, np.repeat(np.arange(256), n // 256)


def tree(x: Floats, n: int, seed: int) -> tuple[Floats, int, NDArray[np.int64]]:
    """sqrt(n) groups, and words within each, as many as its rows ask for."""
    groups = learned(x, round(np.sqrt(n)), seed)
    label = nearest(x, groups, 1)[:, 0]
    counts = np.maximum(1, np.round(np.bincount(label, minlength=len(groups)) * n / len(x)).astype(int))
    words = [learned(x[label == g], int(counts[g]), seed) for g in range(len(groups))]
    return np.concatenate(words), n, np.repeat(np.arange(len(groups)), [len(w) for w in words])


def cells_of(x: Floats, words: Floats, parent: NDArray[np.int64] | None) -> NDArray[np.int64]:
    """The nearest cell of each row; with parents, among those of the nearest parents."""
    if parent is None:
        return nearest(x, words, 1)[:, 0]
    centres = np.stack([words[parent == p].mean(0) for p in range(parent.max() + 1)]).astype(np.float32)
    near = nearest(x, centres, FIRST)
    best, cell = np.full(len(x), np.inf, np.float32), np.zeros(len(x), np.int64)
    for p in range(len(centres)):
        rows = np.flatnonzero((near == p).any(1))
        own = np.flatnonzero(parent == p)
        if not len(rows) or not len(own):
            continue
        index = faiss.IndexFlatL2(words.shape[1])
        index.add(words[own])
        distance, found = index.search(x[rows], 1)
        better = distance[:, 0] < best[rows]
        best[rows[better]], cell[rows[better]] = distance[better, 0], own[found[better, 0]]
    return cell


def measured(name: str, make: Any, data: Any, n: int, seed: int) -> dict[str, Any]:
    """One kind."""
    q, rng = np.asarray(data.queries[:QUERIES], np.float32), np.random.default_rng(seed)
    sample = np.asarray(
        data.x[np.sort(rng.choice(len(data.x), min(len(data.x), SAMPLE * n), replace=False))], np.float32
    )
    counted = np.sort(rng.choice(len(data.x), COUNTED, replace=False)) if len(data.x) > MOST else np.arange(len(data.x))
    x = np.asarray(data.x[counted], np.float32)
    began = time.process_time()
    words, stored, parent = make(sample, n, seed)
    learning = time.process_time() - began
    cells = cells_of(x, words, parent)
    error = float(
        np.mean(
            [((x[s : s + 65536] - words[cells[s : s + 65536]]) ** 2).sum(1).mean() for s in range(0, len(x), 65536)]
        )
    )
    order = nearest(q, words, len(words))
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.broadcast_to(np.arange(order.shape[1]), order.shape), 1)
    hits = np.asarray(data.truth)[:QUERIES, :K]
    cells_of_hits = cells_of(np.asarray(data.x[hits.ravel()], np.float32), words, parent).reshape(hits.shape)
    of_hits = np.take_along_axis(rank, cells_of_hits, 1)
    visited = int(np.quantile(of_hits, SHARE)) + 1
    sizes = np.bincount(cells, minlength=len(words))
    return {
        "kind": name,
        "cells": len(words),
        "stored_words": stored,
        "mean_squared_distance": round(error, 1),
        "cells_visited": visited,
        "rows_visited": round(float(sizes[order[:, :visited]].sum(1).mean()) / len(x), 5),
        "empty_cells": round(float((sizes == 0).mean()), 4),
        "learning_cpu_seconds": round(learning, 1),
    }


def main(argv: list[str] | None = None) -> int:
    """Measure all kinds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small: see that it runs")
    parser.add_argument(
        "--data", choices=tuple(CELLS), default="sift-grown-1m", help="the set (default: one million rows)"
    )
    parser.add_argument("--results", type=Path, help="folder of the JSON (default: benchmarks/results)")
    args = parser.parse_args(argv)
    results = args.results or (RESULTS / "quick" if args.quick else RESULTS)
    data = bench_sets.load(args.data, seed=0, quick=args.quick, say=lambda text: print(text, file=sys.stderr))
    found = []
    for n in (512,) if args.quick else CELLS[args.data]:
        for name, make in (("flat", flat), ("pairs", pairs), ("tree", tree)):
            found.append(measured(name, make, data, n, 0))
            print(found[-1], file=sys.stderr, flush=True)
    write_json(
        results / f"{KIND}{args.data.removeprefix('sift-grown').removesuffix('-1m')}.json",
        {"format": FORMAT, "kind": KIND, "data": data.name, "rows": len(data.x), "environment": machine.environment(),
         "results": found},
    )  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
