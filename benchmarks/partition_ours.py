"""Our indexes in the comparison with partitions and graphs: default settings, a grid of margins, re-ranking."""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import interlace as il
import ours
from bench_sets import BenchSet, FloatArray
from cache import finish, kept_array, partial, write_json
from curves import LARGE_K, Clock, Curve, CurvePlan, Setting, size_of
from interlace import Index, _native
from measure import Ids

MARGINS: tuple[float | str, ...] = (0.9, 0.95, 0.99, 0.999, 0.9999, "exact")
#: Of re-ranking, as many settings as the peers with vectors have. A margin below the lowest calibrated target, 0.9, has
#: the rule of that target.
RERANK_MARGINS = (0.9, 0.95, 0.99)
DEPTHS = (20, 30, 40, 60, 80, 120, 160, 320)
RECALLS = (0.9, 0.95, 0.98)
ORIGINAL_BYTES = {"float16": 2.0, "int8": 1.0}  # per dimension
LEVEL = _native.simd_level()
EXHAUSTIVE_ROWS = 2_000_000  # beyond it the exact search stands for the exhaustive one, which a test shows equal


@dataclass(frozen=True)
class Spec:
    """What an index is built with; everything else is a default."""

    n_bytes: int
    layout: str = "auto"
    cells: int | str | None = None  # None: the default
    originals: str | None = None
    by_rows: bool = False  # as Index.build calibrates it, where others have vectors like the queries

    @property
    def name(self) -> str:
        """A name for tables and files."""
        parts = [f"interlace {self.n_bytes} bytes"]
        parts += [self.layout] if self.layout != "auto" else []
        parts += [f"{self.cells} cells"] if self.cells is not None else []
        parts += [f"{self.originals} originals"] if self.originals else []
        parts += ["calibrated by rows"] if self.by_rows else []
        return ", ".join(parts)

    def keywords(self) -> dict[str, Any]:
        """Arguments of ``Index.build``; ``cells`` only if this version has them."""
        given: dict[str, Any] = {"n_bytes": self.n_bytes, "layout": self.layout}
        if self.cells is not None and takes("cells"):
            given["cells"] = self.cells
        return given


def takes(keyword: str) -> bool:
    """Whether ``Index.build`` of this version has a keyword."""
    return keyword in inspect.signature(Index.build).parameters


def code_version() -> str:
    """A hash of the installed package: an index in the cache is of this code or is built again."""
    root = Path(il.__file__).resolve().parent
    digest = hashlib.sha256()
    for path in sorted(p for p in root.rglob("*") if p.suffix in (".py", ".so")):
        digest.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def path_of(spec: Spec, folder: Path, *, any_version: bool) -> Path:
    """The file of an index; with ``any_version`` the newest one of any code."""
    stem = spec.name.replace(" ", "-").replace(",", "")
    exact = folder / f"{stem}-{code_version()}"
    if any_version and not exact.exists():
        older = sorted(
            (p for p in folder.glob(f"{stem}-*") if len(p.name) == len(exact.name)), key=lambda p: p.stat().st_mtime
        )
        return older[-1] if older else exact
    return exact


def facts_path(path: Path) -> Path:
    """Facts about the build of an index."""
    return path.with_name(path.name + ".json")


def ensure(
    spec: Spec, data: BenchSet, folder: Path, plan: CurvePlan, say: Callable[[str], None], *, any_version: bool = False
) -> None:
    """Build an index unless it is in the cache; one that keeps originals takes the books of the one that does not."""
    path = path_of(spec, folder, any_version=any_version)
    plain = replace(spec, originals=None, by_rows=False)
    if spec != plain:
        ensure(plain, data, folder, plan, say, any_version=any_version)
    if not path.exists() or not facts_path(path).exists():
        say(f"building {spec.name}")
        clock, written = Clock(), partial(path)
        if spec == plain:
            facts = _build(spec, data, plan, clock, written)
        elif spec.by_rows:
            learned = path_of(plain, folder, any_version=any_version)
            facts = json.loads(facts_path(learned).read_text())
            shutil.copyfile(as_built(learned), written)
        else:
            learned = path_of(plain, folder, any_version=any_version)
            facts = json.loads(facts_path(learned).read_text())
            with clock.step("originals"):
                _with_originals(il.open(learned).codebooks, spec.originals, written, data)
        if as_built(written).exists():
            finish(as_built(written), as_built(path))
        finish(written, path)
        write_json(facts_path(path), facts | clock.facts)
    if spec.originals is None:
        kept_array(_answers_path(path, plan), lambda: _exhaustive(il.open(path), data, plan))


