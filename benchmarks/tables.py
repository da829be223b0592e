"""The tables of RESULTS.md. Every number comes from the JSON and is only rounded here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

Case = dict[str, Any]


def times(ratio: float) -> str:
    """Two decimals, or one significant digit below 0.01."""
    return f"{ratio:.2f}" if ratio >= 0.01 else f"{ratio:.1g}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def case(found: Case) -> str:
    """All tables of one data set at one number of bytes."""
    data, protocol = found["data"], found["protocol"]
    stand_in = " **Generated data, not representative of real vectors.**" if data["generated"] else ""
    intro = (
        f"{data['description']}: {data['rows']:,} rows x {data['dim']}; every method learns from "
        f"{data['training_rows']:,} of them.{stand_in} Recall and agreement are over {protocol['answered']:,} "
        f"queries; times are from {protocol['rounds']} rounds of the given number of queries. Our SIMD level: "
        f"{found['simd']}. faiss has {', '.join(found['faiss_levels'])}; each peer runs at its fastest level. The run "
        f"took {found['seconds']:.0f} s."
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
    """Accuracy of codes, and time to learn and encode."""
    data = found["data"]
    head = ("method", "recall@1", "recall@10", "recall@100", "error", "learn s", "encode us/vector", "load")
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
        f"{data['rows']:,} rows x {data['dim']}, {data['queries']:,} queries; all methods learn from the same "
        f"{data['training_rows']:,} rows, on one thread. Recall is that of an exhaustive scan of the decoded vectors; "
        "error is the mean squared distance to the decoded vector; load is that of other processes on the machine, "
        "which affects times but not recall."
    )
    return f"## Codes of {data['name']}, {found['n_bytes']} bytes\n\n{intro}\n\n{table(head, rows)}"


def front(found: Case, plot_name: str) -> str:
    """Every layout, number of crude books and margin, timed together with the peers."""
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
        f"## Recall and speed of {data['name']}, {found['n_bytes']} bytes\n\n![recall against speed]({plot_name})\n\n"
        f"{table(head, rows)}"
    )


def streaming(found: Case) -> str:
    """The crude scan compared with reading the same bytes."""
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
        f"One core, medians of {found['rounds']} rounds; the stream only reads the bytes, in the same order. "
        f"Our default SIMD level: {found['simd']}; the other levels were forced."
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
    """Details of the speeds: rule or SIMD level, pruning at k = 10, build times."""
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
    """The rule at k = 10, or the SIMD levels and nprobe of faiss."""
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
    return f"### Calibrated margins on other queries than those of the calibration\n\n{table(head, rows)}"


def _levels(found: Case) -> str:
    """Our searches forced to each level (INTERLACE_SIMD), and FastScan at each of its levels; one run."""
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
