"""What every fitted model does, shown on books and embeddings made by hand: fits of their own have their own tests."""

from __future__ import annotations

import json
import math
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import interlace as il
from helpers import clustered, hand_made, same_index
from interlace.codec.embedding import MLP, Embedding, Identity, Linear
from interlace.codec.encode import encode
from interlace.estimators import scoring
from interlace.estimators.fitted import Fitted
from interlace.estimators.model_files import to_json_types
from interlace.estimators.models import Model
from interlace.files import storage
from interlace.learn.auto import Choice
from raising import Facts, raises

RNG = np.random.default_rng(0)
MADE = MLP(
    [(RNG.normal(size=(6, 12)), RNG.normal(size=6)), (RNG.normal(size=(4, 6)), RNG.normal(size=4))],
    input_shape=(2, 6),
)
X = clustered(80, 12)
Y = np.arange(80) % 3
PRIOR = il.ICQ(2, layout="subspace", threads=1).fit(clustered(300, 5)).prior_
HISTORY = [{"epoch": 0, "loss": np.float32(2.5)}, {"epoch": 1, "loss": 1.25, "parts": (1, 2)}]
INFO = {"recipe": {"name": "default", "gamma1": 0.1}, "map": np.float64(0.9), "ops_per_vector": 1.5}


def labelled(made: Embedding | None = MADE, labels: Any = Y, x: Any = X, **books: Any) -> il.ICQ:
    """A model as a fit with labels leaves it."""
    model = il.ICQ(3, threads=1)
    first = Fitted(hand_made(**books), np.arange(40), len(x), made)
    model.set_fitted(first)
    codes = model.encode(x)
    prior = PRIOR
    last = Fitted(
        first.codebooks, first.sample, len(x), made, prior, None, None, HISTORY, codes, np.asarray(labels), dict(INFO)
    )
    model.set_fitted(last)
    return model


def test_inputs_are_embedded_and_then_coded() -> None:
    model, z = labelled(), MADE(X)
    plain_model = labelled(None, x=z)
    assert_array_equal(model.embed(X), z)
    assert_array_equal(plain_model.embed(z), z)
    codes = encode(model.codebooks_, z, 1)  # with an embedding the encoder is that of the books
    assert_array_equal(model.encode(X), codes)
    assert_array_equal(model.encode(X.reshape(80, 2, 6)), codes)
    assert_array_equal(model.encode([*X.reshape(80, 2, 6)]), codes)
    assert_array_equal(model.encode(X[i : i + 9] for i in range(0, 80, 9)), codes)
    assert_array_equal(model.transform(X), model.codebooks_.decode(codes))
    for effort in ("fast", "best"):
        assert_array_equal(model.encode(X, effort=effort), plain_model.encode(z, effort=effort))
    assert_array_equal(plain_model.encode(z), plain_model.encode(z, effort="balanced"))
    assert model.decode(model.codes_).shape == (80, 4)
    assert (model.n_features_in_, plain_model.n_features_in_) == (12, 4)
    assert [*model.get_feature_names_out()] == ["icq0", "icq1", "icq2", "icq3"]


@pytest.mark.parametrize(
    ("x", "facts"),
    [
        (X[:, :5], ("X", 5, "ICQ", 12)),
        (X.reshape(80, 6, 2), ("X", "[n, 2, 6]", "[n, 12]")),
        (np.where(X[3, 4] == X, np.nan, X), ("X[3, 4]", "nan")),
        (X[0], ("2D",)),
    ],
)
def test_inputs_that_cannot_be(x: Any, facts: Facts) -> None:
    for call in (labelled().encode, labelled().embed, labelled().transform):
        with raises(il.InputError, *facts):
            call(x)


def test_an_index_takes_raw_queries(tmp_path: Path) -> None:
    model, z = labelled(), MADE(X)
    index, other = model.index(X, ids=[f"r{i}" for i in range(80)]), labelled(None, x=z).index(z)
    assert index.embedding is MADE
    for q, vectors in ((X[:7], z[:7]), (X[3], z[3]), (X[3].reshape(2, 6), z[3])):
        ours, theirs = index.search(q, 4), other.search(vectors, 4)
        assert [f"r{i}" for i in theirs.ids.ravel()] == [*ours.ids.ravel()]
        assert_array_equal(ours.distances, theirs.distances)
        assert ours.stats.margin == theirs.stats.margin  # the calibration is the same, too
    index.save(tmp_path / "i")
    assert_array_equal(il.open(tmp_path / "i").search(X, 3).ids, index.search(X, 3).ids)


