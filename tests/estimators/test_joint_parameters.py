"""Parameters of a fit with labels and of one without: what means nothing is refused, a recipe's values are reached."""

from __future__ import annotations

from typing import Any

import pytest

import interlace as il
from interlace import Recipe
from interlace.quantizers import SQ
from joint_data import SHORT, icq, labelled
from raising import raises

pytest.importorskip("torch", reason="the train extra is not installed")
pytest.importorskip("sklearn", reason="scikit-learn is not installed")

X, Y = labelled()


def test_defaults_are_the_same_for_icq_and_sq() -> None:
    ours, theirs = il.ICQ().get_params(), SQ().get_params()
    shared = {"dim", "embedding", "hidden", "loss", "optimize", "recipe", "validation", "n_words", "n_books", "seed"}
    assert {name: ours[name] for name in shared} == {name: theirs[name] for name in shared}


def test_labels_can_be_left_alone() -> None:
    x, y = X, Y
    without = il.ICQ(3, n_words=16, threads=1).fit(x)
    ignored = il.ICQ(3, n_words=16, threads=1, supervised=False).fit(x, y)
    assert ignored.codebooks_ == without.codebooks_
    assert ignored.embedding_ is None


WITHOUT = {"effort": "best", "iterations": 3, "prior": "gradient", "max_train_rows": 50, "max_memory": "1GB"}
WITH = {
    "dim": 3,
    "embedding": "mlp",
    "hidden": (5,),
    "loss": "triplet",
    "optimize": "alternate",
    "recipe": Recipe(epochs=1),
    "validation": 0.5,
    "checkpoint": "run.ckpt",
    "device": "cpu",
}


@pytest.mark.parametrize("name", WITHOUT)
def test_what_labels_make_meaningless_is_refused(name: str) -> None:
    with pytest.raises(il.InputError, match=f"{name}=.* belongs to learning without labels"):
        il.ICQ(3, **{name: WITHOUT[name]}).fit(X, Y)


@pytest.mark.parametrize("kind", [il.ICQ, il.UnsupervisedICQ])
@pytest.mark.parametrize("weight", [99, 0.5, "2", True])
def test_a_weight_that_cannot_be_is_refused_by_fit(kind: type, weight: object) -> None:
    model = kind(3, metric="ip", parallel_weight=weight)  # as scikit-learn wants it, no constructor checks its values
    with pytest.raises(il.InputError, match="parallel_weight must be a number from 1 to"):
        model.fit(X)


def test_a_weight_with_labels_is_named_before_its_metric() -> None:
    with pytest.raises(il.InputError, match=r"parallel_weight=2\.0 belongs to learning without labels"):
        il.ICQ(3, metric="ip", parallel_weight=2.0).fit(X, Y)


@pytest.mark.parametrize("name", WITH)
def test_what_means_nothing_without_labels_is_refused(name: str) -> None:
    model = il.ICQ(3, n_words=16, threads=1, **{name: WITH[name]})
    with pytest.raises(il.InputError, match=f"{name}=.* belongs to learning with labels.*supervised=False"):
        model.fit(X)
    plain = il.ICQ(3, n_words=16, threads=1).fit(X)
    assert model.set_params(supervised=False).fit(X, Y).codebooks_ == plain.codebooks_


def test_all_of_them_are_named() -> None:
    with raises(il.InputError, "prior='gradient'", "effort='best'", "max_memory='1GB'"):
        il.ICQ(3, effort="best", max_memory="1GB", prior="gradient").fit(X, Y)
    with raises(il.InputError, "dim=3", "loss='nonsense'"):
        il.ICQ(3, loss="nonsense", dim=3).fit(X)
    assert {*WITH, *WITHOUT} <= il.ICQ().get_params().keys()


@pytest.mark.parametrize(
    "wrong",
    [{"loss": "nonsense"}, {"embedding": "resnet"}, {"recipe": "papers"}, {"validation": 2}, {"dim": 0}, {"hidden": 5}],
)
def test_they_are_checked_where_labels_are_left_alone(wrong: dict[str, Any]) -> None:
    with pytest.raises(il.InputError, match=f"{next(iter(wrong))} must be"):
        il.ICQ(3, n_words=16, threads=1, supervised=False, **wrong).fit(X, Y)


# --- parameters of the recipe -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("recipe", ["default", "paper", Recipe(epochs=3), {"epochs": 3}])
def test_values_of_a_recipe_are_parameters(recipe: Any) -> None:
    model, before = il.ICQ(recipe=recipe), Recipe.named(recipe)
    assert {f"recipe__{name}": v for name, v in before.to_dict().items()}.items() <= model.get_params().items()
    assert not [name for name in model.get_params(deep=False) if "__" in name]
    assert model.set_params(recipe__pi2=0.3, n_words=32) is model
    assert model.recipe == before.with_params(pi2=0.3)
    assert Recipe.named(recipe) == before  # it was replaced, not changed
    for bad in ({"recipe__pi2": 5}, {"recipe__pi3": 0.2}, {"recipe__pi2": 0.2, "word": 1}):
        with pytest.raises(il.InputError):
            model.set_params(n_words=3, **bad)
        assert (model.n_words, model.recipe.pi2) == (32, 0.3)
    assert "recipe__pi2" not in il.ICQ(recipe="papers").get_params()


def test_a_grid_over_a_recipe() -> None:
    selection = pytest.importorskip("sklearn.model_selection")
    grid = selection.GridSearchCV(icq(), {"recipe__pi2": [0.3, 0.4], "recipe__epochs": [1]}, cv=2, error_score="raise")
    grid.fit(X, Y)
    assert grid.best_estimator_.recipe == Recipe(**SHORT | {"epochs": 1, "pi2": grid.best_params_["recipe__pi2"]})
    assert (grid.cv_results_["mean_test_score"] > 0.8).all()


def test_a_recipe_shows_what_is_not_the_default() -> None:
    assert repr(il.Recipe()) == "Recipe()"
    assert repr(il.ICQ(recipe=il.Recipe(epochs=6))) == "ICQ(recipe=Recipe(epochs=6))"
    assert eval(repr(il.Recipe.paper()), {"Recipe": il.Recipe}) == il.Recipe.paper()
