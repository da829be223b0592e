"""The comparison with partitions and graphs: its targets and pages on hand-made results, and a run on a tiny set."""

from __future__ import annotations

import argparse
import json
import warnings
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"
ENVIRONMENT = {
    "cpu": "A CPU", "flags": ["avx2"], "cores": 2, "load_at_start": 0.1, "load_at_end": 0.2, "compiler": "g++ 12",
    "python": "3.11.7", "numpy": "2.0", "faiss": "1.15.1", "commit": "0123456789abcdef", "uncommitted_code": False,
    "date": "2026-01-01 00:00 UTC",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _benchmarks_on_the_path(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))


@pytest.fixture
def with_faiss():
    """Modules by name, for tests of those that import faiss."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its wrapper warns on newer Pythons
        pytest.importorskip("faiss")
    return import_module


def point(setting, recall, us, agreement=None):
    times = {task: {"median": us * factor} for task, factor in (("batch@10", 1), ("single@10", 1.5), ("batch@100", 3))}
    found = {"setting": setting, "recall": {"10": recall, "100": recall}, "us": times, "queries_timed": 100}
    return found if agreement is None else found | {"agreement": agreement}


def method(name, points, total, *, kind="faiss", family="codes", **more):
    size = {"codes": 8.0, "ids": 8.0, "structure": total - 16, "total": total}
    build = {"train_cpu_seconds": 1.5, "add_cpu_seconds": 2.5}
    return {"name": name, "kind": kind, "family": family, "bytes": size, "build": build, "points": points, **more}


def ours(n_bytes, total, points, **more):
    return method(
        f"interlace {n_bytes} bytes" + more.pop("suffix", ""), points, total, kind="interlace", n_bytes=n_bytes,
        layout="hybrid", cells=4096, **more,
    )  # fmt: skip


def hand_made():
    peer = [point({"nprobe": 8}, 0.38, 80, 0.96), point({"nprobe": 32}, 0.40, 200, 0.991)]
    methods = [
        ours(8, 10.0, [point({"margin": 0.99}, 0.415, 60, 0.992), point({"margin": 0.999}, 0.425, 80, 0.9991)]),
        ours(16, 18.0, [point({"margin": 0.999}, 0.60, 100, 0.9991)]),
        ours(
            16, 280.0, [point({"rerank": 80}, 0.96, 130), point({"recall": 0.98}, 0.985, 260)], family="refined",
            suffix=", float16 originals",
        ),
        method("faiss IVF4096,PQ8", peer, 18.0, lists=4096),
        method("faiss IVF4096,PQ16", [point({"nprobe": 32}, 0.59, 250, 0.995)], 26.0, lists=4096),
        method("faiss IVF4096,PQ32x4fs,RFlat", [point({"nprobe": 32}, 0.955, 120)], 538.0, family="refined"),
        method("hnswlib M=16", [point({"ef": 64}, 0.99, 208)], 652.0, kind="hnswlib", family="graph"),
    ]  # fmt: skip
    methods[2]["bytes"]["vectors"] = 256.0
    return {
        "format": 1, "kind": "partitions", "quick": False, "environment": ENVIRONMENT, "simd": "avx2",
        "libraries": {"hnswlib": "0.8.0", "svs": None}, "protocol": {"answered": 2000, "agreed": 1000, "rounds": 5},
        "methods": methods, "seconds": 12.0,
        "data": {"name": "sift-grown-1m", "description": "made by hand", "generated": False, "metric": "l2",
                 "rows": 1_000_000, "dim": 128, "queries": 2000, "seed": 0},
    }  # fmt: skip


def growth():
    def line(name, kind, rows, us):
        found = {"name": name, "kind": kind, "data": "made", "rows": rows, "agreement": 0.991, "facts": {"lists": 64}}
        return point({"margin": 0.99}, 0.4, us) | found | {"recall": 0.4, "bytes": {"total": 10.0}}

    sizes = ((1_000_000, 50, 100), (10_000_000, 120, 500))
    lines = [line("interlace 8 bytes", "interlace", rows, us) for rows, us, _ in sizes]
    lines += [line("faiss IVF4096,PQ8", "faiss", rows, us) for rows, _, us in sizes]
    return {
        "format": 1, "kind": "growth", "quick": False, "environment": ENVIRONMENT, "simd": "avx2", "target": 0.99,
        "k": 10, "results": lines,
    }  # fmt: skip


def verdicts(cases, grown):
    bars = import_module("partition_bars")
    return {(bar.where, bar.what): bar.verdict() for bar in bars.all_bars(cases, grown)}


def test_targets():
    """The fastest of our settings with enough recall is compared with the peer where it agrees with all its lists."""
    found = verdicts({"sift-grown-1m": hand_made()}, growth())
    short, long = (f"sift-grown-1m, {n} code bytes, after calibrate(queries)" for n in (8, 16))
    recall = "recall@10 no less than faiss IVF4096,PQ{} at any nprobe + 0.02"
    speed = "speed against faiss IVF4096,PQ{} where it agrees 0.99 with all its lists"
    assert found[short, f"margin 0.999: {recall.format(8)}"] == "reached, +0.0050"
    assert found[short, f"margin 0.999: batch {speed.format(8)}"] == "reached, +25%"
    assert found[short, "total bytes per vector against faiss IVF4096,PQ8"] == "reached, -4.4 points"
    assert found[long, f"margin 0.999: {recall.format(16)}"] == "**not reached**, -0.0100"
    assert found[long, "total bytes per vector against faiss IVF4096,PQ16"] == "**not reached**, +9.2 points"
    slower = "time of 10,000,000 rows against 1,000,000, at an agreement of 0.99"
    assert found["growth", f"batch: {slower}"] == "reached, -4%"
    reranked = "recall@10 of {} by re-ranking: batch speed against {}"
    refined, graph = "faiss IVF4096,PQ32x4fs,RFlat", "hnswlib M=16"
    assert found["sift-grown-1m", reranked.format(0.95, refined)] == "**not reached**, -8%"
    assert ("sift-grown-1m", reranked.format(0.98, refined)) not in found  # the peer does not get there
    assert found["sift-grown-1m", reranked.format(0.98, graph)] == "**not reached**, -20%"
    assert found["sift-grown-1m", reranked.format(0.95, graph)] == "reached, +60%"
    assert found["sift-grown-1m", reranked.format(0.9, "faiss IVF4096,PQ16x4fs,RFlat")] == "not measured"
    alone = "recall@10 of {} by re-ranking: single speed against {}"
    assert found["sift-grown-1m", alone.format(0.95, graph)] == "reached, +60%"
    assert found["sift-grown-1m", alone.format(0.9, "faiss IVF4096,PQ16x4fs,RFlat")] == "not measured"
    default = "sift-grown-1m, 8 code bytes, as Index.build makes it"
    assert found[default, f"batch {speed.format(8)}"] == "not measured"
    memory = "bytes per vector in memory, without the mapped originals, against hnswlib M=16"
    assert found["sift-grown-1m", memory] == "reached, -6.3 points"


def test_nothing_measured():
    assert set(verdicts({}, None).values()) == {"not measured"}


def test_default_settings_are_a_case_of_their_own():
    """The index as Index.build makes it, not the calibrated one beside it in the same case."""
    case = hand_made()
    case["methods"].append(
        ours(8, 10.0, [point({"margin": 0.99}, 0.415, 160, 0.992)], suffix=", calibrated by rows"),
    )
    found = verdicts({"sift-grown-1m-by-rows": case}, None)
    speed = "speed against faiss IVF4096,PQ8 where it agrees 0.99 with all its lists"
    assert found["sift-grown-1m, 8 code bytes, as Index.build makes it", f"margin 0.99: batch {speed}"] == (
        "**not reached**, -38%"
    )
    assert found["sift-grown-1m, 8 code bytes, after calibrate(queries)", f"batch {speed}"] == "not measured"


def test_fast_scan_is_judged_where_it_agrees_or_at_its_best():
    case = hand_made()
    fast = [point({"nprobe": 64}, 0.27, 50, 0.95), point({"nprobe": 512}, 0.26, 90, 0.972)]
    slow = [point({"nprobe": 64}, 0.44, 60, 0.95), point({"nprobe": 256}, 0.45, 90, 0.981)]
    case["methods"] += [
        method("faiss IVF4096,PQ16x4fs", fast, 18.7),
        method("faiss IVF4096,PQ32x4fs", [*slow, point({"nprobe": 512}, 0.44, 300, 0.99)], 27.2),
    ]
    found = verdicts({"sift-grown-1m": case}, None)
    short, long = (f"sift-grown-1m, {n} code bytes, after calibrate(queries)" for n in (8, 16))
    best = "speed against faiss IVF4096,PQ16x4fs at its best agreement, 0.972 (it never agrees 0.98)"
    assert found[short, f"margin 0.99: batch {best}"] == "reached, +50%"
    assert found[short, f"margin 0.999: single {best}"] == "reached, +12%"
    agreed = "speed against faiss IVF4096,PQ32x4fs where it agrees 0.98"
    assert found[long, f"margin 0.999: batch {agreed}"] == "**not reached**, -10%"
    recall = "recall@10 no less than faiss IVF4096,PQ32x4fs at any nprobe + 0.1"
    assert found[long, f"margin 0.999: {recall}"] == "reached, +0.0500"


def test_peers_without_a_curve_are_named_with_the_reason(results):
    tables, case = import_module("partition_tables"), hand_made()
    case["libraries"] |= {"usearch": "2.26", "hnswlib": "0.8.0"}
    assert "Installed, but not measured in this run: usearch." in tables.case(case)  # results of before `left_out`
    case["left_out"] = {"USearch M=16 float16": "not in the cache, and --cached builds no peer"}
    text = tables.case(case)
    assert "Without a curve: USearch M=16 float16: not in the cache, and --cached builds no peer." in text
    assert "not measured in this run" not in text


def test_why_peers_are_left_out(with_faiss, tmp_path, monkeypatch):
    """One that is not installed, one that the cache lacks, and those that are no peers of the case."""
    partitions, graphs = with_faiss("partitions"), with_faiss("graph_peers")
    monkeypatch.setattr(graphs.Library, "installed", lambda self: None if self.package == "usearch" else "1.0")
    options = argparse.Namespace(build=False, peers=False, any_version=False, cached=True)
    case = partitions.Case(
        ours=(), faiss=("IVF16,PQ4np",), refined=("IVF16,PQ4np",), graphs=("hnswlib", "usearch", "svs")
    )
    plan = with_faiss("curves").CurvePlan(quick=True)
    said = []
    found, left_out = partitions.load(case, None, tmp_path, plan, options, said.append, 0)
    assert found == []
    absent = "not in the cache, and --cached builds no peer"
    assert left_out == {
        "faiss IVF16,PQ4": absent, "faiss IVF16,PQ4,RFlat": f"faiss IVF16,PQ4 is {absent}", "hnswlib M=16": absent,
        "USearch M=16 float16": "not installed", "SVS Vamana 32": absent, "turbovec 4 bits": "not a peer of this case",
    }  # fmt: skip
    assert len(said) == 5


def test_our_grid_of_re_ranking_is_as_large_as_that_of_the_peers(with_faiss):
    ours_module, ivf = with_faiss("partition_ours"), with_faiss("ivf_peers")
    settings = ours_module._settings(ours_module.Spec(16, originals="float16"))
    grid = [s for s in settings if "rerank" in s]
    assert len(grid) == len(ivf.REFINED_PROBES) * len(ivf.REFINED_FACTORS) == 24
    assert len({(s["rerank"], s["margin"]) for s in grid}) == 24
    assert min(s["margin"] for s in grid) == 0.9  # a lower one has the rule of 0.9
    assert [s for s in settings if "recall" in s] == [{"recall": r} for r in (0.9, 0.95, 0.98)]


def test_default_settings_have_all_their_peers(with_faiss):
    partitions = with_faiss("partitions")
    case = partitions.CASES["sift-grown-1m-by-rows"]
    assert {(s.n_bytes, s.by_rows) for s in case.ours} == {(n, by) for n in (8, 16) for by in (True, False)}
    assert case.faiss == ("IVF4096,PQ8np", "IVF4096,PQ16np", "IVF4096,PQ16x4fs", "IVF4096,PQ32x4fs")


@pytest.fixture
def results(tmp_path):
    folder = tmp_path / "results"
    folder.mkdir()
    for found in (hand_made(), growth()):
        (folder / f"{found['kind']}.json").write_text(json.dumps(found))
    return folder


def test_the_table_of_the_readme_has_the_fastest_settings_that_reach_the_bounds():
    readme, case = import_module("readme"), hand_made()
    case["methods"] = [method for method in case["methods"] if method["name"] != readme.VECTORS[0]]
    assert "| bytes per vector |" not in readme.with_results(f"{readme.BEGIN}{readme.END}", {}, {readme.SET: case})
    kept = [point({"rerank": 80}, 0.97, 50), point({"rerank": 320}, 0.985, 104), point({"rerank": 640}, 0.99, 300)]
    case["methods"].append(
        ours(16, 264.0, kept, family="refined", suffix=", float16 originals"),
    )
    text = readme.with_results(f"a\n{readme.BEGIN}\n{readme.END}\nb\n", {}, {readme.SET: case})
    assert "| bytes per vector | 10 | 18 | 264 | 652 |" in text
    assert "| recall@10 | 0.415 | 0.400 | 0.985 | 0.990 |" in text
    assert "| speed in batches (one by one) | 3.33x (3.33x) | 1x (1x) | 2.00x (2.00x) | 1x (1x) |" in text
    assert text.startswith("a\n")
    assert text.endswith(f"{readme.END}\nb\n")
    assert readme.with_results("unchanged", {}, {}) == "unchanged"


def test_page(results, tmp_path):
    report, page, readme = import_module("report"), tmp_path / "RESULTS.md", tmp_path / "README.md"
    marks = import_module("readme")
    readme.write_text(f"before\n{marks.BEGIN}\nold\n{marks.END}\nafter\n")
    arguments = ["--results", str(results), "--output", str(page), "--readme", str(readme)]
    assert report.main([*arguments, "--no-plot"]) == 0
    assert report.main([*arguments, "--check"]) == 0
    text = page.read_text()
    assert "| interlace 8 bytes (hybrid, 4,096 cells) | 10.00 | 0.4250 | 60 | 90 | 0.4150 | - | - | - |" in text
    assert "| faiss IVF4096,PQ8 | 18.00 | 8.00 | 8.00 | 2.00 | - | - | - | 4.0 |" in text
    assert "| faiss IVF4096,PQ8 | nprobe=32 | 0.4000 | 0.9910 | 200.0 | 300.0 | 0.4000 | 600.0 |" in text
    assert "| 10,000,000 | interlace 8 bytes | margin=0.99 | 0.9910 | 0.4000 | 120.0 | 180.0 | 10.00 |" in text
    assert "Not installed: svs." in text
    assert "benchmarks/recall-speed-1m.png" in readme.read_text()
    assert "old" not in readme.read_text()
    assert "| bytes per vector |" in readme.read_text()


def test_exact_searches_with_few_cells_are_compared_with_fast_scan(tmp_path):
    report = import_module("report")
    line = {"n_bytes": 8, "bytes_per_vector": 8.5, "recall": 0.35, "scanned_share": 0.25}
    found = {
        "format": 1, "kind": "exact-cells", "quick": False, "environment": ENVIRONMENT, "simd": "avx2",
        "data": {"name": "a set", "rows": 1_000_000, "dim": 4},
        "protocol": {"ks": [10], "timed": 100, "rounds": 5, "answered": 500},
        "results": [
            line | {"name": "hybrid, 256 cells", "cells": 256, "us": {"batch": 100.0, "single": 200.0}},
            {"name": "faiss", "n_bytes": 8, "cells": None, "bytes_per_vector": 8.0, "recall": 0.26,
             "us": {"batch": 300.0, "single": 500.0}},
        ],
    }  # fmt: skip
    (tmp_path / "exact-cells.json").write_text(json.dumps(found))
    page = report.markdown(report.read(tmp_path), "plot.png")
    assert "| 8 | hybrid, 256 cells | 8.50 | 0.350 | 25.0% | 100 | 200 | 3.00 | 2.50 |" in page
    assert "| 8 | faiss | 8.00 | 0.260 | 100% | 300 | 500 | 1.00 | 1.00 |" in page
    assert "1,000,000 vectors (a set)" in page
    assert "| exact-cells | 2026-01-01" in page  # among the runs


def test_plots(results, tmp_path):
    pytest.importorskip("matplotlib")
    report = import_module("report")
    assert report.main(["--results", str(results), "--output", str(tmp_path / "RESULTS.md")]) == 0
    for name in ("partitions-sift-grown-1m.png", "recall-speed-1m.png", "growth.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG"), name


def test_names_of_curves_do_not_overlap():
    pytest.importorskip("matplotlib")
    plot = import_module("partition_plot")
    places = plot.spread([0.5, 0.5, 0.51, 0.99, 1.0], 0.1)
    assert places == sorted(places)
    assert min(np.diff(places)) >= 0.1 - 1e-9
    assert max(places) <= 1
    assert plot.spread([0.2, 0.8], 0.1) == [0.2, 0.8]


def test_only_settings_that_nothing_beats_are_drawn():
    pytest.importorskip("matplotlib")
    plot = import_module("partition_plot")
    points = [point({}, 0.5, 100), point({}, 0.4, 120), point({}, 0.6, 200), point({}, 0.3, 50)]
    assert plot.front(points) == [(0.3, 2e4), (0.5, 1e4), (0.6, 5e3)]
    assert plot.front(points, 0.55) == [(0.6, 5e3)]


def test_slices_of_agreement_are_one_table(results, tmp_path):
    report, page = import_module("report"), tmp_path / "page.md"
    one = {
        "data": "clusters", "rows": 60_000, "layout": "hybrid", "queries": "fresh", "n_queries": 5000, "k": 10,
        "target": 0.999, "agreement": 0.99951, "half_interval": 0.0002, "exact": False, "unlike": 3,
        "scanned": 0.034, "scanned_exact": 0.121,
    }  # fmt: skip
    (results / "agreement").mkdir()
    changes = {"hybrid": {}, "residual": {"layout": "residual", "agreement": 0.998}, "subspace": {"exact": True}}
    for layout, change in changes.items():
        environment = ENVIRONMENT | {"simd_levels": ["scalar", "avx2"]}
        found = {"format": 1, "kind": "agreement", "slice": layout, "quick": False, "environment": environment}
        found |= {"n_bytes": 8, "results": [one | {"layout": layout} | change]}
        (results / "agreement" / f"clusters-{layout}.json").write_text(json.dumps(found))
    assert report.main(["--results", str(results), "--output", str(page), "--no-plot"]) == 0
    section = page.read_text().partition("## Agreement of calibrated margins")[2]
    assert "**1 violations in 3 measurements**" in section
    assert "| clusters (60,000) | fresh (5,000) | `residual` | **0.99800** |" in section
    assert "| clusters (60,000) | fresh (5,000) | `subspace` | = |" in section
    assert "| agreement: hybrid |" in page.read_text()


@pytest.mark.slow
def test_a_whole_case(with_faiss, tmp_path):
    """Everything is built once, kept, and measured: the lists of faiss are shared by its indexes."""
    partitions, bench_sets, curves = (with_faiss(name) for name in ("partitions", "bench_sets", "curves"))
    ivf = with_faiss("ivf_peers")
    x, queries = bench_sets.clustered(3000, 16, 60, 0)
    data = bench_sets.BenchSet(
        "tiny", "generated", True, x, queries.astype(np.float32), bench_sets.neighbours(x, queries), 0
    )
    plan = curves.CurvePlan(quick=True, answered=60, agreed=40, timed=20, least_timed=5, turn_seconds=0.001, rounds=1)
    case = partitions.Case(
        ours=(partitions.Spec(4), partitions.Spec(4, originals="float16")),
        faiss=("IVF16,PQ4np", "IVF16_HNSW32,PQ8x4fs", "OPQ4_16,IVF16,PQ4np", "IVF16,RaBitQ"),
        refined=("IVF16_HNSW32,PQ8x4fs",),
    )
    options = argparse.Namespace(build=True, peers=False, any_version=False, cached=False)
    said = []
    partitions.build(case, data, tmp_path, plan, options, said.append)
    first = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert sum(name.startswith("centroids-16.npy") for name in first) == 1
    said.clear()
    loaded, left_out = partitions.load(case, data, tmp_path, plan, options, said.append, len(case.faiss))
    assert said == []
    assert set(left_out.values()) == {"not a peer of this case"}
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == first
    found = curves.measured(loaded, data, plan, said.append)
    assert json.loads(json.dumps(found)) == found
    by_name = {method["name"]: method for method in found}
    assert list(by_name) == [
        "interlace 4 bytes", "interlace 4 bytes, float16 originals", "faiss IVF16,PQ4", "faiss IVF16_HNSW32,PQ8x4fs",
        "faiss OPQ4_16,IVF16,PQ4", "faiss IVF16,RaBitQ", "faiss IVF16_HNSW32,PQ8x4fs,RFlat",
    ]  # fmt: skip
    for method in found:
        assert method["bytes"]["total"] >= 4, method["name"]
        recalls = [p["recall"]["10"] for p in method["points"]]
        assert 0.1 < max(recalls) <= 1, method["name"]
        assert all(p["us"]["batch@10"]["median"] > 0 for p in method["points"])
    exact = by_name["interlace 4 bytes"]["points"][-1]
    assert exact["setting"] == {"margin": "exact"}
    assert exact["agreement"] == 1.0
    probes = by_name["faiss IVF16,PQ4"]["points"]
    assert [p["setting"]["nprobe"] for p in probes] == [1, 2, 4, 8]
    assert probes[0]["agreement"] < probes[-1]["agreement"] <= 1
    refined = by_name["faiss IVF16_HNSW32,PQ8x4fs,RFlat"]
    assert refined["bytes"]["vectors"] == 64
    assert ivf.Factory("OPQ8_128,IVF4096_HNSW32,PQ8np").lists == 4096


def test_a_grown_set_begins_with_the_smaller_ones(with_faiss, tmp_path, monkeypatch):
    """The real rows come first; what is in the cache is not made again."""
    bench_sets, grown = with_faiss("bench_sets"), with_faiss("grown")
    monkeypatch.setattr(grown, "FIRST", 1000)
    monkeypatch.setattr(grown, "MOST", 3000)
    base, _ = bench_sets.clustered(300, 8, 1, 0)
    said = []
    large = grown.rows(base, 2000, tmp_path, "made", 0, said.append)
    small = grown.rows(base, 700, tmp_path, "made", 0, said.append)
    assert large.shape == (2000, 8)
    assert np.array_equal(large[:700], small)
    assert np.array_equal(small[:300], base)
    assert len(np.unique(large[1000:], axis=0)) > 900
    assert not np.array_equal(large[1000:1700], large[300:1000])
    before = len(said)
    grown.rows(base, 3000, tmp_path, "made", 0, said.append)
    assert len(said) == before == 2


def test_true_neighbours_by_blocks(with_faiss, monkeypatch):
    """Those of the search of all rows at once, with its order of ties."""
    bench_sets = with_faiss("bench_sets")
    rng = np.random.default_rng(0)
    x, queries = (20 * rng.integers(0, 4, (n, 8)).astype(np.uint8) for n in (3000, 20))
    whole = bench_sets.neighbours(x, queries)
    monkeypatch.setattr(bench_sets, "TRUTH_BLOCK", 700)
    distances = ((x[whole].astype(int) - queries[:, None].astype(int)) ** 2).sum(-1)
    blocks = bench_sets.neighbours(x, queries)
    assert np.array_equal(((x[blocks].astype(int) - queries[:, None].astype(int)) ** 2).sum(-1), distances)


def test_indexes_of_ours_by_name(with_faiss):
    partitions = with_faiss("partitions")
    assert partitions.spec("8") == partitions.Spec(8)
    assert partitions.spec("16:hybrid") == partitions.Spec(16, "hybrid")
    assert partitions.spec("16::4096") == partitions.Spec(16, cells=4096)
    assert partitions.Spec(16, "hybrid", 4096).name == "interlace 16 bytes, hybrid, 4096 cells"
    for wrong in ("", "x", "8:hybrid:many", "8:hybrid:16:1"):
        with pytest.raises(argparse.ArgumentTypeError, match="BYTES"):
            partitions.spec(wrong)


def test_slices_resume(with_faiss, tmp_path, monkeypatch):
    agreement = with_faiss("agreement")
    rows = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
    asked = []

    def make(m, n, quick):
        asked.append((m, n, quick))
        return agreement.Slice(rows, {"fresh": rows[:3]})

    monkeypatch.setattr(agreement, "SLICES", {"one, of two": make})
    monkeypatch.setattr(agreement, "run", lambda name, given, layout, quick: {"slice": layout, "results": []})
    arguments = ["--quick", "--resume", "--results", str(tmp_path)]
    assert agreement.main([*arguments, "--layout", "hybrid"]) == 0
    path = agreement.path_of(tmp_path, "one, of two", "hybrid")
    assert json.loads(path.read_text())["slice"] == "hybrid"
    path.write_text('{"slice": "kept"}')
    assert agreement.main(arguments) == 0
    assert json.loads(path.read_text())["slice"] == "kept"
    assert sorted(p.name for p in path.parent.iterdir()) == [
        f"one-of-two-{layout}.json" for layout in sorted(agreement.LAYOUTS)
    ]
    assert agreement.main(arguments) == 0
    assert asked == [(500, 12_000, True)] * 2  # nothing is left for the third run
