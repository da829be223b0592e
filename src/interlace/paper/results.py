"""The folder of results: one JSON file per run, which is never overwritten."""

from __future__ import annotations

import glob
import json
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..errors import InputError
from .provenance import Origin, differ, origins
from .runs import Run
from .sizes import STANDARD

#: Increase it when the meaning of the JSON changes.
FORMAT = 2
#: Formats that can be read. Results of format 1 have no provenance, and no MAP of the lists of each search.
FORMATS = (1, FORMAT)

Result = dict[str, Any]


class ResultFolder:
    """``DIR/<figure>/<run>.json``, with checkpoints of unfinished fits.

    Results of different code are refused, unless ``mixed``.
    """

    def __init__(self, folder: str | os.PathLike[str], size: str = STANDARD, *, mixed: bool = False) -> None:
        self.folder, self.size, self.mixed = Path(folder), size, mixed

    def path(self, run: Run) -> Path:
        """Path of the JSON file of a run."""
        return self.folder / run.figure / f"{run.name}.json"

    def checkpoint(self, run: Run) -> Path:
        """Path of the checkpoint of its fit."""
        return self.folder / run.figure / f"{run.name}.checkpoint"

    def claim(self, run: Run) -> bool:
        """Mark a run as running in this process; False if another process of this machine runs it."""
        path = self._claim(run)
        path.parent.mkdir(parents=True, exist_ok=True)
        for _ in range(2):
            try:
                with open(path, "x", encoding="utf-8") as file:
                    file.write(str(os.getpid()))
                return True
            except FileExistsError:
                owner = _process_in(path)
                if owner == os.getpid():
                    return True
                if owner is not None and _is_running(owner):
                    return False
                path.unlink(missing_ok=True)  # its process was killed
        return False

    def _claim(self, run: Run) -> Path:
        return self.folder / run.figure / f"{run.name}.running"

    def release(self, run: Run) -> None:
        """Undo :meth:`claim`."""
        self._claim(run).unlink(missing_ok=True)

    def forget(self, run: Run) -> None:
        """Remove its checkpoint, a claim that a killed process left, and temporary files of interrupted writes."""
        self.release(run)
        checkpoint = self.checkpoint(run)
        for path in (checkpoint, *checkpoint.parent.glob(f"{glob.escape(checkpoint.name)}.*.tmp")):
            path.unlink(missing_ok=True)

    def read(self, run: Run) -> Result | None:
        """The result of a run; None if there is none; raises if the file belongs to another run."""
        path = self.path(run)
        if not path.exists():
            return None
        result = self._load(path)
        if Run.from_dict(result["run"]) != run:
            theirs, mine = result["run"], run.to_dict()
            different = next(name for name in mine if theirs[name] != mine[name])
            raise InputError(
                f"{str(path)!r} is the result of another run: {different} was {theirs[different]!r}, is now "
                f"{mine[different]!r}; move it away, or pass another --out"
            )
        return result

    def missing(self, runs: Iterable[Run]) -> list[Run]:
        """Runs without a result, in order."""
        return [run for run in runs if self.read(run) is None]

    def all(self, figure: str) -> list[Result]:
        """Every existing result of a figure, sorted by name."""
        return [self._load(path) for path in sorted((self.folder / figure).glob("*.json"))]

    def same(self, run: Run, figures: Iterable[str]) -> Result | None:
        """The result of the same fit in another figure."""
        for figure in figures:
            other = run.in_figure(figure)
            if figure != run.figure and self.path(other).exists():
                result = self._load(self.path(other))
                if Run.from_dict(result["run"]) == other:
                    return result
        return None

    def check_data(self, run: Run, sha256: str) -> None:
        """Raise if a finished run used other rows, because results on different data cannot be compared."""
        for path in sorted((self.folder / run.figure).glob(f"{run.data}-*-seed{run.seed}.json")):
            theirs = self._load(path)
            if theirs["run"]["data"] == run.data:  # not mnist-lenet for mnist
                if theirs["data"]["sha256"] != sha256:
                    raise InputError(
                        f"{str(path)!r} was measured on other rows of {run.data} than the current ones: "
                        f"{_other_rows(run.data)}; pass another --out, or move the older results away"
                    )
                return

    def every(self, figures: Iterable[str]) -> list[Result]:
        """All results of some figures; raises if different code made them, unless ``mixed``."""
        found = [result for figure in figures for result in self.all(figure)]
        self._check_origins(origins(found))
        return found

    def check_origin(self, figures: Iterable[str], mine: Origin) -> None:
        """Raise if other code than ``mine`` made existing results, unless ``mixed``."""
        found = origins(result for figure in figures for result in self.all(figure))
        self._check_origins(found + Counter({mine: 1}) if found else found, mine)

    def _check_origins(self, found: Counter[Origin], mine: Origin | None = None) -> None:
        if differ(found) and not self.mixed:
            listed = ", ".join(f"{n} of {origin.text}" for origin, n in sorted(found.items()) if origin != mine)
            now = "" if mine is None else f", now runs {mine.text}"
            raise InputError(
                f"{str(self.folder)!r} would mix results of different code ({listed}{now}): pass another --out, move "
                "the older results away, or pass --mixed"
            )

    def check_writable(self) -> None:
        """Create the folder and raise if it is not writable, before fits take minutes."""
        probe = self.folder / f".{os.getpid()}.tmp"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise InputError(f"results cannot be written to {str(self.folder)!r}: {error.strerror}") from error

    def text(self, run: Run, result: Result) -> str:
        """The JSON of a result."""
        whole = {"format": FORMAT, "size": self.size, "run": run.to_dict(), **result}
        return json.dumps(rounded(whole), indent=1, allow_nan=False) + "\n"

    def write(self, run: Run, result: Result) -> Path:
        """Write a result atomically; an existing file is kept."""
        return self.keep(run, self.text(run, result))

    def keep(self, run: Run, text: str) -> Path:
        """Write the output of :meth:`text` atomically; an existing file is kept."""
        path = self.path(run)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        try:
            temporary.write_text(text, encoding="utf-8")
            try:
                os.link(temporary, path)  # unlike a rename, it never replaces a file
            except OSError:  # another process was faster, or the file system has no links
                if not path.exists():
                    os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
        return path

    def _load(self, path: Path) -> Result:
        try:
            result = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, UnicodeDecodeError) as error:
            raise InputError(f"{str(path)!r} is damaged ({error}): move it away to measure it again") from error
        if not isinstance(result, dict) or not {"format", "size", "run"} <= result.keys():
            raise InputError(f"{str(path)!r} is not a result of 'interlace reproduce': move it away")
        if result["format"] not in FORMATS:
            raise InputError(
                f"{str(path)!r} was written by another version (format {result['format']!r}, this one reads "
                f"{', '.join(map(str, FORMATS))}); pass another --out, or move the folder away"
            )
        if result["size"] != self.size:
            raise InputError(
                f"{str(path)!r} has size {result['size']!r}, this run has size {self.size!r}; pass another --out"
            )
        try:
            Run.from_dict(result["run"])
        except InputError as error:
            raise InputError(f"{str(path)!r} is damaged, or from another version: {error}") from error
        if not all(isinstance(result.get(name), dict) for name in ("data", "measures")):
            raise InputError(
                f"{str(path)!r} is damaged (it has no data or no measures): move it away to measure it again"
            )
        return result


def _process_in(path: Path) -> int | None:
    """The process that made a claim; None if it cannot be read."""
    try:
        return int(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)  # signal 0 only asks
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _other_rows(data: str) -> str:
    """Why a data set may have different rows on another machine."""
    if data == "vectors":
        return "they are SIFT vectors if its file exists, and generated otherwise"
    if data.endswith(("-lenet", "-alexnet")):
        return "they are features of a network that is trained on each machine"
    if data in ("cifar10-gist", "cifar10-unseen"):
        return "the last bits of GIST features depend on the machine"
    return "the generator, the files or their reader differ"


def rounded(value: Any) -> Any:
    """Floats with five digits, so that noise does not change files."""
    if isinstance(value, dict):
        return {str(key): rounded(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(inner) for inner in value]
    if hasattr(value, "item"):  # NumPy scalars
        value = value.item()
    return float(f"{value:.5g}") if isinstance(value, float) else value
