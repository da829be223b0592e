"""Methods by name."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import interlace as il
from helpers import clustered
from interlace.cli import main
from interlace.cli.inputs import load_model
from interlace.errors import InputError
from interlace.quantizers import load, method, methods, register, unregister
from raising import raises


def test_a_method_is_registered_once_and_found_by_its_name() -> None:
    mine = register("mine", il.ICQ)
    try:
        assert method("mine") is mine
        assert "mine" in methods()
        assert "mine" in methods(labels=False)
        assert "mine" not in methods(labels=True)
        with pytest.raises(InputError, match="'mine'.*already"):
            register("mine", il.ICQ)
    finally:
        unregister("mine")
    assert "mine" not in methods()
    for call in (method, unregister):
        with raises(InputError, "'mine'", "ICQ", "SQ+CQ"):
            call("mine")


@pytest.mark.parametrize("name", ["", " + ", "日本", 3, None])
def test_names_that_no_file_could_have(name: Any) -> None:
    with pytest.raises(InputError, match="name.*letter or digit"):
        register(name, il.ICQ)
    assert name not in methods()


def test_what_makes_nothing_is_no_method() -> None:
    with pytest.raises(InputError, match="make.*None"):
        register("mine", None)  # type: ignore[arg-type]
    assert "mine" not in methods()


def test_every_method_makes_an_estimator_with_the_books_asked_for() -> None:
    for entry in methods().values():
        assert entry.make(n_books=4, seed=3, threads=1, progress=False).get_params()["seed"] == 3


@pytest.mark.parametrize("name", list(methods(labels=False)))
def test_the_command_line_and_the_library_load_what_any_method_saved(name: str, tmp_path: Path) -> None:
    x = clustered(300, 8, seed=1)
    model = method(name).make(n_books=3, n_words=8, iterations=1, seed=1, threads=1).fit(x)
    path = str(tmp_path / "m")
    model.save(path)
    for again in (load(path), load_model(path)):
        assert type(again) is type(model)
        assert np.array_equal(again.encode(x), model.encode(x))
    with pytest.raises(il.NotAnIndexError, match=r"interlace\.quantizers\.load\(path\) opens it"):
        il.open(path)
    if name != "PQ":
        with pytest.raises(il.NotAnIndexError, match=rf"{re.escape(name)}.* PQ: interlace\.quantizers\.load"):
            il.quantizers.PQ.load(path)
    np.save(tmp_path / "x.npy", x)
    out = str(tmp_path / "out")
    assert main(["encode", str(tmp_path / "x.npy"), "--model", path, "-o", f"{out}.npy"]) == 0
    assert np.array_equal(np.load(f"{out}.npy"), model.encode(x))
    assert main(["build", str(tmp_path / "x.npy"), "--model", path, "-o", out, "--json"]) == 0


class Own(il.quantizers.PQ):
    """Of a plug-in."""

    name_in_files = "Own"


def test_plug_ins_are_loaded_once_they_are_registered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = clustered(300, 8, seed=1)
    Own(3, n_words=8, iterations=1, threads=1).fit(x).save(tmp_path / "m")
    with pytest.raises(il.NotAnIndexError, match="'Own'.*no registered method"):
        load(tmp_path / "m")
    register("own", partial(Own, n_crude=1), labels=True)
    try:
        assert type(load(tmp_path / "m")) is Own
        assert main(["fit", "--help"]) == 0
        assert "pqn+cq, own" in " ".join(capsys.readouterr().out.split())
    finally:
        unregister("own")
