"""Stores that learn after a few hundred rows, and a gate that holds the thread that learns."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from store_helpers import SMALL

import interlace as il
from helpers import HANGS, clustered

DIM = 8
LEARNING: dict[str, Any] = {
    "n_bytes": 4,
    "n_words": 16,
    "iterations": 1,
    "effort": "fast",
    "layout": "hybrid",
    "threads": 1,
}


def made(folder: Path, **settings: Any) -> il.Store:
    return il.create(folder, **{"dim": DIM, "learn_at": 500, "limits": SMALL, **LEARNING, **settings})


def rows(n: int, seed: int = 0) -> np.ndarray:
    """Whole numbers, which float16 keeps as they are."""
    return np.rint(4 * clustered(n, DIM, seed=seed)).astype(np.float32)


def learners() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "interlace-learning"]


class Gate:
    """Lets the thread learn as far as a step, and holds it there."""

    def __init__(self, patch: pytest.MonkeyPatch, module: Any, name: str) -> None:
        self.reached, self.opened = threading.Event(), threading.Event()
        real = getattr(module, name)

        def held(*arguments: Any, **keywords: Any) -> Any:
            if threading.current_thread().name == "interlace-learning":
                self.reached.set()
                assert self.opened.wait(HANGS)
            return real(*arguments, **keywords)

        patch.setattr(module, name, held)

    def wait(self) -> None:
        assert self.reached.wait(HANGS)

    def open(self) -> None:
        self.opened.set()
