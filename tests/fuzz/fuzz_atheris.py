"""The same targets driven by atheris, which knows which lines a case reached: cases that reach new ones are kept.

    PYTHONPATH=tests python tests/fuzz/fuzz_atheris.py [--seconds 60] [--seed N] [--targets index log ...]

Needs the extra `fuzz`; `make fuzz` runs it where it is installed, after fuzz.py. libFuzzer makes a file of the case
that went wrong. Changes are those of fuzz_mutations.py: bytes that atheris changes by itself seldom pass a checksum.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
NAMES = (
    *("index", "model", "checkpoint", "manifest", "log", "segment", "removed", "books", "payload", "originals"),
    "filter",
)
LIMITS = ("-timeout=20", "-rss_limit_mb=2048", "-malloc_limit_mb=512", "-max_len=65536", "-print_final_stats=0")


def one_target(name: str, base: Path, arguments: list[str]) -> None:
    """In a process of its own; does not return."""
    import atheris

    with atheris.instrument_imports(include=["interlace"]):
        from fuzz_targets import targets

        import fuzz

    warnings.simplefilter("ignore")
    target, guard = targets([name])[0], fuzz.Guard()
    seed = target.seeds[0]  # the store, or the configuration, that a case is put into
    for other in target.seeds:  # imports what is imported late
        target.run(other.data, _new(base), other)

    def case(data: bytes) -> None:
        folder = _new(base)
        guard.seen.clear()
        guard.folder = os.path.realpath(base)
        try:
            target.run(data, folder, seed)
        finally:
            guard.folder = None
        if escaped := guard.escaped(target, seed):
            raise fuzz.WentWrongError(escaped[0])

    def change(data: bytes, most: int, number: int) -> bytes:
        rng = np.random.default_rng(number)
        try:
            return target.knowing(rng, data)[:most]
        except Exception:  # bytes of an earlier change that are no such file any more
            return bytes(atheris.Mutate(data, most))

    atheris.Setup([sys.argv[0], *arguments], case, custom_mutator=change)
    atheris.Fuzz()


def _new(base: Path) -> Path:
    shutil.rmtree(base / "case", ignore_errors=True)
    (base / "case").mkdir()
    return base / "case"


def main() -> int:
    """A process for each target, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60, help="for all targets together")
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100_000)
    parser.add_argument("--targets", nargs="+", default=NAMES, metavar="NAME")
    parser.add_argument("--target", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    args, others = parser.parse_known_args()
    if args.target is not None:
        one_target(args.target, args.folder, others)
        return 0
    from fuzz_targets import targets

    each = max(1, round(args.seconds / len(args.targets)))
    for target in targets(args.targets):
        memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
        folder = Path(tempfile.mkdtemp(prefix="interlace-fuzz-", dir=memory))
        corpus = folder / "corpus"
        corpus.mkdir()
        for number, seed in enumerate(target.seeds):
            (corpus / str(number)).write_bytes(seed.data)
        command = [sys.executable, str(HERE / "fuzz_atheris.py"), "--target", target.name, "--folder", str(folder)]
        command += [*LIMITS, f"-max_total_time={each}", f"-seed={args.seed}", f"-artifact_prefix={folder}/wrong-"]
        command.append(str(corpus))
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            print(done.stdout[-4000:] or done.stderr[-4000:], file=sys.stderr)
            print(f"{target.name} went wrong; seed {args.seed}; its case is in {folder}", file=sys.stderr)
            return 1
        kept = len(list(corpus.iterdir())) - len(target.seeds)
        last = [line for line in done.stderr.splitlines() if line.startswith(("Done", "#"))][-1]
        print(f"{target.name}: none went wrong, {kept} cases reached new lines ({last})", flush=True)
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
