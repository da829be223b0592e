"""Make the golden files: tiny indexes, a model and stores, with their answers in JSON beside them.

    python tests/golden/make_golden.py

They prove that a change which keeps the version also keeps the bytes. A change of the bytes raises ``VERSION``
(``files/versions.py``); then all of them are made again, and so are the seeds of the fuzzer (``fuzz/fuzz_seeds.py``).
``earlier/`` has files of interlace 0.2, which are refused by name.
"""

from __future__ import annotations

import json
import math
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "store")]

from store_helpers import RICH, SMALL, filled, put, vectors  # noqa: E402

from books import random_codebooks, with_cells  # noqa: E402
from helpers import ID_KINDS, LAYOUTS, build, clustered, ids_of, il  # noqa: E402
from interlace.codec.book import HALF_WIDTH  # noqa: E402
from interlace.codec.embedding import MLP  # noqa: E402


def shown(distances: np.ndarray) -> list[list[float | str]]:
    """JSON has no infinity."""
    return [["inf" if np.isinf(d) else float(d) for d in row] for row in distances]


def tiny(ids: str | np.ndarray = "default", originals: str | None = None, **settings: Any) -> il.Index:
    """Every 32nd word of learned books, so that cells hold several rows and the file stays small."""
    arrays, description = build(2000, 5, **settings).codebooks.to_arrays()
    few = {name: array[::32] if name.startswith(("words.", "norm.")) else array for name, array in arrays.items()}
    index = il.Index(
        il.Codebooks.from_arrays(few, description | {"beam": min(8, description["beam"])}), originals=originals
    )
    index.add(clustered(70, 5, seed=7), ids_of(ids, 70) if isinstance(ids, str) else ids, threads=1)
    index.calibrate(clustered(400, 5, seed=8), threads=1)
    return index


def composite() -> il.Index:
    """Books whose cross terms count as a constant."""
    index = tiny(layout="residual")
    learned, codes = index.codebooks, index.engine.codes_of(np.arange(len(index)))
    words = [book.words[codes[:, 1 + i]] for i, book in enumerate(learned.books[1:])]
    mean = float(((sum(words) ** 2).sum(1) - sum((w**2).sum(1) for w in words)).mean())
    norm = il.Norm([mean], tuple(range(1, learned.n_books)))
    constant = il.Codebooks(learned.books, dim=5, n_crude=2, mean=learned.mean, norms=[norm], beam=4, sweeps=1)
    index = il.Index(constant)
    index.add(clustered(70, 5, seed=7), threads=1)
    index.calibrate(clustered(400, 5, seed=8), threads=1)
    return index


def embedded() -> il.Index:
    """Raw inputs of 2 x 4 values, made vectors by two layers."""
    rng = np.random.default_rng(11)
    layers = [(rng.normal(size=(6, 8)), rng.normal(size=6)), (rng.normal(size=(5, 6)), rng.normal(size=5))]
    index = il.Index(tiny(layout="hybrid").codebooks, MLP(layers, input_shape=(2, 4)))
    index.add(clustered(70, 8, seed=7), threads=1)
    index.calibrate(clustered(400, 8, seed=8), threads=1)
    return index


def numbers(values: np.ndarray) -> list:
    """JSON has no NaN."""
    return np.where(np.isnan(values), None, values.astype(object)).tolist()


def write_model(name: str) -> None:
    """An estimator, and the codes of some rows."""
    params = {"n_bytes": 3, "n_words": 16, "layout": "hybrid", "threads": 1}
    model = il.ICQ(**params).fit(clustered(300, 5))
    model.save(HERE / f"{name}.interlace")
    rows = clustered(20, 5, seed=9)
    answers = {"params": params, "rows": rows.tolist(), "codes": model.encode(rows).tolist()}
    (HERE / f"{name}.json").write_text(json.dumps(answers, separators=(",", ":")) + "\n")


def write(name: str, index: il.Index) -> None:
    """The file, and what it answers today."""
    index.save(HERE / f"{name}.interlace")
    queries = clustered(3, math.prod(index.input_shape), seed=1000)
    searches = []
    for k in (1, 5, len(index) + 1):
        found = index.search(queries, k, margin="exact", threads=1)
        searches.append({"k": k, "ids": found.ids.tolist(), "distances": shown(found.distances)})
    books = index.codebooks
    answers = {
        "codebooks": {key: getattr(books, key) for key in ("dim", "metric", "layout", "n_books", "n_crude", "n_bytes")},
        "shares": numbers(index.calibration.shares),
        "cells": numbers(index.calibration.cells),
        "least": index.calibration.least,
        "reach": index.calibration.reach,
        "margin": index.search(queries, 10, margin=0.99, threads=1).stats.margin,
        "ids": index.ids.tolist(),
        "reconstructed": index.reconstruct(index.ids).tolist(),
        "queries": queries.tolist(),
        "searches": searches,
    }
    if books.parallel_weight > 1:
        answers["codebooks"]["parallel_weight"] = books.parallel_weight
    if index.originals is not None:
        found = index.search(queries, 5, rerank=len(index), margin="exact", threads=1)
        answers["reranked"] = {"ids": found.ids.tolist(), "distances": found.distances.tolist()}
        answers["recalls"] = index.calibration.recalls.found
    (HERE / f"{name}.json").write_text(json.dumps(answers, separators=(",", ":")) + "\n")


