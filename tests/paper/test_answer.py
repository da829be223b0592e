"""The first page: effects over paired seeds, verdicts after correction, causes, the main finding, published figures."""

from __future__ import annotations

from typing import Any

import pytest

from interlace.paper import answer as a
from interlace.paper import causes, effects
from interlace.paper.behind import behind_table, cases
from interlace.paper.checks import FAILED, HELD, LEVEL, OPEN, SINGLE
from interlace.paper.literature import REPORTED, published_rows
from interlace.paper.page import claims_table, finding, published_table
from interlace.paper.results import Result
from interlace.paper.summary import OPS, Mean, Results
from reproduce_data import made


def lines(data: str = "mnist", seeds: int = 5, **ops: float) -> list[Result]:
    """ICQ at .6 and SQ+CQ at .5 of MAP@100 with 4, 8 and 16 books, with noise that both share."""
    cost = {"ICQ": 0.25, "SQ+CQ": 0.5} | ops
    return [
        made(label, data, k, seed, figure="real-sq", map=level + 0.05 * seed, ops=cost[label] * k, relative_error=level)
        for label, level in (("ICQ", 0.6), ("SQ+CQ", 0.5))
        for k in (4, 8, 16)
        for seed in range(seeds)
    ]


def of(sentence: str, figures: dict[str, Results]) -> a.Verdict:
    (found,) = (one for one in a.verdicts(figures) if one.statement.sentence == sentence)
    return found


def test_verdicts() -> None:
    figures = {"real-sq": Results(lines())}
    precise = of("ICQ is as precise as SQ+CQ (MNIST, CIFAR-10)", figures)
    assert precise.verdict == HELD
    assert precise.effect is not None
    assert precise.effect.value == pytest.approx(0.1)
    fewer = of("ICQ needs fewer operations than SQ+CQ (MNIST, CIFAR-10)", figures)
    assert fewer.effect is not None
    assert fewer.effect.value == pytest.approx(0.25 * 28 / 3 - 28 / 3)
    assert fewer.verdict == HELD
    error = of("ICQ does not increase the quantization error", figures)
    assert error.verdict == FAILED
    assert of("ICQ is ahead of SQ on unseen classes", figures).verdict == OPEN
    single = {"real-sq": Results(lines(seeds=1))}
    assert of("ICQ is as precise as SQ+CQ (MNIST, CIFAR-10)", single).verdict == SINGLE


def test_p_values_are_corrected_for_the_number_of_claims() -> None:
    def statement(*gaps: float) -> a.Statement:
        return a.Statement("x", "-", lambda figures: Mean.of(gaps), "MAP@100")

    weak = statement(0.01, 0.02, 0.03, 0.015, 0.002)
    (alone,) = a.verdicts({}, [weak])
    assert alone.p == pytest.approx(Mean.of((0.01, 0.02, 0.03, 0.015, 0.002)).p)
    assert alone.verdict == HELD
    among = a.verdicts({}, [weak, *(statement(0.1, -0.1, 0.05, -0.04),) * 9])
    assert among[0].p == pytest.approx(10 * alone.p)
    assert among[0].verdict == LEVEL


def test_causes() -> None:
    figures = {"real-sq": Results(lines())}
    assert causes.share_of_cascade(figures["real-sq"], "ICQ", "SQ+CQ") == pytest.approx(0.5 / 0.75)
    assert (
        causes.by_cascade("real-sq", "SQ+CQ")(figures)
        == "the method's search: SQ+CQ saves 67% of it in the same search"
    )
    dear = {"real-sq": Results(lines(**{"SQ+CQ": 0.9}))}
    assert causes.by_cascade("real-sq", "SQ+CQ")(dear).startswith("the method's split")
    assert causes.by_cascade("pqn", "PQN")(figures) == "undecided"
    levels = {"ICQ": 0.6, "as written": 0.4, "SQ+CQ": 0.5}

    def ablation(**changed: float) -> dict[str, Results]:
        maps = levels | {key.replace("_", " "): value for key, value in changed.items()}
        return {"ablation": Results(made(n, n_books=8, seed=s, map=v) for n, v in maps.items() for s in range(3))}

    assert causes.by_recipe(ablation()).startswith("our recipe (as written -0.100")
    assert causes.by_recipe(ablation(as_written=0.7)).startswith("the method (as written +0.200")
    assert causes.by_recipe(ablation(as_written=0.5)) == "undecided"
    assert causes.by_recipe({}) == "undecided"


