"""Compare runs of peers.py for several versions of the library: speeds relative to FastScan of the same run.

    python benchmarks/before_after.py before.json after.json

Each file is one run on one machine. A ratio to faiss in the same run cancels most of what differs between runs.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

TASKS = ("batch@10", "single@10", "batch@100")
PEER = "faiss IndexPQFastScan"


def relative(found: dict[str, Any]) -> dict[tuple[str, str, str], float]:
    """Best speed of each of our methods, margins and tasks, divided by that of the peer."""
    peer = next(method for method in found["methods"] if method["name"] == PEER)["qps"]
    return {
        (method["name"], method["margin"], task): method["qps"][task]["best"] / peer[task]["best"]
        for method in found["methods"]
        if method["kind"] == "interlace"
        for task in TASKS
        if task in method["qps"]
    }


def table(runs: dict[str, dict[tuple[str, str, str], float]]) -> str:
    """A Markdown table with a column for each run, and the last one divided by each of the others."""
    names = list(runs)
    last = names[-1]
    head = ["method", "margin", "task", *names, *(f"{last} / {name}" for name in names[:-1])]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for key in runs[last]:
        if all(key in run for run in runs.values()):
            values = [f"{runs[name][key]:.2f}" for name in names]
            ratios = [f"{runs[last][key] / runs[name][key]:.2f}" for name in names[:-1]]
            lines.append(f"| {' | '.join([*key, *values, *ratios])} |")
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, help="JSON of peers.py, the oldest version first")
    files = parser.parse_args(argv).files
    print(table({path.stem: relative(json.loads(path.read_text())) for path in files}))


if __name__ == "__main__":
    main()
