"""The tables of RESULTS.md. Every number comes from the JSON and is only rounded here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

Case = dict[str, Any]


def times(ratio: float) -> str:
    """Two digits behind the point, or one that is not 0."""
    return f"{ratio:.2f}" if ratio >= 0.01 else f"{ratio:.1g}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def case(found: Case) -> str:
    """Everything about one data set at one number of bytes."""
    data, protocol = found["data"], found["protocol"]
    stand_in = " **Generated data: it says nothing about real vectors.**" if data["generated"] else ""
    intro = (
        f"{data['description']}: {data['rows']:,} rows x {data['dim']}, learned from {data['training_rows']:,} of them "
        f"by every method.{stand_in} Recall and agreement over {protocol['answered']:,} queries; {protocol['rounds']} "
        f"rounds of the number of queries each line tells. Our SIMD level: {found['simd']}. faiss offers "
        f"{', '.join(found['faiss_levels'])}; each peer ran at its fastest. The run took {found['seconds']:.0f} s."
    )
    parts = [
        f"## {data['name']}, {found['n_bytes']} bytes",
        intro,
        *(_speeds(found, k) for k in (10, 100)),
        _work(found),
    ]
    parts += [_calibration(found)]
    parts += [_levels(found)] if found["levels"] else []
    parts += [_threads(found)] if found["threads"] else []
    return "\n\n".join(parts)


def codes(found: Case) -> str:
    """Accuracy of codes, and what they cost to make."""
    data = found["data"]
    head = ("method", "recall@1", "recall@10", "recall@100", "error", "learn s", "code us/vector", "load")
    rows = [
        (
            method["name"],
            *(f"{method['recall'][k]:.4f}" for k in ("1", "10", "100")),
            f"{method['error']:,.4g}",
            f"{method['train_seconds']:.1f}",
            f"{method['encode_microseconds']:.1f}",
            f"{method['load']:.1f}",
        )
        for method in found["methods"]
    ]
    intro = (
        f"{data['rows']:,} rows x {data['dim']}, {data['queries']:,} queries, the same {data['training_rows']:,} rows "
        "for all to learn from, one thread. Recall of an exhaustive scan of the decoded vectors; error: mean squared "
        "distance to the code; load: what else ran on the machine, which spoils times but not recall."
    )
    return f"## Codes of {data['name']}, {found['n_bytes']} bytes\n\n{intro}\n\n{table(head, rows)}"


def front(found: Case, plot_name: str) -> str:
    """Every layout, number of crude books and margin, in one race with the peers."""
    head = ("method", "crude books", "margin", "recall@10", "bytes/vector", "batch, x FastScan", "single")
    rows = [
        (
            _label(method),
            str(method.get("n_crude", "-")),
            method.get("margin", "-"),
            f"{method['recall']:.4f}",
            f"{method['bytes_per_vector']:.2f}",
            *(times(method["ratios"][mode]) for mode in ("batch", "single")),
        )
        for method in found["methods"]
    ]
    data = found["data"]
    return (
        f"## The front of {data['name']}, {found['n_bytes']} bytes\n\n![recall against speed]({plot_name})\n\n"
        f"{table(head, rows)}"
    )


def streaming(found: Case) -> str:
    """The crude scan against reading the same bytes."""
    head = ("level", "columns", "where", "bytes", "scan GB/s", "stream GB/s", "share", "scan Gvectors/s")
    rows = [
        (
            entry["level"],
            str(entry["columns"]),
            entry["where"],
            f"{entry['bytes']:,}",
            f"{entry['scan_gb_s']:.2f}",
            f"{entry['stream_gb_s']:.2f}",
            f"{entry['ratio']:.1%}",
            f"{entry['scan_gvec_s']:.2f}",
        )
        for entry in found["results"]
    ]
    intro = (
        f"One core, medians of {found['rounds']} rounds; the stream only reads the bytes, in the same calls. "
        f"Our SIMD level: {found['simd']}; the others were forced."
    )
    return f"## Crude scan against streaming\n\n{intro}\n\n{table(head, rows)}"


def _label(method: dict[str, Any]) -> str:
    chose = f" ({method['chose']})" if "chose" in method else ""
    return f"interlace {method['name']}{chose}" if method["kind"] == "interlace" else method["name"]


def _bytes(method: dict[str, Any]) -> str:
    ids = f" + {method['id_bytes']} of ids" if "id_bytes" in method else ""
    return f"{method['bytes_per_vector']:.2f}{ids}"


def _ops(method: dict[str, Any], k: int) -> str:
    if "work" in method:
        return f"{method['work'][str(k)]['ops_per_vector']:.2f}"
    return str(method["ops_per_vector"]) if method.get("ops_per_vector") else "-"


def _agreed(method: dict[str, Any], k: int) -> str:
    return f"{method['agreement'][str(k)]:.4f}" if "agreement" in method else "-"


def _speeds(found: Case, k: int) -> str:
    head = (
        *("method", "margin", "recall@10", "recall@100", "bytes/vector", "batch q/s", "single q/s"),
        *("x FastScan batch", "single", "x IndexPQ batch", "single", "ops/vector", "agreement"),
    )
    rows = []
    for method in found["methods"]:
        rates = [f"{method['qps'][f'{mode}@{k}']['median']:,.0f}" for mode in ("batch", "single")]
        ratios = [
            times(method["ratios"][peer][f"{mode}@{k}"])
            for peer in ("FastScan", "IndexPQ")
            for mode in ("batch", "single")
        ]
        recalls = [f"{method['recall'][at]:.4f}" for at in ("10", "100")]
        margin = method.get("margin", "-")
        rows.append(
            (_label(method), margin, *recalls, _bytes(method), *rates, *ratios, _ops(method, k), _agreed(method, k))
        )
    return f"### k = {k}\n\n{table(head, rows)}"


def _work(found: Case) -> str:
    """What stands behind the speeds: rule or level, pruning at k = 10, build times."""
    head = (
        *("method", "margin", "how", "scanned", "survivors", "queries timed", "best batch q/s"),
        *("learn s", "encode us/vector", "calibrate s", "notes"),
    )
    rows = []
    for method in found["methods"]:
        work = method.get("work", {}).get("10")
        shares = (f"{work['scanned_share']:.1%}", f"{work['survivors_share']:.3%}") if work else ("-", "-")
        build = method["build"]
        encode = f"{build['encode'] / found['data']['rows'] * 1e6:.1f}"
        calibrate = f"{build['calibrate']:.1f}" if "calibrate" in build else "-"
        rows.append(
            (
                *(_label(method), method.get("margin", "-"), _how(method), *shares, str(method["queries_timed"])),
                *(f"{method['qps']['batch@10']['best']:,.0f}", f"{build['train']:.1f}", encode, calibrate),
                "; ".join(method.get("notes", [])) or "-",
            )
        )
    return f"### Work and building (one thread)\n\n{table(head, rows)}"


def _how(method: dict[str, Any]) -> str:
    """The rule that ran at k = 10, or the levels of faiss and nprobe."""
    if "work" in method:
        return method["work"]["10"]["rule"]
    level = method["level"]
    levels = (
        level["batch"] if level["batch"] == level["single"] else f"{level['batch']} batch, {level['single']} single"
    )
    probes = method.get("nprobe")
    return levels + (f", nprobe {probes['10']} (k = 100: {probes['100']})" if probes else "")


def _calibration(found: Case) -> str:
    head = ("layout", "target", "k", "rule that ran", "measured agreement", "queries")
    rows = [
        (e["layout"], str(e["target"]), str(e["k"]), e["rule"], f"{e['agreement']:.5f}", str(e["queries"]))
        for e in found["calibration"]
    ]
    return f"### Calibrated margins on queries never calibrated on\n\n{table(head, rows)}"


def _levels(found: Case) -> str:
    """Ours forced to each level, as INTERLACE_SIMD does, beside FastScan at each of its own; one run."""
    head = ("method", "level", "batch q/s", "single q/s", "queries timed")
    rows = [
        (
            *(_label(e), e["level"]),
            *(f"{e['qps'][task]['median']:,.0f}" for task in ("batch@10", "single@10")),
            str(e["queries_timed"]),
        )
        for e in found["levels"]
    ]
    return f"### SIMD levels, exact margin, k = 10\n\n{table(head, rows)}"


def _threads(found: Case) -> str:
    head = ("layout", "one thread q/s", "two threads q/s", "speed-up")
    rows = [(e["layout"], f"{e['one']:,.0f}", f"{e['two']:,.0f}", f"{e['speedup']:.2f}x") for e in found["threads"]]
    return f"### Two threads, exact margin, batch, k = 10\n\n{table(head, rows)}"
