"""Sections of RESULTS.md about codes of text vectors and the speed of coding. Every number comes from the JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from code_bars import OURS
from tables import table

Case = dict[str, Any]


def text_codes(found: Case) -> str:
    """Recall and bytes of our codes and of faiss on text vectors."""
    data, entries = found["data"], sorted(found["entries"], key=lambda e: e["n_bytes"])
    head = ("code bytes", "method", "recall@10", "total bytes per vector", "squared error", "s learning", "s coding")
    rows, left_out = [], []
    for e in (e for e in entries if e["rows"] == data["rows"]):
        name = f"interlace {e['method']}" if e["method"] in OURS else f"faiss {e['method']}"
        if "recall" not in e:
            left_out.append(f"{name} at {e['n_bytes']} bytes ({e['left_out']})")
            continue
        if e["method"] == "auto":
            name += f" ({e['layout']})"
        size = str(e["n_bytes"]) if e["code_bytes"] == e["n_bytes"] else f"{e['n_bytes']} (has {e['code_bytes']})"
        seconds = (f"{e['cpu_seconds'][step]:.0f}" for step in ("learn", "encode"))
        rows.append((size, name, f"{e['recall']:.4f}", f"{e['total_bytes']:.1f}", f"{e['error']:.3g}", *seconds))
    intro = (
        f"{data['rows']:,} rows of {data['name']} x {data['dim']}, {data['metric']}, k = {data['k']}, "
        f"{data['queries']:,} queries; all methods learn from at most {data['train_rows']:,} rows on one thread. "
        "Recall of an exhaustive scan of the codes; those of faiss by the best of squared distances, products and "
        "cosines, RaBitQ also by its own search. Total bytes are those of the saved index: codebooks and rotations "
        "included, ours with cells and row numbers. Seconds are processor time, possibly on a busy machine; a method "
        f"may take {data['learn_seconds']:,} of them to learn."
    )
    absent = f" Left out: {'; '.join(left_out)}." if left_out else ""
    return f"## Codes of text vectors\n\n{intro}{absent}\n\n{table(head, rows)}"


def coding(found: Case) -> str:
    """Time and error of coding."""
    data = found["data"]
    head = ("code bytes", "method", "squared error", "us per row")
    rows = [
        (str(e["n_bytes"]), e["method"], f"{e['error']:,.0f}", f"{e['microseconds']:.1f}") for e in found["entries"]
    ]
    intro = (
        f"{data['rows']:,} rows of {data['name']} that were not learned from, codebooks learned from "
        f"{data['train_rows']:,} others; processor time of one thread, the smallest of several turns, SIMD level "
        f"{found['simd']}. Load of the machine at the end: {found['environment']['load_at_end']}."
    )
    return f"## Coding\n\n{intro}\n\n{table(head, rows)}"


#: Results that are one table, in the order of the page.
OF_KIND: dict[str, Callable[[Case], str]] = {"text-codes": text_codes, "coding": coding}
