"""``interlace fit --labels`` and ``interlace evaluate MODEL``: learning from labels on the command line."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import interlace as il
from cli_checks import fails
from helpers import clustered
from interlace.cli.joint import METHODS

pytest.importorskip("torch", reason="the train extra is not installed")

Run = Callable[..., tuple[int, str, str]]
Y = np.arange(400) % 4
X = (clustered(400, 12) + 4 * np.eye(12, dtype=np.float32)[Y]).astype(np.float32)
QUERIES, QUERY_LABELS = X[::7] + 0.01, Y[::7]
RECIPE = {"warm_up": 1, "shape": 1, "epochs": 2, "batch_size": 100}
#: Quick: few words, few epochs.
QUICK = ("--n-books", 4, "--n-words", 16, "--dim", 8, "--threads", 1, "--epochs", 2)
SETS = ("--set", "warm_up=1", "--set", "shape=1", "--set", "batch-size=100")
pytestmark = pytest.mark.filterwarnings("ignore::interlace.PriorCollapsedWarning")


def names(numbers: Any) -> list[str]:
    return [f"class {number}" for number in numbers]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Inputs and labels as users have them, and a model."""
    path = tmp_path_factory.mktemp("joint")
    for name, array in {"x": X, "y": Y, "q": QUERIES, "qy": QUERY_LABELS}.items():
        np.save(path / f"{name}.npy", array)
    np.savez(path / "both.npz", x=X, y=Y)
    (path / "y.txt").write_text("\n".join(names(Y)) + "\n")
    (path / "y.csv").write_text("row,class\n" + "".join(f"{i},{v}\n" for i, v in enumerate(Y)))
    (path / "headed.csv").write_text("class\n" + "".join(f"{v}\n" for v in Y))
    np.save(path / "images.npy", X.reshape(400, 3, 2, 2))
    fitted("icq").save(path / "model.icq")
    return path


def fitted(kind: str) -> Any:
    how = {"n_books": 4, "n_words": 16, "dim": 8, "recipe": il.Recipe(**RECIPE), "threads": 1}
    return (il.ICQ(**how) if kind == "icq" else il.quantizers.SQ(kind, **how)).fit(X, Y)


def no_file_but_the_inputs(folder: Path) -> None:
    assert not list(folder.glob("bad*"))
    assert not list(folder.glob("*.tmp"))


