"""Partitions of faiss: IVF indexes by their factory strings, built once and kept in the cache, with a grid of nprobe.

Indexes of one set share their lists: the centroids of each number of lists are learned once, with the settings of
faiss (10 rounds, up to 256 rows per list), and so is what an index of 16,384 lists needs: a graph over the centroids.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

import faiss_peers
from bench_sets import BenchSet, FloatArray
from cache import finish, kept_array, partial, write_json
from curves import LARGE_K, Clock, Curve, CurvePlan, Setting, float_rows
from interlace.learn.settings import MAX_TRAIN_ROWS
from measure import Ids

PROBES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
FEWEST = 0.001  # share of the lists below which an nprobe finds too little to be of interest
MOST_TRAIN = 1_000_000  # rows from which centroids are learned
BY_GRAPH = 8192  # from this many lists on, k-means assigns rows by a graph over the centroids
BLOCK = 100_000  # rows in float32 at a time
REFINED_PROBES, REFINED_FACTORS = (8, 16, 32, 64, 128, 256), (4, 10, 20, 40)
ID_BYTES = 8


@dataclass(frozen=True)
class Factory:
    """The parts of a factory string such as ``OPQ8_128,IVF4096_HNSW32,PQ8np``."""

    text: str

    @property
    def lists(self) -> int:
        """Number of lists."""
        found = re.search(r"IVF(\d+)", self.text)
        assert found is not None, self.text
        return int(found[1])

    @property
    def rotated(self) -> bool:
        """Whether a rotation comes first."""
        return self.text.startswith("OPQ")

    @property
    def file(self) -> str:
        """A name for files."""
        return self.text.replace(",", "-")


def path_of(factory: Factory, folder: Path) -> Path:
    """The file of an index in the cache."""
    return folder / f"{factory.file}.faiss"


def ensure(text: str, data: BenchSet, folder: Path, plan: CurvePlan, say: Callable[[str], None]) -> None:
    """Build an index and the answers of all its lists, unless they are in the cache."""
    factory = Factory(text)
    path = path_of(factory, folder)
    if not path.exists() or not path.with_suffix(".json").exists():
        say(f"building {text}")
        index, facts = _built(factory, data, folder, plan, say)
        written = partial(path)
        faiss.write_index(index, str(written))
        finish(written, path)
        write_json(path.with_suffix(".json"), facts)
    answers = _answers_path(path, plan)
    if not answers.exists():
        say(f"all lists of {text}")
        index = faiss.read_index(str(path))
        kept_array(answers, lambda: _all_lists(index, factory, data, plan))


def is_there(text: str, folder: Path, plan: CurvePlan) -> bool:
    """Whether the cache has an index and the answers of all its lists."""
    path = path_of(Factory(text), folder)
    return all(p.exists() for p in (path, path.with_suffix(".json"), _answers_path(path, plan)))


def _answers_path(path: Path, plan: CurvePlan) -> Path:
    return path.with_name(f"{path.stem}-all-{plan.agreed}.npy")


def _all_lists(index: Any, factory: Factory, data: BenchSet, plan: CurvePlan) -> Ids:
    faiss_peers.set_level(faiss_peers.best_level())
    _set_probes(index, factory.lists, factory.lists)
    found: Ids = index.search(data.queries[: plan.agreed], LARGE_K)[1]
    return found


def centroids(lists: int, data: BenchSet, folder: Path, plan: CurvePlan) -> FloatArray:
    """float32 [lists, dim], learned once for all indexes of a set."""

    def learn() -> FloatArray:
        dim = data.x.shape[1]
        x = float_rows(data, _sample(len(data.x), min(256 * lists, MOST_TRAIN), plan.seed))
        means = faiss.Clustering(dim, lists)
        means.niter, means.seed, means.max_points_per_centroid, means.min_points_per_centroid = 10, 1234, 256, 1
        assign = faiss.IndexFlatL2(dim)
        if lists >= BY_GRAPH:
            assign = faiss.IndexHNSWFlat(dim, 32)
            assign.hnsw.efSearch = 32
        means.train(x, assign)
        found = faiss.vector_to_array(means.centroids).reshape(lists, dim)
        return np.asarray(found, np.float32)

    return kept_array(folder / f"centroids-{lists}.npy", learn)


def _built(
    factory: Factory, data: BenchSet, folder: Path, plan: CurvePlan, say: Callable[[str], None]
) -> tuple[Any, dict[str, Any]]:
    """Train and fill an index on one thread."""
    faiss_peers.set_level(faiss_peers.best_level())
    clock, n = Clock(), len(data.x)
    lists_path = folder / f"centroids-{factory.lists}.json"
    if not lists_path.exists():
        with clock.step("lists"):
            centroids(factory.lists, data, folder, plan)
        write_json(lists_path, clock.facts)
    seconds = json.loads(lists_path.read_text())
    words = centroids(factory.lists, data, folder, plan)
    clock = Clock()
    index = faiss.index_factory(data.x.shape[1], factory.text)
    ivf = faiss.downcast_index(faiss.extract_index_ivf(index))
    train = float_rows(data, _sample(n, MAX_TRAIN_ROWS, plan.seed))
    if isinstance(ivf, faiss.IndexIVFPQ | faiss.IndexIVFPQFastScan):
        ivf.pq.cp.max_points_per_centroid = len(train)  # the default learns 4-bit words from 4,096 rows only
    with clock.step("train"):
        if factory.rotated:
            rotation = faiss.downcast_VectorTransform(index.chain.at(0))
            rotation.train(train)
            words, train = rotation.apply(words), rotation.apply(train)
        ivf.quantizer.add(words)
        ivf.train(train)
        index.is_trained = True
    with clock.step("add"):
        for at in range(0, n, BLOCK):
            index.add(float_rows(data, slice(at, at + BLOCK)))
            if at and at % (10 * BLOCK) == 0:
                say(f"{factory.text}: {at:,} of {n:,} rows")
    facts = {
        "factory": factory.text,
        "code_bytes": int(ivf.code_size),
        "lists": {name: value for name, value in seconds.items() if name != "load"},
        **clock.facts,
        "faiss": faiss.__version__,
    }
    return index, facts


def _sample(n: int, most: int, seed: int) -> NDArray[np.int64]:
    return np.sort(np.random.default_rng(seed).choice(n, min(n, most), replace=False))


def _set_probes(index: Any, nprobe: int, lists: int) -> None:
    """A graph over the centroids looks at twice as many as it returns."""
    ivf = faiss.extract_index_ivf(index)
    ivf.nprobe = nprobe
    if isinstance(graph := faiss.downcast_index(ivf.quantizer), faiss.IndexHNSW):
        graph.hnsw.efSearch = min(lists, max(32, 2 * nprobe))


def curve(text: str, data: BenchSet, folder: Path, plan: CurvePlan, probes: tuple[int, ...] = PROBES) -> Curve:
    """An index of the cache with its grid."""
    factory = Factory(text)
    path = path_of(factory, folder)
    index = faiss.read_index(str(path))
    facts = json.loads(path.with_suffix(".json").read_text())
    total = path.stat().st_size / len(data.x)
    n_bytes = {
        "codes": facts["code_bytes"],
        "ids": ID_BYTES,
        "structure": total - facts["code_bytes"] - ID_BYTES,
        "total": total,
        "tables_in_memory": _tables(index) / len(data.x),
    }

    def prepare(mode: str, k: int, setting: Setting) -> None:
        _set_probes(index, setting["nprobe"], factory.lists)

    return Curve(
        title(text),
        "faiss",
        "codes",
        [{"nprobe": p} for p in probes if FEWEST * factory.lists <= p < factory.lists],
        lambda queries, k, setting: index.search(queries, k)[1],
        n_bytes,
        {name: value for name, value in facts.items() if name not in ("factory", "code_bytes")},
        prepare,
        np.load(_answers_path(path, plan)),
        tuple(faiss_peers.levels()),
        faiss_peers.set_level,
        large_k=True,
        facts={"lists": factory.lists},
    )


def refined(text: str, data: BenchSet, folder: Path, plan: CurvePlan, flat: Any) -> Curve:
    """The same index followed by distances to the float32 rows of ``flat``."""
    factory = Factory(text)
    base = faiss.read_index(str(path_of(factory, folder)))
    index = faiss.IndexRefine(base, flat)
    codes = curve(text, data, folder, plan, ())
    vectors = 4.0 * data.x.shape[1]

    def prepare(mode: str, k: int, setting: Setting) -> None:
        _set_probes(base, setting["nprobe"], factory.lists)
        index.k_factor = setting["k_factor"]

    return Curve(
        refined_title(text),
        "faiss",
        "refined",
        [{"nprobe": p, "k_factor": f} for p in REFINED_PROBES if p < factory.lists for f in REFINED_FACTORS],
        lambda queries, k, setting, kept=(base, flat): index.search(queries, k)[1],  # faiss keeps no references
        codes.n_bytes | {"vectors": vectors, "total": codes.n_bytes["total"] + vectors},
        codes.build,
        prepare,
        None,
        tuple(faiss_peers.levels()),
        faiss_peers.set_level,
    )


def flat_rows(data: BenchSet) -> Any:
    """All rows in float32, shared by the indexes that refine with them."""
    flat = faiss.IndexFlatL2(data.x.shape[1])
    for at in range(0, len(data.x), BLOCK):
        flat.add(float_rows(data, slice(at, at + BLOCK)))
    return flat


def _tables(index: Any) -> int:
    """Bytes of the tables that faiss computes when it loads an index, and that no file holds."""
    ivf = faiss.downcast_index(faiss.extract_index_ivf(index))
    table = getattr(ivf, "precomputed_table", None)
    return 0 if table is None or not getattr(ivf, "use_precomputed_table", 0) else 4 * int(table.size())


def title(text: str) -> str:
    """Name of an index in tables."""
    return "faiss " + re.sub(r"(PQ\d+)np", r"\1", text)


def refined_title(text: str) -> str:
    """Name of the same index followed by float32 rows."""
    return f"{title(text)},RFlat"
