"""What the tests of the commands share; each file has its own ``folder`` of inputs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from interlace import cli

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command in the folder of the files -> exit code, stdout, stderr."""
    monkeypatch.chdir(folder)

    def run(*args: object) -> tuple[int, str, str]:
        code = cli.main([str(a) for a in args])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run
