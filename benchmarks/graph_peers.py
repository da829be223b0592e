"""Graphs over the vectors and other libraries that users take instead: hnswlib, USearch, Intel SVS, turbovec.

Each is optional: a run records which were installed. Indexes are built once on one thread and kept in the cache.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from bench_sets import BenchSet, FloatArray
from cache import finish, partial, write_json
from curves import Clock, Curve, CurvePlan, Setting, float_rows, size_of
from measure import Ids

os.environ.setdefault("RAYON_NUM_THREADS", "1")  # turbovec; read when it is imported
M, EF_CONSTRUCTION = 16, 200
EFS = (10, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384)
BLOCK = 50_000  # rows in float32 at a time


@dataclass(frozen=True)
class Library:
    """How to build, open and search one library."""

    package: str
    module: str
    title: str
    build: Callable[[BenchSet, Path, CurvePlan], None]  # writes a file or a folder
    open: Callable[[BenchSet, Path], tuple[Callable[[FloatArray, int], Ids], Callable[[Setting], None]]]
    settings: tuple[Setting, ...]
    family: str = "graph"

    def installed(self) -> str | None:
        """Version, or None."""
        try:
            importlib.import_module(self.module)
            return metadata.version(self.package)
        except ImportError:
            return None


def _blocks(data: BenchSet) -> Any:
    for at in range(0, len(data.x), BLOCK):
        yield at, float_rows(data, slice(at, at + BLOCK))


def _build_hnswlib(data: BenchSet, path: Path, plan: CurvePlan) -> None:
    import hnswlib

    index = hnswlib.Index(space="l2", dim=data.x.shape[1])
    index.init_index(max_elements=len(data.x), ef_construction=EF_CONSTRUCTION, M=M, random_seed=plan.seed + 1)
    index.set_num_threads(1)
    for at, block in _blocks(data):
        index.add_items(block, np.arange(at, at + len(block)), num_threads=1)
    index.save_index(str(path))


def _open_hnswlib(data: BenchSet, path: Path) -> Any:
    import hnswlib

    index = hnswlib.Index(space="l2", dim=data.x.shape[1])
    index.load_index(str(path))
    index.set_num_threads(1)

    def search(queries: FloatArray, k: int) -> Ids:
        return np.asarray(index.knn_query(queries, k, num_threads=1)[0], np.int64)

    return search, lambda setting: index.set_ef(setting["ef"])


def _build_usearch(data: BenchSet, path: Path, plan: CurvePlan) -> None:
    from usearch.index import Index

    index = Index(ndim=data.x.shape[1], metric="l2sq", dtype="f16", connectivity=M, expansion_add=EF_CONSTRUCTION)
    for at, block in _blocks(data):
        index.add(np.arange(at, at + len(block)), block, threads=1)
    index.save(str(path))


def _open_usearch(data: BenchSet, path: Path) -> Any:
    from usearch.index import Index

    index = Index.restore(str(path))

    def search(queries: FloatArray, k: int) -> Ids:
        keys = np.asarray(index.search(queries, k, threads=1).keys).astype(np.int64)
        return keys.reshape(len(queries), -1)

    def prepare(setting: Setting) -> None:
        index.expansion_search = setting["ef"]

    return search, prepare


def _build_svs(data: BenchSet, path: Path, plan: CurvePlan) -> None:
    import svs

    parameters = svs.VamanaBuildParameters(alpha=1.2, graph_max_degree=2 * M, window_size=EF_CONSTRUCTION // 2)
    x = float_rows(data, slice(None))
    index = svs.Vamana.build(parameters, x, svs.DistanceType.L2, num_threads=1)
    path.mkdir()
    index.save(*(str(path / part) for part in ("config", "graph", "data")))


def _open_svs(data: BenchSet, path: Path) -> Any:
    import svs

    index = svs.Vamana(
        str(path / "config"),
        svs.GraphLoader(str(path / "graph")),
        svs.VectorDataLoader(str(path / "data"), svs.DataType.float32),
        svs.DistanceType.L2,
        num_threads=1,
    )

    def search(queries: FloatArray, k: int) -> Ids:
        return np.asarray(index.search(queries, k)[0], np.int64)

    def prepare(setting: Setting) -> None:
        index.search_window_size = setting["ef"]

    return search, prepare


def _build_turbovec(data: BenchSet, path: Path, plan: CurvePlan) -> None:
    from turbovec import TurboQuantIndex

    index = TurboQuantIndex(dim=data.x.shape[1], bit_width=4)
    for _, block in _blocks(data):
        index.add(block)
    index.write(str(path))


def _open_turbovec(data: BenchSet, path: Path) -> Any:
    from turbovec import TurboQuantIndex

    index = TurboQuantIndex.load(str(path))

    def search(queries: FloatArray, k: int) -> Ids:
        return np.asarray(index.search(np.ascontiguousarray(queries), k=k)[1], np.int64)

    return search, lambda setting: None


_EFS = tuple({"ef": ef} for ef in EFS)
LIBRARIES = {
    "hnswlib": Library("hnswlib", "hnswlib", f"hnswlib M={M}", _build_hnswlib, _open_hnswlib, _EFS),
    "usearch": Library("usearch", "usearch", f"USearch M={M} float16", _build_usearch, _open_usearch, _EFS),
    "svs": Library("scalable-vs", "svs", f"SVS Vamana {2 * M}", _build_svs, _open_svs, _EFS),
    # Inner products only: for vectors of length 1.
    "turbovec": Library("turbovec", "turbovec", "turbovec 4 bits", _build_turbovec, _open_turbovec, ({},), "codes"),
}


def path_of(name: str, folder: Path) -> Path:
    """The file or folder of an index in the cache."""
    return folder / f"{name}.graph"


def is_there(name: str, folder: Path) -> bool:
    """Whether the cache has an index and the facts of its build."""
    path = path_of(name, folder)
    return path.exists() and path.with_suffix(".json").exists()


def ensure(name: str, data: BenchSet, folder: Path, plan: CurvePlan, say: Callable[[str], None]) -> bool:
    """Build an index unless it is in the cache; False if the library is not installed."""
    library, path = LIBRARIES[name], path_of(name, folder)
    if (version := library.installed()) is None:
        say(f"{name} is not installed")
        return False
    if not is_there(name, folder):
        say(f"building {library.title}")
        written, clock = partial(path), Clock()
        with clock.step("add"):
            library.build(data, written, plan)
        finish(written, path)
        write_json(path.with_suffix(".json"), clock.facts | {library.package: version})
    return True


def curve(name: str, data: BenchSet, folder: Path) -> Curve:
    """An index of the cache with its grid."""
    library, path = LIBRARIES[name], path_of(name, folder)
    search, prepare = library.open(data, path)
    total = size_of(path) / len(data.x)
    return Curve(
        library.title,
        library.package,
        library.family,
        [setting for setting in library.settings if setting.get("ef", len(data.x)) <= len(data.x)],
        lambda queries, k, setting: search(queries, k),
        {"total": total},
        json.loads(path.with_suffix(".json").read_text()),
        lambda mode, k, setting: prepare(setting | ({"ef": max(k, setting["ef"])} if "ef" in setting else {})),
    )
