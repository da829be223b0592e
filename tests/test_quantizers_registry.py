"""Methods by name."""

from __future__ import annotations

from typing import Any

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


@pytest.mark.parametrize("name", ["", " + ", "日本", 3, None])
def test_names_that_no_file_could_have(name: Any) -> None:
    with pytest.raises(InputError, match=r"the name of a method is text with a letter \(a to z\) or a digit, got"):
        register(name, il.ICQ)
    assert name not in methods()


def test_what_makes_nothing_is_no_method() -> None:
    with pytest.raises(InputError, match="make must be a class or a function that returns a quantizer, got None"):
        register("mine", None)  # type: ignore[arg-type]
    assert "mine" not in methods()


def test_every_method_makes_an_estimator_with_the_books_asked_for() -> None:
    for entry in methods().values():
        assert entry.make(n_books=4, seed=3, threads=1, progress=False).get_params()["seed"] == 3
