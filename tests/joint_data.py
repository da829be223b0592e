"""Labelled rows and short recipes for tests of joint learning: a fit in a fraction of a second."""

from __future__ import annotations

from typing import Any

import numpy as np
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
