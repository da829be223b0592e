"""What every registered quantizer promises; a method is here as soon as it is registered."""

from __future__ import annotations

import copy
import functools
import importlib.util
import math
import os
import pickle
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

import interlace as il
from interlace.errors import FewRowsWarning
from interlace.index.parts import Parts
from interlace.paper.plugins import load_plugin
from interlace.quantizers import method, methods
from joint_data import SHORT, labelled
from raising import raises

for plugin in filter(None, os.environ.get("INTERLACE_PLUGINS", "").split(os.pathsep)):
    load_plugin(plugin)

X, Y = labelled(700, 12)
QUERIES, WANTED = labelled(40, 12, seed=1)
#: Settings that make a fit quick, of those that have them.
SMALL = {"n_words": 16, "iterations": 4, "n_cells": 6, "n_levels": 4}
ALL, PLAIN = tuple(methods()), tuple(methods(labels=False))
with_every_method = pytest.mark.parametrize("name", ALL)
with_plain_methods = pytest.mark.parametrize("name", PLAIN)


def made(name: str, n_books: int = 4, **changes: Any) -> Any:
    """An estimator that is quick to fit, by what the registry promises of every method."""
    entry = method(name)
    settings: dict[str, Any] = {"n_books": n_books, "seed": 0, "threads": 1, "progress": False}
    if entry.labels:
        if importlib.util.find_spec("torch") is None:
            pytest.skip("the train extra is not installed")
        settings |= {"embedding": "linear", "dim": 8, "recipe": il.Recipe(**SHORT)}
    model = entry.make(**settings)
    known = model.get_params()
    small = {key: value for key, value in SMALL.items() if key in known and not (entry.labels and key == "iterations")}
    return model.set_params(**small | changes)


def fit(model: Any, name: str, x: Any = X, y: Any = Y) -> Any:
    return model.fit(x, y) if method(name).labels else model.fit(x)


@functools.cache
def fitted(name: str, n_books: int = 4) -> Any:
    """Fitted once; tests leave it as it is."""
    model = made(name, n_books)
    assert fit(model, name) is model
    return model


def error(model: Any, x: Any = X, codes: Any = None) -> float:
    z = model.embed(x).astype(np.float64)
    return float(((model.decode(model.encode(x) if codes is None else codes) - z) ** 2).sum(1).mean())


def constant_errors(codebooks: Any, codes: NDArray[np.uint8]) -> NDArray[np.float64]:
    """What a norm in place of the true cross terms adds to the distance of each row, in plain loops."""
    out = np.zeros(len(codes))
    if isinstance(codebooks, Parts):
        assert not any(part.norms for part in codebooks.codebooks)
        return out
    for row, code in enumerate(codes):
        words = np.zeros((codebooks.n_books, codebooks.dim))
        for position, column in enumerate((0, *codebooks.columns)):
            if column >= 0:
                words[column, codebooks.books[column].support] = codebooks.books[column].words[code[position]]
        for i, norm in enumerate(codebooks.norms):
            stored = code[1 + codebooks.columns.index(-1 - i)] if norm.stored else 0
            true = sum(2 * words[a] @ words[b] for a in norm.covers for b in norm.covers if a < b)
            out[row] += norm.values[stored] - true
    return out


# --- fit, encode, decode ----------------------------------------------------------------------------------------------


@with_every_method
def test_codes_and_what_they_stand_for(name: str) -> None:
    model = fitted(name)
    codes = model.encode(X)
    assert (codes.dtype, codes.shape) == (np.uint8, (700, 4))
    assert model.codebooks_.n_bytes == 4
    assert model.n_features_in_ == 12
    decoded = model.decode(codes)
    assert (decoded.dtype, decoded.shape) == (np.float32, model.embed(X).shape)
    assert np.isfinite(decoded).all()
    assert_array_equal(model.transform(X), decoded)
    assert (codes.max(0) < model.codebooks_.column_sizes).all()
    assert len(np.unique(codes, axis=0)) > 100
    rows = np.arange(0, 700, 7)
    assert_array_equal(model.encode(X[rows]), codes[rows])
    assert_array_equal(model.encode(X[3:4])[0], codes[3])
    assert model.decode(np.zeros((0, 4), np.uint8)).shape == (0, decoded.shape[1])


