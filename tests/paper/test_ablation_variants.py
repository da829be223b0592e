"""Every variant of the ablation changes a fit; a setting that does not reach the code would seem to have no effect."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="the train extra is not installed")

import interlace as il
from interlace.paper import controls, judge
from interlace.paper.figures import FIGURES

#: Three classes in twelve dimensions: fewer than the likelihood would level, so that the cap at classes - 1 matters.
RNG = np.random.default_rng(3)
LABELS = np.arange(900) % 3
X = (RNG.normal(size=(900, 12)) + 1.2 * RNG.normal(size=(3, 12))[LABELS]).astype(np.float32)
SHORT = {"warm_up": 2, "shape": 2, "epochs": 4, "hard_after": 2, "batch_size": 150}
ABLATION = {
    series.label: series
    for part in FIGURES["ablation"].parts
    for series in part.series
    if series.method == "ICQ" and series.labels
}
Variant = tuple[str, tuple[tuple[str, Any], ...], tuple[tuple[str, Any], ...]]
VARIANTS: dict[str, Variant] = {
    label: (series.recipe, series.changes, series.settings) for label, series in ABLATION.items()
}
VARIANTS |= {
    f"control: {label}": ("default", changes, ())
    for label, (_, changes) in (controls.MARGINS | controls.SWAPPED | controls.GAPS).items()
    if label.startswith(("ICQ", "sigma", "no "))
}


@cache
def effects(recipe: str, changes: Any, settings: Any) -> tuple[Any, ...]:
    """What a fit leaves: embedding, codes, crude dimensions, and the constants of the paper's margin."""
    made = il.Recipe.paper if recipe == "paper" else il.Recipe
    model = il.SupervisedICQ(
        n_books=8, n_words=16, dim=12, threads=1, seed=0, recipe=made(**SHORT | dict(changes)), **dict(settings)
    ).fit(X, LABELS)
    margins = judge.sigmas(model.codebooks_, model.codes_, judge.sigma_factor(model))
    embedded = np.asarray(model.embed(X[:50])).tobytes()
    return embedded, model.codes_.tobytes(), tuple(model.codebooks_.crude_dims), tuple(margins.items())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("label", [label for label in VARIANTS if VARIANTS[label] != ("default", (), ())])
def test_a_variant_differs_from_the_default(label: str) -> None:
    assert effects(*VARIANTS[label]) != effects("default", (), ())


@pytest.mark.filterwarnings("ignore")
def test_the_cap_needs_levelled_axes() -> None:
    """Without levelled axes there is nothing to cap, so the two changes together are the first alone."""
    both = effects(*VARIANTS["control: no cap, axes not levelled"])
    assert both == effects(*VARIANTS["axes not levelled"])
    assert both != effects(*VARIANTS["control: no cap"])
