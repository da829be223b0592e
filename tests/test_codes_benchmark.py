"""The benchmarks of codes: targets and pages on hand-made results, and runs on a few rows."""

from __future__ import annotations

import json
import signal
import warnings
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"
ENVIRONMENT = {
    "cpu": "A CPU", "flags": ["avx2"], "cores": 2, "load_at_start": 0.1, "load_at_end": 0.2, "compiler": "g++ 12",
    "python": "3.11.7", "numpy": "2.0", "faiss": "1.15.1", "commit": "0123456789abcdef", "uncommitted_code": False,
    "date": "2026-01-01 00:00 UTC", "simd_levels": ["scalar", "avx2"],
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


def entry(method, recall, total=17.0, rows=1000, **more):
    found = {"rows": rows, "n_bytes": 16, "method": method, "recall": recall, "code_bytes": 16, "total_bytes": total}
    return found | {"error": 0.25, "cpu_seconds": {"learn": 30.0, "encode": 2.0}} | more


def text_codes(*entries):
    data = {"name": "text128k", "rows": 1000, "dim": 256, "queries": 50, "metric": "cosine", "k": 10}
    data |= {"train_rows": 500, "learn_seconds": 1200}
    return {"format": 2, "kind": "text-codes", "environment": ENVIRONMENT, "data": data, "entries": list(entries)}


def verdicts(tables, agreement=None):
    bars = import_module("code_bars").all_bars(tables, agreement)
    return {(bar.where, bar.what): (bar.goal(), bar.verdict()) for bar in bars}


def test_nothing_measured():
    found = verdicts({})
    assert {verdict for _, verdict in found.values()} == {"not measured"}
    best = "default (auto): recall@10 no less than the best of faiss OPQ, RQ, RaBitQ, SQ at the same code bytes"
    assert found["text128k, cosine, 16 code bytes", best] == ("-", "not measured")


def test_text_codes_are_compared_with_the_best_of_faiss():
    """Of all rows only; a peer without a result is named."""
    found = verdicts(
        {
            "text-codes": text_codes(
                entry("auto", 0.6, layout="hybrid", recall_by_products=0.5),
                entry("residual", 0.65, recall_by_products=0.60),
                entry("opq", 0.54),
                entry("rq", 0.64),
                entry("rabitq", 0.3),
                {"rows": 1000, "n_bytes": 16, "method": "sq4", "left_out": "it took too long"},
                entry("pq", 0.9, rows=400),
            )
        }
    )
    where = "text128k, cosine, 16 code bytes"
    best = "recall@10 no less than the best of faiss OPQ, RQ, RaBitQ, SQ at the same code bytes (rq)"
    assert found[where, f"default (auto): {best}"] == ("0.6400", "**not reached**, -0.0400")
    assert found[where, f"best layout (residual): {best}"] == ("0.6400", "open, SQ not measured")
    before = "best layout (residual): recall@10 no less than our residual codes ranked by products, as they were"
    assert found[where, f"{before} before format 4, + 0.02"] == ("0.6200", "reached, +0.0300")


def line(name, kind, recall, batch, *, dim=384, n_bytes=64, margin=None, **more):
    where = {"set": f"spectrum{dim}", "dim": dim, "rows": 1000, "name": name, "n_bytes": n_bytes}
    found = where | {"kind": kind, "recall": recall, "us": {"batch": batch, "single": 2 * batch}, "layout": "hybrid"}
    return found | ({"margin": margin} if kind == "ours" else {"layout": "pq"}) | more


def test_long_codes_need_speed_and_recall_at_once():
    """A fast layout without the recall does not count."""
    lines = [
        line("hybrid", "ours", 0.86, 100.0),
        line("residual", "ours", 0.92, 250.0),
        line("PQ128x4fs", "faiss", 0.85, 100.0),
        line("hybrid", "ours", 0.80, 125.0, dim=1536, margin=0.99),
        line("PQ128x4fs", "faiss", 0.68, 100.0, dim=1536),
        line("hybrid", "ours", 0.60, 10.0, dim=768),
        line("PQ128x4fs", "faiss", 0.68, 100.0, dim=768),
        line("PQ96x4fs", "faiss", 0.68, 100.0, dim=768, n_bytes=48),
    ]
    found = verdicts({"long-codes": {"results": lines}})
    small, middle, large = (f"long codes, spectrum{d} ({d} dimensions), 64 bytes" for d in (384, 768, 1536))
    speed = "{}: batch speed at that recall against PQ128x4fs"
    assert found[small, speed.format("margin default")] == ("0.50x", "**not reached**, -20%")
    assert found[small, "margin default: recall@10 no less than PQ128x4fs + 0.05"] == ("0.9000", "reached, +0.0200")
    assert found[large, speed.format("margin 0.99")] == ("1.00x", "**not reached**, -20%")
    assert found[middle, speed.format("margin default")] == ("1.00x", "**not reached**, -100%")
    assert not any("768" in where and "48 bytes" in where for where, _ in found)


def coding(*errors):
    names = ("interlace residual, effort fast", "interlace residual, effort best", "faiss RQ, beam 5")
    entries = [
        {"n_bytes": 8, "method": name, "error": error, "microseconds": us}
        for name, error, us in zip(names, errors, (10.0, 20.0, 70.0), strict=True)
    ]
    data = {"name": "sift300k", "rows": 100, "train_rows": 1000}
    environment = {"environment": ENVIRONMENT, "simd": "avx2"}
    return {"format": 1, "kind": "coding", "data": data, "entries": entries} | environment


@pytest.mark.parametrize(
    ("errors", "verdict"),
    [
        ((9.0, 8.0, 10.0), "reached, +75%"),
        ((11.0, 10.0, 10.0), "**not reached**, -12%"),
        ((11.0, 11.0, 10.0), "**not reached**, -100%"),
    ],
)
def test_coding_counts_at_no_more_error(errors, verdict):
    found = verdicts({"coding": coding(*errors)})
    what = "speed of coding at no more error than faiss RQ, beam 5"
    assert found["coding, 8 bytes", what] == ("4.00x", verdict)


def agreement(broken, layouts=("subspace", "hybrid", "residual")):
    sets = import_module("code_bars").AGREEMENT_SETS
    results = [
        {"data": name, "layout": layout, "agreement": 0.9995, "half_interval": 0.0001, "target": 0.999}
        for name in sets
        for layout in layouts
    ]
    for result in results[:broken]:
        result["agreement"] = 0.9
    return {"results": results}


@pytest.mark.parametrize(("broken", "verdict"), [(0, "reached"), (2, "**not reached**")])
def test_no_violation_of_agreement(broken, verdict):
    found = verdicts({}, agreement(broken))
    what = "violations in 18 measurements of calibrated margins, k = 1, 10, 100, all layouts"
    assert found["agreement", what] == ("at most 0", verdict)


def test_agreement_of_some_layouts_is_not_measured():
    found = verdicts({}, agreement(0, ("hybrid", "residual")))
    ((what, verdict),) = [(what, v) for (where, what), v in found.items() if where == "agreement"]
    assert verdict == ("at most 0", "not measured")
    assert "missing: sift300k subspace, sift-grown-1m subspace" in what


def test_sections_of_codes(tmp_path):
    report = import_module("report")
    entries = [
        entry("rq", 0.64, total=18.25),
        entry("auto", 0.65, layout="residual", recall_by_products=0.6),
        entry("pq", 0.9, rows=400),
        entry("rabitq", 0.5, code_bytes=14),
        {"rows": 1000, "n_bytes": 64, "method": "rq", "left_out": "learning took more than 1,200 s"},
    ]
    (tmp_path / "a.json").write_text(json.dumps(text_codes(*entries)))
    (tmp_path / "b.json").write_text(json.dumps(coding(1.0, 2.0, 3.0)))
    page = report.markdown(report.read(tmp_path), "plot.png")
    assert "| 16 | faiss rq | 0.6400 | 18.2 | 0.25 | 30 | 2 |" in page
    assert "| 16 | interlace auto (residual) | 0.6500 | 17.0 | 0.25 | 30 | 2 |" in page
    assert "| 16 (has 14) | faiss rabitq |" in page
    assert "| faiss pq |" not in page
    assert "Left out: faiss rq at 64 bytes (learning took more than 1,200 s)." in page
    assert "| 8 | faiss RQ, beam 5 | 3 | 70.0 |" in page
    assert "| text-codes | 2026-01-01" in page  # among the runs


def test_the_cost_of_a_re_ranked_row(with_faiss):
    rerank = with_faiss("rerank")
    assert rerank.per_row({"codes": 50.0, "shallow": 70.0, "deep": 210.0}) == {"at 100": 0.2, "100 to 800": 0.2}
    lines = [{"method": "a", "mode": "batch", "us": {"codes": 50.0}, "us_per_row": {"at 100": 0.21, "100 to 800": 0.3}}]
    text = import_module("living")._row_costs(lines)
    assert "| a | batch | 50.0 | 0.210 | 0.300 |" in text


def test_rankings_of_decoded_rows(with_faiss):
    """Each against its plain definition; a query in several blocks."""
    codes = with_faiss("text_codes")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 6)).astype(np.float32)
    queries = rng.normal(size=(codes.BLOCK + 3, 6)).astype(np.float32)
    products = queries @ x.T
    expected = {
        "products": -products,
        "cosines": -products / np.linalg.norm(x, axis=1),
        "squares": ((queries[:, None] - x) ** 2).sum(2),
    }
    for by, away in expected.items():
        found = codes.ranked(x, queries, by)
        assert codes.share(found, np.argsort(away, axis=1)[:, : codes.K]) > 0.999, by


