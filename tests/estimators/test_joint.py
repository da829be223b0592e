"""``fit(x, y)`` as users call it: attributes, score, index, files, clones, and what happens without torch."""

from __future__ import annotations

import copy
import json
import math
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import interlace as il
from helpers import clustered, run_python, same_index
from interlace import Recipe
from interlace.codec.embedding import MLP, Linear
from interlace.evaluate import map_of_ranking
from interlace.quantizers import SQ
from joint_data import SHORT, icq, labelled

torch = pytest.importorskip("torch", reason="the train extra is not installed")
base = pytest.importorskip("sklearn.base", reason="scikit-learn is not installed")

X, Y = labelled()
QUERIES, WANTED = labelled(150, seed=1)


def sq(quantizer: str, **settings: Any) -> SQ:
    return SQ(quantizer, **{"n_books": 4, "n_words": 16, "threads": 1, "recipe": Recipe(**SHORT)} | settings)


MAKERS = {
    "icq": icq,
    "mlp": lambda **s: icq(embedding="mlp", hidden=(16,), **s),
    "cq": lambda **s: sq("cq", **s),
    "pq": lambda **s: sq("pq", **s),
}


@pytest.fixture(scope="module", params=MAKERS)
def model(request: pytest.FixtureRequest) -> Any:
    """Each kind of estimator, fitted once; tests leave it as it is."""
    return MAKERS[request.param]().fit(X, Y)


def test_what_a_fit_leaves(model: Any) -> None:
    split = isinstance(model, il.ICQ)
    assert model.codebooks_.dim == model.embedding_.dim == (16 if isinstance(model.embedding_, MLP) else 12)
    assert isinstance(model.embedding_, Linear | MLP)
    assert (model.codebooks_.n_books, model.codebooks_.n_bytes) == (4, 4)
    assert model.codes_.shape == (600, 4)
    assert model.codes_.dtype == np.uint8
    assert_array_equal(model.labels_, Y)
    assert model.n_features_in_ == 12
    assert (model.prior_ is not None) == split
    assert len(model.history_) == (4 if split else 3)
    assert not hasattr(model, "choice_")
    info = model.fit_info_
    assert info["validation_map"] == max(row["map"] for row in model.history_ if "map" in row)
    assert 0 < info["ops"] <= 4
    assert (info["rows"], info["classes"], info["kind"]) == (600, 4, info["kind"])
    assert Recipe(**info["recipe"]) == model.recipe
    json.dumps([info, model.history_])
    card = model.card()
    assert f"| MAP | {info['validation_map']:.4f} on held-out rows, best of {len(model.history_)} epochs |" in card
    assert f"| operations | {info['ops']:.2f} of 4 table additions per vector, in an exact search with k = 100" in card
    assert model.fit(X, Y) is model


def test_codes_are_made_without_labels(model: Any) -> None:
    assert_array_equal(model.encode(X), model.codes_)
    rows = np.arange(600)[::-1][:50]
    assert_array_equal(model.encode(X[rows]), model.codes_[rows])


def test_score_is_of_queries_that_were_held_out(model: Any) -> None:
    z, decoded = model.embed(QUERIES).astype(np.float64), model.decode(model.codes_).astype(np.float64)
    total = 0.0
    for q, label in zip(z, WANTED, strict=True):
        hits = Y[np.argsort(((decoded - q) ** 2).sum(1), kind="stable")] == label
        total += (np.cumsum(hits) / np.arange(1, 601))[hits].mean()
    # The constant of the cross terms moves some rows by a place.
    assert model.score(QUERIES, WANTED, at=None) == pytest.approx(total / 150, abs=0.02)
    assert model.score(QUERIES, WANTED) == model.score(QUERIES, WANTED, X, Y)
    assert model.score(QUERIES, WANTED) > 0.8
    assert model.score(QUERIES, (WANTED + 1) % 4) < 0.3


def test_an_index_takes_raw_queries_and_answers_as_by_hand(model: Any) -> None:
    index = model.index(X, ids=[f"row {i}" for i in range(600)])
    by_hand = il.Index.from_codes(model.codebooks_, model.codes_)
    z = model.embed(QUERIES)
    for margin in ("exact", math.inf):
        ours, theirs = index.search(QUERIES, 9, margin=margin), by_hand.search(z, 9, margin=margin)
        assert [f"row {i}" for i in theirs.ids.ravel()] == [*ours.ids.ravel()]
        assert_array_equal(ours.distances, theirs.distances)
    assert_array_equal(index.search(z, 9, embedded=True).ids, index.search(QUERIES, 9).ids)
    single = index.search(QUERIES[0], 9)
    assert_array_equal(single.ids.ravel(), index.search(QUERIES, 9).ids[0])
    with pytest.raises(il.InputError):
        index.search(QUERIES[:, :5])


