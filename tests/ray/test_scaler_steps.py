"""Single steps of the scaler, without a cluster."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("ray.exceptions", reason="the ray extra is not installed")

from interlace.ray import runtime, scaling


def test_a_group_that_fails_does_not_hold_up_the_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    started = []

    class Group:
        def __init__(self, number: int) -> None:
            self.number = number

        def start(self, node: str) -> Any:
            if self.number == 0:
                raise RuntimeError("the node is lost")
            started.append((self.number, node))
            return SimpleNamespace(ask=SimpleNamespace(remote=lambda _: "answer"))

    monkeypatch.setattr(scaling.Scaler, "_run", lambda self: None)  # steps are made here
    monkeypatch.setattr(scaling, "time", SimpleNamespace(monotonic=lambda: 0.0))
    monkeypatch.setattr(runtime, "node_ids", lambda: ["node"])
    scaler = scaling.Scaler([Group(0), Group(1)], 1, scaling.Scaling(2, target_calls=1, add_after=0))  # type: ignore[list-item]
    scaler.report("process", (5, 5), "")
    with caplog.at_level(logging.ERROR, logger=scaling.__name__):
        scaler.step(0.0)
    assert started == [(1, "node")]
    assert "replicas of group 0 could not be added or removed" in caplog.text
    assert "the node is lost" in caplog.text
