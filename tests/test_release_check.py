"""The release script finds what it looks for, and make help lists every target."""

from __future__ import annotations

import argparse
import importlib.util
import re
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SPEC = importlib.util.spec_from_file_location("release_check", ROOT / "scripts" / "release_check.py")
assert SPEC is not None
release_check = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(release_check)


def test_versions_are_found_and_agree():
    found = release_check.versions()
    assert re.fullmatch(r"\d+\.\d+\.\d+", found["pyproject.toml"])
    assert found["CITATION.cff"] == found["pyproject.toml"]
    assert found["CHANGELOG.md"].split(" ")[0] == found["pyproject.toml"]


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({}, None),
        ({"CITATION.cff": "0.0.9"}, "CITATION.cff"),
        ({"CHANGELOG.md": "0.0.9 (2026-01-01)"}, "begins"),
        ({"CHANGELOG.md": "1.2.3 (unreleased)"}, "date"),
    ],
)
def test_wrong_versions(changes, named):
    right = {"pyproject.toml": "1.2.3", "CITATION.cff": "1.2.3", "CHANGELOG.md": "1.2.3 (2026-01-01)"}
    problems = release_check.version_problems(right | changes)
    assert (problems == []) if named is None else (len(problems) == 1 and named in problems[0])


def test_wrong_wheels(tmp_path):
    path = tmp_path / "x.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("interlace/py.typed", "")
        wheel.writestr("interlace/a.py", "where = '/home/somebody/interlace'")
    problems = release_check.wheel_problems(path, ("/home/somebody",))
    assert ["_native.pyi" in problems[0], "a.py" in problems[1], len(problems)] == [True, True, 2]


def test_targets_that_are_left_out_are_named(monkeypatch, capsys):
    ran = []

    def run(*command):
        ran.append(command)
        if "wheel" in command:
            folder = Path(command[command.index("-w") + 1])
            with zipfile.ZipFile(folder / "x.whl", "w") as wheel:
                wheel.writestr("interlace/py.typed", "")
                wheel.writestr("interlace/_native.pyi", "")

    monkeypatch.setattr(release_check, "run", run)
    monkeypatch.setattr(release_check, "version_problems", lambda found: [])
    monkeypatch.setattr(release_check.subprocess, "run", lambda *args, **more: argparse.Namespace(stdout=""))
    assert release_check.main(["--skip", "levels,faults"]) == 0
    made = [command[1] for command in ran if command[0] == "make"]
    assert made == [name for name in release_check.TARGETS if name not in ("levels", "faults")]
    assert "not checked: levels, faults" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        release_check.main(["--skip", "nothing"])
    assert "nothing" in capsys.readouterr().err


def test_every_target_of_the_check_exists():
    (phony,) = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(release_check.TARGETS) <= set(phony.split())
