"""Which code made a result: the commit, a hash of the Python files, and the recipe."""

from __future__ import annotations

import functools
import hashlib
import subprocess
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parents[1]
UNKNOWN = "unknown"
#: Digits of hashes in results and messages.
SHORT = 12


@dataclass(frozen=True, order=True)
class Origin:
    """The code that made a result."""

    commit: str = UNKNOWN  #: of the checkout that the package was built from; with ``-dirty`` if files had changed
    code: str = UNKNOWN  #: hash of the Python files of the package

    @property
    def text(self) -> str:
        """For messages and pages."""
        if self == Origin():
            return "an unrecorded commit"
        return f"commit {self.commit[:SHORT]}{'-dirty' * self.commit.endswith('-dirty')} (code {self.code})"

    def to_dict(self) -> dict[str, str]:
        """As JSON types."""
        return {"commit": self.commit, "code": self.code}

    @classmethod
    def of(cls, result: dict[str, Any]) -> Origin:
        """The origin that a result names; results of older versions name none."""
        found = result.get("provenance", {})
        return cls(str(found.get("commit", UNKNOWN)), str(found.get("code", UNKNOWN)))


def origins(results: Iterable[dict[str, Any]]) -> Counter[Origin]:
    """Number of results of each origin."""
    return Counter(map(Origin.of, results))


def differ(found: Iterable[Origin]) -> bool:
    """Whether different code made results. A commit that is not known, outside of a checkout, is no other commit."""
    known = list(found)
    return len({origin.code for origin in known}) > 1 or len({origin.commit for origin in known} - {UNKNOWN}) > 1


def code_hash(package: Path = PACKAGE) -> str:
    """Hash of the names and contents of all Python files below a folder."""
    found = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        found.update(path.relative_to(package).as_posix().encode() + b"\0")
        found.update(path.read_bytes() + b"\0")
    return found.hexdigest()[:SHORT]


@functools.cache
def current(folder: Path | None = None) -> Origin:
    """The origin of the running package.

    The commit is that of the checkout around ``folder`` (default: the working directory), if its package is the one
    that runs, byte for byte.
    """
    code = code_hash()
    where = Path.cwd() if folder is None else folder
    top = _git(where, "rev-parse", "--show-toplevel")
    commit = _git(where, "rev-parse", "HEAD")
    if not top or not commit or not (source := Path(top) / "src" / "interlace").is_dir() or code_hash(source) != code:
        return Origin(UNKNOWN, code)
    changed = _git(Path(top), "status", "--porcelain", "--", "src", "cpp")
    return Origin(commit + ("-dirty" if changed else ""), code)


def _git(folder: Path, *arguments: str) -> str:
    """Output of git; empty if there is no git or no checkout."""
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def other_recipes(results: Iterable[dict[str, Any]]) -> dict[str, int]:
    """Results by label whose recipe has a value, or lacks a field, unlike most results of the same kind of recipe.

    Fields that the run of a result changes do not count. The defaults change between versions, and results of both are
    not comparable.
    """
    found = [(r["run"], r["fit"]["recipe"]) for r in results if isinstance(r.get("fit", {}).get("recipe"), dict)]
    votes: dict[tuple[str, str], Counter[str]] = {}
    for name in {name for _, recipe in found for name in recipe} - {"name"}:
        for run, recipe in found:
            if name not in run["changes"]:
                votes.setdefault((run["recipe"], name), Counter())[repr(recipe.get(name))] += 1
    usual = {key: counted.most_common(1)[0][0] for key, counted in votes.items()}
    odd: Counter[str] = Counter()
    for run, recipe in found:
        mine = {name: value for (kind, name), value in usual.items() if kind == run["recipe"]}
        odd[run["label"]] += any(
            repr(recipe.get(name)) != value for name, value in mine.items() if name not in run["changes"]
        )
    return {label: n for label, n in sorted(odd.items()) if n}
