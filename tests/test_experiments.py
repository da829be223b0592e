"""The experiments on learning from labels: the pages are what the results say, and runs are not made twice."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

EXPERIMENTS = Path(__file__).resolve().parent.parent / "experiments"


@pytest.fixture(autouse=True)
def _on_path(monkeypatch):
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    yield
    for name in ("joint", "joint_report"):
        sys.modules.pop(name, None)


def test_the_pages_are_what_the_results_say():
    import joint_report

    assert joint_report.main(["--check"]) == 0


def test_a_run_is_written_once_and_left_out_then(tmp_path, monkeypatch, capsys):
    pytest.importorskip("torch", reason="the train extra is not installed")
    import joint

    monkeypatch.setattr(joint, "RESULTS", tmp_path / "joint")
    one = [joint.Run("synthetic", "synthetic3", "ICQ")]
    monkeypatch.setattr(joint, "runs", lambda: iter(one))
    assert joint.main(["--quick", "--threads", "1"]) == 0
    written = json.loads((tmp_path / "quick" / "joint" / f"{one[0].name}.json").read_text())
    assert 0.1 < written["map"] < 1
    assert written["random"]["map"] < written["map"]
    capsys.readouterr()
    assert joint.main(["--quick"]) == 0
    assert one[0].name not in capsys.readouterr().err
    assert joint.main(["--quick", "--list"]) == 0
    assert "done" in capsys.readouterr().out