def test_save_load_pickle(model: Any, tmp_path: Path) -> None:
    model.save(tmp_path / "m")
    for again in (type(model).load(tmp_path / "m"), pickle.loads(pickle.dumps(model))):
        assert again.codebooks_ == model.codebooks_
        assert again.embedding_.fingerprint == model.embedding_.fingerprint
        assert again.prior_ == model.prior_
        assert again.history_ == model.history_
        assert again.fit_info_ == model.fit_info_
        assert_array_equal(again.codes_, model.codes_)
        assert_array_equal(again.labels_, model.labels_)
        assert again.score(QUERIES, WANTED) == model.score(QUERIES, WANTED)
        assert same_index(again.index(X), model.index(X))
        assert again.card() == model.card()
        assert again.get_params() == model.get_params()
        assert again.fit(X, Y).codebooks_ == model.codebooks_  # and it can learn again
    other = SQ if isinstance(model, il.ICQ) else il.ICQ
    with pytest.raises(il.NotAnIndexError, match="holds a model of"):
        other.load(tmp_path / "m")


def test_an_index_of_a_model_survives_its_file(model: Any, tmp_path: Path) -> None:
    index = model.index(X)
    index.save(tmp_path / "i")
    again = il.open(tmp_path / "i")
    assert_array_equal(again.search(QUERIES, 5).ids, index.search(QUERIES, 5).ids)


@pytest.mark.parametrize("name", MAKERS)
def test_clones_and_parameters(name: str) -> None:
    made = MAKERS[name](checkpoint=Path("nowhere"), device="cpu")
    clone = base.clone(made)
    assert clone.get_params() == made.get_params()
    assert clone.get_params()["recipe__batch_size"] == 100
    assert clone.recipe == made.recipe
    assert clone.set_params(dim=5, recipe="paper").get_params()["dim"] == 5
    assert made.dim is None
    parameters = set(made.get_params())
    assert {"dim", "embedding", "hidden", "loss", "optimize", "recipe", "validation", "checkpoint"} <= parameters
    module = torch.nn.Linear(12, 5)
    assert isinstance(base.clone(MAKERS["icq"](embedding=module)).embedding, torch.nn.Linear)


def test_the_default_dim_is_16_or_enough_for_the_classes() -> None:
    x, y = labelled(400, 40, 20)
    still = {"warm_up": 0, "shape": 0, "epochs": 0}
    assert icq(still).fit(x, y % 3).codebooks_.dim == 16
    assert icq(still).fit(x, y).codebooks_.dim == 24
    assert icq(still).fit(x[:, :7], y).codebooks_.dim == 7  # a linear map makes no more of them
    assert icq(still, embedding="mlp").fit(x[:, :7], y).codebooks_.dim == 24
    assert icq(still, embedding="identity").fit(x, y).codebooks_.dim == 40


def test_sq_names_its_quantizers() -> None:
    with pytest.raises(il.InputError, match="quantizer.*cq, pq.*'opq'"):
        sq("opq").fit(X, Y)
    assert sq("pq").fit(X, Y).codebooks_.layout == "product"
    assert sq("cq").fit(X, Y).codebooks_.layout == "composite"


def test_a_module_travels_by_its_fingerprint(tmp_path: Path) -> None:
    module = torch.nn.Sequential(torch.nn.Linear(12, 16), torch.nn.ReLU(), torch.nn.Linear(16, 16))
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.uniform_(-0.5, 0.5, generator=torch.Generator().manual_seed(0))
    model = icq(embedding=module).fit(X, Y)
    model.save(tmp_path / "m")
    index = model.index(X)
    index.save(tmp_path / "i")
    learned = model.embedding_.module
    again = il.ICQ.load(tmp_path / "m", embedding=learned)
    assert_array_equal(again.encode(X), model.codes_)
    assert_array_equal(il.open(tmp_path / "i", embedding=learned).search(QUERIES, 3).ids, index.search(QUERIES, 3).ids)
    with pytest.raises(il.InputError, match="its weights differ"):  # the user's own was not trained
        il.ICQ.load(tmp_path / "m", embedding=module)


def test_a_fit_without_labels_forgets_the_embedding() -> None:
    model = icq().fit(X, Y)
    model.set_params(n_books=None, n_bytes=2, recipe="default").fit(clustered(300, 5))
    assert model.embedding_ is None
    assert not hasattr(model, "codes_")
    assert model.n_features_in_ == 5