def test_settings_as_a_cause() -> None:
    assert causes.by_settings(causes.by_recipe)({}) == "undecided"

    def found(same: float) -> str:
        lines = {
            "ICQ, rate_embedding = 0.001": 0.6,
            "SQ+CQ, scale = 4": 0.5,
            "ICQ, both": 0.6,
            "SQ+CQ, both": 0.6 - same,
        }
        results = [
            made(label, "cifar10-gist", 8, s, map=v + (0.001 * s if label.startswith("ICQ") else 0.0))
            for label, v in lines.items()
            for s in range(3)
        ]
        return causes.by_settings(causes.by_recipe)({"controls/settings": Results(results)})

    assert found(0.1).startswith("not the settings: with the same two settings the lead on GIST is +0.101")
    assert found(0.05).startswith("partly tuning: with the same two settings the lead on GIST is +0.051")
    assert found(0.0).startswith("possibly tuning: ")


def test_causes_that_compare_measures_and_books() -> None:
    assert causes.by_measure(effects.gap, "real-sq", "SQ+CQ")({}) == "undecided"
    same = causes.by_measure(effects.gap, "real-sq", "SQ+CQ")({"real-sq": Results(lines())})
    assert same == "the same by either measure: the MAP of the whole ranking differs by +0.100 [+0.100, +0.100]"
    assert causes.without_split({}) == "undecided"
    for ours, theirs, told in (
        (0.2, 0.2, "not the split: SQ+CQ has less"),
        (0.9, 0.9, "not the split: SQ+CQ has more"),
        (0.2, 0.9, "the split: SQ+CQ has more"),
    ):
        at_16 = {"ICQ": ours, "SQ+CQ": theirs}
        results = Results(
            made(label, "mnist", k, s, map=value + 0.01 * s)
            for label in at_16
            for k, value in ((4, 0.3), (8, 0.5), (16, at_16[label]))
            for s in range(3)
        )
        assert causes.without_split({"real-sq": results}).startswith(told)


def test_the_claim_about_most_books_and_informative_features() -> None:
    values = {2: 0.1, 4: 0.3, 8: 0.5, 16: 0.4}
    results = Results(made("ICQ", "mnist", k, s, map=v) for k, v in values.items() for s in range(3))
    effect = effects.most_books("real-sq")({"real-sq": results})
    assert effect is not None
    assert effect.value == pytest.approx(-0.1)
    gains = {"synthetic1": 0.05, "synthetic3": 0.2}
    both = Results(
        made(label, data, 4, s, map=0.5 + (gain if label == "ICQ" else 0.0))
        for data, gain in gains.items()
        for label in ("ICQ", "SQ+CQ")
        for s in range(3)
    )
    found = effects.informative({"synthetic-cq": both})
    assert found is not None
    assert found.value == pytest.approx(-0.15)


def test_the_page_says_what_was_measured() -> None:
    figures = {"real-sq": Results(lines())}
    table = claims_table(figures).splitlines()
    row = next(line for line in table if line.startswith("| ICQ is as precise as SQ+CQ (MNIST, CIFAR-10)"))
    assert row.startswith(
        "| ICQ is as precise as SQ+CQ (MNIST, CIFAR-10) | Fig. 3 | held | +0.100 [+0.100, +0.100] MAP@100 | <.001 |"
    )
    assert len([line for line in table if line.startswith("| ")]) == 2 + len(a.STATEMENTS)
    assert 10 <= len(a.STATEMENTS) <= 16
    told = finding(figures)
    assert "The two-step search and the learned split both save operations" in told
    assert "67% on MNIST and CIFAR-10 (67% with 16 books)" in told
    assert "most of the saved operations come from the two-step search" in finding(
        {"real-sq": Results(lines(**{"SQ+CQ": 0.26}))}
    )
    assert "come from the learned split" in finding({"real-sq": Results(lines(**{"SQ+CQ": 0.95}))})
    assert finding({}) == ""


def test_published_figures_are_called_reported() -> None:
    rows = published_rows({})
    assert len(rows) == len(REPORTED)
    assert all(row[3].endswith("(reported)") and row[4] == "not measured" for row in rows)
    figure, data, label, n_books = REPORTED[0].run
    results: dict[str, Any] = {figure: Results([made(label, data, n_books, s, map=0.9) for s in range(2)])}
    assert published_rows(results)[0][4:] == ("0.900 ± 0.000", "MAP", "standard", "2", "c0ffee")
    assert "0.900 ± 0.000 | MAP | standard | 2 | c0ffee |" in published_table(results)
    full = {figure: Results([made(label, data, n_books, 0, map=0.8)])}
    for beside in ({}, results):  # the full size is the one of the papers
        assert published_rows(beside, full)[0][4:] == ("0.800", "MAP", "full", "1", "c0ffee")


