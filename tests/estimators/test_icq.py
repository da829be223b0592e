"""What the estimator promises: scikit-learn's calls, the same bytes for a seed, errors that leave it as it was."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import interlace as il
from helpers import clustered
from interlace.errors import FewRowsWarning
from interlace.learn.prior import Prior
from interlace.learn.recipe import Joint
from interlace.learn.settings import Settings
from interlace.progress import Bar, as_progress
from raising import raises

X = clustered(700, 8, seed=1)
QUICK: dict[str, Any] = {"n_bytes": 4, "iterations": 2, "threads": 1}


def saved(index: il.Index, path: Path) -> bytes:
    index.save(path)
    return path.read_bytes()


# --- the calls --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["subspace", "hybrid", "residual"])
@pytest.mark.parametrize("metric", ["l2", "ip", "cosine"])
def test_fit_encode_decode_transform(layout: str, metric: str) -> None:
    model = il.ICQ(**QUICK, layout=layout, metric=metric)
    assert model.fit(X) is model
    codes = model.encode(X)
    assert codes.dtype == np.uint8
    assert codes.shape == (700, 4)
    decoded = model.decode(codes)
    assert decoded.dtype == np.float32
    np.testing.assert_array_equal(decoded, model.transform(X))
    np.testing.assert_array_equal(decoded, model.codebooks_.decode(codes))
    target = X / np.linalg.norm(X, axis=1, keepdims=True) if metric == "cosine" else X
    assert ((decoded - target) ** 2).sum(1).mean() < 0.1 * target.var(0).sum()
    assert (model.n_features_in_, model.choice_.layout, model.codebooks_.metric) == (8, layout, metric)


def test_codes_that_are_none() -> None:
    model = il.ICQ(**QUICK, n_words=16).fit(X)
    for codes in (np.zeros((3, 5), np.uint8), np.zeros(4, np.uint8), np.zeros((3, 4), np.int64), [[0.5] * 4]):
        with raises(il.InputError, "codes", "uint8", "[n, 4]"):
            model.decode(codes)
    with pytest.raises(il.InputError, match=r"codes\[0, 2\].*16.*16"):
        model.decode(np.array([[0, 0, 16, 0]], np.uint8))
    assert model.decode(np.zeros((0, 4), np.uint8)).shape == (0, 8)


def test_effort_of_encode() -> None:
    model = il.ICQ(5, layout="residual", iterations=2, threads=1, n_words=64).fit(clustered(1500, 16, seed=2))
    x = clustered(500, 16, seed=2)
    errors = [((model.decode(model.encode(x, effort=e)) - x) ** 2).sum(1).mean() for e in ("fast", "balanced", "best")]
    assert errors[0] > errors[1] > errors[2]
    with raises(il.InputError, "effort", "fastest", "fast", "balanced", "best", "'most'"):
        model.encode(x, effort="most")


@pytest.mark.parametrize("layout", ["subspace", "hybrid", "residual", "auto"])
def test_an_index_of_the_same_rows_has_the_bytes_of_build(layout: str, tmp_path: Path) -> None:
    x = clustered(2500, 6)  # enough for rows to be held out
    model = il.ICQ(**QUICK, layout=layout, seed=5).fit(x)
    built = saved(il.Index.build(x, **QUICK, layout=layout, seed=5), tmp_path / "a")
    assert saved(model.index(x), tmp_path / "b") == built
    model.save(tmp_path / "model")
    assert saved(il.ICQ.load(tmp_path / "model").index(x), tmp_path / "c") == built
    assert saved(pickle.loads(pickle.dumps(model)).index(x), tmp_path / "d") == built
    other = model.index(x[:100], ids=[f"r{i}" for i in range(100)])
    assert len(other) == 100
    assert "r7" in other


@pytest.mark.parametrize("layout", ["subspace", "hybrid"])
def test_save_load_pickle(layout: str, tmp_path: Path) -> None:
    model = il.ICQ(np.int64(4), layout=layout, iterations=2, max_memory="1GB", threads=1).fit(X)  # type: ignore[arg-type]
    model.save(tmp_path / "m")
    for again in (il.ICQ.load(tmp_path / "m"), pickle.loads(pickle.dumps(model))):
        assert again.codebooks_ == model.codebooks_
        assert again.get_params() == model.get_params()
        assert (again.choice_, again.prior_) == (model.choice_, model.prior_)
        np.testing.assert_array_equal(again.encode(X), model.encode(X))
    assert il.Codebooks.load(tmp_path / "m") == model.codebooks_
    unfitted = pickle.loads(pickle.dumps(il.ICQ(3)))
    assert unfitted.get_params() == il.ICQ(3).get_params()
    model.index(X).save(tmp_path / "i")
    with raises(il.NotAnIndexError, "'index'"):
        il.ICQ.load(tmp_path / "i")


def test_before_fit() -> None:
    model = il.ICQ()
    for call in (model.encode, model.decode, model.transform, model.index, model.save):
        with raises(il.NotFittedError, "ICQ"):
            call(X)  # type: ignore[operator]


def test_parameters_and_repr() -> None:
    model = il.ICQ(4, layout="hybrid", seed=3)
    assert repr(model) == "ICQ(n_bytes=4, layout='hybrid', seed=3)"
    assert model.set_params(seed=4, metric="ip") is model
    assert model.get_params()["seed"] == 4
    with pytest.raises(il.InputError, match="Invalid parameter 'sed'"):
        model.set_params(sed=1)
    names = {*Settings.__dataclass_fields__}
    with_labels = {*Joint.__dataclass_fields__} - {"kind"}
    assert {*model.get_params(deep=False)} == names | with_labels | {"progress", "supervised"}


def test_the_prior_is_kept_where_it_splits() -> None:
    assert isinstance(il.ICQ(**QUICK, layout="subspace").fit(X).prior_, Prior)
    assert il.ICQ(**QUICK, layout="hybrid").fit(X).prior_ is None
    assert il.ICQ(**QUICK, layout="residual").fit(X).prior_ is None


# --- the same bytes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["subspace", "hybrid", "residual", "auto"])
def test_same_seed_same_bytes_for_threads_and_kinds_of_input(layout: str, tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    x = clustered(4600 if layout == "auto" else 2100, 8, seed=4)
    pq.write_table(pa.table({"v": pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), 8)}), tmp_path / "x.parquet")
    settings = QUICK | {"layout": layout, "seed": 1}
    built = saved(il.Index.build(x, **settings), tmp_path / "a")
    for name, given, threads in (
        ("b", x, 2),
        ("c", (x[i : i + 700] for i in range(0, len(x), 700)), 1),
        ("d", il.data.read_vectors(tmp_path / "x.parquet"), 1),
        ("e", x.astype(np.float64), 1),
    ):
        assert saved(il.Index.build(given, **settings | {"threads": threads}), tmp_path / name) == built, name
    assert saved(il.Index.build(x, **settings | {"seed": 2}), tmp_path / "f") != built


# --- interrupts and errors --------------------------------------------------------------------------------------------


class Interrupt:
    """A progress that presses Ctrl-C when something is done for the n-th time."""

    def __init__(self, at: str, times: int = 1) -> None:
        self.at, self.left = at, times

    def __call__(self, what: str, done: float) -> None:
        assert 0 <= done <= 1
        self.left -= self.at in what
        if self.left == 0:
            self.left = -1
            raise KeyboardInterrupt


@pytest.mark.parametrize("layout", ["hybrid", "residual"])
@pytest.mark.parametrize("step", [1, 3])
def test_an_interrupt_of_the_alternation_leaves_a_model(layout: str, step: int) -> None:
    model = il.ICQ(4, layout=layout, iterations=5, threads=1, progress=Interrupt("refit", step))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X)
    assert [w.category for w in caught] == [il.FitInterruptedWarning]
    assert "not converged" in str(caught[0].message)
    assert caught[0].filename == __file__
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("interlace.learn.books.refit_rounds", lambda *given: (step - 1, 0))
        shorter = il.ICQ(4, layout=layout, threads=1).fit(X)
    assert model.codebooks_ == shorter.codebooks_


@pytest.mark.parametrize(
    ("layout", "at"), [("hybrid", "book"), ("subspace", "book"), ("auto", "trying"), ("auto", "book")]
)
def test_an_earlier_interrupt_leaves_the_estimator_as_it_was(
    layout: str, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlace.learn.layout_rules.COMPARE_FROM", 4000)
    x = clustered(4700, 6)
    settings = {"n_bytes": 3, "layout": layout, "iterations": 1, "threads": 1}
    model = il.ICQ(**settings, progress=Interrupt(at, 2))  # type: ignore[arg-type]
    with pytest.raises(KeyboardInterrupt):
        model.fit(x)
    assert not hasattr(model, "codebooks_")
    model.fit(x)  # it fires once
    before = model.codebooks_
    model.progress = Interrupt(at)
    with pytest.raises(KeyboardInterrupt):
        model.fit(x[:4600])
    assert model.codebooks_ is before


def test_an_interrupt_inside_a_trial_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trials say nothing, so Ctrl-C comes from inside the alternation."""
    monkeypatch.setattr("interlace.learn.layout_rules.COMPARE_FROM", 4000)

    def pressed(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("interlace.learn.books.refit", pressed)
    model = il.ICQ(3, iterations=1, threads=1)
    with pytest.raises(KeyboardInterrupt):
        model.fit(clustered(4700, 6))
    assert not hasattr(model, "codebooks_")


@pytest.mark.parametrize("at", ["learning: refit", "learning: book", "coding", "calibrating"])
def test_build_raises_the_interrupt(at: str) -> None:
    with pytest.raises(KeyboardInterrupt):
        il.Index.build(X, **QUICK, layout="hybrid", progress=Interrupt(at))


@pytest.mark.parametrize(
    ("x", "params"),
    [
        (np.full((5, 8), np.nan), {}),
        (X[:, :0], {}),
        (X, {"layout": "cubic"}),
        (X, {"max_memory": 1000}),
        (np.zeros((9, 8)), {"metric": "cosine"}),
    ],
)
def test_after_an_error_the_earlier_fit_stands(x: Any, params: dict[str, Any]) -> None:
    model = il.ICQ(**QUICK).fit(X)
    before = {name: value for name, value in vars(model).items() if name.endswith("_") or name.startswith("_")}
    with pytest.raises(il.InputError):
        model.set_params(**params).fit(x)
    assert all(vars(model)[name] is value for name, value in before.items())


def test_labels_that_are_none_are_refused() -> None:
    pytest.importorskip("torch", reason="the train extra is not installed")
    with raises(il.InputError, "labels", "float64"):
        il.ICQ().fit(X, np.arange(len(X)) / 2)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"layout": "cubic"}, "layout.*auto, subspace, hybrid, residual.*'cubic'"),
        ({"n_bytes": 4, "n_books": 4}, "n_bytes.*n_books"),
        ({"n_bytes": 8.0}, "n_bytes.*8.0"),
        ({"n_bytes": True}, "n_bytes.*True"),
        ({"n_bytes": 129}, "n_bytes.*128.*129"),
        ({"n_words": 1}, "n_words.*2 to 256.*1"),
        ({"n_words": 257}, "n_words.*2 to 256.*257"),
        ({"n_bytes": 4, "n_crude": 5}, "n_crude.*1 to 4.*5"),
        ({"n_crude": "few"}, "n_crude.*'few'"),
        ({"n_bytes": 4, "n_crude": 4, "layout": "subspace"}, "n_crude=4.*3"),
        ({"n_bytes": 4, "n_crude": 4, "layout": "hybrid", "cross": "none"}, "n_crude=4"),
        ({"n_bytes": 4, "n_crude": 4, "cross": "none"}, "n_crude=4"),
        ({"cross": "byte", "metric": "ip"}, "cross='byte'.*ip"),
        ({"cross": "byte", "n_bytes": 3}, "cross='byte'.*4.*n_bytes=3"),
        ({"cross": "some"}, "cross.*auto, none, exact, byte.*'some'"),
        ({"layout": "residual", "cross": "none"}, "residual.*cross='none'"),
        ({"layout": "residual", "rotation": "principal"}, "residual.*rotation='principal'"),
        ({"layout": "hybrid", "rotation": "learned"}, "rotation='learned'.*subspace.*hybrid"),
        ({"rotation": "learned"}, "rotation='learned'.*subspace.*auto"),
        (
            {"layout": "subspace", "rotation": "learned", "cross": "exact"},
            "rotation='learned'.*product books",
        ),
        ({"rotation": "random"}, "rotation.*auto, principal, learned, none.*'random'"),
        ({"prior": "mcmc"}, "prior.*em, gradient.*'mcmc'"),
        ({"metric": "l1"}, "metric.*l2, ip, cosine.*'l1'"),
        ({"effort": "most"}, "effort.*fastest, fast, balanced, best.*'most'"),
        ({"effort": None}, "effort.*fastest, fast, balanced, best.*None"),
        ({"iterations": -1}, "iterations.*0.*-1"),
        ({"seed": -1}, "seed.*0.*-1"),
        ({"threads": 0}, "threads.*positive.*0"),
        ({"max_train_rows": 0}, "max_train_rows.*positive.*0"),
        ({"max_memory": "lots"}, "max_memory.*bytes"),
        ({"progress": "yes"}, "progress.*'yes'"),
    ],
)
def test_settings_that_cannot_be(params: dict[str, Any], message: str) -> None:
    def never() -> Any:
        raise AssertionError("settings are checked before the rows are read")
        yield

    with pytest.raises(il.InputError, match=message):
        il.ICQ(**params).fit(never())
    with pytest.raises(il.InputError, match=message):
        il.Index.build(never(), **params)