def test_frames_keep_the_names_of_their_columns() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pandas.DataFrame(X, columns=[f"c{i}" for i in range(12)])
    model = icq().fit(frame, pandas.Series(Y))
    assert [*model.feature_names_in_] == [*frame.columns]
    assert_array_equal(model.codes_, icq().fit(X, Y).codes_)
    with pytest.raises(il.InputError, match="feature names should match"):
        model.encode(frame.rename(columns={"c0": "d0"}))


# --- torch ------------------------------------------------------------------------------------------------------------

WITHOUT_TORCH = """
import json, sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ImportError("no torch here")

sys.meta_path.insert(0, Blocker())
import numpy as np
import interlace as il

x, y = np.random.default_rng(0).normal(size=(200, 6)).astype(np.float32), np.arange(200) % 2
told = []
for model in (il.ICQ(n_books=2), il.quantizers.SQ("cq"), il.quantizers.SQ("pq")):
    try:
        model.fit(x, y)
    except il.InputError as error:
        told.append(str(error))
books = il.ICQ(2, n_words=16, threads=1).fit(x).codebooks_.n_books
model = il.ICQ.load(sys.argv[1])
ids = il.open(sys.argv[2]).search(np.load(sys.argv[3]), 3).ids
score = model.score(np.load(sys.argv[3]), np.load(sys.argv[4]))
print(json.dumps([told, books, ids.tolist(), score]))
"""


def test_without_torch(tmp_path: Path) -> None:
    model = icq().fit(X, Y)
    index = model.index(X)
    model.save(tmp_path / "m")
    index.save(tmp_path / "i")
    np.save(tmp_path / "q.npy", QUERIES)
    np.save(tmp_path / "y.npy", WANTED)
    told, books, ids, score = run_python(WITHOUT_TORCH, *(str(tmp_path / n) for n in ("m", "i", "q.npy", "y.npy")))
    assert told == ["learning with labels needs torch: pip install 'interlace[train]'"] * 3
    assert books >= 1
    assert ids == index.search(QUERIES, 3).ids.tolist()  # linear and mlp serve without it
    assert score == model.score(QUERIES, WANTED)


LIGHT = """
import json, sys
import numpy as np
import interlace
interlace.quantizers.SQ("pq")
interlace.Recipe.paper()
x = np.random.default_rng(0).normal(size=(200, 6)).astype(np.float32)
interlace.ICQ(2, n_words=16, threads=1).fit(x).index(x).search(x[:2])
print(json.dumps("torch" in sys.modules))
"""


def test_torch_is_imported_for_labels_alone() -> None:
    assert run_python(LIGHT) is False


# --- what it is good for ----------------------------------------------------------------------------------------------


def test_dataset_3_in_short() -> None:
    """The paper's third set, a fifth of it: after a few epochs codes find classes better than floats."""
    datasets = pytest.importorskip("sklearn.datasets", reason="scikit-learn is not installed")
    x, y = datasets.make_classification(
        n_samples=2_400,
        n_features=64,
        n_informative=8,
        n_redundant=0,
        n_classes=10,
        n_clusters_per_class=1,
        class_sep=2.0,
        flip_y=0.01,
        random_state=0,
    )
    x, y, queries, wanted = x[:2_000], y[:2_000], x[2_000:], y[2_000:]
    recipe = Recipe(warm_up=6, shape=3, epochs=8, batch_size=250)
    model = il.ICQ(n_books=8, n_words=64, dim=16, recipe=recipe, threads=1).fit(x, y)
    score, z = model.score(queries, wanted, at=None), model.embed(queries)
    shuffled = model.decode(np.random.default_rng(0).permutation(model.codes_))
    random = map_of_ranking(z, shuffled, wanted, y)["map"]
    floats = map_of_ranking(z, model.embed(x), wanted, y)["map"]
    assert random < 0.15
    assert score > max(0.6, random + 0.4, floats)
    assert_allclose(model.fit_info_["validation_map"], score, atol=0.1)
    assert model.fit_info_["ops"] < 3


def test_a_dataset_can_be_coded_indexed_and_scored() -> None:
    x, y = X, Y
    dataset = torch.utils.data.TensorDataset(torch.from_numpy(x), torch.from_numpy(y))
    model = icq().fit(dataset)
    loader = torch.utils.data.DataLoader(dataset, batch_size=32, shuffle=True)
    for given in (dataset, loader):
        assert_array_equal(model.encode(given), model.encode(x))
        assert_array_equal(model.index(given).search(x[:5], 3).ids, model.index(x).search(x[:5], 3).ids)
        assert model.score(given) == model.score(x, y)
        assert model.score(x[:50], y[:50], given) == model.score(x[:50], y[:50], x, y)


