"""The conformance suites that LangChain and Haystack publish; LlamaIndex publishes none for vector stores."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "conformance"


@pytest.mark.parametrize(
    ("name", "modules", "least"),
    [("langchain", ("langchain_tests", "pytest_asyncio"), 24), ("haystack", ("haystack.testing",), 45)],
)
def test_the_suite_of_the_framework_passes(name, modules, least):
    for module in modules:
        if importlib.util.find_spec(module.partition(".")[0]) is None:
            pytest.skip(f"{module} is not installed: make conformance")
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-c", str(FOLDER / "pytest.ini"), f"{FOLDER}/test_{name}_suite.py"],
        env={name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-1000:]
    found = re.search(r"(\d+) passed", ran.stdout)
    assert found is not None
    assert int(found[1]) >= least