class TestFit:
    def test_the_model_is_the_one_that_python_learns(self, run: Run) -> None:
        code, out, err = run("fit", "x.npy", "--labels", "y.npy", *QUICK, *SETS, "-o", "a model.icq")
        assert (code, err) == (0, "")
        model, wanted = il.ICQ.load("a model.icq"), fitted("icq")
        assert model.codebooks_ == wanted.codebooks_
        np.testing.assert_array_equal(model.codes_, wanted.codes_)
        assert il.Recipe.named(model.recipe) == il.Recipe(**RECIPE)
        assert (model.threads, model.checkpoint) == (None, None)
        assert f"validation MAP  {wanted.fit_info_['validation_map']:.4f} on 40 held-out rows" in out
        assert f"{wanted.fit_info_['ops']:.2f} of 4 (exact, k = 100)" in out
        assert f"{len(model.codebooks_.crude_dims)} of 8 dimensions" in out
        assert "next: interlace evaluate 'a model.icq' QUERIES --labels QUERY_LABELS" in out

    @pytest.mark.parametrize(
        ("data", "labels", "told"),
        [
            (("x.npy",), ("y.txt",), names(range(4))),
            (("x.npy",), ("y.csv", "--labels-key", "class"), [0, 1, 2, 3]),
            (("both.npz", "--key", "x"), ("y",), [0, 1, 2, 3]),
            (("x.npy",), ("both.npz", "--labels-key", "y"), [0, 1, 2, 3]),
            (("images.npy",), ("y.npy",), [0, 1, 2, 3]),
        ],
    )
    def test_labels_and_inputs(self, data: Any, labels: Any, told: Any, run: Run) -> None:
        code, out, err = run("fit", *data, "--labels", *labels, *QUICK, *SETS, "-o", "labels.icq", "--json")
        assert (code, err) == (0, "")
        model = il.ICQ.load("labels.icq")
        assert np.unique(model.labels_).tolist() == told
        wanted = fitted("icq")
        np.testing.assert_array_equal(model.codes_, wanted.codes_)
        assert json.loads(out)["fit"]["validation_map"] == wanted.fit_info_["validation_map"]

    def test_parquet_columns(self, run: Run, folder: Path) -> None:
        pyarrow = pytest.importorskip("pyarrow", reason="the io extra is not installed")
        parquet = pytest.importorskip("pyarrow.parquet")
        whole = np.round(X * 100).astype(np.int64)
        parquet.write_table(pyarrow.table({f"f{i}": whole[:, i] for i in range(12)} | {"y": Y}), folder / "d.parquet")
        args = (*QUICK, *SETS, "-o", "parquet.icq")
        fails(run("fit", "d.parquet", "--labels", "y", *args), "is also a column of the vectors")
        assert run("fit", "d.parquet", "--key", "f*", "--labels", "y", *args)[0] == 0
        assert il.ICQ.load("parquet.icq").n_features_in_ == 12

    @pytest.mark.parametrize(("method", "kind"), [("sq+cq", "cq"), ("sq+pq", "pq")])
    def test_supervised_quantization(self, method: str, kind: str, run: Run) -> None:
        args = ("fit", "x.npy", "--labels", "y.npy", "--method", method, *QUICK, *SETS, "-o", "sq.icq")
        code, out, _ = run(*args)
        assert code == 0
        assert "none: these codebooks do not split" in out
        model = il.quantizers.SQ.load("sq.icq")
        assert model.codebooks_ == fitted(kind).codebooks_
        assert run("build", "x.npy", "--model", "sq.icq", "-o", "sq.index")[0] == 0
        assert len(il.open("sq.index")) == 400
        assert run("encode", "x.npy", "--model", "sq.icq", "-o", "sq.npy")[0] == 0
        np.testing.assert_array_equal(np.load("sq.npy"), model.codes_)
        assert run("evaluate", "sq.icq", "q.npy", "--labels", "qy.npy")[0] == 0

    def test_methods_are_those_that_learn_from_labels(self, run: Run) -> None:
        assert list(METHODS) == [name.lower() for name in il.quantizers.methods(labels=True)]
        args = ("fit", "x.npy", "--labels", "y.npy", *QUICK, *SETS, "--method", "pqn+cq", "-o", "pqn.icq")
        fails(run(*args, "--loss", "triplet"), "--method pqn+cq; it is for icq, sq+cq, sq+pq")
        assert run(*args)[0] == 0
        model = il.quantizers.PQN.load("pqn.icq")
        assert model.quantizer == "cq"
        assert run("evaluate", "pqn.icq", "q.npy", "--labels", "qy.npy")[0] == 0

    def test_settings_of_all_kinds(self, run: Run) -> None:
        chosen = ("--embedding", "mlp", "--hidden", "8,6", "--loss", "regression", "--optimize", "alternate")
        sets = ("--set", "theta=em", "--set", "standardize=no", "--set", "gamma1=1e-3", "--validation", 0.2)
        args = ("--recipe", "paper", "--device", "cpu", "--cross", "byte", "--seed", 3)
        code, _, _ = run(
            "fit", "x.npy", "--labels", "y.npy", *QUICK, *SETS, *chosen, *sets, *args, "-o", "all.icq", "--json"
        )
        assert code == 0
        params = il.ICQ.load("all.icq").get_params()
        assert [params[n] for n in ("embedding", "loss", "optimize", "validation", "cross", "seed", "device")] == [
            *("mlp", "regression", "alternate", 0.2, "byte", 3, "cpu")
        ]
        assert tuple(params["hidden"]) == (8, 6)
        wanted = il.Recipe.paper(theta="em", standardize=False, gamma1=1e-3, **RECIPE)
        assert il.Recipe.named(params["recipe"]) == wanted

    def test_checkpoint(self, run: Run, folder: Path) -> None:
        args = ("fit", "x.npy", "--labels", "y.npy", *QUICK, *SETS, "--checkpoint", "run.ckpt", "-o")
        assert run(*args, "first.icq")[0] == 0
        assert (folder / "run.ckpt").exists()
        assert run(*args, "again.icq")[0] == 0
        assert il.ICQ.load("again.icq").codebooks_ == il.ICQ.load("first.icq").codebooks_
        fails(run(*args[:-1], "--seed", 9, "-o", "bad.icq"), "is of another configuration: seed was 0, now 9")
        no_file_but_the_inputs(folder)

    def test_plot(self, run: Run, folder: Path) -> None:
        matplotlib = pytest.importorskip("matplotlib", reason="the plot extra is not installed")
        image = pytest.importorskip("matplotlib.image")
        assert matplotlib is not None
        code, out, _ = run("fit", "x.npy", "--labels", "y.npy", *QUICK, *SETS, "--plot", "fit.png", "-o", "p.icq")
        assert (code, "plot: fit.png" in out) == (0, True)
        tall = image.imread(folder / "fit.png")
        args = ("--n-bytes", 3, "--layout", "subspace", "--threads", 1, "--plot", "bare.png", "-o", "p.icq")
        assert run("fit", "x.npy", *args)[0] == 0
        assert 1.5 * len(image.imread(folder / "bare.png")) < len(tall)
        assert tall[..., :3].std() > 0.01

    def test_wrong_usage(self, run: Run, folder: Path) -> None:
        args = ("fit", "x.npy", "--labels", "y.npy", "-o", "bad.icq")
        for given, message in (
            ("pi3=1", "no field 'pi3'; its fields are pi2, alpha2, robustness, "),
            ("pi2=high", "pi2 must be a number, got 'high'"),
            ("pi2=2", "pi2 of a recipe must be "),
            ("epochs=1.5", "epochs must be an integer, got '1.5'"),
            ("rotate=maybe", "rotate must be true or false, got 'maybe'"),
            ("theta=newton", "theta of a recipe must be one of gradient, em"),
            ("pi2", "NAME=VALUE, such as pi2=0.3, got 'pi2'"),
            ("name=mine", "no field 'name'"),
        ):
            fails(run(*args, "--set", given), message, 2)
        fails(run(*args, "--validation", 1), "at least 0 and below 1, got '1'", 2)
        fails(run(*args, "--hidden", "8,x"), "positive integer, got 'x'", 2)
        fails(run(*args, "--layout", "hybrid"), "--layout cannot be combined with --labels")
        fails(run(*args, "--max-train-rows", 9), "--max-train-rows cannot be combined with --labels")
        fails(run("fit", "x.npy", "-o", "bad.icq", "--epochs", 3), "--epochs needs --labels")
        no_file_but_the_inputs(folder)

    def test_bad_input(self, run: Run, folder: Path) -> None:
        for labels, message in (
            (("qy.npy",), "'qy.npy' has 58 labels, 'x.npy' has 400 rows"),
            (("headed.csv",), "has 401 labels, 'x.npy' has 400 rows; if its first line is a header"),
            (("class",), "'x.npy' holds no named arrays; got 'class'"),
            (("gone.txt",), "there is no file 'gone.txt'"),
            (("x.npy",), "one label per row, but it has shape (400, 12)"),
        ):
            fails(run("fit", "x.npy", "--labels", *labels, "-o", "bad.icq"), message)
        fails(run("fit", "both.npz", "--labels", "z", "-o", "bad.icq"), "has no 'z'; it holds 'x', 'y'")
        fails(run("fit", "both.npz", "--labels", "y", "--labels-key", "y", "-o", "bad.icq"), "do not pass a key ('y')")
        args = ("fit", "x.npy", "--labels", "y.npy")
        fails(run(*args, "-o", "y.npy"), "is also an input")
        fails(run(*args, "--checkpoint", "gone/run", "-o", "bad.icq"), "cannot write a checkpoint to 'gone/run'")
        fails(run(*args, "--checkpoint", "q.npy", "-o", "bad.icq"), "not overwriting 'q.npy'")
        fails(run(*args, "--checkpoint", "y.npy", "-o", "bad.icq"), "is also an input")
        fails(run(*args, "--checkpoint", "./bad.icq", "-o", "bad.icq"), "--output and --checkpoint are the same file")
        fails(run(*args, "--plot", "bad.bmp", "-o", "bad.icq"), "--plot must end with .png, .pdf, .svg")
        fails(run(*args, "--embedding", "lenet", "-o", "bad.icq"), "lenet takes images")
        fails(run(*args, "--n-books", 99, "-o", "bad.icq"), "1 to 64, got 99")
        no_file_but_the_inputs(folder)

    def test_without_matplotlib_nothing_is_learned(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
        fails(run("fit", "x.npy", "--plot", "a.png", "-o", "bad.icq"), "pip install 'interlace[plot]'")


class TestCtrlC:
    @pytest.fixture
    def stop(self, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
        """Ctrl-C at the end of the epoch of this number."""
        from interlace.learn.joint.trainer import Trainer

        done = Trainer._one_epoch

        def at(number: int) -> None:
            def epoch(self: Any, phase: str) -> None:
                done(self, phase)
                if self.state.epoch == number:
                    raise KeyboardInterrupt

            monkeypatch.setattr(Trainer, "_one_epoch", epoch)

        return at

    def test_the_best_model_is_written(self, run: Run, stop: Callable[[int], None], folder: Path) -> None:
        stop(2)
        code, out, err = run("fit", "x.npy", "--labels", "y.npy", *QUICK, *SETS, "-o", "stopped.icq")
        assert code == 130
        assert err == "interlace: warning: learning was interrupted; the best epoch so far is kept\n"
        assert ", stopped by Ctrl-C" in out
        assert len(il.ICQ.load("stopped.icq").history_) == 3

    def test_before_there_are_books_nothing_is(self, run: Run, stop: Callable[[int], None], folder: Path) -> None:
        stop(1)
        fails(run("fit", "x.npy", "--labels", "y.npy", *QUICK, *SETS, "-o", "bad.icq"), "interrupted", 130)
        no_file_but_the_inputs(folder)

    def test_without_labels(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        def stopped(*_: Any) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("interlace.learn.books.refit", stopped)
        code, out, err = run("fit", "x.npy", "--layout", "residual", "--n-bytes", 3, "-o", "early.icq", "--json")
        assert (code, json.loads(out)["interrupted"]) == (130, True)
        assert "the codebooks are usable" in err
        assert il.ICQ.load("early.icq").codebooks_.n_books == 3

    @pytest.mark.parametrize(("kind", "code"), [(UserWarning, 0), (il.FitInterruptedWarning, 130)])
    def test_the_class_of_a_warning_tells_not_its_words(self, run: Run, monkeypatch: Any, kind: Any, code: int) -> None:
        fit = il.ICQ.fit

        def warned(self: Any, *args: Any) -> Any:
            warnings.warn("learning was interrupted" if kind is UserWarning else "enough", kind, stacklevel=2)
            return fit(self, *args)

        monkeypatch.setattr(il.ICQ, "fit", warned)
        how = ("--layout", "subspace", "--n-bytes", 2, "--n-words", 4)
        assert run("fit", "x.npy", *how, "-o", "warned.icq")[0] == code


class TestEvaluate:
    def test_of_a_model(self, run: Run) -> None:
        code, out, err = run("evaluate", "model.icq", "q.npy", "--labels", "qy.npy", "--at", 50, "--json")
        assert (code, err) == (0, "")
        model = il.ICQ.load("model.icq")
        told = json.loads(out)
        assert told["map"] == pytest.approx(model.score(QUERIES, QUERY_LABELS, at=None))
        assert told["map_at"] == pytest.approx(model.score(QUERIES, QUERY_LABELS, at=50))
        assert (told["queries"], told["rows"], told["at"], told["k"], told["float_map"]) == (58, 400, 50, 100, None)
        assert told["agreement"] > 0.98

    def test_margins(self, run: Run) -> None:
        exact, paper = (
            json.loads(
                run("evaluate", "model.icq", "q.npy", "--labels", "qy.npy", "--margin", m, "-k", 10, "--json")[1]
            )
            for m in ("exact", "paper")
        )
        model = il.ICQ.load("model.icq")
        index = il.Index.from_codes(model.codebooks_, model.codes_)
        for told, margin in ((exact, "exact"), (paper, "paper")):
            found = index.search(model.embed(QUERIES), 10, margin=margin)
            assert told["ops_per_vector"] == pytest.approx(found.stats.ops_per_vector)
        assert exact["agreement"] == 1
        assert exact["map"] == paper["map"]

    def test_other_rows(self, run: Run, folder: Path) -> None:
        np.save(folder / "half.npy", X[:200])
        np.save(folder / "halfy.npy", Y[:200])
        args = ("evaluate", "model.icq", "q.npy", "--labels", "qy.npy")
        code, out, _ = run(*args, "--vectors", "half.npy", "--vectors-labels", "halfy.npy")
        assert code == 0
        model = il.ICQ.load("model.icq")
        assert f"MAP             {model.score(QUERIES, QUERY_LABELS, X[:200], Y[:200], at=None):.4f}" in out
        ranked = il.evaluate.map_of_ranking(model.embed(QUERIES), model.embed(X[:200]), QUERY_LABELS, Y[:200])
        assert f"without codes   MAP {ranked['map']:.4f}" in out
        same = json.loads(run(*args, "--vectors", "x.npy", "--json")[1])
        assert same["map"] == pytest.approx(model.score(QUERIES, QUERY_LABELS, at=None))
        fails(run(*args, "--vectors", "half.npy"), "has labels of 400 rows, 'half.npy' has 200 rows")
        fails(run(*args, "--vectors-labels", "y.npy"), "--vectors-labels needs --vectors")

    def test_some_of_the_queries(self, run: Run) -> None:
        args = ("evaluate", "model.icq", "--queries", "q.npy", "--labels", "qy.npy", "--sample", 9, "--json")
        first, again, other = (json.loads(run(*args, "--seed", seed)[1]) for seed in (0, 0, 1))
        assert first == again
        assert (first["queries"], first["map"] != other["map"]) == (9, True)

    def test_errors(self, run: Run, folder: Path) -> None:
        fails(run("evaluate", "model.icq", "q.npy"), "is a model: pass queries and their labels")
        fails(run("evaluate", "model.icq", "--labels", "qy.npy"), "is a model: pass queries and their labels")
        fails(run("evaluate", "model.icq", "q.npy", "--labels", "y.npy"), "has 400 labels, 'q.npy' has 58 rows")
        (folder / "words.txt").write_text("\n".join(names(QUERY_LABELS)))
        fails(run("evaluate", "model.icq", "q.npy", "--labels", "words.txt"), "they never equal")
        args = ("evaluate", "model.icq", "q.npy", "--labels", "qy.npy")
        fails(run(*args, "--truth", "q.npy"), "--truth is for indexes")
        fails(run(*args, "--embedded"), "--embedded is for indexes")
        fails(run(*args, "--queries", "q.npy"), "queries are given twice")
        il.ICQ(2, layout="subspace", n_words=16).fit(X).save(folder / "bare.icq")
        fails(run("evaluate", "bare.icq", "q.npy", "--labels", "qy.npy"), "was fitted without labels")
        assert run("build", "x.npy", "--n-bytes", 2, "-o", "x.index")[0] == 0
        fails(run("evaluate", "x.index", "q.npy", "--labels", "qy.npy"), "--labels is for models")
        fails(run("evaluate", "x.index", "q.npy", "--at", 5), "--at is for models")

    def test_queries_of_an_index(self, run: Run) -> None:
        assert run("build", "x.npy", "--n-bytes", 2, "-o", "x.index")[0] == 0
        one, other = (
            json.loads(run("evaluate", "x.index", *how, "--vectors", "x.npy", "--json")[1])
            for how in (("q.npy",), ("--queries", "q.npy"))
        )
        assert one["recall@10"] == other["recall@10"]


def test_info_prints_the_card(run: Run) -> None:
    code, out, _ = run("info", "model.icq")
    assert code == 0
    assert il.ICQ.load("model.icq").card().rstrip() in out
    assert "| validation_map | " in out


def test_warnings_are_lines_like_errors(run: Run, folder: Path) -> None:
    np.save(folder / "odd.npy", np.where(np.arange(len(QUERY_LABELS)) < 3, 77, QUERY_LABELS))
    code, out, err = run("evaluate", "model.icq", "q.npy", "--labels", "odd.npy")
    assert code == 0
    assert "MAP" in out
    assert err == (
        f"interlace: warning: 3 of {len(QUERY_LABELS)} queries have a label that no row of the database has (77): "
        "their average precision is 0\n"
    )


def test_a_model_of_an_unknown_kind(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(il.ICQ, "name_in_files", "DQ")
    fitted("icq").save(folder / "dq.icq")
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    fails(run("encode", "x.npy", "--model", "dq.icq", "-o", "c.npy"), "holds a model of 'DQ'")