def test_methods_without_a_code_of_these_bytes(with_faiss):
    codes = with_faiss("text_codes")
    assert codes.impossible("rabitq2", 16) == "20 of 16 bytes are its factors"
    assert codes.impossible("prq", 16) == "it needs several groups of 16 bytes"
    assert codes.impossible("rabitq", 16) is None
    for method, n_bytes in (("rabitq", 16), ("rabitq2", 64), ("rabitq4", 64), ("sq4", 32), ("sq8", 16), ("opq", 32)):
        assert codes.LEARNERS[method](256, n_bytes).sa_code_size() <= n_bytes, method


@pytest.fixture
def some_text(tmp_path, monkeypatch):
    """A small file in the place of text128k."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "text128k"
    folder.mkdir()
    base, query = (rng.normal(size=(n, 32)).astype(np.float16) for n in (600, 40))
    np.savez(folder / "text128k.npz", base=base, query=query)
    monkeypatch.setenv("INTERLACE_DATA", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(BENCHMARKS), prepend=":")
    return tmp_path / "found.json"


@pytest.mark.slow
def test_text_codes_resume(with_faiss, some_text, monkeypatch, capsys):
    """Methods are added one by one; one that is there is not run again, and one beyond its time is left out."""
    codes = with_faiss("text_codes")
    arguments = ["--bytes", "4", "--results", str(some_text)]
    assert codes.main([*arguments, "--methods", "hybrid,sq4"]) == 0
    ours, theirs = json.loads(some_text.read_text())["entries"]
    assert ours["method"] == "hybrid"
    assert 0.05 < ours["recall"] <= 1
    assert ours["total_bytes"] > theirs["total_bytes"] > theirs["code_bytes"] == 4
    assert set(ours["cpu_seconds"]) == {"learn", "encode"}
    monkeypatch.setattr(codes, "in_own_process", lambda *a: {"left_out": "by the test"})
    assert codes.main([*arguments, "--methods", "hybrid,sq4,pq"]) == 0
    entries = json.loads(some_text.read_text())["entries"]
    assert entries[:2] == [ours, theirs]
    assert entries[2]["left_out"] == "by the test"


def test_a_fit_beyond_its_time_is_left_out(with_faiss, monkeypatch):
    codes = with_faiss("text_codes")

    def nothing_came():
        raise EOFError

    child = SimpleNamespace(exitcode=-signal.SIGXCPU, start=lambda: None, join=lambda: None)
    end = SimpleNamespace(recv=nothing_came, close=lambda: None)
    context = SimpleNamespace(Process=lambda **given: child, Pipe=lambda duplex: (end, end))
    monkeypatch.setattr(codes.multiprocessing, "get_context", lambda kind: context)
    found = codes.in_own_process("rq", 64, 10, np.zeros((1, 10), np.int64), 1200)
    assert found == {"left_out": "learning took more than 1,200 s of processor time"}


def test_costs_have_targets_of_their_own():
    """With nothing measured every target is open; the memory of a build is that beyond its codes."""
    costs = import_module("cost_bars")
    assert {bar.verdict() for bar in costs.all_bars({}, None, [])} == {"not measured"}
    us = {"single": 30.0, "native single": 12.5}
    fixed = {"results": [{"dim": 1536, "n_bytes": 32, "name": "auto", "us": us}, {"dim": 1536, "name": "NumPy"}]}
    rerank = {"row_costs": [{"method": "interlace int8", "mode": "single", "us_per_row": {"at 100": 0.125}}]}
    fitting = {"results": [{"data": "text", "n_bytes": 32, "allowed": 120.0, "seconds": {"all": 90.0}}]}
    building = {"rows": 10_000_000, "n_bytes": 8, "seconds": {"all": 900.0}, "bytes": {"own_at_most": 580_000_000}}
    bars = costs.all_bars({"fixed-cost": fixed, "fitting": fitting}, rerank, [building | {"rows": 5}, building])
    assert [(bar.where, bar.goal(), bar.show(bar.measured), bar.verdict()) for bar in bars] == [
        ("fixed cost, 1,536 dimensions, 32 bytes", "at most 15.00 us", "17.50 us", "**not reached**, +17%"),
        ("re-ranking", "at most 0.20 us", "0.12 us", "reached, -38%"),
        ("learning", "at most 120 s", "90 s", "reached, -25%"),
        ("building 10,000,000 rows", "at most 600 s", "900 s", "**not reached**, +50%"),
        ("building 10,000,000 rows", "at most 1.00 GB", "0.50 GB", "reached, -50%"),
    ]
