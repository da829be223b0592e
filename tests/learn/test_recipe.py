"""The recipe of joint learning: every value is checked, and it travels as plain numbers."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import interlace as il
from interlace import Recipe
from interlace.learn.recipe import AUGMENTS, CRUDE_RULES, GROUPS, SIGMA_RULES, THETA
from raising import raises

FIELDS = {field.name: field for field in dataclasses.fields(Recipe)}
CHOICES = {"theta": THETA, "groups": GROUPS, "crude": CRUDE_RULES, "sigma_rule": SIGMA_RULES, "augment": AUGMENTS}
NUMBERS = [name for name, field in FIELDS.items() if field.type in ("int", "float")]
FLAGS = [name for name, field in FIELDS.items() if field.type == "bool"]


def test_every_field_is_of_a_kind_that_is_checked() -> None:
    assert {*NUMBERS, *FLAGS, *CHOICES, "name"} == set(FIELDS)


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1e7, 1e9, "1", None, True, [1], 1j])
def test_numbers_out_of_range(name: str, value: Any) -> None:
    with pytest.raises(il.InputError, match=f"^{name} of a recipe must be .* got "):
        Recipe(**{name: value})


@pytest.mark.parametrize("name", [n for n in NUMBERS if FIELDS[n].type == "int"])
def test_integers(name: str) -> None:
    with pytest.raises(il.InputError, match=f"{name} of a recipe must be an integer, got 2.0"):
        Recipe(**{name: 2.0})
    changed = Recipe(**{name: np.int64(7)})
    assert type(getattr(changed, name)) is int


@pytest.mark.parametrize("name", FLAGS)
@pytest.mark.parametrize("value", [0, 1, None, "yes", np.True_])
def test_flags(name: str, value: Any) -> None:
    with pytest.raises(il.InputError, match=f"{name} of a recipe must be True or False"):
        Recipe(**{name: value})


@pytest.mark.parametrize("name", [*CHOICES, "name"])
def test_names(name: str) -> None:
    for value in (None, 3, ["soft"]):
        with pytest.raises(il.InputError, match=f"{name} of a recipe must be a string"):
            Recipe(**{name: value})
    for value in CHOICES.get(name, ("mine",)):
        assert getattr(Recipe(**{name: value}), name) == value
    if name in CHOICES:
        with pytest.raises(il.InputError, match=f"{name} of a recipe must be one of {', '.join(CHOICES[name])}, got"):
            Recipe(**{name: "other"})


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        ("pi2", 1e-3, 1 - 1e-3),
        ("alpha2", -1e3, 0.0),
        ("robustness", 0.0, 1e3),
        ("scale", 1e-6, 1e6),
        ("ridge", 1e-12, 1e6),
        ("psi_share", 0.0, 1.0),
        ("epochs", 0, 10**6),
        ("patience", 1, 10**6),
        ("batch_size", 2, 10**7),
        ("sweeps", 0, 255),
        ("gamma1", 0.0, 1e6),
        ("softness", 1e-6, 1e6),
    ],
)
def test_the_ends_of_ranges(name: str, least: float, most: float) -> None:
    for value in (least, most):
        assert getattr(Recipe(**{name: value}), name) == value
    step = 1 if isinstance(least, int) else 1e-7
    for value in (least - step, most + step * max(1, most)):
        with pytest.raises(il.InputError, match=f"{name} of a recipe must be"):
            Recipe(**{name: value})


def test_the_paper_as_written() -> None:
    default, paper = Recipe().to_dict(), Recipe.paper().to_dict()
    different = {name for name in default if default[name] != paper[name]}
    assert different == {
        *(
            "name",
            "pi2",
            "raw_variances",
            "raw_words",
            "gamma1",
            "gamma2",
            "fading",
            "standardize",
            "rotate",
            "level",
            "split_start",
            "hard_end",
            "crude",
        ),
    }
    assert (paper["pi2"], paper["crude"], paper["sigma"], paper["alpha2"]) == (0.15, "forall", 1.0, -10.0)
    assert Recipe.paper(pi2=0.3, epochs=2) == Recipe.paper().__class__(**paper | {"pi2": 0.3, "epochs": 2})
    with pytest.raises(TypeError):
        Recipe.paper(pi3=0.3)


def test_by_name() -> None:
    mine = Recipe(gamma1=0.5)
    assert Recipe.named("default") == Recipe()
    assert Recipe.named("paper") == Recipe.paper()
    assert Recipe.named(mine) is mine
    assert Recipe.named(mine.to_dict()) == mine
    assert Recipe.named({"epochs": 3}) == Recipe(epochs=3)
    for wrong in ("papers", None, 3, np.zeros(2), ["default"]):
        with raises(il.InputError, "recipe", "'default'", "'paper'", "interlace.Recipe"):
            Recipe.named(wrong)
    with raises(il.InputError, "'gamma3'"):
        Recipe.named({"gamma1": 1.0, "gamma3": 1.0, "z": 1})
    with raises(il.InputError, "pi2"):
        Recipe.named({"pi2": 2.0})


@given(
    pi2=st.floats(1e-3, 0.999),
    gamma1=st.sampled_from([0, 1, np.float32(0.1), np.int64(3), 0.25]),
    epochs=st.integers(0, 99) | st.integers(0, 99).map(np.int32),
    theta=st.sampled_from(THETA),
    rotate=st.booleans(),
)
def test_it_survives_json(pi2: float, gamma1: Any, epochs: Any, theta: str, rotate: bool) -> None:
    made = Recipe(pi2=pi2, gamma1=gamma1, epochs=epochs, theta=theta, rotate=rotate)
    again = Recipe(**json.loads(json.dumps(made.to_dict())))
    assert again == made == Recipe.named(made.to_dict())
    assert hash(again) == hash(made)
    assert (again.gamma1, again.epochs) == (float(gamma1), int(epochs))


@given(n=st.integers(2, 10**6))
def test_batches_of_few_rows_are_smaller(n: int) -> None:
    by_rows, given_size = Recipe().batch_rows(n), Recipe(batch_size=7).batch_rows(n)
    assert given_size == 7
    assert 100 <= by_rows <= 500
    if n >= 8_000:
        assert by_rows == 500
    if n >= 1_600:
        assert n / by_rows >= 16
    else:
        assert by_rows == 100
    assert Recipe().batch_rows(n + 1) >= by_rows


def test_a_batch_of_one_row_has_no_variance() -> None:
    with raises(il.InputError, "batch_size", 0, 2, "1e+07", 1):
        Recipe(batch_size=1)
    assert Recipe(batch_size=0) == Recipe()


def test_it_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Recipe().epochs = 3  # type: ignore[misc]


def test_single_values_are_changed_in_a_copy() -> None:
    mine = Recipe.paper(epochs=3)
    changed = mine.with_params(pi2=0.25, name="mine")
    assert changed == Recipe.paper(epochs=3, pi2=0.25, name="mine")
    assert (mine.pi2, mine.with_params()) == (0.15, mine)
    assert mine.get_params() == mine.get_params(deep=False) == mine.to_dict()
    with raises(il.InputError, "'pi3'"):
        mine.with_params(pi3=0.5)
    with raises(il.InputError, "pi2"):
        mine.with_params(pi2=5)
