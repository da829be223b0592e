"""Labelled rows and short recipes for tests of joint learning: a fit in a fraction of a second."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from numpy.typing import NDArray

import interlace as il

#: Every phase, and the shortest of each that can show what it does.
SHORT: dict[str, Any] = {"warm_up": 1, "shape": 1, "epochs": 2, "batch_size": 100}


def labelled(
    n: int = 600, dim: int = 12, classes: int = 4, *, seed: int = 0
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Rows round a centre for each class, which overlap a little."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    centres = 2 * np.random.default_rng(99).normal(size=(classes, dim))
    return (centres[y] + rng.normal(size=(n, dim))).astype(np.float32), y


def icq(recipe: Any = None, **settings: Any) -> il.ICQ:
    """An estimator that is quick to fit; ``recipe`` is one, or changes to the short one."""
    chosen = il.Recipe(**SHORT | (recipe or {})) if recipe is None or isinstance(recipe, dict) else recipe
    return il.ICQ(**{"n_books": 4, "n_words": 16, "threads": 1, "recipe": chosen} | settings)


#: Four or six dimensions are few for two modes.
small = pytest.mark.filterwarnings("ignore::interlace.errors.PriorCollapsedWarning")


class Stop:
    """A progress callback that raises at its n-th call."""

    def __init__(self, at: int, error: type[BaseException] = SystemExit) -> None:
        self.at, self.error = at, error
        self.said: list[str] = []

    def __call__(self, what: str, done: float) -> None:
        self.said.append(what)
        if len(self.said) - 1 == self.at:
            raise self.error


def same(a: Any, b: Any) -> bool:
    """Bit for bit, NaN included."""
    assert a.codebooks_ == b.codebooks_
    assert a.embedding_.fingerprint == b.embedding_.fingerprint
    assert repr(_told(a.history_)) == repr(_told(b.history_))
    assert (a.prior_, a.fit_info_) == (b.prior_, b.fit_info_)
    assert_array_equal(a.codes_, b.codes_)
    return True


def _told(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != "seconds"} for row in history]


def caught(call: Callable[[], Any]) -> tuple[Any, list[type[Warning]]]:
    """What it returns, and the warnings by category."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        result = call()
    return result, [w.category for w in found]


def module(width: int = 6, seed: int = 0) -> Any:
    """A user's module: it draws from the global generator in training, and has buffers."""
    import torch
    from torch import nn

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(12, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, width))