def test_a_pickle_keeps_the_module() -> None:
    made = icq(embedding=torch.nn.Linear(12, 5)).fit(X, Y)
    again = pickle.loads(pickle.dumps(made))
    assert_array_equal(again.encode(X), made.codes_)
    assert again.embedding_.fingerprint == made.embedding_.fingerprint
    assert again.embedding_.module is not made.embedding_.module
    assert again.index(X).search(QUERIES[:3], 2).ids.tolist() == made.index(X).search(QUERIES[:3], 2).ids.tolist()
    once_more = pickle.loads(pickle.dumps(again))
    assert_array_equal(once_more.encode(X), made.codes_)

    class Own(torch.nn.Linear):
        """Of a function: pickle cannot find it, and says so."""

    with pytest.raises((AttributeError, pickle.PicklingError), match="Own"):
        pickle.dumps(icq(embedding=Own(12, 5)).fit(X, Y))


def test_a_model_that_was_opened_without_its_module_stays_so(tmp_path: Path) -> None:
    made = icq(embedding=torch.nn.Linear(12, 5)).fit(X, Y)
    made.save(tmp_path / "m")
    again = pickle.loads(pickle.dumps(il.ICQ.load(tmp_path / "m")))
    with pytest.raises(il.InputError, match="raw inputs need the module"):
        again.encode(X)
    assert_array_equal(again.codes_, made.codes_)


def test_labels_of_bytes_and_of_generators() -> None:
    names = np.array(["a", "b", "c", "d"])
    made = icq().fit(X, np.char.encode(names[Y]))
    assert_array_equal(made.labels_, names[Y])
    expected = made.score(QUERIES, names[WANTED])
    assert made.score(QUERIES, np.char.encode(names[WANTED])) == expected
    assert made.score(QUERIES, np.char.encode(names[WANTED]).tolist()) == expected
    assert made.score(QUERIES, (name for name in names[WANTED].tolist())) == expected
    read = icq().fit(X, (name for name in names[Y].tolist()))
    assert read.codebooks_ == made.codebooks_
    with pytest.raises(il.InputError, match="y .*599.*600"):
        icq().fit(X, (name for name in names[Y[1:]].tolist()))


def test_a_dataset_of_one_class_can_be_scored() -> None:
    made = icq().fit(X, Y)
    one = QUERIES[WANTED == 1]
    dataset = torch.utils.data.TensorDataset(torch.from_numpy(one), torch.ones(len(one), dtype=torch.int64))
    assert made.score(dataset) == made.score(one, np.ones(len(one), int))


class Sometimes(torch.nn.Linear):
    """Not finite for some batches."""

    def __init__(self) -> None:
        super().__init__(12, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z = super().forward(x)
        return z * torch.nan if self.training and float(x[0, 0]) > 1 else z


def test_warnings_of_a_fit_name_the_line_of_its_user() -> None:
    calls = {
        il.FewRowsWarning: lambda: icq(n_words=256).fit(X[:100], np.r_[9, Y[1:100]]),  # and a class of one row
        il.PriorCollapsedWarning: lambda: icq(dim=1).fit(X, Y),
        RuntimeWarning: lambda: icq(embedding=Sometimes()).fit(X, Y),
    }
    for category, call in calls.items():
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            call()
        assert category in {w.category for w in found}
        assert {w.filename for w in found} == {__file__}


def test_a_deep_copy_keeps_the_module_and_everything_else() -> None:
    made = icq(embedding=torch.nn.Linear(12, 5)).fit(X, Y)
    twin = copy.deepcopy(made)
    assert_array_equal(twin.encode(X), made.encode(X))
    assert twin.score(QUERIES, WANTED) == made.score(QUERIES, WANTED)
    assert twin.history_ == made.history_
    assert copy.deepcopy(icq(dim=3)).dim == 3


def test_the_identity_stays_one() -> None:
    for loss in ("cross_entropy", "regression", "contrastive"):
        z = icq(embedding="identity", loss=loss).fit(X, Y).embed(X[:50])
        ratio = ((z[1:] - z[:-1]) ** 2).sum(1) / ((X[1:50] - X[:49]) ** 2).sum(1)
        assert_allclose(ratio, ratio[0], rtol=1e-3)


def test_a_byte_for_the_cross_term_needs_four() -> None:
    with pytest.raises(il.InputError, match=r"cross='byte'.*4.*n_bytes=3"):
        il.ICQ(3, cross="byte").fit(X, Y)
    assert icq(n_books=None, n_bytes=4, cross="byte").fit(X, Y).codebooks_.n_bytes == 4