def test_data_sets_that_disagree_are_not_averaged_away() -> None:
    def both(gist: tuple[float, ...]) -> a.Verdict:
        noise = (0.0, 0.001, -0.001, 0.002, -0.002)
        gaps = {"mnist": tuple(0.1 + n for n in noise), "cifar10-gist": gist}
        results = [
            made(label, data, k, seed, map=0.5 + (gap if label == "ICQ" else 0.0))
            for data, found in gaps.items()
            for seed, gap in enumerate(found)
            for label in ("ICQ", "SQ+CQ")
            for k in (4, 8)
        ]
        return of("ICQ is as precise as SQ+CQ (MNIST, CIFAR-10)", {"real-sq": Results(results)})

    same = both((0.05, 0.051, 0.049, 0.052, 0.048))
    assert (same.verdict, same.disagree) == (HELD, False)
    worse = both((-0.02, -0.021, -0.019, -0.022, -0.018))
    assert worse.effect is not None
    assert worse.effect.value > 0
    assert (worse.verdict, worse.disagree) == (a.MIXED, True)
    undecided = both((-0.2, 0.2, 0.1, -0.1, 0.0))
    assert undecided.parts["cifar10-gist"].sign() == 0
    assert (undecided.verdict, undecided.disagree) == (a.LEVEL, True)  # the average does not decide, MNIST does
    opposite = both((-0.1, -0.101, -0.099, -0.102, -0.098))
    assert (opposite.verdict, opposite.disagree) == (a.MIXED, True)  # nor here, where both decide
    assert a.parts_of(a.Statement("x", "-", effects.informative, "MAP@100"), {}) == {}


def test_the_page_lists_every_case_behind() -> None:
    noise = (0.0, 0.001, -0.001)
    values = {("ICQ", 4): 0.5, ("SQ+CQ", 4): 0.4, ("SQ+PQ", 4): 0.6, ("ICQ", 8): 0.7, ("SQ+PQ", 8): 0.6}
    synthetic = [
        made(label, "synthetic2", k, seed, map=value + (noise[seed] if label == "ICQ" else 0.0))
        for (label, k), value in values.items()
        for seed in range(3)
    ]
    deep = [made(label, "cifar10-54k", 6, map=value) for label, value in (("ICQ (CNN)", 0.3), ("DPQ (CNN)", 0.4))]
    figures = {"synthetic-pq": Results(synthetic), "published": Results(deep)}
    found, n = cases(figures)
    assert n == 3
    assert [(one.data, one.n_books, one.theirs) for one in found] == [
        ("cifar10-54k", 6, "DPQ (CNN)"),
        ("synthetic2", 4, "SQ+PQ"),
    ]
    assert "| CIFAR-10 (54K rows) | DPQ (CNN) | 6: -0.100 (one seed) (3.00) | none |" in behind_table(figures)
    tried = {"SQ+PQ": 0.6, "ICQ": 0.5, "ICQ, half of the books on psi": 0.58}
    figures["controls/gap"] = Results(
        made(label, "synthetic2", 4, seed, figure="gap", map=value)
        for label, value in tried.items()
        for seed in (11, 12)
    )
    row = next(line for line in behind_table(figures).splitlines() if line.startswith("| Dataset 2"))
    assert row.endswith(
        "| 4: half of the books on psi, -0.020 [-0.020, -0.020] (2.00) in place of -0.100 [-0.100, -0.100] (2.00) |"
    )
    assert behind_table({}) == ""


def test_equal_cost_compares_at_the_effective_length() -> None:
    results = [made("SQ+CQ", n_books=k, seed=s, map=v) for k, v in ((2, 0.3), (4, 0.5)) for s in range(2)]
    results += [made("ICQ", n_books=4, seed=s, map=0.45, ops=2.0) for s in range(2)]
    found = effects.equal_cost("effective", "SQ+CQ")({"effective": Results(results)})
    assert found is not None
    assert found.value == pytest.approx(0.15)  # two additions are worth 16 bits
    assert effects.equal_cost("effective", "SQ+CQ")({}) is None
    assert effects.gap("effective", "SQ+CQ", OPS)({"effective": Results(results)}) is not None