@with_every_method
def test_codes_are_nearer_than_the_mean_and_than_other_codes(name: str) -> None:
    model = fitted(name)
    z = model.embed(X).astype(np.float64)
    codes, rng = model.encode(X), np.random.default_rng(0)
    assert error(model) < 0.75 * z.var(0).sum()
    assert error(model) < 0.75 * error(model, codes=rng.permutation(codes))
    for column in range(4):  # every byte says something
        changed = codes.copy()
        changed[:, column] = rng.permutation(codes[:, column])
        assert error(model, codes=changed) > error(model) or len(np.unique(codes[:, column])) == 1


@with_plain_methods
def test_more_books_and_more_words_code_better(name: str) -> None:
    errors = [error(fitted(name, n_books)) for n_books in (3, 5, 8)]
    assert errors[0] > errors[1] > errors[2]
    assert error(made(name, n_words=64).fit(X)) < error(fitted(name))


@with_every_method
def test_the_same_seed_gives_the_same_bytes(name: str) -> None:
    again = fit(made(name), name)
    assert again.codebooks_ == fitted(name).codebooks_
    assert_array_equal(again.encode(X), fitted(name).encode(X))


@with_plain_methods
def test_threads_change_nothing_and_seeds_do(name: str, tmp_path: Path) -> None:
    two = made(name).set_params(threads=2).fit(X)
    assert two.codebooks_ == fitted(name).codebooks_
    assert_array_equal(two.encode(X), fitted(name).encode(X))
    assert made(name).set_params(seed=1).fit(X).codebooks_ != fitted(name).codebooks_


@with_plain_methods
def test_labels_are_accepted_and_ignored(name: str) -> None:
    assert made(name).fit(X, Y).codebooks_ == fitted(name).codebooks_


@with_plain_methods
def test_only_a_sample_is_learned_from(name: str) -> None:
    model = made(name, max_train_rows=200).fit(X)
    assert len(model.sample_) == 200
    assert model.codebooks_ != fitted(name).codebooks_


# --- search -----------------------------------------------------------------------------------------------------------


@with_every_method
def test_the_exhaustive_scan_ranks_by_the_documented_distance(name: str) -> None:
    """That to the decoded vectors; with a norm, its value stands for the cross terms of the books it covers."""
    model = fitted(name)
    codes, z = model.encode(X), model.embed(QUERIES).astype(np.float64)
    decoded = model.decode(codes).astype(np.float64)
    oracle = np.stack([((q - decoded) ** 2).sum(1) for q in z]) + constant_errors(model.codebooks_, codes)
    close = 2e-3 * float(np.abs(oracle).mean())  # rounding of terms to int16
    index = model.index(X)
    assert len(index) == 700
    found = index.search(QUERIES, 700, margin=math.inf)
    assert (found.counts == 700).all()
    assert_array_equal(np.sort(found.ids, 1), np.tile(np.arange(700), (40, 1)))
    ranked = np.maximum(np.take_along_axis(oracle, found.ids, 1), 0)  # none is reported below 0
    assert_allclose(found.distances, ranked, rtol=0, atol=close)
    assert (np.diff(found.distances, axis=1) >= 0).all()
    best = index.search(QUERIES, 10, margin=math.inf)
    assert_array_equal(best.distances, found.distances[:, :10])
    assert (np.take_along_axis(oracle, best.ids, 1) <= np.sort(oracle, 1)[:, 9:10] + 2 * close).all()


@with_every_method
def test_exact_is_exhaustive(name: str) -> None:
    index = fitted(name).index(X, ids=[f"row {i}" for i in range(700)])
    everything, exact = index.search(QUERIES, 7, margin=math.inf), index.search(QUERIES, 7, margin="exact")
    assert_array_equal(exact.ids, everything.ids)
    assert_array_equal(exact.distances, everything.distances)
    assert exact.stats.survivors <= everything.stats.survivors == 40 * 700
    assert (exact.stats.queries, exact.stats.rows, exact.stats.margin) == (40, 700, "exact")
    single = index.search(QUERIES[0], 7, margin="exact")
    assert_array_equal(single.ids, exact.ids[0])
    assert isinstance(single.counts, int)
    assert all(isinstance(i, str) and i in index for i in single.ids)


