"""Recall@10 against queries per second, one panel per data set and number of bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

COLOURS = {"subspace": "tab:blue", "hybrid": "tab:orange", "residual": "tab:green", "auto": "tab:red"}
MARKERS = {"exact": "o", "0.999": "s", "paper": "^"}
PEER_MARKERS = "vDPX<>*h"


def draw(cases: dict[tuple[str, int], dict[str, Any]], path: Path) -> None:
    """One row per data set, one column per number of bytes."""
    names = list(dict.fromkeys(name for name, _ in cases))
    sizes = sorted({n_bytes for _, n_bytes in cases})
    with mpl.rc_context({"font.size": 8, "svg.hashsalt": "interlace"}):
        figure = Figure(figsize=(7 * len(sizes), 4 * len(names)), layout="constrained")
        axes = figure.subplots(len(names), len(sizes), squeeze=False)
        for row, name in enumerate(names):
            for column, n_bytes in enumerate(sizes):
                if (name, n_bytes) in cases:
                    _panel(axes[row][column], cases[name, n_bytes])
                else:
                    axes[row][column].set_axis_off()
        # Without the version of matplotlib the same results give the same file for longer.
        figure.savefig(path, dpi=110, metadata={"Software": None})


def _panel(axes: Any, case: dict[str, Any]) -> None:
    peers = 0
    for method in case["methods"]:
        x, y = method["recall"]["10"], method["qps"]["batch@10"]["median"]
        if method["kind"] == "interlace":
            label = f"{method['name']}, {method['margin']}"
            axes.scatter(x, y, color=COLOURS[method["name"]], marker=MARKERS[method["margin"]], label=label, zorder=3)
        else:
            axes.scatter(x, y, color="tab:gray", marker=PEER_MARKERS[peers % len(PEER_MARKERS)], label=method["name"])
            peers += 1
    axes.set_yscale("log")
    axes.set_xlabel("recall@10")
    axes.set_ylabel("queries per second (batch, one thread)")
    axes.set_title(f"{case['data']['name']}, {case['n_bytes']} bytes, ours at {case['simd']}")
    axes.grid(True, which="major", alpha=0.3)
    axes.legend(fontsize=6, loc="center left", bbox_to_anchor=(1.01, 0.5))  # inside the axes it would hide points


def draw_front(found: dict[str, Any], path: Path) -> None:
    """Recall@10 against speed for every layout, number of crude books and margin; peers in gray."""
    margins = {"exact": "o", "0.999": "s", "0.99": "D"}
    with mpl.rc_context({"font.size": 8, "svg.hashsalt": "interlace"}):
        figure = Figure(figsize=(7, 4.5), layout="constrained")
        axes = figure.subplots()
        peers = 0
        for method in found["methods"]:
            x, y = method["recall"], method["ratios"]["batch"]
            if method["kind"] == "interlace":
                axes.scatter(x, y, color=COLOURS[method["name"]], marker=margins[method["margin"]], zorder=3)
                axes.annotate(str(method["n_crude"]), (x, y), xytext=(4, 2), textcoords="offset points", fontsize=6)
            else:
                axes.scatter(x, y, color="tab:gray", marker=PEER_MARKERS[peers], label=method["name"])
                peers += 1
        present = dict.fromkeys(method["name"] for method in found["methods"] if method["kind"] == "interlace")
        for name in present:
            axes.scatter([], [], color=COLOURS[name], label=f"interlace {name} (number: crude books)")
        for name, marker in margins.items():
            axes.scatter([], [], color="black", marker=marker, label=f"margin {name}")
        axes.set_yscale("log")
        axes.set_xlabel("recall@10")
        axes.set_ylabel("speed against FastScan (batch, one thread)")
        axes.set_title(f"{found['data']['name']}, {found['n_bytes']} bytes, ours at {found['simd']}")
        axes.grid(True, which="both", alpha=0.3)
        axes.legend(fontsize=6)
        figure.savefig(path, dpi=110, metadata={"Software": None})
