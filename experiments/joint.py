"""Learning from labels: ICQ and supervised quantization on the data sets of the paper, one JSON per run.

    python experiments/joint.py [--only synthetic|deep|mnist|scales] [--quick] [--list]

Runs that have a JSON file are skipped, so an interrupted command can be resumed. CNNs are trained from scratch by
`interlace reproduce pqn --only "ICQ end to end"`. `python experiments/joint_report.py` writes JOINT.md from the JSON
of both. Nothing is chosen by looking at test queries: recipes are the defaults, and each fit chooses its epoch on a
validation split of its own rows.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import interlace as il
from interlace import judge

RESULTS = Path(__file__).resolve().parent / "results" / "joint"
SETS, DRAWS, SEEDS = (1, 2, 3), (0, 1, 2), (0, 1, 2)
METHODS: dict[str, Callable[..., Any]] = {
    "ICQ": lambda **settings: il.ICQ(**settings),
    "SQ+CQ": lambda **settings: il.quantizers.SQ("cq", **settings),
    "SQ+PQ": lambda **settings: il.quantizers.SQ("pq", **settings),
}


@dataclass(frozen=True)
class Run:
    """One fit. ``scale`` multiplies the inputs."""

    part: str
    data: str
    method: str
    n_books: int = 8
    draw: int = 0
    seed: int = 0
    embedding: str = "linear"
    scale: float = 1.0

    @property
    def name(self) -> str:
        """Name of its file."""
        scale = "" if self.scale == 1 else f"-x{self.scale:g}"
        method = self.method.lower().replace("+", "-")
        return f"{self.data}-{self.embedding}-{method}-{self.n_books}-draw{self.draw}-seed{self.seed}{scale}"


def runs() -> Iterator[Run]:
    """All runs, the most informative first."""
    for draw in DRAWS:
        for seed in SEEDS:
            for number in SETS:
                for method in METHODS if seed == SEEDS[0] else ("ICQ", "SQ+CQ"):
                    yield Run("synthetic", f"synthetic{number}", method, draw=draw, seed=seed)
    for method in METHODS:
        yield Run("mnist", "mnist", method)
    for number in SETS:
        for draw in DRAWS:
            yield Run("deep", f"synthetic{number}", "ICQ", n_books=16, draw=draw)
    for number in SETS:
        for scale in (0.01, 100.0):
            yield Run("scales", f"synthetic{number}", "ICQ", scale=scale)


def main(argv: list[str] | None = None) -> int:
    """Execute the requested runs that have no result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", help="only this part; repeatable")
    parser.add_argument("--draw", type=int, help="only this draw of the synthetic data sets")
    parser.add_argument("--quick", action="store_true", help="few rows and epochs, written to results/quick")
    parser.add_argument("--list", action="store_true", help="list the runs and whether they have results")
    parser.add_argument("--threads", type=int, help="threads of each fit")
    options = parser.parse_args(argv)
    results = RESULTS.parent / "quick" / "joint" if options.quick else RESULTS
    wanted = [run for run in runs() if not options.only or run.part in options.only]
    wanted = [run for run in wanted if options.draw is None or run.draw == options.draw]
    missing = [run for run in wanted if not (results / f"{run.name}.json").exists()]
    if options.list:
        for run in wanted:
            print(f"{'-' if run in missing else 'done':6s}{run.part:10s}{run.name}")
        return 0
    started = time.perf_counter()
    for number, run in enumerate(missing):
        left = (time.perf_counter() - started) / max(1, number) * (len(missing) - number)
        print(f"[{number + 1}/{len(missing)}, {left / 60:.0f} min left] {run.name}", file=sys.stderr, flush=True)
        result = measured(run, quick=options.quick, threads=options.threads)
        path = results / f"{run.name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(result, indent=1) + "\n")
        temporary.replace(path)
    return 0


def measured(run: Run, *, quick: bool, threads: int | None) -> dict[str, Any]:
    """Fit and measure."""
    data = _load(run)
    x, labels, queries, query_labels = data.x, data.labels, data.queries, data.query_labels
    assert labels is not None
    assert query_labels is not None
    settings: dict[str, Any] = {"n_books": run.n_books, "embedding": run.embedding, "seed": run.seed}
    if quick:
        x, labels, queries, query_labels = x[:2000], labels[:2000], queries[:100], query_labels[:100]
        settings["recipe"] = il.Recipe(warm_up=1, shape=1, epochs=1)
    if run.scale != 1:
        x, queries = x * np.float32(run.scale), queries * np.float32(run.scale)
    started = time.perf_counter()
    model = METHODS[run.method](threads=threads, progress="auto", **settings).fit(x, labels)
    seconds = time.perf_counter() - started
    held_out = np.setdiff1d(np.arange(len(x)), model.sample_)
    result = {
        "run": {name: getattr(run, name) for name in run.__dataclass_fields__},
        "rows": len(x),
        "queries": len(queries),
        "fit_seconds": round(seconds, 1),
        "epochs": model.fit_info_["epochs"],
        "validation_map": model.fit_info_["validation_map"],
        "recipe": model.fit_info_["recipe"]["name"],
        "interlace": il.__version__,
        **judge.judge(model, queries, query_labels, x[held_out[:2000]]),
        "float": judge.float_map(model, x, labels, queries, query_labels),
        "epoch_seconds": round(float(np.median([row["seconds"] for row in model.history_])), 2),
    }
    if run.method == "ICQ" and run.seed == 0 and run.n_books == 8 and run.data.startswith("synthetic"):
        result["topline"] = judge.topline(x, labels, queries, query_labels)
        result["random"] = judge.random_codes(x, labels, queries, query_labels, run.draw)
    return _rounded(result)


def _load(run: Run) -> Any:
    if run.data.startswith("synthetic"):
        return il.data.synthetic(int(run.data[-1]), seed=run.draw)
    return il.data.mnist()


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(inner) for key, inner in value.items()}
    return round(value, 5) if isinstance(value, float) else value


if __name__ == "__main__":
    sys.exit(main())
