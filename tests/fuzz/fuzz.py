"""Bad files for every reader, for a minute: `make fuzz`.

    PYTHONPATH=tests python tests/fuzz/fuzz.py [--seconds 60 | --cases N] [--seed N] [--targets NAME ...] [--case N]

A case is a file that was sound, changed (fuzz_mutations.py), and given to its reader (fuzz_targets.py). What must come
of it is an object that works, or an error of ours. What must not: another exception, a crash, a hang, an allocation
that the file does not justify, a file opened or written outside of the folder it was put in, code that is run. Cases
are numbered, and number and seed make the same case again.

Cases run in a child process, one after the other, so that a crash or a hang is seen; the folder of the case is kept.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import mmap  # noqa: F401, which readers import when they first need it
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import tracemalloc
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from fuzz_targets import HERE, Seed, Target, targets

#: A seed has less than 20 kB. Tables in memory are larger: a book of three words has 256 places there.
MOST_BYTES = 32 << 20
MEASURED = 3  # one in so many cases: it takes twice the time
#: The same for what Python does not see; address space, which is reserved before it is used.
MOST_ADDRESSES = 512 << 20
HANGS_AFTER = 20.0  # seconds
#: Audit events that no reader should cause.
FORBIDDEN = ("exec", "compile", "import", "os.system", "os.exec", "os.spawn", "subprocess.Popen", "pickle.find_class")
#: Those that name a file, and the place of it among their arguments.
PATHS = ("open", "os.listdir", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.truncate", "shutil.rmtree")


class Guard:
    """Watches what happens while a case runs, by audit events; they cannot be switched off again."""

    def __init__(self) -> None:
        self.folder: str | None = None  # while a case runs
        self.seen: list[str] = []
        sys.addaudithook(self._hook)

    def escaped(self, target: Target, seed: Seed) -> list[str]:
        """What was seen, but for what the target causes by itself, and its seeds, which are copied."""
        copied = os.path.realpath(seed.path.parent)
        return [event for event in self.seen if copied not in event and not event.startswith(target.causes)]

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.folder is None:
            return
        if event.startswith(FORBIDDEN) or event.startswith("socket."):
            self.seen.append(f"{event} {arguments!r:.200}")
        elif event in PATHS and isinstance(arguments[0], str | bytes | os.PathLike):
            given = os.fsdecode(arguments[0])
            if given == os.path.basename(given) and given != os.pardir:
                return  # a name in a directory that is open: events do not tell which, but opening it was one
            path = os.path.realpath(given)
            if path != self.folder and not path.startswith(self.folder + os.sep):
                self.seen.append(f"{event} {path!r}")


class WentWrongError(Exception):
    """A case that went wrong."""


class Worker:
    """Runs cases in this process."""

    def __init__(self, wanted: list[Target], seed: int, base: Path) -> None:
        self.targets, self.seed, self.base = wanted, seed, base
        self.guard = Guard()
        warnings.simplefilter("ignore")  # of numbers that overflow: a file may hold any

    def case(self, number: int) -> tuple[Target, Seed, bytes]:
        """What a number stands for."""
        rng = np.random.default_rng([self.seed, number])
        target = self.targets[number % len(self.targets)]
        seed = target.seeds[int(rng.integers(len(target.seeds)))]
        return target, seed, target.mutated(rng, seed)

    def run(self, number: int) -> None:
        """One case; raises WentWrongError."""
        target, seed, data = self.case(number)
        what = f"case {number} ({target.name}, {seed.name})"
        if number % MEASURED:
            self._guarded(what, target, seed, data)
            return
        tracemalloc.start(1)
        try:
            self._guarded(what, target, seed, data)
            took = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        if took > MOST_BYTES:
            raise WentWrongError(f"{what}: {took:,} bytes were allocated for a file of {len(data):,}")

    def warm_up(self) -> None:
        """Every seed as it is: imports what is imported late, and must not fail."""
        import logging

        logging.disable()  # of logs that were cut short there are many

        for target in self.targets:
            for seed in target.seeds:
                target.run(seed.data, self._new_folder(), seed)
        gc.collect()
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MOST_ADDRESSES, resource.RLIM_INFINITY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    def _new_folder(self) -> Path:
        folder = self.base / "case"
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir()
        return folder

    def _guarded(self, what: str, target: Target, seed: Seed, data: bytes) -> None:
        folder = self._new_folder()
        (folder / "what").write_text(what)
        faulthandler.dump_traceback_later(HANGS_AFTER, exit=True)
        work = folder / "work"
        work.mkdir()
        self.guard.seen.clear()
        self.guard.folder = os.path.realpath(folder)
        try:
            target.run(data, work, seed)
        except BaseException as error:
            raise WentWrongError(f"{what}: {type(error).__name__}: {error}") from error
        finally:
            self.guard.folder = None
            faulthandler.cancel_dump_traceback_later()
        if escaped := self.guard.escaped(target, seed):
            raise WentWrongError(f"{what}: {escaped[0]}")


def work(args: argparse.Namespace) -> None:
    """The child: cases until the time is over; the last line tells how many."""
    worker = Worker(targets(args.targets), args.seed, Path(args.folder))
    worker.warm_up()
    if args.case is not None:
        worker.run(args.case)
        print("done 1", flush=True)
        return
    end, number = time.monotonic() + args.seconds, args.first
    while time.monotonic() < end if args.cases is None else number < args.first + args.cases:
        worker.run(number)
        number += 1
    print(f"done {number - args.first}", flush=True)


def main(argv: list[str] | None = None) -> int:
    """Start the child, and look how it ends."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60, help="without the start, which takes a few")
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100_000)
    parser.add_argument("--targets", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--cases", type=int, metavar="N", help="so many instead of seconds")
    parser.add_argument("--case", type=int, help="this one only")
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.folder is not None:
        work(args)
        return 0
    folder = tempfile.mkdtemp(prefix="interlace-fuzz-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    command = [sys.executable, str(HERE / "fuzz.py"), "--folder", folder, "--seed", str(args.seed)]
    command += ["--seconds", str(args.seconds), *(["--case", str(args.case)] if args.case is not None else [])]
    command += ["--cases", str(args.cases)] if args.cases is not None else []
    command += ["--targets", *args.targets] if args.targets else []
    print(f"seed {args.seed}, {f'{args.seconds:g} s' if args.cases is None else f'{args.cases} cases'}", flush=True)
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=env, check=False)
    if done.returncode == 0:
        shutil.rmtree(folder)
        print(f"{done.stdout.split()[-1]} cases, none went wrong")
        return 0
    try:
        what = (Path(folder) / "case" / "what").read_text()
    except OSError:
        what = "no case: the start failed"
    how = f"killed by signal {-done.returncode}" if done.returncode < 0 else f"exit code {done.returncode}"
    print(f"{what} went wrong ({how}); seed {args.seed}; its files are in {folder}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
