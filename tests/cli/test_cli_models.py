"""``interlace fit``, ``interlace encode`` and ``interlace build --model``: one model for many files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import interlace as il
from helpers import clustered, same_index

Run = Callable[..., tuple[int, str, str]]
X, MORE = clustered(400, 8), clustered(150, 8, seed=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Vectors, and a model of three bytes."""
    path = tmp_path_factory.mktemp("models")
    np.save(path / "x.npy", X)
    np.savez(path / "two.npz", x=X, more=MORE)
    np.save(path / "more.npy", MORE)
    il.ICQ(3, layout="hybrid", threads=1).fit(X).save(path / "model.icq")
    return path


def assert_fails(result: tuple[int, str, str], message: str) -> None:
    code, out, err = result
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert message in err


class TestFit:
    def test_the_model_is_the_one_that_python_learns(self, run: Run) -> None:
        args = ("--n-bytes", 3, "--layout", "residual", "--iterations", 1, "--seed", 4, "--threads", 1)
        code, out, err = run("fit", "two.npz", "--key", "x", "-o", "fitted.icq", *args)
        assert (code, err) == (0, "")
        wanted = il.ICQ(3, layout="residual", iterations=1, seed=4, threads=1).fit(X)
        model = il.ICQ.load("fitted.icq")
        assert model.codebooks_ == wanted.codebooks_
        assert model.get_params() == wanted.set_params(threads=None).get_params()
        assert repr(wanted.codebooks_) in out
        assert "layout 'residual': asked for" in out

    def test_json(self, run: Run, folder: Path) -> None:
        code, out, _ = run("fit", "x.npy", "-o", "json.icq", "--n-bytes", 2, "--threads", 1, "--json")
        told = json.loads(out)
        assert code == 0
        assert (told["file"], told["rows"], told["dim"], told["n_bytes"]) == ("json.icq", 400, 8, 2)
        assert told["file_bytes"] == (folder / "json.icq").stat().st_size
        assert told["choice"]["layout"] == told["layout"]

    def test_other_commands_know_models(self, run: Run) -> None:
        code, out, _ = run("info", "model.icq")
        assert code == 0
        assert "model, format version" in out
        assert "asked for" in out
        assert run("verify", "model.icq")[0] == 0
        assert_fails(run("search", "model.icq", "more.npy"), "holds 'model', not an index")

    def test_errors(self, run: Run) -> None:
        assert_fails(run("fit", "x.npy", "-o", "x.npy"), "'x.npy' would be replaced, but it is read, too")
        assert_fails(run("fit", "x.npy", "-o", "more.npy"), "not overwriting 'more.npy'")
        assert_fails(run("fit", "x.npy", "-o", "gone/m.icq"), "cannot write a model to 'gone/m.icq'")
        assert_fails(run("fit", "x.npy", "-o", "m.icq", "--layout", "residual", "--cross", "none"), "cross='none'")


class TestBuildWithModel:
    def test_it_is_coded_by_the_model(self, run: Run) -> None:
        code, out, err = run("build", "more.npy", "--model", "model.icq", "-o", "more.index", "--threads", 1)
        assert (code, err) == (0, "")
        assert "layout 'hybrid': asked for" in out
        assert same_index(il.open("more.index"), il.ICQ.load("model.icq").index(MORE))

    def test_ids(self, run: Run, folder: Path) -> None:
        np.save(folder / "ids.npy", np.arange(150) * 2)
        assert run("build", "more.npy", "--model", "model.icq", "-o", "ids.index", "--ids", "ids.npy")[0] == 0
        np.testing.assert_array_equal(il.open("ids.index").ids, np.arange(150) * 2)

    def test_settings_of_learning_are_refused(self, run: Run) -> None:
        for option in (("--n-bytes", 8), ("--layout", "auto"), ("--seed", 0), ("--max-train-rows", 50)):
            result = run("build", "more.npy", "--model", "model.icq", "-o", "bad.index", *option)
            assert_fails(result, f"--model brings its own settings: {option[0]} cannot change")

    def test_files_that_do_not_fit(self, run: Run, folder: Path) -> None:
        np.save(folder / "wide.npy", np.zeros((5, 9), np.float32))
        assert_fails(run("build", "wide.npy", "--model", "model.icq", "-o", "bad.index"), "9 features")
        assert_fails(run("build", "more.npy", "--model", "x.npy", "-o", "bad.index"), "a NumPy .npy array")
        assert_fails(run("build", "more.npy", "--model", "model.icq", "-o", "model.icq"), "it is read, too")
        assert not (folder / "bad.index").exists()


class TestEncode:
    @pytest.mark.parametrize("effort", [None, "fast", "best"])
    def test_codes(self, run: Run, effort: str | None) -> None:
        options = () if effort is None else ("--effort", effort)
        code, out, err = run("encode", "two.npz", "--key", "more", "--model", "model.icq", "-o", "codes.npy", *options)
        assert (code, err) == (0, "")
        assert "codes.npy: 150 rows of 3 bytes" in out
        model = il.ICQ.load("model.icq")
        codes = np.load("codes.npy")
        np.testing.assert_array_equal(codes, model.encode(MORE, effort=effort))
        if effort is None:
            assert same_index(il.Index.from_codes(model.codebooks_, codes), model.index(MORE))

    def test_json(self, run: Run) -> None:
        code, out, _ = run("encode", "x.npy", "--model", "model.icq", "-o", "codes.npy", "--threads", 1, "--json")
        told = json.loads(out)
        assert (code, told["file"], told["rows"], told["n_bytes"]) == (0, "codes.npy", 400, 3)

    def test_errors(self, run: Run, folder: Path) -> None:
        args = ("encode", "x.npy", "--model", "model.icq", "-o")
        assert_fails(run(*args, "codes.bin"), "--output writes .npy files")
        assert_fails(run(*args, "x.npy"), "it is read, too")
        assert_fails(run(*args, "gone/codes.npy"), "there is no folder 'gone'")
        run("build", "x.npy", "-o", "x.index", "--n-bytes", 2, "--threads", 1)
        assert_fails(run("encode", "x.npy", "--model", "x.index", "-o", "c.npy"), "holds 'index', not a model")
        assert not [path for path in folder.iterdir() if path.suffix == ".tmp"]
