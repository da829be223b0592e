"""The measured tables of docs/distributed.md, and its plan for a billion rows."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from interlace.index.machines import plan_machines

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "distributed.md").read_text()
ENVIRONMENT = {"cores": 2, "cpu": "a processor", "load_at_start": 9.0}
SUMMARY = {"median": 1.25, "p90": 2.5, "longest": 3.0}
FAULTS = {
    "kind": "ray-faults",
    "rows": 20_000,
    "kills": {"build": {"actor": 20, "node": 4}, "search": {"actor": 30, "node": 6}},
    "builds": 6,
    "searches": 1234,
    "search_errors": 0,
    "build_errors": 1,
    "wrong": 0,
    "recovery_seconds": {"actor": SUMMARY, "node": SUMMARY},
    "slowest_search_seconds": {"actor": SUMMARY, "node": SUMMARY},
    "usual_search_seconds": SUMMARY,
    "build_seconds": {"undisturbed": 9.0, "disturbed": SUMMARY},
    "environment": ENVIRONMENT,
}
SIDES = {"library": 10.0, "ray": 11.0}
WORK = {
    "lookups_per_query": 300.0,
    "cpu_us_per_query": 40.0,
    "calls": 1.0,
    "bytes_sent": 512e3,
    "bytes_received": 129e3,
}
CLUSTER = {
    "kind": "cluster",
    "data": "sift300k",
    "rows": 300_000,
    "dim": 128,
    "shards": 4,
    "threads": 2,
    "settings": {"n_bytes": 8},
    "environment": ENVIRONMENT | {"load_at_start": 0.4},
    "build": {side: {"seconds": 100.0, "cpu_seconds": 190.0, "peak_bytes": 1 << 30} for side in SIDES}
    | {"overhead": 0.1, "cpu_overhead": 0.05},
    "search": {
        "0.999": {
            "batches": SIDES | {"share": 0.91, "cpu_seconds": SIDES, "cpu_share": 0.95},
            "single": {"library": 1e-4, "ray": 2.1e-3, "added_ms": 2.0},
        }
    },
    "work": [
        WORK | {"groups": 1, "margin": "0.999", "model": {"lookups_per_query": 200.0, "cpu_us_per_query": 50.0}},
        WORK | {"groups": 1, "margin": "exact", "model": None, "tau_known": 290.0},
    ],
}


@pytest.fixture(scope="module")
def tables() -> ModuleType:
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        return import_module("cluster_tables")
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))


def test_the_page_has_what_was_measured(tables: ModuleType) -> None:
    assert tables.main(["--check"]) == 0


def test_tables_of_results(tables: ModuleType, tmp_path: Path) -> None:
    for name, facts in (("ray-faults", FAULTS), ("cluster-sift300k", CLUSTER)):
        (tmp_path / f"{name}.json").write_text(json.dumps(facts))
    page = tables.page_of(PAGE, tmp_path)
    assert "killed 50 actors or workers and 10 nodes at random instants, 24 of them during 6 builds" in page
    assert "busy with other work, load 9" in page
    assert "| until all replicas answered again | 1.2 s (90 %: 2.5 s) | 1.2 s (90 %: 2.5 s) |" in page
    assert "| build, elapsed | 100 s | 100 s | +10% | at most +25 % |" in page
    assert "| one query, elapsed, margin 0.999 | 0.10 ms | 2.10 ms | +2.0 ms | at most +5 ms |" in page
    assert "| measured / model | 1.50 |" in page
    assert "| the same, had groups known the distance of the last hit | 290 |" in page
    assert tables.page_of(page, tmp_path) == page
    busy = CLUSTER | {"environment": ENVIRONMENT}
    (tmp_path / "cluster-sift300k.json").write_text(json.dumps(busy))
    assert "elapsed" not in tables.overhead(tmp_path).replace("Elapsed times are left out", "")
    (tmp_path / "cluster-sift300k.json").write_text(json.dumps(CLUSTER))
    (tmp_path / "page.md").write_text(PAGE)
    arguments = ["--results", str(tmp_path), "--page", str(tmp_path / "page.md")]
    assert tables.main([*arguments, "--check"]) == 1
    assert tables.main(arguments) == 0
    assert tables.main([*arguments, "--check"]) == 0


def test_the_plan_for_a_billion_rows_is_that_of_the_command() -> None:
    """All that the command computes without a measurement of this machine."""
    assert "interlace plan --rows 1e9 --dim 128 --machines 8 --memory 64GB --replicas 2 --threads 16" in PAGE
    plan = plan_machines(10**9, 128, machines=8, memory="64GB", replicas=2, threads=16, measure=False)
    assert plan.fits
    shards = f"{plan.shards} of {plan.rows_per_shard:,} rows, {plan.one.file / plan.shards / 1e9:.2f} GB each"
    expected = {
        "shards": shards,
        "files": f"{plan.one.file / 1e9:.1f} GB",
        "memory": f"about {plan.bytes_per_machine / 1e9:.1f} GB per machine",
        "one query": f"about {plan.latency * 1e3:.0f} ms",
        "throughput": f"about {round(plan.queries_per_second, -3):,.0f} queries/s",
    }
    for name, value in expected.items():
        assert f"| {name} | {value} |" in PAGE, name