# --- score ------------------------------------------------------------------------------------------------------------


def by_loop(codes: Any, labels: Any, vectors: Any, wanted: Any, books: il.Codebooks, at: int | None) -> float:
    """Mean over queries of the mean precision at the places of relevant rows."""
    decoded = books.decode(codes).astype(np.float64)
    total = 0.0
    for q, label in zip(vectors.astype(np.float64), wanted, strict=True):
        order = np.argsort(((decoded - q) ** 2).sum(1).astype(np.float32), kind="stable")[:at]
        hits, precision = 0, 0.0
        for place, row in enumerate(order, 1):
            if labels[row] == label:
                hits += 1
                precision += hits / place
        total += precision / hits if hits else 0.0
    return total / len(vectors)


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 999), n=st.integers(1, 60), at=st.one_of(st.none(), st.integers(1, 70)), step=st.integers(1, 99)
)
def test_score_equals_a_plain_loop(seed: int, n: int, at: int | None, step: int) -> None:
    rng = np.random.default_rng(seed)
    x, q = rng.normal(size=(n, 12)).astype(np.float32), rng.normal(size=(9, 12)).astype(np.float32)
    labels, wanted = rng.integers(0, 4, n), rng.integers(0, 5, 9)  # some ask for a class that is not there
    model = labelled(labels=labels, x=x)
    if not np.isin(wanted, labels).any():
        with pytest.raises(il.InputError, match="no row of the database has the label of a query"):
            model.score(q, wanted, at=at)
        return
    expected = by_loop(model.codes_, labels, MADE(q), wanted, model.codebooks_, at)
    names = np.array(["a", "b", "c", "d", "e"])
    texts = labelled(labels=names[labels], x=x)
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setattr(scoring, "RANKED_ROWS", step)  # queries come in blocks
        assert model.score(q, wanted, at=at) == pytest.approx(expected, abs=1e-9)
        assert labelled().score(q, wanted, x, labels, at=at) == pytest.approx(expected, abs=1e-9)
        assert texts.score(q, names[wanted].tolist(), at=at) == pytest.approx(expected, abs=1e-9)
        assert texts.score(q, np.char.encode(names)[wanted], at=at) == pytest.approx(expected, abs=1e-9)
        assert texts.score(q, iter(names[wanted].tolist()), at=at) == pytest.approx(expected, abs=1e-9)


def test_labels_that_the_database_has_not_are_told() -> None:
    model = labelled()
    with pytest.warns(UserWarning, match=r"2 of 80 queries have a label .* \(7, 9\): .* precision is 0") as found:
        score = model.score(X, np.r_[7, 9, Y[2:]])
    assert [w.filename for w in found] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert score == pytest.approx(model.score(X[2:], Y[2:]) * 78 / 80)
    with raises(il.InputError, "y", 10, 11, 12, 0, 1, 2):
        model.score(X, Y + 10)
    with raises(il.InputError, "y", "'x'", "'0'", "'1'", "'2'"):
        labelled(labels=Y.astype(str)).score(X, ["x"] * 80)


def test_scores_of_several_lengths_come_from_one_ranking() -> None:
    model = labelled()
    lengths = (None, 5, 20)
    assert model.scores(X, Y, at=lengths) == [model.score(X, Y, at=length) for length in lengths]
    codes = model.encode(X[:40])
    assert model.scores_of_codes(X, Y, codes, Y[:40], at=lengths) == model.scores(X, Y, X[:40], Y[:40], at=lengths)


def test_sample_are_those_learned_from() -> None:
    model = il.ICQ(2, layout="subspace", max_train_rows=100, iterations=1, threads=1).fit(clustered(300, 5))
    rows = model.sample_
    assert len(rows) == 100
    assert (np.diff(rows) > 0).all()
    assert rows.max() < 300


