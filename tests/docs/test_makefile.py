"""`make help` describes every target for people; the demo and the server get the packages that they need, no more."""

from __future__ import annotations

import re
import subprocess
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from helpers import run_python

ROOT = Path(__file__).parents[2]


def test_every_target_has_a_line_of_help() -> None:
    (phony,) = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    described = dict(re.findall(r"^make (\S+)\s+(\S.*)$", done.stdout, re.MULTILINE))
    assert sorted(described) == sorted(phony.split())
    assert {"demo", "test", "serve", "docs"} <= set(described)


def test_ci_runs_the_suites_of_langchain_and_haystack() -> None:
    """Where CI and everybody else run the same command."""
    for path in (".ci/run", ".github/workflows/test.yml"):
        assert re.search(r"\bmake test$", (ROOT / path).read_text(), re.MULTILINE), path
    done = subprocess.run(
        ["make", "--dry-run", "--always-make", "test"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    commands = done.stdout.replace("\\\n", " ").splitlines()
    (installed,) = (each for each in commands if "pip install" in each and "constraints-frameworks.txt" in each)
    assert {"langchain-tests", "haystack-ai"} <= set(installed.split())
    (run,) = (each for each in commands if "tests/integrations/test_conformance.py" in each)
    python = "build/frameworks/bin/python"
    assert python in run
    assert python in installed


def steps(target: str, venv: Path) -> list[str]:
    """The commands of a target where nothing was installed yet."""
    command = ["make", "--dry-run", target, f"VENV={venv}"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


def packages(target: str, venv: Path) -> set[str]:
    """What a target installs, with all that those packages require here; beside interlace and what builds it."""
    (extras,) = re.findall(r'install .*"\.\[(.+?)\]"', "\n".join(steps(target, venv)))
    waiting, found = [Requirement(f"interlace[{extras}]")], set[tuple[str, str]]()
    while waiting:
        wanted = waiting.pop()
        for extra in ["", *wanted.extras]:
            name = canonicalize_name(wanted.name)
            if (name, extra) in found:
                continue
            found.add((name, extra))
            try:
                listed = map(Requirement, requires(name) or ())
            except PackageNotFoundError:
                pytest.skip(f"{name} is not installed")
            waiting += [r for r in listed if r.marker is None or r.marker.evaluate({"extra": extra})]
    return {name for name, _ in found} - {"interlace"}


RUNS = {
    "demo": 'main(["demo", "--quick", "--out", sys.argv[1]])',
    "serve": "import interlace.serve.run; demo_store.build(Path(sys.argv[1]), 600)",
}
ONLY = """
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

allowed = set(sys.argv[2].split(","))
others = {
    module
    for module, names in packages_distributions().items()
    if allowed.isdisjoint(name.lower().replace("_", "-") for name in names)
} - {"interlace", "_distutils_hack"}


class Missing:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in others:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Missing)
from interlace.cli import demo_store, main

RUN
print(len(allowed))
"""


@pytest.mark.parametrize(("target", "most"), [("demo", 20), ("serve", 45)])
def test_the_demo_and_the_server_install_what_they_need(target: str, most: int, tmp_path: Path) -> None:
    found = packages(target, tmp_path / "none")
    assert "scikit-learn" in found
    assert len(found) <= most
    assert not found & {"ray", "sphinx", "pytest", "torch"}
    run_python(ONLY.replace("RUN", RUNS[target]), str(tmp_path / "made"), ",".join(sorted(found)))


def test_what_tests_install_is_enough_for_the_demo_and_the_server(tmp_path: Path) -> None:
    everything = packages("check", tmp_path / "none")
    assert packages("demo", tmp_path / "none") | packages("serve", tmp_path / "none") <= everything
    touched = {step.removeprefix("touch ") for step in steps("check", tmp_path / "none") if step.startswith("touch")}
    (stamps,) = (names.split() for names in touched if ".installed" in names)
    assert {Path(stamp).name for stamp in stamps} == {".installed", ".demo", ".serve"}