def test_an_unknown_setting_of_build() -> None:
    with pytest.raises(TypeError, match=r"Index.build\(\).* 'n_byte'"):
        il.Index.build(X, n_byte=4)


def test_memory_that_is_too_little() -> None:
    with pytest.raises(il.InputError, match="700 rows.*8 dimensions.*max_memory"):
        il.ICQ(max_memory=50_000).fit(X)
    x = clustered(40_000, 32)
    settings: dict[str, Any] = {"n_bytes": 4, "n_words": 16, "iterations": 1, "layout": "hybrid", "threads": 1}
    learned = il.ICQ(**settings, max_memory="20MB").fit(x)
    assert 1000 < len(learned.sample_) < 38_000


def few_rows(call: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    assert all(w.category is FewRowsWarning and w.filename == __file__ for w in caught)
    return [str(w.message) for w in caught]


@pytest.mark.parametrize("layout", ["subspace", "hybrid", "residual", "auto"])
def test_few_rows_warn_once(layout: str) -> None:
    text = ["60 rows to learn from are fewer than 256 words: books hold at most 60 words"]
    assert few_rows(lambda: il.ICQ(12, layout=layout, iterations=1).fit(X[:60])) == text
    assert few_rows(lambda: il.Index.build(X[:60], n_bytes=12, layout=layout, iterations=1)) == text
    assert few_rows(lambda: il.Neighbors(n_bytes=12, layout=layout).fit(X[:60])) == text
    assert few_rows(lambda: il.ICQ(4, layout=layout, iterations=1).fit(X)) == []


@pytest.mark.parametrize(("layout", "most"), [("subspace", 8), ("hybrid", 9), ("auto", 9)])
def test_more_product_books_than_dimensions_warn_once(layout: str, most: int) -> None:
    model = il.ICQ(12, layout=layout, iterations=1)
    assert few_rows(lambda: model.fit(X)) == [f"12 product books do not fit 8 dimensions: there will be {most}"]
    assert model.codebooks_.n_books == most
    additive = il.ICQ(12, layout=layout, iterations=1, cross="exact")
    assert few_rows(lambda: additive.fit(X)) == []
    assert additive.codebooks_.n_books == 12


# --- progress ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["subspace", "hybrid", "residual"])
def test_progress_goes_up(layout: str) -> None:
    seen: list[float] = []
    il.Index.build(X, **QUICK, layout=layout, progress=lambda what, done: seen.append(done))
    assert seen == sorted(seen)
    assert (seen[0], seen[-1]) == (0.0, 1.0)


def test_a_bar(capsys: pytest.CaptureFixture[str]) -> None:
    il.ICQ(**QUICK, layout="hybrid", progress=True).fit(X)
    text = capsys.readouterr().err
    assert text.count("\r") >= 6
    assert "book 1 of 4" in text
    assert "refit 2 of 2" in text
    assert isinstance(as_progress(True), Bar)
    il.ICQ(**QUICK, layout="hybrid", progress="auto").fit(X)  # not a terminal
    assert capsys.readouterr().err == ""