def _build(spec: Spec, data: BenchSet, plan: CurvePlan, clock: Clock, path: Path) -> dict[str, Any]:
    phases = ours.Phases()
    with clock.step("build"):
        index = Index.build(data.x, metric=data.metric, seed=plan.seed, threads=1, progress=phases, **spec.keywords())
    index.save(as_built(path))
    calibrate(index, data)
    index.save(path)
    return {"phases_wall_seconds": phases.seconds(), "code": code_version(), "choice": _choice(index)}


def as_built(path: Path) -> Path:
    """The index as ``Index.build`` gave it, beside the same one that vectors like the queries have calibrated.

    Its calibration cannot be made again: ``calibrate()`` without queries has no rows, only what their codes stand for.
    """
    return path.with_name(f"as-built-{path.name}")


def calibrate(index: Index, data: BenchSet) -> None:
    """By vectors like the queries, where ``Index.build`` has only rows that are not like them."""
    if data.calibration is not None:
        index.calibrate(data.calibration, threads=1)


def _choice(index: Index) -> str:
    return " ".join(str(getattr(index, "choice", "")).split())[:400]


def _with_originals(codebooks: il.Codebooks, originals: str, path: Path, data: BenchSet) -> None:
    """All rows with their vectors: in an index, or in a store where an index of this version cannot keep them."""
    if "originals" in inspect.signature(Index.__init__).parameters:
        index = Index(codebooks, originals=originals)  # type: ignore[call-arg]
        index.add(data.x, threads=1)
        index.calibrate(data.calibration, threads=1)
        index.save(path)
        return
    if path.exists():
        shutil.rmtree(path)
    with il.create(path, codebooks, originals=originals) as store:  # type: ignore[arg-type]
        store.add(data.x, threads=1)
        store.compact()
        store.calibrate(data.calibration, threads=1)


def _answers_path(path: Path, plan: CurvePlan) -> Path:
    return path.with_name(f"{path.name}-all-{plan.agreed}.npy")


def _exhaustive(index: Any, data: BenchSet, plan: CurvePlan) -> Ids:
    margin: Any = math.inf if len(index) <= EXHAUSTIVE_ROWS else "exact"
    found: Ids = index.search(data.queries[: plan.agreed], LARGE_K, margin=margin, threads=1).ids
    return found


def curve(spec: Spec, data: BenchSet, folder: Path, plan: CurvePlan, *, any_version: bool = False) -> Curve:
    """An index of the cache with its grid: margins, or depths of re-ranking."""
    path = path_of(spec, folder, any_version=any_version)
    index = il.open(path)
    facts = json.loads(facts_path(path).read_text())
    report = index.report()
    total = size_of(path) / len(data.x)
    codes, ids = report.codes / report.rows, (report.row_numbers + report.ids) / report.rows
    vectors = {}
    if spec.originals is not None:
        vectors["vectors"] = ORIGINAL_BYTES[spec.originals] * data.x.shape[1]
    n_bytes = {
        "codes": codes,
        "ids": ids,
        **vectors,
        "structure": total - codes - ids - sum(vectors.values()),
        "total": total,
        "tables_in_memory": report.tables / report.rows,
    }

    def search(queries: FloatArray, k: int, setting: Setting) -> Ids:
        found: Ids = index.search(queries, k, threads=1, **setting).ids
        return found

    def describe(queries: FloatArray, k: int, setting: Setting) -> dict[str, Any]:
        stats = index.search(queries[:200], k, threads=1, **setting).stats
        asked = stats.queries * stats.rows
        return {"rule": stats.margin, "scanned": round(stats.scanned / asked, 6)}

    return Curve(
        spec.name,
        "interlace",
        "codes" if spec.originals is None else "refined",
        _settings(spec),
        search,
        n_bytes,
        facts | {"current_code": code_version()},
        lambda mode, k, setting: _native.force_simd_level(LEVEL),
        None if spec.originals is not None else np.load(_answers_path(path, plan)),
        large_k=spec.originals is None,
        facts={"n_bytes": spec.n_bytes, "layout": index.codebooks.layout, "cells": _cells(index), "simd": LEVEL},
        describe=describe,
    )


def _settings(spec: Spec) -> list[Setting]:
    if spec.originals is None:
        return [{"margin": margin} for margin in MARGINS]
    grid: list[Setting] = [{"rerank": depth, "margin": margin} for margin in RERANK_MARGINS for depth in DEPTHS]
    return grid + [{"recall": asked} for asked in RECALLS]


def _cells(index: Any) -> int | None:
    """Number of cells, where this version of the library says it."""
    value = getattr(index.codebooks, "n_cells", None)
    return value if isinstance(value, int) else None