def test_a_score_of_a_model_without_labels() -> None:
    x = clustered(300, 5)
    model = il.ICQ(2, layout="hybrid", iterations=1, threads=1).fit(x)
    y = (x[:, 0] > 0).astype(int)
    with raises(il.InputError, "ICQ", "X_database", "y_database"):
        model.score(x, y)
    assert model.score(x[:50], y[:50], x[50:], y[50:]) > 0.8
    error = sum(float(((a - b) ** 2).sum()) for a, b in zip(x, model.transform(x), strict=True)) / len(x)
    assert model.score(x) == pytest.approx(-error)
    coarse = il.ICQ(2, n_words=4, layout="hybrid", iterations=1, threads=1).fit(x)
    assert coarse.score(x) < model.score(x) <= 0
    with raises(il.InputError, "labels", "missing"):
        labelled().score(X)


@pytest.mark.parametrize(
    ("arguments", "settings", "message"),
    [
        ((X, Y[:5]), {}, "y .*5.*X .*80"),
        ((X, Y + 0.5), {}, "labels.*integers or strings.*float64"),
        ((X, np.full(80, np.nan)), {}, r"labels must be integers or strings, .*; y\[0\] is nan"),
        ((X, Y[:, None]), {}, r"y must be 1-D, one label per row.*pass y.ravel\(\)"),
        ((X, None), {}, "labels are missing: pass y"),
        ((X, Y.astype(str)), {}, "y .*<U21.*int64"),
        ((X, Y, X), {}, "X_database and y_database"),
        ((X, Y, X, Y[:4]), {}, "y_database .*4.*X_database .*80"),
        ((X, Y), {"at": 0}, "at .*0"),
        ((X[:, :4], Y), {}, "X has 4 features"),
        ((np.zeros((0, 2, 6)), Y[:0]), {}, "queries.*database.*0 and 80 rows"),
    ],
)
def test_scores_that_cannot_be(arguments: Any, settings: Any, message: str) -> None:
    with pytest.raises(il.InputError, match=message):
        labelled().score(*arguments, **settings)


# --- files and pickles ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("made", [MADE, Linear(RNG.normal(size=(4, 12))), None], ids=["mlp", "linear", "none"])
@pytest.mark.parametrize("labels", [Y, Y.astype(str), Y.astype(np.uint8)], ids=["int", "text", "bytes"])
def test_save_load_pickle(made: Embedding | None, labels: Any, tmp_path: Path) -> None:
    x = X if made is not None else clustered(80, 4)
    model = labelled(made, labels, x)
    model.save(tmp_path / "m")
    assert il.Codebooks.load(tmp_path / "m") == model.codebooks_
    for again in (il.ICQ.load(tmp_path / "m"), pickle.loads(pickle.dumps(model))):
        assert again.codebooks_ == model.codebooks_
        assert (again.embedding_ is None) == (made is None)
        assert made is None or again.embedding_.fingerprint == made.fingerprint
        assert (again.prior_, again.n_features_in_) == (model.prior_, model.n_features_in_)
        assert again.history_ == to_json_types(HISTORY)
        assert again.fit_info_ == INFO
        assert not hasattr(again, "choice_")
        assert_array_equal(again.codes_, model.codes_)
        assert_array_equal(again.labels_, labels)
        assert_array_equal(again.encode(x), model.encode(x))
        assert again.score(x, labels) == model.score(x, labels)
        assert again.card() == model.card()
        assert same_index(again.index(x), model.index(x))


def test_codes_may_be_dropped(tmp_path: Path) -> None:
    model = labelled()
    del model.codes_
    model.save(tmp_path / "m")
    again = il.ICQ.load(tmp_path / "m")
    assert not hasattr(again, "codes_")
    assert "labels" not in storage.read(tmp_path / "m").names
    assert again.score(X, Y, X, Y) == labelled().score(X, Y)


def test_a_fit_leaves_nothing_of_the_one_before() -> None:
    model = labelled()
    model.fit(clustered(300, 5))
    assert not {"history_", "codes_", "labels_"} & set(vars(model))
    assert (model.embedding_, model.fit_info_, model.n_features_in_) == (None, {}, 5)
    assert model.choice_.layout


