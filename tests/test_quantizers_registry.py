"""Methods by name."""

from __future__ import annotations

import pytest

import interlace as il
from interlace.errors import InputError
from interlace.quantizers import method, methods, register, unregister


def test_a_method_is_registered_once_and_found_by_its_name() -> None:
    mine = register("mine", il.ICQ)
    try:
        assert method("mine") is mine
        assert "mine" in methods()
        assert "mine" in methods(labels=False)
        assert "mine" not in methods(labels=True)
        with pytest.raises(InputError, match="'mine' already"):
            register("mine", il.ICQ)
    finally:
        unregister("mine")
    assert "mine" not in methods()
    for call in (method, unregister):
        with pytest.raises(InputError, match=r"no method 'mine'; there are ICQ, SQ\+CQ"):
            call("mine")


def test_every_method_makes_an_estimator_with_the_books_asked_for() -> None:
    for entry in methods().values():
        assert entry.make(n_books=4, seed=3, threads=1, progress=False).get_params()["seed"] == 3
