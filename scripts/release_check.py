"""Everything that must hold before a release: ``make release-check``.

    python scripts/release_check.py [--quick] [--skip levels,faults]

``--quick`` leaves out all targets of make, ``--skip`` those that are named, such as ``levels``, which compares times
and needs an idle machine. What was left out is listed at the end.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TARGETS = ("test", "docs", "levels", "sanitize", "tsan", "faults", "serve-faults", "fuzz", "conformance")
MOST_BYTES = 3_000_000


def versions(root: Path = ROOT) -> dict[str, str]:
    """The version by the file that names it; for the changelog with what is in parentheses."""
    patterns = {
        "pyproject.toml": r'^version = "([^"]+)"',
        "CITATION.cff": r"^version: (\S+)",
        "CHANGELOG.md": r"^## (.+)$",
    }
    found = {}
    for name, pattern in patterns.items():
        match = re.search(pattern, (root / name).read_text(), re.MULTILINE)
        found[name] = match[1] if match else ""
    return found


def version_problems(found: dict[str, str]) -> list[str]:
    """What is wrong with the versions."""
    version, heading = found["pyproject.toml"], found["CHANGELOG.md"]
    problems = []
    if found["CITATION.cff"] != version:
        problems.append(f"CITATION.cff has version {found['CITATION.cff']!r}, pyproject.toml {version!r}")
    if heading.split(" ")[0] != version:
        problems.append(f"CHANGELOG.md begins with {heading!r}, pyproject.toml has version {version!r}")
    if not re.search(r"\d{4}-\d{2}-\d{2}", heading):
        problems.append(f"CHANGELOG.md has no date for {heading!r}")
    return problems


def wheel_problems(path: Path, forbidden: tuple[str, ...]) -> list[str]:
    """What is wrong with a wheel: its size, missing files, texts that must not be in it."""
    problems = []
    if path.stat().st_size > MOST_BYTES:
        problems.append(f"{path.name} has {path.stat().st_size} bytes, at most {MOST_BYTES} are allowed")
    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
        for wanted in ("interlace/py.typed", "interlace/_native.pyi"):
            if wanted not in names:
                problems.append(f"{path.name} has no {wanted}")
        for name in names:
            data = wheel.read(name)
            problems += [f"{name} contains {text!r}" for text in forbidden if text.encode() in data]
    return problems


def run(*command: str) -> None:
    """Run a command and stop at its failure."""
    print("+", " ".join(command), flush=True)
    subprocess.run(command, cwd=ROOT, check=True)


def main(argv: list[str] | None = None) -> int:
    """Run all checks; 1 if one fails."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="versions, working tree and wheel only")
    parser.add_argument("--skip", default="", help=f"targets to leave out, of {','.join(TARGETS)}")
    options = parser.parse_args(argv)
    skipped = list(TARGETS) if options.quick else [name for name in options.skip.split(",") if name]
    if unknown := sorted(set(skipped) - set(TARGETS)):
        parser.error(f"--skip names {', '.join(unknown)}; the targets are {', '.join(TARGETS)}")
    problems = version_problems(versions())
    changed = subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True).stdout
    if changed:
        problems.append(f"the working tree has changes: {changed.splitlines()[0]}, ...")
    if not problems:
        for target in TARGETS:
            if target not in skipped:
                run("make", target)
    with tempfile.TemporaryDirectory() as folder:
        run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder, ".")
        (wheel,) = Path(folder).glob("*.whl")
        problems += wheel_problems(wheel, (str(ROOT),))
    for problem in problems:
        print("not ready:", problem, file=sys.stderr)
    if skipped:
        print("not checked:", ", ".join(skipped))
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
