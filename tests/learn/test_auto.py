"""layout="auto": measured, bounded, and not against the other settings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import interlace as il
from interlace.codec.encode import encode
from interlace.codec.exact import nearest_rows
from interlace.evaluate.answers import recall
from interlace.learn import auto, layout_rules
from interlace.learn.auto import TOLERANCE
from interlace.learn.layout_rules import usual_layout
from interlace.learn.sample import train_count
from interlace.learn.settings import Settings

RNG = np.random.default_rng(0)
X = (RNG.normal(size=(4700, 8)) @ RNG.normal(size=(8, 8))).astype(np.float32)
SETTINGS: dict[str, Any] = {"n_bytes": 4, "n_words": 32, "iterations": 1, "threads": 1}


@pytest.fixture(autouse=True)
def few_rows_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout_rules, "COMPARE_FROM", 4000)


def test_the_table_and_the_pick() -> None:
    choice = il.ICQ(**SETTINGS).fit(X).choice_
    assert [row["layout"] for row in choice.table] == ["subspace", "hybrid", "residual"]
    best = max(row["recall"] for row in choice.table)
    good = [row for row in choice.table if row["recall"] >= best - TOLERANCE]
    chosen = min(good, key=lambda row: float(row["microseconds"]))
    assert (choice.layout, choice.n_crude) == (chosen["layout"], chosen["n_crude"])
    for row in choice.table:
        assert 0.05 < row["recall"] <= 1
        assert row["error"] > 0
        assert row["microseconds"] > 0
        assert 0 < row["survivors_share"] <= row["scanned_share"] <= 1
    text = str(choice)
    assert text.startswith(f"layout '{choice.layout}': recall@10 ")
    assert text.count("us per query predicted") == 3


def test_what_was_tried_is_what_is_learned() -> None:
    """The chosen number of crude books does not change how many books psi gets."""
    for layout in ("subspace", "hybrid", "residual"):
        model = il.ICQ(**SETTINGS)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Settings, "layouts", lambda self, only=layout: (only, only))
            model.fit(X)
        asked = il.ICQ(**SETTINGS, layout=layout).fit(X)
        assert model.choice_.layout == layout
        ours, theirs = model.codebooks_, asked.codebooks_
        assert [b.support.tolist() for b in ours.books] == [b.support.tolist() for b in theirs.books]
        assert model.choice_.n_crude == ours.n_crude


def decaying(n: int, seed: int, dim: int = 32) -> np.ndarray:
    """Clusters on axes of falling spread."""
    scale = 0.9 ** np.arange(dim)
    centres, rng = 1.5 * np.random.default_rng(5).normal(size=(50, dim)) * scale, np.random.default_rng(seed)
    return (centres[rng.integers(50, size=n)] + rng.normal(size=(n, dim)) * scale).astype(np.float32)


def code_recall(codebooks: il.Codebooks, rows: np.ndarray, queries: np.ndarray) -> float:
    """Recall@10 of the codes alone: the nearest decoded rows against the nearest rows."""
    decoded, metric = codebooks.decode(encode(codebooks, rows, 1)), codebooks.metric_type
    found, true = (nearest_rows([(0, part)], queries, 10, metric)[0] for part in (decoded, rows))
    return recall(found, true, 10)


def test_the_trial_predicts_the_recall_of_the_real_fit() -> None:
    """Among as many rows as the trial has searched, by other queries. Measured with 9,000 rows and two seeds: within
    .016 for subspace, .005 for hybrid and .009 for residual books; the trial learns from half of the rows."""
    x, queries = decaying(6000, 1), decaying(300, 101)
    given = {"n_bytes": 8, "n_words": 64, "iterations": 4, "threads": 1}
    model = il.ICQ(**given).fit(x)
    predicted = {row["layout"]: row["recall"] for row in model.choice_.table}
    searched = (train_count(6000, Settings.max_train_rows) - layout_rules.TRIAL_QUERIES) // 2
    assert f"on {searched} rows" in model.choice_.why
    some = x[np.random.default_rng(0).permutation(6000)[:searched]]
    fitted = {model.choice_.layout: model.codebooks_}
    for layout in ("hybrid", "residual"):
        codebooks = fitted.get(layout) or il.ICQ(**given, layout=layout).fit(x).codebooks_
        assert code_recall(codebooks, some, queries) == pytest.approx(predicted[layout], abs=0.03)


@pytest.mark.parametrize(("times", "layout"), [((100, 160), "hybrid"), ((100, 120), "residual")])
@pytest.mark.parametrize(("n_bytes", "cross", "long"), [(8, "auto", False), (32, "auto", True), (32, "byte", False)])
def test_long_codes_give_up_a_little_recall_for_a_much_faster_search(
    monkeypatch: pytest.MonkeyPatch, times: tuple[int, int], layout: str, n_bytes: int, cross: Any, long: bool
) -> None:
    facts = {"n_crude": 4, "n_books": n_bytes, "error": 1.0}
    found = {
        "hybrid": {"layout": "hybrid", "recall": 0.86, "microseconds": times[0], **facts},
        "residual": {"layout": "residual", "recall": 0.875, "microseconds": times[1], **facts},
    }
    monkeypatch.setattr(auto, "_measure", lambda learned, *rest: [found[learned]])
    monkeypatch.setattr(auto, "compared_layouts", lambda *given: tuple(found))
    settings = Settings(n_bytes=n_bytes, cross=cross).checked()
    learned: Any = lambda rows, name: name  # noqa: E731
    choice = auto.choose(X, learned, settings, n_rows=5000, rng=np.random.default_rng(0))
    assert choice.layout == (layout if long else "residual")


def test_long_codes_of_many_dimensions_are_not_residual_without_a_trial() -> None:
    for n_bytes, dim, layout in ((64, 384, "residual"), (64, 768, "hybrid"), (16, 768, "residual")):
        assert usual_layout(Settings(n_bytes=n_bytes).checked(), dim, 9000)[0] == layout


def test_few_rows_or_dimensions_or_bytes_say_so() -> None:
    few = il.ICQ(**SETTINGS).fit(X[:500]).choice_
    assert (few.layout, few.table) == ("hybrid", ())
    assert few.why == "the usual one; 500 rows are too few to compare layouts (4000)"
    for given, x in (({"n_bytes": 2}, X), ({}, X[:, :3])):
        assert "all layouts are nearly the same" in str(il.ICQ(**SETTINGS | given).fit(x).choice_)
    assert il.ICQ(**SETTINGS, layout="hybrid").fit(X[:500]).choice_.why == "asked for"


def test_without_a_trial_residual_books_need_rows_and_dimensions() -> None:
    enough = layout_rules.RESIDUAL_ROWS

    def usual(dim: int, n_train: int, **given: Any) -> tuple[str, str]:
        return usual_layout(Settings(**{"n_bytes": 8} | given).checked(), dim, n_train)

    assert usual(64, enough)[0] == "residual"
    assert usual(64, enough - 1)[0] == "hybrid"
    assert usual(15, enough)[0] == "hybrid"
    assert usual(64, enough, effort="fast")[0] == "residual"
    assert "effort='fastest' compares no layouts" in usual(64, enough, effort="fastest")[1]
    assert usual(64, enough, effort="fastest")[0] == "hybrid"
    assert usual(64, enough, n_bytes=32)[0] == "residual"
    assert usual(64, enough, n_bytes=33)[0] == "hybrid"
    assert usual(64, enough, cross="none")[0] == "hybrid"
    assert il.ICQ(**SETTINGS, effort="fast").fit(X).choice_.table == ()


@pytest.mark.parametrize(
    ("given", "candidates"),
    [
        ({}, ["subspace", "hybrid", "residual"]),
        ({"cross": "exact"}, ["subspace", "hybrid", "residual"]),
        ({"cross": "byte"}, ["subspace", "hybrid", "residual"]),
        ({"cross": "none"}, ["subspace", "hybrid"]),
        ({"rotation": "principal"}, ["subspace", "hybrid"]),
        ({"rotation": "none"}, ["subspace", "hybrid", "residual"]),
        ({"n_crude": 2}, ["subspace", "hybrid", "residual"]),
        ({"n_crude": 4, "cross": "exact"}, ["subspace", "hybrid", "residual"]),
        ({"metric": "cosine"}, ["subspace", "hybrid", "residual"]),
        ({"metric": "ip", "cross": "exact"}, ["subspace", "hybrid", "residual"]),
    ],
)
def test_other_settings_restrict_the_candidates(given: dict[str, Any], candidates: list[str]) -> None:
    index = il.Index.build(X, **SETTINGS | given)
    model = il.ICQ(**SETTINGS | given).fit(X)
    assert list(dict.fromkeys(row["layout"] for row in model.choice_.table)) == candidates
    assert index.codebooks == model.codebooks_
    assert index.codebooks.layout == model.choice_.layout
    if "n_crude" in given:
        assert {row["n_crude"] for row in model.choice_.table} == {given["n_crude"]}
        assert index.codebooks.n_crude == given["n_crude"]
    q = X[:20]
    exact, everything = index.search(q, margin="exact"), index.search(q, margin=np.inf)
    np.testing.assert_array_equal(exact.ids, everything.ids)


def test_a_single_candidate_needs_no_trial() -> None:
    choice = il.ICQ(**SETTINGS, n_crude=4).fit(X).choice_
    assert (choice.layout, choice.table) == ("residual", ())
    assert choice.why == "the only one that the other settings allow"


def test_the_trial_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows to learn from, to code and to ask for are bounded whatever the input."""
    coded: list[int] = []
    encode = auto.encode

    def noted(codebooks: il.Codebooks, rows: np.ndarray, threads: int) -> Any:
        coded.append(len(rows))
        return encode(codebooks, rows, threads)

    monkeypatch.setattr(auto, "encode", noted)
    monkeypatch.setattr(layout_rules, "MAX_TRIAL_TRAIN", 500)
    monkeypatch.setattr(auto, "TRIAL_ROWS", 600)
    il.ICQ(**SETTINGS).fit(X)
    assert coded == [600] * 3


def test_only_layouts_that_fold_have_fewer_cells_for_long_codes() -> None:
    settings = Settings(n_bytes=64).checked()
    assert settings.for_rows(40_000).n_cells == settings.for_rows(40_000, "hybrid").n_cells == 64
    assert settings.for_rows(40_000, "residual").n_cells == 64
    assert settings.for_rows(40_000, "subspace").n_cells == settings.n_words  # words of its first book
    asked = Settings(n_bytes=64, cells=16).checked()
    assert asked.for_rows(40_000, "subspace").n_cells == 16
