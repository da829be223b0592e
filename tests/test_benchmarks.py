"""The benchmark: its report on a hand-made result, its made data, and a whole case on a tiny set."""

from __future__ import annotations

import copy
import json
import warnings
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import interlace.index
from interlace import Index, _native
from interlace.evaluate.answers import exact_neighbours

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"
TASKS = ("batch@10", "single@10", "batch@100", "single@100")


@pytest.fixture(autouse=True)
def _benchmarks_on_the_path(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))


@pytest.fixture
def report():
    return import_module("report")


@pytest.fixture
def with_faiss():
    """Modules by name, for tests of those that import faiss."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its wrapper warns on newer Pythons
        pytest.importorskip("faiss")
    return import_module


# --------------------------------------------------------------------------------------------------------- fixture


ENVIRONMENT = {
    "cpu": "A CPU", "flags": ["avx2"], "cores": 2, "load_at_start": 0.1, "compiler": "g++ 12", "python": "3.11.7",
    "numpy": "2.0", "faiss": "1.15.1", "commit": "0123456789abcdef", "uncommitted_code": False,
    "date": "2026-01-01 00:00 UTC",
}  # fmt: skip


def qps(rate):
    return {task: {"median": rate, "best": rate * 1.1, "rounds": [rate, rate * 1.1]} for task in TASKS}


def ours(layout, margin, recall, rate):
    work = {"rule": margin, "ops_per_vector": 1.5, "scanned_share": 0.3, "survivors_share": 0.01}
    return {
        "name": layout, "kind": "interlace", "margin": margin, "level": "avx2", "bytes_per_vector": 8.25,
        "build": {"train": 1.0, "encode": 0.5, "calibrate": 0.1}, "recall": {"10": recall, "100": recall},
        "agreement": {"10": 1.0, "100": 1.0}, "work": {"10": work, "100": work}, "queries_timed": 200, "qps": qps(rate),
    }  # fmt: skip


def peer(name, recall, rate, **more):
    return {
        "name": name, "kind": "faiss", "level": {"batch": "AVX2", "single": "NONE"}, "bytes_per_vector": 8.0,
        "ops_per_vector": 8, "build": {"train": 1.0, "encode": 0.5}, "notes": ["a | note"],
        "recall": {"10": recall, "100": recall}, "queries_timed": 100, "qps": qps(rate), **more,
    }  # fmt: skip


def hand_made(name="sift300k", n_bytes=8, subspace=4000.0):
    methods = [
        ours("subspace", "exact", 0.35, subspace),
        ours("hybrid", "exact", 0.39, 2900.0),
        ours("residual", "0.999", 0.41, 2500.0),
        peer("faiss IndexPQFastScan", 0.30, 1000.0),
        peer("faiss IndexPQ", 0.38, 200.0),
        peer("faiss OPQ+PQ", 0.37, 190.0),
        peer("faiss ResidualQuantizer", 0.42, 5.0),
        peer(
            "faiss IVF256,PQ8",
            0.4,
            1500.0,
            id_bytes=8,
            nprobe={"10": 40, "100": 90},
            agreement={"10": 0.999, "100": 0.9992},
        ),
    ]
    for method in methods:
        method["ratios"] = {
            reference: {task: method["qps"][task]["median"] / rate for task in TASKS}
            for reference, rate in (("FastScan", 1000.0), ("IndexPQ", 200.0))
        }
    levels = [
        {"name": who, "kind": kind, "level": level, "queries_timed": 9, "qps": qps(rate)}
        for who, kind, level, rate in (
            ("subspace", "interlace", "avx2", 1500.0),
            ("hybrid", "interlace", "avx2", 900.0),
            ("faiss IndexPQFastScan", "faiss", "AVX2", 1000.0),
        )
    ]
    calibration = [
        {"layout": "hybrid", "target": 0.999, "k": k, "agreement": value, "rule": "0.999 (share 0.9)", "queries": 1000}
        for k, value in ((10, 0.9995), (100, 0.9985))
    ]
    return {
        "format": 1, "kind": "peers", "quick": False, "n_bytes": n_bytes, "environment": ENVIRONMENT, "simd": "avx2",
        "faiss_levels": ["NONE", "AVX2"], "protocol": {"answered": 1000, "rounds": 5}, "methods": methods,
        "levels": levels,
        "threads": [{"layout": "hybrid", "margin": "exact", "one": 100.0, "two": 185.0, "speedup": 1.85}],
        "calibration": calibration, "seconds": 12.0,
        "data": {"name": name, "description": "made by hand", "generated": False, "rows": 1000, "dim": 8,
                 "training_rows": 500},
    }  # fmt: skip


def streaming():
    results = [
        {"level": "avx2", "columns": columns, "where": "cache", "bytes": 1 << 18, "scan_gb_s": 20.0,
         "stream_gb_s": 25.0, "scan_gvec_s": 20.0 / columns, "ratio": 0.8}
        for columns in (2, 4)
    ]  # fmt: skip
    return {
        "format": 1,
        "kind": "streaming",
        "quick": False,
        "environment": ENVIRONMENT,
        "simd": "avx2",
        "rounds": 9,
        "results": results,
    }


@pytest.fixture
def results(tmp_path):
    folder = tmp_path / "results"
    folder.mkdir()
    for found in (hand_made(), hand_made("mnist784", 16)):
        (folder / f"{found['data']['name']}-{found['n_bytes']}.json").write_text(json.dumps(found))
    (folder / "streaming.json").write_text(json.dumps(streaming()))
    return folder


def store(**changes):
    ratios = {"batch_ratio": 0.9, "single_ratio": 0.65}
    rates = {"before": 100.0, "removed": 70.0, "compacted": 97.0, "removed/before": 0.7, "compacted/before": 0.97}
    return {
        "format": 2, "kind": "store", "quick": False, "environment": ENVIRONMENT, "n_bytes": 8, "load_at_end": 0.2,
        "data": {"name": "sift-grown-1m", "rows": 1000, "dim": 8},
        "while_writing": {who: ratios for who in ("process", "thread", "coding")},
        "search": {"qps": {"exact batch": rates}},
        "upserts": {"durable_upserts_per_s": 99.0, "bare_appends_per_s": 500.0},
        "adding": {"rows": 1000, "block": 100, "over_coding": 0.25},
        "opening_large": {"rows": 5000, "file_bytes": 7, "first_open_ms": 49.0, "open_ms": 20.0, "contains_ms": 1.0,
                          "get_ms": 2.0, "rss_open_mb": 3.0, "rss_get_mb": 4.0},
    } | changes  # fmt: skip


# ---------------------------------------------------------------------------------------------------------- report


def test_what_a_store_reached(report, results, tmp_path):
    """Each figure beside its bar, on the right side of it or not; results of the format before are left out."""
    bars = import_module("store_bars")
    found = {bar["what"]: bar["reached"] for bar in bars.as_json(store())}
    assert found == {
        "exact, batch: searches while another process adds rows, against the same alone": True,
        "exact, single: searches while another process adds rows, against the same alone": False,
        "exact, batch: searches while a thread adds rows, against the same alone": True,
        "exact, single: searches while a thread adds rows, against the same alone": False,
        "exact batch: searches after 30 % were removed, against those before": True,
        "exact batch: searches after compaction, against those before": True,
        "durable upserts of one row": False,
        "adding 1,000 rows in blocks of 100, over coding alone": False,
        "opening 5,000 rows, the first time in a process": True,
        "opening 5,000 rows, again": True,
    }
    for version, expected in ((2, True), (1, False)):
        (results / "store.json").write_text(json.dumps(store(format=version)))
        page = tmp_path / "page.md"
        assert report.main(["--results", str(results), "--output", str(page), "--no-plot"]) == 0
        text = page.read_text()
        assert ("## A store" in text) == expected
        row = "| durable upserts of one row | at least 100/s | 99/s | **not reached** |"
        assert (row in text) == expected


def test_the_same_json_gives_the_same_page(report, results, tmp_path):
    pages = []
    for name in ("a", "b"):
        output = tmp_path / name / "RESULTS.md"
        output.parent.mkdir()
        assert report.main(["--results", str(results), "--output", str(output), "--no-plot"]) == 0
        assert report.main(["--results", str(results), "--output", str(output), "--check"]) == 0
        pages.append(output.read_bytes())
    assert pages[0] == pages[1]
    text = pages[0].decode()
    assert text.index("## sift300k, 8 bytes") < text.index("## mnist784, 16 bytes") < text.index("## Crude scan")
    assert "8.00 + 8 of ids" in text
    assert "nprobe 40 (k = 100: 90)" in text
    assert "a \\| note" in text
    assert "Quick runs" not in text


def test_a_page_out_of_date_is_noticed(report, results, tmp_path, capsys):
    output = tmp_path / "RESULTS.md"
    assert report.main(["--results", str(results), "--output", str(output), "--check"]) == 1
    assert not output.exists()
    assert report.main(["--results", str(results), "--output", str(output), "--no-plot"]) == 0
    changed = hand_made(subspace=4001.0)
    (results / "sift300k-8.json").write_text(json.dumps(changed))
    assert report.main(["--results", str(results), "--output", str(output), "--check"]) == 1
    assert "run benchmarks/report.py" in capsys.readouterr().err


def test_no_results_no_page(report, tmp_path):
    assert report.main(["--results", str(tmp_path), "--output", str(tmp_path / "RESULTS.md")]) == 1
    assert not (tmp_path / "RESULTS.md").exists()


def test_the_plot_lies_beside_the_page(report, results, tmp_path):
    pytest.importorskip("matplotlib")
    assert report.main(["--results", str(results), "--output", str(tmp_path / "RESULTS.md")]) == 0
    assert (tmp_path / "RESULTS.png").read_bytes().startswith(b"\x89PNG")


def test_quick_runs_are_named(report):
    case = hand_made()
    case["quick"] = True
    assert "quick runs" in report.markdown(report.Found({("sift300k", 8): case}, {}, [], None), "x.png")


def test_bars(report):
    bars = import_module("bars")
    found = {(b.where, b.what): b for b in bars.all_bars({("sift300k", 8): hand_made()}, streaming())}

    def verdict(what, where="sift300k, 8 bytes"):
        return found[where, what].verdict()

    assert verdict("subspace, exact: batch speed against FastScan") == "reached, +33%"
    assert verdict("hybrid, exact: single speed against FastScan") == "**not reached**, -3%"
    assert verdict("hybrid, exact: batch speed against IndexPQ") == "reached, +45%"
    assert verdict("subspace, exact: recall@10 no less than faiss IndexPQFastScan") == "reached, +0.0500"
    assert verdict("hybrid, exact: recall@10 no less than faiss IndexPQ") == "reached, +0.0100"
    assert verdict("residual, 0.999: recall@10 no less than faiss ResidualQuantizer") == "**not reached**, -0.0100"
    forced = "exact, forced to avx2: batch speed against FastScan at AVX2"
    assert verdict(f"subspace, {forced}") == "reached, +50%"
    assert verdict(f"hybrid, {forced}") == "**not reached**, -10%"
    assert verdict("hybrid, exact: two threads against one, batch") == "reached, +3%"
    assert verdict("subspace, exact: two threads against one, batch") == "not measured"
    worst = "calibrated 0.999: agreement on held-out queries, lowest (hybrid, k = 100)"
    assert verdict(worst) == "**not reached**, -0.0005"
    assert verdict("2 columns in cache: share of the streaming rate (avx2)", "crude scan") == "reached, +20.0 points"
    assert (
        verdict("4 columns in cache: share of the streaming rate (avx2)", "crude scan")
        == "**not reached**, -10.0 points"
    )
    assert verdict("subspace, exact: batch speed against FastScan", "sift-grown-1m, 16 bytes") == "not measured"


def test_the_committed_page_is_up_to_date(report):
    if not list((BENCHMARKS / "results").glob("*.json")):
        pytest.skip("no results are committed")
    assert report.main(["--check", "--readme", str(report.HERE.parent / "README.md")]) == 0
    assert (BENCHMARKS / "RESULTS.png").exists()


# ---------------------------------------------------------------------------------------------------- data and runs


def test_all_learn_from_the_same_rows(with_faiss, monkeypatch):
    plan, ours_module = with_faiss("plan"), with_faiss("ours")
    x = np.random.default_rng(1).normal(size=(900, 8)).astype(np.float32)
    seen = []

    def learn(vectors, **options):
        seen.append(vectors)
        raise KeyboardInterrupt

    monkeypatch.setattr(interlace.learn.fit, "Learner", learn)
    with pytest.raises(KeyboardInterrupt):
        Index.build(x, seed=3, layout="hybrid", max_train_rows=500)
    assert np.array_equal(seen[0], x[ours_module.training_rows(len(x), plan.Plan(seed=3, train_rows=500))])


def test_made_rows_lie_between_a_row_and_a_near_one(with_faiss):
    bench_sets, grown = with_faiss("bench_sets"), with_faiss("grown")
    base, _ = bench_sets.clustered(400, 16, 1, 0)
    base[7] = base[8]  # a duplicate is a neighbour like any other
    made = grown.make_rows(base, 300, seed=5)
    assert made.dtype == np.uint8
    assert np.array_equal(made, grown.make_rows(base, 300, seed=5))
    assert not np.array_equal(made, grown.make_rows(base, 300, seed=6))
    starts = np.random.default_rng(5).integers(0, len(base), 300)
    near = exact_neighbours(base, base[starts], 12)[0]
    for row, start, candidates in zip(made.astype(int), starts, near, strict=True):
        a = base[start].astype(int)
        others = base[candidates[candidates != start]].astype(int)
        # Each coordinate between its two ends, and rounding moves it by no more than a half.
        inside = (row >= np.minimum(a, others)) & (row <= np.maximum(a, others))
        assert inside.all(1).any()


def test_the_smallest_nprobe(with_faiss):
    peers = with_faiss("faiss_peers")
    asked = []

    class Lists:
        """Each list holds one of 256 hits; the tenth of ten sits in list 100."""

        nprobe = 1

        def search(self, queries, k):
            asked.append(self.nprobe)
            found = np.tile(np.arange(k), (len(queries), 1))
            if self.nprobe < 100:
                found[:, -1] = -1
            return None, found

    assert peers.smallest_nprobe(Lists(), np.zeros((3, 2), np.float32), 10) == (100, 1.0)
    assert len(asked) <= 9


def test_rounds_are_interleaved(with_faiss):
    measure = with_faiss("measure")
    calls = []

    def method(name):
        return measure.Method(name, lambda q, k: calls.append((name, q.shape, k)), n_timed=2, pad=1)

    rates = measure.race(
        [method("a"), method("b")], np.zeros((5, 3), np.float32), 2, tasks=(("batch", 10), ("single", 10))
    )
    batch = [name for name, shape, _ in calls if shape == (2, 4)]
    assert batch == ["a", "b", "b", "a"]
    assert set(rates) == {"a", "b"}
    assert len(rates["a"]["single@10"]["rounds"]) == 2
    assert rates["a"]["single@10"]["best"] >= rates["a"]["single@10"]["median"] > 0


@pytest.mark.slow
def test_a_whole_case(with_faiss, report, tmp_path):
    case, bench_sets, plan_module = with_faiss("case"), with_faiss("bench_sets"), with_faiss("plan")
    x, queries = bench_sets.clustered(1500, 16, 30, 0)
    rows, asked = x.astype(np.float32), queries.astype(np.float32)
    data = bench_sets.BenchSet("tiny", "generated", True, rows, asked, bench_sets.neighbours(x, queries), 0)
    plan = plan_module.Plan(
        quick=True, rounds=1, answered=30, timed=10, timed_slow=5, timed_decode=1, timed_scalar=5, nprobe_queries=20,
        opq_iterations=1, train_rows=1200, rq_table=True,
    )  # fmt: skip
    before = _native.simd_level()
    found = case.run(data, 8, plan, lambda text: None)
    assert _native.simd_level() == before
    assert json.loads(json.dumps(found)) == found
    names = [(m["name"], m.get("margin")) for m in found["methods"]]
    assert len(names) == len(set(names)) == 9 + 1 + 7
    for method in found["methods"]:
        assert 0.1 < method["recall"]["10"] <= 1
        assert 8 <= method["bytes_per_vector"] < 12
        if method.get("margin") == "exact":
            assert method["agreement"] == {"10": 1.0, "100": 1.0}
    (tmp_path / "tiny-8.json").write_text(json.dumps(copy.deepcopy(found)))
    assert report.main(["--results", str(tmp_path), "--output", str(tmp_path / "RESULTS.md"), "--no-plot"]) == 0
    text = (tmp_path / "RESULTS.md").read_text()
    assert "Generated data, not representative of real vectors" in text
    assert "faiss ResidualQuantizer, norm byte" in text


def test_unknown_cases_are_refused(with_faiss, capsys):
    peers = with_faiss("peers")
    with pytest.raises(SystemExit):
        peers.main(["--only", "sift300k/9"])
    assert "sift300k/16" in capsys.readouterr().err


def test_half_a_result_is_never_there(with_faiss, tmp_path):
    peers = with_faiss("peers")
    path = tmp_path / "new" / "a-8.json"
    peers.write(path, {"kind": "peers"})
    with pytest.raises(TypeError):
        peers.write(path, {"kind": object()})
    assert json.loads(path.read_text()) == {"kind": "peers"}
    assert list(path.parent.iterdir()) == [path]


def test_sections_of_filters_reranking_and_drift(report, results, tmp_path):
    """Figures of the committed results stand in the page, each in the row of its setting."""
    living = import_module("living")
    committed = BENCHMARKS / "results"
    expected = {"filters": "| residual | 1 % | 3,000 |", "rerank": "| interlace float16 | rerank=200, margin=0.99 |"}
    for kind in ("filters", "rerank", "drift"):
        (results / f"{kind}.json").write_text((committed / f"{kind}.json").read_text())
    page = tmp_path / "page.md"
    assert report.main(["--results", str(results), "--output", str(page), "--no-plot"]) == 0
    text = page.read_text()
    for kind, start in expected.items():
        assert text.count(start) == 1, kind
    found = json.loads((committed / "drift.json").read_text())["results"][-1]
    assert f"| {found['moved_dims']} | {found['drift']:.2f} | {found['recall_old_books']:.3f} |" in text
    filters = json.loads((committed / "filters.json").read_text())
    filters["layouts"]["subspace"]["selectivities"][3]["unfiltered/batch"] = 4.9
    assert "reached by 2 of 3 layouts" in living.filters(filters)


def test_section_of_agreement(report, results, tmp_path):
    """A row for each measurement; an agreement is a violation only beyond its interval."""
    one = {
        "data": "clusters", "rows": 60_000, "layout": "hybrid", "queries": "fresh", "n_queries": 5000, "k": 10,
        "target": 0.999, "agreement": 0.99951, "half_interval": 0.0002, "exact": False, "unlike": 3,
        "scanned": 0.034, "scanned_exact": 0.121,
    }  # fmt: skip
    measured = [
        one,
        one | {"k": 1, "agreement": 0.99885, "half_interval": 0.0002},  # within its interval
        one | {"k": 100, "agreement": 0.9987, "half_interval": 0.0002},
        one | {"queries": "half the length", "agreement": 1.0, "half_interval": 0.0, "exact": True},
    ]
    page = tmp_path / "page.md"
    arguments = ["--results", str(results), "--output", str(page), "--no-plot"]
    assert report.main(arguments) == 0
    assert "Agreement of calibrated margins" not in page.read_text()
    environment = ENVIRONMENT | {"simd_levels": ["scalar", "avx2"]}
    found = {"format": 1, "kind": "agreement", "quick": False, "environment": environment, "n_bytes": 8}
    (results / "agreement.json").write_text(json.dumps(found | {"results": measured}))
    assert report.main(arguments) == 0
    section = page.read_text().partition("## Agreement of calibrated margins")[2]
    assert "8 bytes" in section
    assert "SIMD level avx2" in section
    assert "**1 violations in 4 measurements**" in section
    row = "| clusters (60,000) | fresh (5,000) | `hybrid` | 10 | 0.999 | 0.99951 ± 0.00020 | no | 3.4% | 12.1% |"
    assert row in section
    assert section.count("| yes |") == 1
