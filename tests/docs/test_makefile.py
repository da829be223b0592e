"""`make help` describes every target for people."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

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
