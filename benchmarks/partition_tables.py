"""Sections of RESULTS.md about partitions, graphs and growth. Every number comes from the JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from partition_bars import AGREED, RECALLS, fastest, us
from tables import table

Case = dict[str, Any]


def plot_name(case: Case) -> str:
    """The plot of a case."""
    return f"partitions-{case['data']['name']}.png"


#: What is not a default in the cases of grown sets.
CALIBRATED = (
    " Lines *calibrated by rows* have the margins of `Index.build`. The margins of our other lines are calibrated "
    "after the build, by `calibrate(queries)` with descriptors of other photographs: rows made between neighbours are "
    "nearer to each other than queries are."
)


def case(found: Case) -> str:
    """Bytes and building of every index, the time at each recall, and all points."""
    data, protocol = found["data"], found["protocol"]
    stand_in = " **Generated data, not representative of real vectors.**" if data["generated"] else ""
    grown = CALIBRATED if "-grown-" in data["name"] else ""
    intro = (
        f"{data['description']}: {data['rows']:,} rows x {data['dim']}.{stand_in} Recall over {protocol['answered']:,} "
        f"queries, agreement with the setting of the same index that skips nothing over {protocol['agreed']:,}; one "
        f"thread, processor time, medians of {protocol['rounds']} interleaved rounds in one process. Our SIMD level: "
        f"{found['simd']}; faiss at the fastest of its levels. Bytes are those of the saved index, ids included, "
        "divided by its rows; tables in memory are computed when an index is opened, and are not among them. Build "
        "times are processor time on one thread; faiss shares the lists of one number between its indexes, and "
        f"*lists* is the time to learn them.{_absent(found)}{grown} Load of the machine at the start: "
        f"{found['environment']['load_at_start']}, at the end: {found['environment']['load_at_end']}."
    )
    parts = [
        f"## Partitions and graphs: {data['name']}",
        intro,
        f"![recall against speed]({plot_name(found)})",
        _indexes(found),
        _summary(found),
        f"<details><summary>All settings</summary>\n\n{_points(found)}\n\n</details>",
    ]
    return "\n\n".join(parts)


#: Libraries whose package has another name, which is the kind of their curves.
PACKAGES = {"svs": "scalable-vs"}


def _absent(found: Case) -> str:
    """Peers without a curve, and why; results of before ``left_out`` only say what was installed."""
    if "left_out" in found:
        why = "; ".join(f"{name}: {reason}" for name, reason in found["left_out"].items())
        return f" Without a curve: {why}." if why else ""
    missing = [name for name, version in found["libraries"].items() if version is None]
    text = f" Not installed: {', '.join(missing)}." if missing else ""
    kinds = {method["kind"] for method in found["methods"]}
    silent = [
        name
        for name, version in found["libraries"].items()
        if version is not None and PACKAGES.get(name, name) not in kinds
    ]
    return text + (f" Installed, but not measured in this run: {', '.join(silent)}." if silent else "")


def _number(value: float | None, digits: int = 1) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def _indexes(found: Case) -> str:
    head = ("index", "bytes/vector", "codes", "ids", "structure", "vectors", "tables in memory", "lists s", "build s")
    rows = []
    for method in found["methods"]:
        size, build = method["bytes"], method["build"]
        seconds = sum(value for name, value in build.items() if name.endswith("_cpu_seconds"))
        lists = build.get("lists", {}).get("lists_cpu_seconds")
        parts = (_number(size.get(part), 2) for part in ("codes", "ids", "structure", "vectors", "tables_in_memory"))
        rows.append((_label(method), f"{size['total']:.2f}", *parts, _number(lists), _number(seconds)))
    return table(head, rows)


def _label(method: Case) -> str:
    if method["kind"] != "interlace":
        return str(method["name"])
    cells = f", {method['cells']:,} cells" if method.get("cells") else ""
    return f"{method['name']} ({method['layout']}{cells})"


def _summary(found: Case) -> str:
    """Each index by the most that it finds, its time at .99 agreement, and its time at each recall."""
    head = (
        *("index", "bytes/vector", "highest recall@10", f"us at agreement {AGREED:g}: batch", "single", "recall@10"),
        *(f"us at recall {r:g}" for r in RECALLS),
    )
    rows = []
    for method in found["methods"]:
        points = method["points"]
        agreed = [p for p in points if p.get("agreement", 0) >= AGREED]
        one = min(agreed, key=lambda p: us(p, "batch"), default=None)
        cells = ("-", "-", "-")
        if one is not None:
            cells = (f"{us(one, 'batch'):.0f}", f"{us(one, 'single'):.0f}", f"{one['recall']['10']:.4f}")
        times = []
        for wanted in RECALLS:
            quick = fastest(points, wanted)
            times.append("-" if quick is None else f"{us(quick, 'batch'):.0f}")
        best = max(p["recall"]["10"] for p in points)
        rows.append((_label(method), f"{method['bytes']['total']:.2f}", f"{best:.4f}", *cells, *times))
    return table(head, rows)


def _points(found: Case) -> str:
    head = ("index", "setting", "recall@10", "agreement", "us batch", "us single", "recall@100", "us batch, k = 100")
    rows = []
    for method in found["methods"]:
        for p in method["points"]:
            setting = ", ".join(f"{name}={value}" for name, value in p["setting"].items()) or "-"
            large = p["us"].get("batch@100")
            rows.append(
                (
                    method["name"],
                    setting,
                    f"{p['recall']['10']:.4f}",
                    f"{p['agreement']:.4f}" if "agreement" in p else "-",
                    f"{us(p, 'batch'):.1f}",
                    f"{us(p, 'single'):.1f}",
                    f"{p['recall']['100']:.4f}" if "100" in p["recall"] else "-",
                    f"{large['median']:.1f}" if large else "-",
                )
            )
    return table(head, rows)


def growth(found: Case) -> str:
    """Time per query by number of rows."""
    head = ("rows", "index", "setting", "agreement", "recall@10", "us batch", "us single", "bytes/vector")
    rows = [
        (
            f"{line['rows']:,}",
            line["name"],
            ", ".join(f"{name}={value}" for name, value in line["setting"].items()),
            f"{line['agreement']:.4f}",
            f"{line['recall']:.4f}",
            f"{us(line, 'batch'):.1f}",
            f"{us(line, 'single'):.1f}",
            f"{line['bytes']['total']:.2f}",
        )
        for line in found["results"]
    ]
    intro = (
        f"SIFT descriptors, grown by interpolation beyond 300,000, 8 code bytes, k = {found['k']}, one thread, "
        "processor time, all sizes in one process and in the same rounds. Each index has the cheapest setting that "
        f"agrees {found['target']:g} with its exhaustive one: our margin is calibrated by `Index.build`, and by "
        "descriptors of other photographs on grown sets, whose rows are nearer to each other than to queries. nprobe "
        "of "
        "faiss is the smallest that does on one half of the queries. Agreement is that of the other half. Load of the "
        f"machine at the start: {found['environment']['load_at_start']}."
    )
    return f"## Growth\n\n{intro}\n\n![time against rows](growth.png)\n\n{table(head, rows)}"


def building(found: list[Case]) -> str:
    """Time and memory of builds."""
    head = ("data", "rows", "cells", "threads", "s learning", "s coding", "s calibrating", "s in all", "s of CPU")
    head += ("MB of the file", "own MB at most", "mapped MB at most")
    rows = []
    for one in found:
        seconds, size = one["seconds"], one["bytes"]
        times = (seconds[name] for name in ("train", "encode", "calibrate", "all", "cpu"))
        sizes = (size[name] for name in ("file", "own_at_most", "mapped_files_at_most"))
        facts = (one["data"], f"{one['rows']:,}", f"{one['cells']:,}", str(one["threads"]))
        rows.append((*facts, *(f"{value:.1f}" for value in times), *(f"{value / 1e6:.0f}" for value in sizes)))
    intro = (
        "`Index.build` with default settings and 8 code bytes, from a memory-mapped file of bytes. Own memory is what "
        "a limit has to allow for; pages of mapped files are dropped when memory is short."
    )
    return f"## Building\n\n{intro}\n\n{table(head, rows)}"


def fitting(found: Case) -> str:
    """Time to learn, code and calibrate."""
    head = ("data", "code bytes", "layout", "s learning", "s coding", "s calibrating", "s in all", "s allowed")
    rows = []
    for line in found["results"]:
        times = (line["seconds"][name] for name in ("train", "encode", "calibrate", "all"))
        facts = (line["data"], str(line["n_bytes"]), line["layout"])
        rows.append((*facts, *(f"{value:.1f}" for value in times), f"{line['allowed']:.0f}"))
    return f"## Learning\n\n`Index.build` with default settings, {found['threads']} threads.\n\n{table(head, rows)}"


def fixed_cost(found: Case) -> str:
    """Time of a query before the first row."""
    head = ("dimensions", "code bytes", "index", "layout", "cells", "million products")
    head += ("us batch", "us single", "of it Python", "us batch, with rows", "us single, with rows")
    rows = []
    for line in found["results"]:
        times = line["us"]
        if "products" in line:
            products = f"{sum(line['products'].values()) / 1e6:.2f}"
            facts = (line["name"], line["layout"], str(line["cells"]), products)
            before = (times["batch"], times["single"], max(0.0, times["single"] - times["native single"]))
        else:
            facts, before = (line["name"], "-", "-", f"{line['rows'] * line['dim'] / 1e6:.2f}"), (None,) * 3
        with_rows = (times.get("rows, batch"), times.get("rows, single"))
        shown = ("-" if value is None else f"{value:.1f}" for value in (*before, *with_rows))
        rows.append((str(line["dim"]), str(line["n_bytes"]), *facts, *shown))
    n_rows = max(line["rows"] for line in found["results"])
    intro = (
        "Microseconds of processor time of one query, alone and in a batch of "
        f"{found['protocol']['batch']}, one thread, medians over interleaved rounds. Before the first row: an index of "
        f"one row. With rows: {n_rows:,} generated rows with a decaying spectrum; NumPy's line is the product of the "
        "queries with these vectors. `auto` is learned from them; `many rows` are residual books as they are "
        f"learned from {found['protocol']['learned_from']:,} rows, with random words. Load of the machine at the "
        f"start: {found['environment']['load_at_start']}."
    )
    return f"## Before the first row\n\n{intro}\n\n{table(head, rows)}"


def long_codes(found: Case) -> str:
    """Long codes against FastScan of the same bytes."""
    head = ("data", "dimensions", "rows", "method", "cells", "recall@10", "us batch", "us single")
    head += ("times FastScan, batch", "single")
    peers = {(line["set"], line["n_bytes"]): line["us"] for line in found["results"] if line["layout"] == "pq"}
    rows = []
    for line in found["results"]:
        peer = peers[line["set"], line["n_bytes"]]
        facts = (line["set"], str(line["dim"]), f"{line['rows']:,}", line["name"], str(line.get("cells", "-")))
        times = tuple(line["us"][mode] for mode in ("batch", "single"))
        speeds = tuple(f"{peer[mode] / line['us'][mode]:.2f}" for mode in ("batch", "single"))
        rows.append((*facts, f"{line['recall']:.3f}", *(f"{value:.0f}" for value in times), *speeds))
    protocol = found["protocol"]
    intro = (
        f"48 and 64 bytes, k = {protocol['k']}, SIMD level {found['simd']}. Microseconds of processor time of one "
        f"query, alone and in a batch of {protocol['timed']}, one thread, medians over {protocol['rounds']} "
        f"interleaved rounds; recall over {protocol['queries']:,} queries. All methods learn from "
        f"{protocol['train_rows']:,} rows. `text` are rows of text128k, by cosine; the others are generated with a "
        "decaying spectrum. Times FastScan: "
        f"PQ of 4 bits and the same bytes is 1. Load of the machine at the end: {found['environment']['load_at_end']}."
    )
    return f"## Long codes\n\n{intro}\n\n{table(head, rows)}"


def exact_cells(found: Case) -> str:
    """The exact margin with few and with many cells, against FastScan of the same bytes."""
    head = ("code bytes", "method", "bytes per vector", "recall@10", "rows scanned", "us batch", "us single")
    head += ("times FastScan, batch", "single")
    peers = {line["n_bytes"]: line["us"] for line in found["results"] if line["cells"] is None}
    rows = []
    for line in found["results"]:
        scanned = f"{line['scanned_share']:.1%}" if "scanned_share" in line else "100%"
        facts = (
            str(line["n_bytes"]),
            line["name"],
            f"{line['bytes_per_vector']:.2f}",
            f"{line['recall']:.3f}",
            scanned,
        )
        times = tuple(f"{line['us'][mode]:.0f}" for mode in ("batch", "single"))
        speeds = tuple(f"{peers[line['n_bytes']][mode] / line['us'][mode]:.2f}" for mode in ("batch", "single"))
        rows.append((*facts, *times, *speeds))
    protocol, data = found["protocol"], found["data"]
    intro = (
        f'{data["rows"]:,} vectors ({data["name"]}), `margin="exact"`, k = {protocol["ks"][0]}, SIMD level '
        f"{found['simd']}. Microseconds of processor time of one query, alone and in a batch of {protocol['timed']}, "
        f"one thread, medians over {protocol['rounds']} interleaved rounds; recall over {protocol['answered']:,} "
        f"queries. Load of the machine at the end: {found['environment']['load_at_end']}."
    )
    return f"## Exact searches with few cells\n\n{intro}\n\n{table(head, rows)}"


#: Results that are one table, in the order of the page.
OF_KIND: dict[str, Callable[[Case], str]] = {
    "fitting": fitting,
    "fixed-cost": fixed_cost,
    "long-codes": long_codes,
    "exact-cells": exact_cells,
}