@with_every_method
def test_every_margin_answers(name: str) -> None:
    index = fitted(name).index(X)
    truth = index.search(QUERIES, 5, margin=math.inf).ids
    for margin in ("paper", 0.9, 0.999):
        found = index.search(QUERIES, 5, margin=margin)
        assert np.mean([len(set(a) & set(b)) / 5 for a, b in zip(found.ids, truth, strict=True)]) > 0.7
    with pytest.raises(il.InputError, match="margin must be"):
        index.search(QUERIES, 5, margin="most")
    with pytest.raises(il.InputError, match="queries has 3 dimensions|must be inputs"):
        index.search(QUERIES[:, :3])


@with_every_method
def test_the_bytes_of_an_index(name: str) -> None:
    model = fitted(name)
    x = np.concatenate([X] * 20)
    report = model.index(x).report()
    assert (report.rows, report.n_bytes) == (len(x), 4)
    assert report.code_bytes_per_vector < 5.0  # the books, a quarter for row numbers, and the bounds of small cells
    assert report.code_bytes_per_vector > 3.0


@with_every_method
def test_scores(name: str) -> None:
    model = fitted(name)
    score = model.score(QUERIES, WANTED, X, Y)
    shuffled = np.random.default_rng(0).permutation(Y)
    assert 1 >= score > model.score(QUERIES, WANTED, X, shuffled) + 0.1
    assert model.score(QUERIES, WANTED, X, Y, at=None) > 0.25


# --- files, clones ----------------------------------------------------------------------------------------------------


