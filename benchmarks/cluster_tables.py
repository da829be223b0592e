"""The measured tables of docs/distributed.md, from the JSON of ray_chaos.py, cluster_demo.py and cluster.py.

    python benchmarks/cluster_tables.py [--check]

Each table stands between two marks. ``--check`` writes nothing and fails if the page is out of date.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS, PAGE = ROOT / "benchmarks" / "results", ROOT / "docs" / "distributed.md"
MOST_LOAD = 3.5  # above which elapsed times say little
Facts = dict[str, Any]


def _loaded(path: Path) -> Facts | None:
    return json.loads(path.read_text()) if path.exists() else None


def _table(rows: list[list[str]]) -> str:
    head, *others = rows
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *others)) + "\n"


def _load(facts: Facts) -> float:
    return float(max(facts["environment"]["load_at_start"], facts["environment"].get("load_at_end", 0.0)))


def _busy(facts: Facts) -> bool:
    """Whether other work ran beside: a run alone has a load of two or three at its end."""
    return _load(facts) > MOST_LOAD


def _where(facts: Facts) -> str:
    """Machine and load."""
    found, load = facts["environment"], _load(facts)
    state = f"busy with other work, load {load:.0f}" if _busy(facts) else f"idle, load {load:.1f} with the run itself"
    return f"{found['cores']} cores ({found['cpu']}), {state}"


def _seconds(found: dict[str, float], name: str) -> str:
    return f"{found[name]:.2g} s" if found else "none"


def failures(results: Path) -> str:
    """What was killed, and how long it took until all was as before."""
    facts, text = _loaded(results / "ray-faults.json"), ""
    if facts is not None:
        kills = facts["kills"]
        total = {kind: kills["build"][kind] + kills["search"][kind] for kind in ("actor", "node")}
        text += (
            f"`make ray-faults` killed {total['actor']} actors or workers and {total['node']} nodes at random "
            f"instants, {sum(kills['build'].values())} of them during {facts['builds']} builds, the others during "
            f"{facts['searches']:,} searches: {facts['wrong']} wrong answers or files, {facts['search_errors']} "
            f"searches and {facts['build_errors']} builds with an explicit error. Three nodes on one machine with "
            f"{_where(facts)}; {facts['rows']:,} rows, two replicas, quick health checks.\n\n"
        )
        back, slow = facts["recovery_seconds"], facts["slowest_search_seconds"]
        rows = [["", "an actor was killed", "a node was killed"]]
        for title, found in (("until all replicas answered again", back), ("slowest search meanwhile", slow)):
            cells = [
                f"{_seconds(found[kind], 'median')} (90 %: {_seconds(found[kind], 'p90')})"
                for kind in ("actor", "node")
            ]
            rows.append([title, *cells])
        text += _table(rows)
        if slow.get("group"):
            text += (
                "\nAfter nodes were lost, both replicas of a group can be on one node. Where that one was killed next, "
                f"the slowest search took {_seconds(slow['group'], 'median')}, until an actor was back.\n"
            )
        usual, took = facts["usual_search_seconds"], facts["build_seconds"]
        text += (
            f"\nA search took {_seconds(usual, 'median')} at the median over the whole run. An undisturbed build took "
            f"{took['undisturbed']:.0f} s, a disturbed one {took['disturbed']['median']:.0f} s at the median.\n"
        )
    demo = _loaded(results / "cluster-demo.json")
    if demo is not None:
        text += (
            f"\n`make cluster`: {demo['rows']:,} rows in {demo['shards']} shards, two replicas on three nodes that "
            f"share {_where(demo)}, batches of {demo['batch']} exact queries without a pause.\n\n"
        )
        rows = [["phase", "queries/s", "errors", "wrong answers", "slowest batch"]]
        for one in demo["phases"]:
            cells = [f"{one['queries_per_second']:,.0f}", str(one["errors"]), str(one["wrong"])]
            rows.append([one["phase"], *cells, f"{one['slowest_seconds']:.2g} s"])
        text += _table(rows)
    return text


def _largest(results: Path) -> Facts | None:
    found = [json.loads(path.read_text()) for path in sorted(results.glob("cluster-*.json"))]
    return max((one for one in found if one["kind"] == "cluster"), key=lambda one: one["rows"], default=None)


def overhead(results: Path) -> str:
    """Building and searching, against the library alone."""
    facts = _largest(results)
    if facts is None:
        return ""
    built = facts["build"]
    text = (
        f"`benchmarks/cluster.py --data {facts['data']}`: {facts['rows']:,} rows x {facts['dim']} dimensions, "
        f"{facts['settings']['n_bytes']} bytes, {facts['shards']} shards on one node, {facts['threads']} threads on "
        f"both sides, {_where(facts)}.\n\n"
    )
    if _busy(facts):
        text += "Elapsed times are left out because of the load; processor times are coarse.\n\n"
    rows = [["", "library", "Ray", "Ray against the library", "target"]]
    both = ("library", "ray")
    elapsed = [f"{built[side]['seconds']:,.0f} s" for side in both]
    rows.append(["build, elapsed", *elapsed, f"{built['overhead']:+.0%}", "at most +25 %"])
    cpu = [f"{built[side]['cpu_seconds']:,.0f} s" for side in both]
    rows.append(["build, processor time", *cpu, f"{built['cpu_overhead']:+.0%}", ""])
    peaks = [f"{built[side]['peak_bytes'] / 2**30:.1f} GiB" for side in both]
    rows.append(["build, memory with mapped pages", *peaks, "", "at most 10 GiB"])
    for margin, found in facts["search"].items():
        batch, single = found["batches"], found["single"]
        speeds = [f"{batch[side]:,.0f} q/s" for side in both]
        rows.append([f"batches of 1,000, elapsed, margin {margin}", *speeds, f"{batch['share']:.0%}", "at least 80 %"])
        cpu = [f"{batch['cpu_seconds'][side]:.2g} s" for side in both]
        rows.append([f"a batch, processor time, margin {margin}", *cpu, f"{batch['cpu_share']:.0%}", ""])
        times = [f"{1e3 * single[side]:.2f} ms" for side in both]
        rows.append([f"one query, elapsed, margin {margin}", *times, f"{single['added_ms']:+.1f} ms", "at most +5 ms"])
    return text + _table([row for row in rows if "elapsed" not in row[0] or not _busy(facts)])


def cost_model(results: Path) -> str:
    """Work and messages of 1, 2, 4 and 8 groups, and what the model says."""
    facts = _largest(results)
    if facts is None or "work" not in facts:
        return ""
    found = {(one["groups"], one["margin"]): one for one in facts["work"]}
    groups = sorted({number for number, _ in found})
    usual = [found[number, "0.999"] for number in groups]
    exact = [found[number, "exact"] for number in groups]
    queries = 1000

    def row(title: str, values: list[float], form: str = ",.0f") -> list[str]:
        return [title, *(format(value, form) for value in values)]

    rows = [
        ["per query, all groups", *(f"{number} group{'s' * (number > 1)}" for number in groups)],
        row("table additions, measured", [one["lookups_per_query"] for one in usual]),
        row("table additions, model", [one["model"]["lookups_per_query"] for one in usual]),
        row("measured / model", [one["lookups_per_query"] / one["model"]["lookups_per_query"] for one in usual], ".2f"),
        row("processor time of the actors, measured, us", [one["cpu_us_per_query"] for one in usual]),
        row("processor time, model, us", [one["model"]["cpu_us_per_query"] for one in usual]),
        row("measured / model", [one["cpu_us_per_query"] / one["model"]["cpu_us_per_query"] for one in usual], ".2f"),
        row('table additions with `"exact"`', [one["lookups_per_query"] for one in exact]),
        row("the same, had groups known the distance of the last hit", [one["tau_known"] for one in exact]),
        row("calls for a batch", [one["calls"] for one in usual]),
        row("bytes sent to each node", [one["bytes_sent"] / queries for one in usual]),
        row("bytes of answers", [one["bytes_received"] / queries for one in usual]),
    ]
    text = (
        f"{facts['rows']:,} rows ({facts['data']}), 8 shards, batches of 1,000 queries, 10 hits, margin 0.999 unless "
        f"the row says exact; {_where(facts)}. The groups share the cores of one machine: work and messages are "
        "counted, and no elapsed times.\n\n"
    )
    return text + _table(rows)


TABLES = {"failures": failures, "overhead": overhead, "cost model": cost_model}


def page_of(page: str, results: Path) -> str:
    """The page with new tables; one without results stays as it is."""
    for name, made in TABLES.items():
        begin, end = f"<!-- {name}: begin, made by benchmarks/cluster_tables.py -->", f"<!-- {name}: end -->"
        if begin not in page or end not in page:
            raise SystemExit(f"the page has no marks for {name!r}")
        text = made(results)
        if text:
            before, _, rest = page.partition(begin)
            page = f"{before}{begin}\n\n{text}\n{end}{rest.partition(end)[2]}"
    return page


def main(arguments: list[str] | None = None) -> int:
    """Write, or check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="fail if the page is out of date")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--page", type=Path, default=PAGE)
    args = parser.parse_args(arguments)
    old = args.page.read_text()
    new = page_of(old, args.results)
    if args.check and new != old:
        print(f"{args.page.name} is out of date: run benchmarks/cluster_tables.py", file=sys.stderr)
        return 1
    if not args.check:
        args.page.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
