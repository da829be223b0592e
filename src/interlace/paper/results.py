"""The folder of results: one JSON for each run, written once and never again."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..errors import InputError
from .runs import Run

#: Raise it when a JSON means something else than before; older results are then refused, not misread.
FORMAT = 1

Result = dict[str, Any]


class Store:
    """``DIR/<figure>/<run>.json``, checkpoints of fits that are under way beside them."""

    def __init__(self, folder: str | os.PathLike[str], size: str = "full") -> None:
        self.folder, self.size = Path(folder), size

    def path(self, run: Run) -> Path:
        """Of its JSON."""
        return self.folder / run.figure / f"{run.name}.json"

    def checkpoint(self, run: Run) -> Path:
        """Of its fit, while it goes on."""
        return self.folder / run.figure / f"{run.name}.checkpoint"

    def forget(self, run: Run) -> None:
        """Remove its checkpoint, and what a kill left of one that was being written."""
        checkpoint = self.checkpoint(run)
        for path in (checkpoint, *checkpoint.parent.glob(f"{glob.escape(checkpoint.name)}.*.tmp")):
            path.unlink(missing_ok=True)

    def read(self, run: Run) -> Result | None:
        """What was measured, None if it was not yet; an error if the file holds something else."""
        path = self.path(run)
        if not path.exists():
            return None
        result = self._load(path)
        if Run.from_dict(result["run"]) != run:
            theirs, mine = result["run"], run.to_dict()
            different = next(name for name in mine if theirs[name] != mine[name])
            raise InputError(
                f"{str(path)!r} is of another run: {different} was {theirs[different]!r}, now {mine[different]!r}; "
                "move it away, or give another --out"
            )
        return result

    def missing(self, runs: Iterable[Run]) -> list[Run]:
        """Those that were not measured yet, in their order."""
        return [run for run in runs if self.read(run) is None]

    def all(self, figure: str) -> list[Result]:
        """Every result of a figure that is there, by name."""
        return [self._load(path) for path in sorted((self.folder / figure).glob("*.json"))]

    def same(self, run: Run, figures: Iterable[str]) -> Result | None:
        """What another figure measured by the very same fit."""
        for figure in figures:
            other = run.in_figure(figure)
            if figure != run.figure and self.path(other).exists():
                result = self._load(self.path(other))
                if Run.from_dict(result["run"]) == other:
                    return result
        return None

    def check_data(self, run: Run, sha256: str) -> None:
        """An error if a run that is finished was made of other rows: a table would compare what cannot be compared."""
        for path in sorted((self.folder / run.figure).glob(f"{run.data}-*-seed{run.seed}.json")):
            theirs = self._load(path)
            if theirs["run"]["data"] == run.data:  # not mnist-lenet for mnist
                if theirs["data"]["sha256"] != sha256:
                    raise InputError(
                        f"{str(path)!r} was made of other rows of {run.data} than there are now: "
                        f"{_other_rows(run.data)}; give another --out, or move the older results away"
                    )
                return

    def check_writable(self) -> None:
        """Make the folder, and an error of what will not take a file: fits take minutes, and their results are lost."""
        probe = self.folder / f".{os.getpid()}.tmp"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise InputError(f"results cannot be written into {str(self.folder)!r}: {error.strerror}") from error

    def text(self, run: Run, result: Result) -> str:
        """The JSON of a result."""
        whole = {"format": FORMAT, "size": self.size, "run": run.to_dict(), **result}
        return json.dumps(_rounded(whole), indent=1, allow_nan=False) + "\n"

    def write(self, run: Run, result: Result) -> Path:
        """Atomically; what is there already stays as it is."""
        return self.keep(run, self.text(run, result))

    def keep(self, run: Run, text: str) -> Path:
        """The same for what :meth:`text` made."""
        path = self.path(run)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        try:
            temporary.write_text(text, encoding="utf-8")
            try:
                os.link(temporary, path)  # unlike a rename it never replaces
            except OSError:  # another process was quicker, or the file system has no links
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
        if result["format"] != FORMAT:
            raise InputError(
                f"{str(path)!r} was written by another version (format {result['format']!r}, this one writes "
                f"{FORMAT}); give another --out, or move the folder away"
            )
        if result["size"] != self.size:
            raise InputError(
                f"{str(path)!r} is of size {result['size']!r}, this run is {self.size!r}; give another --out"
            )
        try:
            Run.from_dict(result["run"])
        except InputError as error:
            raise InputError(f"{str(path)!r} is damaged, or of another version: {error}") from error
        if not all(isinstance(result.get(name), dict) for name in ("data", "measures")):
            raise InputError(
                f"{str(path)!r} is damaged (it has no data or no measures): move it away to measure it again"
            )
        return result


def _other_rows(data: str) -> str:
    """Why a data set of one name has other rows elsewhere."""
    if data == "vectors":
        return "SIFT there, rows that are generated where its file is not"
    if data.endswith(("-lenet", "-alexnet")):
        return "they are features of a network, which every machine trains for itself"
    if data in ("cifar10-gist", "cifar10-unseen"):
        return "GIST features differ in their last bits from machine to machine"
    return "the generator, the files or their reader differ"


def _rounded(value: Any) -> Any:
    """Five places: more is noise, and files that differ in nothing else should not differ."""
    if isinstance(value, dict):
        return {str(key): _rounded(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(inner) for inner in value]
    if hasattr(value, "item"):  # numbers of NumPy
        value = value.item()
    return float(f"{value:.5g}") if isinstance(value, float) else value
