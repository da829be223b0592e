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