@with_every_method
def test_save_load_pickle_copy(name: str, tmp_path: Path) -> None:
    model = fitted(name)
    model.save(tmp_path / "m")
    cls = type(model)
    for again in (cls.load(tmp_path / "m"), pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert again.codebooks_ == model.codebooks_
        assert_array_equal(again.encode(X), model.encode(X))
        assert {k: v for k, v in again.get_params().items() if k != "progress"} == {
            k: v for k, v in model.get_params().items() if k != "progress"
        }
        found, before = (one.index(X).search(QUERIES, 3) for one in (again, model))
        assert_array_equal(found.ids, before.ids)
        assert again.card() == model.card()
        again.save(tmp_path / "n")
        assert (tmp_path / "n").read_bytes() == (tmp_path / "m").read_bytes()
    assert f"# {cls.name_in_files} model" in model.card()
    assert "4 bytes (32 bits) per vector" in model.card()


@with_every_method
def test_clone_and_parameters(name: str) -> None:
    base = pytest.importorskip("sklearn.base", reason="scikit-learn is not installed")
    model = fitted(name)
    fresh = base.clone(model)
    assert not hasattr(fresh, "codebooks_")
    assert fresh.get_params() == model.get_params()
    assert fresh.set_params(seed=5) is fresh
    assert (fresh.seed, model.seed) == (5, 0)
    with pytest.raises(il.InputError, match="Invalid parameter 'n_bok'"):
        fresh.set_params(n_bok=3)
    with pytest.raises(il.NotFittedError, match="not fitted yet"):
        fresh.encode(X)


# --- input that is wrong, few or odd ----------------------------------------------------------------------------------


@with_every_method
def test_wrong_rows_are_refused(name: str) -> None:
    model, broken = fitted(name), X.copy()
    broken[17, 3] = np.nan
    with raises(il.InputError, "[17, 3]", "nan"):
        fit(made(name), name, broken)
    with raises(il.InputError, "[17, 3]", "nan"):
        model.encode(broken)
    with raises(il.InputError, "X", 11):
        model.encode(X[:, :11])
    for wrong in (np.zeros((0, 12)), np.zeros((5, 0)), np.zeros(12)):
        with pytest.raises(il.InputError):
            fit(made(name), name, wrong, Y[: len(wrong)])
    for codes in (np.zeros((3, 5), np.uint8), np.zeros((3, 4), np.int64)):
        with raises(il.InputError, "codes", "uint8", "[n, 4]"):
            model.decode(codes)
    with pytest.raises(il.InputError, match=r"codes\[\d, \d\].*255"):
        model.decode(np.full((3, 4), 255, np.uint8))


@with_plain_methods
def test_a_fit_that_fails_changes_nothing(name: str) -> None:
    model = copy.deepcopy(fitted(name))
    with pytest.raises(il.InputError):
        model.fit(np.full((9, 12), np.inf))
    assert_array_equal(model.encode(X), fitted(name).encode(X))


def _warnings(call: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    assert all(w.category is FewRowsWarning and w.filename == __file__ for w in caught)
    return [str(w.message) for w in caught]


@with_plain_methods
def test_few_rows_warn_once(name: str) -> None:
    model = made(name, n_words=64)
    (text,) = _warnings(lambda: model.fit(X[:30]))
    assert [*map(int, re.findall(r"\d+", text))] == [30, 64, 30]
    assert error(model, X[:30]) < X[:30].var(0).sum()
    assert _warnings(lambda: made(name).fit(X)) == []


@with_plain_methods
def test_more_books_than_dimensions_warn_once(name: str) -> None:
    model = made(name, n_books=9)
    (text,) = _warnings(lambda: model.fit(X[:, :3]))
    asked, dim, used = map(int, re.findall(r"\d+", text))
    assert (asked, dim) == (9, 3)
    assert model.name_in_files in text
    assert model.codebooks_.n_bytes == used < 9


@pytest.mark.parametrize(
    "kind", ["one dimension", "constant columns", "duplicates", "equal rows", "one row", "integers", "far away"]
)
@with_plain_methods
def test_odd_data(name: str, kind: str) -> None:
    rng = np.random.default_rng(3)
    x = {
        "one dimension": X[:, :1],
        "constant columns": np.where(np.arange(12) % 3 == 0, np.float32(5), X),
        "duplicates": X[rng.integers(0, 9, 300)],
        "equal rows": np.repeat(X[:1], 50, 0),
        "one row": X[:1],
        "integers": rng.integers(0, 255, (300, 6), dtype=np.uint8),
        "far away": X + np.float32(1000),
    }[kind]
    model = made(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FewRowsWarning)
        model.fit(x)
    decoded = model.transform(x)
    assert np.isfinite(decoded).all()
    spread = float(np.asarray(x, np.float64).var(0).sum())
    assert error(model, x) <= 0.8 * spread + 1e-4
    if kind in ("duplicates", "equal rows", "one row"):  # no more distinct rows than words
        assert error(model, x) <= 0.01 * spread + 1e-6 * float((np.asarray(x, np.float64) ** 2).sum(1).mean())
    index, k = model.index(x), min(5, len(x))
    exact, everything = index.search(x[:9], k, margin="exact"), index.search(x[:9], k, margin=math.inf)
    assert_array_equal(exact.ids, everything.ids)
    assert_array_equal(exact.distances, everything.distances)


@pytest.mark.parametrize("scale", [1e-3, 1e3])
@with_plain_methods
def test_the_scale_of_the_data_does_not_matter(name: str, scale: float) -> None:
    model = made(name).fit(X * np.float32(scale))
    assert_allclose(error(model, X * np.float32(scale)) / scale**2, error(fitted(name)), rtol=0.02)


@with_plain_methods
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_books": 0}, "n_books.*positive.*0"),
        ({"n_books": 129}, r"n_books.*\d to 128.*129"),
        ({"n_words": 1}, "n_words.*2 to 256.*1"),
        ({"n_words": 257}, "n_words.*2 to 256.*257"),
        ({"n_crude": 5}, "n_crude.*1 to 4.*5"),
        ({"iterations": -1}, "iterations.*0.*-1"),
        ({"max_train_rows": 0}, "max_train_rows.*positive.*0"),
        ({"seed": -1}, "seed.*0.*-1"),
        ({"threads": 0}, "threads must be"),
        ({"progress": 3}, "progress must be"),
    ],
)
def test_wrong_settings_are_named(name: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(il.InputError, match=message):
        made(name, **settings).fit(X)


@with_plain_methods
def test_crude_books(name: str) -> None:
    truth = fitted(name).index(X).search(QUERIES, 5, margin=math.inf)
    for n_crude in (1, 2, 4):
        model = made(name, n_crude=n_crude).fit(X)
        found = model.index(X).search(QUERIES, 5, margin="exact")
        assert_allclose(found.distances, truth.distances, rtol=1e-4, atol=1e-3)


@with_plain_methods
def test_progress_goes_up(name: str) -> None:
    seen: list[float] = []
    made(name).set_params(progress=lambda what, done: seen.append(done)).fit(X)
    assert seen == sorted(seen)
    assert seen[-1] == 1.0
    assert len(seen) > 3
