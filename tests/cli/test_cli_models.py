"""``interlace fit``, ``interlace encode`` and ``interlace build --model``: one model for many files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import interlace as il
from cli_checks import fails
from helpers import clustered, same_index
from interlace.codec.embedding import Linear
from interlace.estimators.fitted import Fitted

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
        fails(run("search", "model.icq", "more.npy"), "holds 'model', not an index")

    def test_errors(self, run: Run) -> None:
        fails(run("fit", "x.npy", "-o", "x.npy"), "'x.npy' is also an input")
        fails(run("fit", "x.npy", "-o", "more.npy"), "not overwriting 'more.npy'")
        fails(run("fit", "x.npy", "-o", "gone/m.icq"), "cannot write a model to 'gone/m.icq'")
        fails(run("fit", "x.npy", "-o", "m.icq", "--layout", "residual", "--cross", "none"), "cross='none'")


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
            fails(result, f"--model and {option[0]} cannot be combined")

    def test_files_that_do_not_fit(self, run: Run, folder: Path) -> None:
        np.save(folder / "wide.npy", np.zeros((5, 9), np.float32))
        fails(run("build", "wide.npy", "--model", "model.icq", "-o", "bad.index"), "9 features")
        fails(run("build", "more.npy", "--model", "x.npy", "-o", "bad.index"), "a NumPy .npy array")
        fails(run("build", "more.npy", "--model", "model.icq", "-o", "model.icq"), "is also an input")
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
        fails(run(*args, "codes.bin"), "--output must end with .npy")
        fails(run(*args, "x.npy"), "is also an input")
        fails(run(*args, "gone/codes.npy"), "there is no folder 'gone'")
        run("build", "x.npy", "-o", "x.index", "--n-bytes", 2, "--threads", 1)
        fails(run("encode", "x.npy", "--model", "x.index", "-o", "c.npy"), "holds 'index', not a model")
        assert not [path for path in folder.iterdir() if path.suffix == ".tmp"]


@pytest.fixture(scope="module")
def raw(folder: Path) -> il.ICQ:
    """A model with an embedding of 3 x 2 x 2 images, and some of these."""
    rng = np.random.default_rng(0)
    model = il.ICQ.load(folder / "model.icq")
    made = Linear(rng.normal(size=(8, 12)), input_shape=(3, 2, 2))
    codes, labels = model.encode(made(rng.normal(size=(50, 12)))), np.arange(50) % 2
    model.set_fitted(Fitted(model.codebooks_, np.zeros(0, np.int64), 50, made, codes=codes, labels=labels))
    model.save(folder / "raw.icq")
    images = rng.normal(size=(60, 3, 2, 2)).astype(np.float32)
    np.save(folder / "images.npy", images)
    np.save(folder / "flat.npy", images.reshape(60, 12))
    np.save(folder / "embedded.npy", made(images))
    np.savez(folder / "images.npz", images=images, other=np.zeros(3))
    return model


class TestEmbeddings:
    """Models that take raw inputs, and indexes that carry their embedding."""

    def test_build_search_evaluate(self, run: Run, raw: il.ICQ) -> None:
        for name in ("images.npy", "flat.npy"):
            code, out, err = run("build", name, "--model", "raw.icq", "-o", "raw.index", "--threads", 1, "--json")
            assert (code, err) == (0, "")
            told = json.loads(out)
            assert (told["rows"], told["dim"], told["choice"]) == (60, 8, None)
            assert told["report"]["embedding_kind"] == "linear"
        code, out, _ = run("build", "images.npz", "--key", "images", "--model", "raw.icq", "-o", "raw.index")
        assert code == 0
        assert "bytes (linear)" in out
        answers = [
            json.loads(run("search", "raw.index", *how, "-k", 3, "--margin", "exact", "--show", 60, "--json")[1])[
                "hits"
            ]
            for how in (("images.npy",), ("flat.npy",), ("embedded.npy", "--embedded"))
        ]
        assert answers[0] == answers[1] == answers[2]
        found = [
            json.loads(run("evaluate", "raw.index", "--vectors", *how, "-k", 3, "--json")[1])
            for how in (("images.npy",), ("embedded.npy", "--embedded"))
        ]
        assert found[0]["recall@3"] == found[1]["recall@3"]
        assert found[0]["quantization_error"] == found[1]["quantization_error"]

    def test_encode(self, run: Run, raw: il.ICQ) -> None:
        assert run("encode", "images.npy", "--model", "raw.icq", "-o", "raw-codes.npy")[0] == 0
        np.testing.assert_array_equal(np.load("raw-codes.npy"), raw.encode(np.load("images.npy")))

    def test_info_and_verify(self, run: Run, raw: il.ICQ) -> None:
        code, out, _ = run("info", "raw.icq")
        assert code == 0
        assert "Linear(3 x 2 x 2 -> 8)" in out
        assert raw.card().rstrip() in out
        assert json.loads(run("info", "raw.icq", "--json")[1])["card"] == raw.card()
        assert run("verify", "raw.icq")[0] == 0
        assert run("build", "flat.npy", "--model", "raw.icq", "-o", "raw.index")[0] == 0
        assert "Linear(3 x 2 x 2 -> 8)" in run("info", "raw.index")[1]

    def test_errors(self, run: Run, raw: il.ICQ) -> None:
        fails(run("build", "images.npy", "--model", "model.icq", "-o", "no.index"), "must hold a 2-D array [rows, dim")
        fails(run("build", "x.npy", "--model", "raw.icq", "-o", "no.index"), "X has 8 features, but ICQ is")
        run("build", "flat.npy", "--model", "raw.icq", "-o", "raw.index")
        fails(run("search", "raw.index", "x.npy"), "queries must be inputs [n, 3, 2, 2] or flat rows [n, 12]")
        fails(run("search", "raw.index", "images.npy", "--embedded"), "must hold a 2-D array")
