"""The benchmark: our index and faiss at equal bytes, one JSON per data set and number of bytes.

    python benchmarks/peers.py [--quick] [--resume] [--only sift300k/8] [--all] [--when FILE]

The most important cases come first, so that a run cut short still has them. `python benchmarks/report.py` makes
RESULTS.md of the JSON.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import bench_sets
import case
import machine
import streaming
from cache import write_json as write
from interlace import _native
from plan import plan_for

RESULTS = Path(__file__).resolve().parent / "results"
STREAMING = "streaming"
CASES = ("sift300k/8", "sift300k/16", STREAMING, "sift-grown-1m/8", "sift-grown-1m/16", "mnist784/8", "mnist784/16")
EXTRA = ("generated300k/8", "generated300k/16")  # only by name
STREAMING_ROUNDS = 9


def main(argv: list[str] | None = None) -> int:
    """Run the requested cases."""
    options = _parser().parse_args(argv)
    results = options.results or (RESULTS / "quick" if options.quick else RESULTS)
    started = time.perf_counter()

    def say(text: str) -> None:
        print(f"[{time.perf_counter() - started:7.1f} s] {text}", file=sys.stderr, flush=True)

    loaded: dict[str, bench_sets.BenchSet] = {}
    for name in options.only or CASES:
        if name == STREAMING:
            _streaming(results, options, say)
            continue
        set_name, n_bytes = name.split("/")
        if set_name not in loaded:
            loaded = {}  # one set in memory at a time
            say(f"loading {set_name}")
            loaded[set_name] = bench_sets.load(set_name, seed=options.seed, quick=options.quick, say=say)
        data = loaded[set_name]
        path = results / f"{data.name}-{n_bytes}.json"
        if options.resume and path.exists():
            say(f"{path.name} is there already")
            continue
        plan = plan_for(*data.x.shape, seed=options.seed, quick=options.quick, everything=options.all)
        label = f"{data.name}/{n_bytes}"

        def tell(text: str, label: str = label) -> None:
            say(f"{label}: {text}")

        write(path, case.run(data, int(n_bytes), plan, tell, lambda tell=tell: _wait(options.when, tell)))
        say(f"wrote {path.name}")
    return 0


def _wait(file: Path | None, say: Callable[[str], None]) -> None:
    """Until a file exists."""
    if file is not None and not file.exists():
        say(f"waiting for {file}")
        while not file.exists():
            time.sleep(1)


def _streaming(results: Path, options: argparse.Namespace, say: Callable[[str], None]) -> None:
    path = results / f"{STREAMING}.json"
    if options.resume and path.exists():
        say(f"{path.name} is there already")
        return
    rounds = 3 if options.quick else STREAMING_ROUNDS
    found = {
        "format": case.FORMAT,
        "kind": STREAMING,
        "quick": options.quick,
        "environment": machine.environment(),
        "simd": _native.simd_level(),
        "rounds": rounds,
        "results": streaming.run(rounds, options.quick, say),
    }
    write(path, found)
    say(f"wrote {path.name}")


def _case(text: str) -> str:
    if text not in CASES + EXTRA:
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(CASES + EXTRA)}")
    return text


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--quick", action="store_true", help="20,000 rows, few queries, into results/quick: does it run?"
    )
    parser.add_argument("--resume", action="store_true", help="leave out the cases whose JSON is there")
    parser.add_argument(
        "--only", type=_case, action="append", metavar="SET/BYTES", help="this case; may be given again"
    )
    parser.add_argument("--all", action="store_true", help="also the residual quantizers that train for long")
    parser.add_argument("--when", type=Path, metavar="FILE", help="build at once, but time only when this file exists")
    parser.add_argument("--results", type=Path, help="folder of the JSON (default: benchmarks/results)")
    parser.add_argument("--seed", type=int, default=0)
    return parser


if __name__ == "__main__":
    sys.exit(main())
