"""The script that builds wheels: which Pythons it finds, what cross-compiled wheels are called, what the SBOM lists."""

from __future__ import annotations

import hashlib
import importlib
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[1] / "scripts"


@pytest.fixture
def wheels(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPTS))
    yield importlib.import_module("wheels")
    for name in ("wheels", "aarch64", "release_check"):
        sys.modules.pop(name, None)


def test_a_python_is_found_by_its_command(wheels):
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    found = wheels.interpreter(name)
    if found is None:
        pytest.skip(f"{name} is no command here")
    code = "import sys; print(*sys.version_info[:2], sep='.')"
    version = subprocess.run([found, "-c", code], capture_output=True, text=True, check=True).stdout
    assert version.strip() == name.removeprefix("python")


def test_a_python_that_is_not_installed_is_not_found(wheels):
    assert wheels.interpreter("python3.999") is None


def test_a_command_that_fails_is_no_python(wheels, tmp_path, monkeypatch):
    """As the commands that pyenv makes for versions that are not active."""
    command = tmp_path / "python3.998"
    command.write_text("#!/bin/sh\nexit 127\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert wheels.interpreter("python3.998") is None


@pytest.mark.parametrize(
    ("name", "suffix"),
    [
        ("python3.10", ".cpython-310-aarch64-linux-gnu.so"),
        ("python3.11", ".cpython-311-aarch64-linux-gnu.so"),
        ("python3.12", None),  # the stable ABI has one name for all machines
        ("python3.13t", ".cpython-313t-aarch64-linux-gnu.so"),
    ],
)
def test_cross_compiled_wheels_are_named_after_their_machine(wheels, name, suffix):
    variables = wheels.aarch64.variables(name)
    assert variables["_PYTHON_HOST_PLATFORM"] == "linux-aarch64"
    assert variables.get("SETUPTOOLS_EXT_SUFFIX") == suffix
    assert "cmake.define.CMAKE_SYSTEM_PROCESSOR=aarch64" in wheels.aarch64.settings()


def test_the_sbom_lists_every_wheel_with_its_digest(wheels, tmp_path):
    paths = []
    for name in ("a.whl", "b.whl"):
        with zipfile.ZipFile(tmp_path / name, "w") as made:
            made.writestr("name", name)
        paths.append(tmp_path / name)
    found = wheels.sbom("2.9.0", paths)
    library, *files = found["components"]
    assert (library["name"], library["version"]) == ("nanobind", "2.9.0")
    digests = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
    assert {file["name"]: file["hashes"][0]["content"] for file in files} == digests