def many_cells(layout: str) -> il.Index:
    """More cells than a byte can number; every 32nd word of the other books."""
    learned = il.Index.build(clustered(2000, 5), n_bytes=4, layout=layout, cells=300, threads=1, progress=False)
    arrays, description = learned.codebooks.to_arrays()
    few = {k: a[::32] if k.startswith("words.") and k != "words.0" else a for k, a in arrays.items()}
    index = il.Index(il.Codebooks.from_arrays(few, description | {"beam": 4}))
    index.add(clustered(70, 5, seed=7), threads=1)
    index.calibrate(clustered(400, 5, seed=8), threads=1)
    return index


def folded_cells(layout: str) -> il.Index:
    """Few cells without tables of their own, as long codes have them."""
    arrays, description = tiny(layout=layout).codebooks.to_arrays()
    index = il.Index(il.Codebooks.from_arrays(arrays, description | {"folded": True}))
    index.add(clustered(70, 5, seed=7), threads=1)
    index.calibrate(clustered(400, 5, seed=8), threads=1)
    return index


def write_store(name: str, *, learned: bool) -> None:
    """A store that started without codebooks, in a directory, and its answers."""
    path = HERE / "stores" / name
    store, _ = filled(path, books=False)
    if learned:
        store.relearn(progress=False)
        put(store, "upsert", vectors(4, 40), [11, 500, 501, 502])
        store.remove([12 + 1, 501])
    write_answers(store, path)


def write_store_of_cells(name: str) -> None:
    """A store of more cells than a byte can number, with removed rows and rows in the log."""
    rng = np.random.default_rng(13)
    few = random_codebooks(rng, "hybrid", dim=4, n_books=3, n_words=6, integers=True)
    path, cells = HERE / "stores" / name, rng.integers(-9, 10, (300, 4)).astype(np.float32) / 2
    store = il.create(path, with_cells(few, cells), limits=SMALL, **RICH)
    for first in (0, 40):
        put(store, "add", vectors(40, first), list(range(first, first + 40)))
        store.compact()
    store.remove([3, 41])
    put(store, "upsert", vectors(3, 80), [5, 80, 81])
    write_answers(store, path)


def write_answers(store: il.Store, path: Path) -> None:
    """What a store answers today, beside its directory; closes it."""
    ids, found = store.ids.tolist(), store.search(vectors(3, 1000), 5, margin="exact", threads=1)
    answers = {
        "searched": {"ids": found.ids.tolist(), "distances": found.distances.tolist()},
        "ids": ids,
        "vectors": store.get(ids).tolist(),
        "payload": store.payload(ids).to_pylist(),
        "originals": store.get(ids, originals=True).tolist(),
    }
    store.close()
    (path / "LOCK").unlink()
    (path.parent / f"{path.name}.json").write_text(json.dumps(answers, separators=(",", ":")) + "\n")


def half_words(layout: str) -> il.Index:
    """Words of so many dimensions that they are float16 numbers; every 32nd of them."""
    learned = il.Index.build(clustered(2000, HALF_WIDTH), n_bytes=3, layout=layout, threads=1, progress=False)
    arrays, description = learned.codebooks.to_arrays()
    few = {name: array[::32] if name.startswith("words.") else array for name, array in arrays.items()}
    index = il.Index(il.Codebooks.from_arrays(few, description | {"beam": 4}))
    index.add(clustered(20, HALF_WIDTH, seed=7), threads=1)
    index.calibrate(clustered(400, HALF_WIDTH, seed=8), threads=1)
    return index


def write_indexes() -> None:
    """One of each kind."""
    for layout in LAYOUTS:
        for ids in ID_KINDS:
            write(f"{layout}-{ids}", tiny(layout=layout, ids=ids))
        write(f"cosine-{layout}", tiny(layout=layout, metric="cosine"))
        write(f"parallel-{layout}", tiny(layout=layout, metric="ip", parallel_weight=2.0))
    for layout in ("hybrid", "residual"):
        write(f"cells-{layout}", many_cells(layout))
        write(f"folded-{layout}", folded_cells(layout))
        write(f"halves-{layout}", half_words(layout))
    for kind in ("float16", "int8"):
        write(f"originals-{kind}", tiny(layout="subspace", originals=kind))
    write("ip", tiny(metric="ip"))
    write("byte", tiny(layout="residual", cross="byte"))
    write("constant", composite())
    write("embedding", embedded())
    rng = np.random.default_rng(12)
    for name, ids in {
        "runs": np.arange(70) + 2**40,
        "ascending": np.sort(rng.choice(200, 70, replace=False)) - 50,
        "shuffled": rng.permutation(70) * 1_000_003,
    }.items():
        write(f"ids-{name}", tiny(layout="subspace", ids=ids))


if __name__ == "__main__":
    shutil.rmtree(HERE / "stores", ignore_errors=True)
    (HERE / "stores").mkdir()
    write_indexes()
    write_model("model")
    write_store("collecting", learned=False)
    write_store("learned", learned=True)
    write_store_of_cells("cells")