def test_a_model_of_another_quantizer_is_refused(tmp_path: Path) -> None:
    class Other(Model):
        name_in_files = "Other"

        def __init__(self, threads: int | None = None) -> None:
            self.threads, self.seed, self.progress = threads, 0, False

    other = Other()
    other.set_fitted(labelled().get_fitted())
    index = il.Index(hand_made(), MADE)
    index.add(X, threads=1)
    assert_array_equal(other.encode(X), index.engine.codes_of(np.arange(80)))  # by the books' own effort
    other.save(tmp_path / "m")
    assert Other.load(tmp_path / "m").codebooks_ == other.codebooks_
    with raises(il.NotAnIndexError, "ICQ"):
        il.ICQ.load(tmp_path / "m")


def test_parameters_that_json_cannot_hold_are_left_out(tmp_path: Path) -> None:
    model = labelled()
    model.effort, model.seed = print, np.int64(7)  # type: ignore[assignment]
    model.save(tmp_path / "m")
    again = il.ICQ.load(tmp_path / "m")
    assert (again.effort, again.seed, again.n_bytes) == ("balanced", 7, 3)


def test_flipped_bytes_are_named(tmp_path: Path) -> None:
    path = tmp_path / "m"
    labelled().save(path)
    data, file = path.read_bytes(), storage.read(path)
    start = 8 + int.from_bytes(data[:8], "little")
    for name in file.names:
        damaged = bytearray(data)
        first, last = file.header.entries[name]["data_offsets"]
        if first == last:
            continue
        damaged[start + last - 1] ^= 4
        path.write_bytes(damaged)
        with pytest.raises(il.DamagedFileError, match=f"section '{name}' does not match its checksum"):
            il.ICQ.load(path)


@pytest.mark.parametrize(
    ("change", "facts"),
    [
        ({"embedding": Identity(3).to_arrays()[1]}, (3, 4)),
        ({"classes": ["a"]}, ("model", "bounds")),
        ({"n_rows": 3}, ("(40,)", 3)),
        ({"params": {"n_byte": 3}}, ("model", "'n_byte'")),
        ({"prior": {}}, ("model", "fields")),
    ],
)
def test_descriptions_that_make_no_sense_are_damage(change: dict[str, Any], facts: Facts, tmp_path: Path) -> None:
    labelled().save(tmp_path / "m")
    file = storage.read(tmp_path / "m")
    storage.write(tmp_path / "n", {name: file.array(name) for name in file.names}, file.meta | change)
    with raises(il.DamagedFileError, *facts):
        il.ICQ.load(tmp_path / "n")


# --- the card ---------------------------------------------------------------------------------------------------------


def test_the_card_tells_what_is_known(tmp_path: Path) -> None:
    model = labelled()
    text = model.card()
    for part in (
        "# ICQ model",
        "80 rows of shape 2 x 6",
        f"mlp, {MADE.n_bytes} bytes",
        "3 of 3 words, 2 crude",
        "3 bytes (24 bits) per vector",
        "| recipe.gamma1 | 0.1 |",
        "| map | 0.9 |",
        "| ops_per_vector | 1.5 |",
        "| loss | 1.25 |",
        f"interlace {il.__version__}",
    ):
        assert part in text, part
    assert all(line.count("|") == 3 for line in text.splitlines() if line.startswith("|"))
    model.save(tmp_path / "m")
    assert storage.read(tmp_path / "m").meta["card"] == text
    vectors = il.ICQ(2, layout="hybrid", iterations=1, threads=1).fit(clustered(300, 5))
    assert "none: vectors are encoded directly" in vectors.card()
    assert "## Fit" not in vectors.card()
    with pytest.raises(il.NotFittedError):
        il.ICQ().card()


def test_plain_values_are_json() -> None:
    given = {"a": np.float32(0.5), 1: (np.int64(2), [np.bool_(True), None, "x", math.pi])}
    assert json.loads(json.dumps(to_json_types(given))) == {"a": 0.5, "1": [2, [True, None, "x", math.pi]]}


def test_choice_and_names_travel(tmp_path: Path) -> None:
    model = il.ICQ(3, threads=1)
    choice = Choice("hybrid", None, "asked for", ({"layout": "hybrid", "recall": 0.5},))
    names = np.array(["a", "b", "c", "d"], dtype=object)
    model.set_fitted(Fitted(hand_made(), np.arange(3), 9, choice=choice, names=names))
    model.save(tmp_path / "m")
    again = il.ICQ.load(tmp_path / "m")
    assert again.choice_ == choice
    assert_array_equal(again.feature_names_in_, names)
