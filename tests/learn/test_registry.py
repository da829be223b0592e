"""Learners by layout: registered by quantizers, found by stores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import interlace as il
from helpers import run_python
from interlace.learn.registry import (
    learner_of_layout,
    load_before_lookup,
    register_learner,
    unregister_learner,
)


def test_the_first_learner_of_a_layout_is_used() -> None:
    def first(*_: Any) -> Any: ...

    def second(*_: Any) -> Any: ...

    for make in (first, second):
        register_learner("mine", make)
    assert learner_of_layout("mine") is first
    unregister_learner("mine", first)
    assert learner_of_layout("mine") is second
    unregister_learner("mine", second)
    assert learner_of_layout("mine") is None
    assert learner_of_layout("nobody's") is None


def test_loaders_run_once() -> None:
    calls: list[int] = []
    load_before_lookup(lambda: calls.append(1))
    assert not calls
    learner_of_layout("mine")
    learner_of_layout("mine")
    assert calls == [1]


def test_quantizers_register_and_unregister_their_layout() -> None:
    class Mine(il.quantizers.PQ):
        books_layout = "mine"

    il.quantizers.register("mine", Mine)
    try:
        make = learner_of_layout("mine")
        assert make is not None
        learner = make(3, {"seed": 4, "n_words": 8}, lambda what, done: None)
        assert (learner.seed, learner.threads) == (4, None)
        x = np.random.default_rng(0).normal(size=(50, 6)).astype(np.float32)
        assert learner.learn(x) == Mine(3, seed=4, n_words=8).fit(x).codebooks_
        with pytest.raises(il.InputError, match="'efort'.*Mine"):
            make(3, {"efort": 1}, lambda what, done: None)
    finally:
        il.quantizers.unregister("mine")
    assert learner_of_layout("mine") is None


RELEARN = """
import json, sys
import interlace as il
store = il.open(sys.argv[1], mode="a")
before = "interlace.estimators" in sys.modules
store.relearn(n_words=4, iterations=1, threads=1)
print(json.dumps([before, store.codebooks.layout]))
"""


def test_a_store_finds_a_quantizer_that_nobody_imported(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(100, 6)).astype(np.float32)
    model = il.quantizers.PQ(3, n_words=4, iterations=1, threads=1).fit(x)
    with il.create(tmp_path / "s", model, originals="float16") as store:
        store.add(x, threads=1)
    assert run_python(RELEARN, str(tmp_path / "s")) == [False, "product"]
