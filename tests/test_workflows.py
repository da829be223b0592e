"""The workflow files of CI are valid, and build wheels for the systems that cannot be tried here."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
ROOT = Path(__file__).parents[1]
WORKFLOWS = {path.stem: path for path in sorted((ROOT / ".github" / "workflows").glob("*.yml"))}


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_has_a_trigger_and_jobs_with_steps(name):
    found = yaml.safe_load(WORKFLOWS[name].read_text())
    assert found["name"] == name
    assert found[True]  # YAML 1.1 reads "on" so
    for job in found["jobs"].values():
        assert job["runs-on"]
        assert job["steps"][0]["uses"].startswith("actions/checkout@")
        for step in job["steps"]:
            assert ("run" in step) != ("uses" in step)
            if "uses" in step:
                assert re.fullmatch(r"[\w-]+/[\w-]+@v\d+(\.\d+)*", step["uses"])


def test_wheels_are_built_on_all_systems():
    found = yaml.safe_load(WORKFLOWS["wheels"].read_text())["jobs"]["wheels"]
    systems = {name.partition("-")[0] for name in found["strategy"]["matrix"]["os"]}
    assert systems == {"ubuntu", "macos", "windows"}
    assert any("cibuildwheel" in step.get("uses", "") for step in found["steps"])


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib is new in 3.11")
def test_wheels_are_built_for_the_pythons_of_the_script(monkeypatch):
    import tomllib

    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    from wheels import PYTHONS

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    settings = project["tool"]["cibuildwheel"]
    wanted = {f"cp{name.removeprefix('python').replace('.', '')}-*" for name in PYTHONS.split(",")}
    assert set(settings["build"]) == wanted
    assert settings["windows"]["config-settings"] == {"cmake.args": "-T ClangCL"}
    assert project["tool"]["scikit-build"]["wheel"]["py-api"] == "cp312"
    for name in ("wheels", "aarch64", "release_check"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    "path", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")), ids=lambda path: path.stem
)
def test_issue_templates_are_valid(path):
    found = yaml.safe_load(path.read_text())
    assert found
    if path.stem != "config":
        assert {"name", "description", "body"} <= set(found)
        assert all("type" in part for part in found["body"])
