"""The stub of the native module is generated; this keeps it so."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

import interlace


def test_the_stub_matches_the_module(tmp_path):
    if importlib.util.find_spec("nanobind") is None:
        pytest.skip("nanobind is not installed, so no stub can be generated")
    generated = tmp_path / "_native.pyi"
    subprocess.run(
        [sys.executable, "-m", "nanobind.stubgen", "-q", "-m", "interlace._native", "-o", str(generated)], check=True
    )
    committed = Path(interlace.__file__).with_name("_native.pyi")
    assert generated.read_text() == committed.read_text(), "run `make stub`"
