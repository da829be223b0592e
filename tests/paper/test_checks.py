"""Checks of claims: verdicts by paired differences and Student's intervals, and the numbers behind them."""

from __future__ import annotations

from typing import Any

import pytest

from interlace.paper import ablations, levels
from interlace.paper import checks as c
from interlace.paper.claims import CLAIMS
from interlace.paper.results import Result
from interlace.paper.summary import OPS, Results
from reproduce_data import made


def pair(ours: float, theirs: float, n_books: int = 4, data: str = "synthetic1", **more: Any) -> list[Result]:
    return [made("ICQ", data, n_books, map=ours, **more), made("SQ+CQ", data, n_books, map=theirs)]


def thrice(*results: Result) -> list[Result]:
    """Three seeds of each result, with equal numbers: every gap that is not 0 is beyond noise."""
    return [r | {"run": r["run"] | {"seed": s}} for r in results for s in range(3)]


def answer(check: c.Check, *results: Result) -> c.Answer:
    return check(Results(thrice(*results)))


def verdict(check: c.Check, *results: Result) -> str:
    return answer(check, *results).verdict


NOISY = [
    *(made("ICQ", seed=s, map=0.5 + d) for s, d in enumerate((0.1, -0.11, 0.0))),
    *(made("SQ+CQ", seed=s, map=0.5) for s in range(3)),
]


def test_at_least() -> None:
    check = c.at_least("ICQ", "SQ+CQ")
    assert verdict(check, *pair(0.5, 0.4)) == c.HELD
    assert verdict(check, *pair(0.5, 0.5)) == c.LEVEL
    assert verdict(check, *pair(0.4, 0.5)) == c.FAILED
    assert verdict(check, *pair(0.5, 0.4), *pair(0.6, 0.5, 8), *pair(0.4, 0.5, 16)) == c.PARTLY
    assert verdict(check, *pair(0.5, 0.4), *pair(0.4, 0.5, 8)) == c.PARTLY  # behind in half of the cases
    assert verdict(check, *pair(0.5, 0.4), *pair(0.4, 0.5, 8), *pair(0.4, 0.5, 16)) == c.FAILED
    assert verdict(c.at_least("ICQ", "SQ+CQ", 0.01), *pair(0.495, 0.5)) == c.LEVEL
    assert verdict(c.at_least("ICQ", "SQ+CQ", 0.01), *pair(0.485, 0.5)) == c.FAILED
    assert verdict(check, made("ICQ")) == c.OPEN
    assert answer(check, *pair(0.5, 0.4), *pair(0.4, 0.5, 8)).tested == 2


def test_one_seed_decides_nothing() -> None:
    results = Results([*pair(0.5, 0.4), *pair(0.4, 0.5, 8)])
    for check in (c.at_least("ICQ", "SQ+CQ"), c.ahead("ICQ", "SQ+CQ"), c.fewer_ops("SQ+CQ"), c.equal_length("SQ+CQ")):
        assert check(results).verdict == c.SINGLE
        assert check(results).tested == 0
    assert "one seed in 2" in c.ahead("ICQ", "SQ+CQ")(results).numbers


def test_a_gap_within_noise_is_no_difference() -> None:
    assert c.at_least("ICQ", "SQ+CQ")(Results(NOISY)).verdict == c.LEVEL
    assert c.ahead("ICQ", "SQ+CQ")(Results(NOISY)).verdict == c.LEVEL
    assert "no difference in 1" in c.ahead("ICQ", "SQ+CQ")(Results(NOISY)).numbers
    # Twice the standard error, which is less than Student's t for three seeds, is not enough.
    close = [made("ICQ", seed=s, map=0.5 + d) for s, d in enumerate((0.01, 0.02, 0.03))]
    close += [made("SQ+CQ", seed=s, map=0.5) for s in range(3)]
    assert c.ahead("ICQ", "SQ+CQ")(Results(close)).verdict == c.LEVEL


def test_ahead_and_where_less_is_better() -> None:
    assert verdict(c.ahead("ICQ", "SQ+CQ"), *pair(0.5, 0.4), *pair(0.4, 0.4, 8)) == c.PARTLY
    lower = [made("CQ", relative_error=0.1), made("PQ", relative_error=0.2)]
    assert verdict(c.ahead("CQ", "PQ", "error", -1), *lower) == c.HELD
    assert verdict(c.ahead("PQ", "CQ", "error", -1), *lower) == c.FAILED


def test_verdicts_by_lists_tell_that_by_the_whole_ranking() -> None:
    results = [made("ICQ", map=0.6, **{"map@100": 0.5}), made("PQN", map=0.5, **{"map@100": 0.7})]
    for check in (c.ahead("ICQ", "PQN"), c.at_least("ICQ", "PQN")):
        found = answer(check, *results)
        assert found.verdict == c.FAILED
        assert found.numbers.endswith(
            "by MAP of the whole ranking held: +0.100, ahead in 1, behind in 0, no difference in 0"
        )
    assert "whole ranking" not in answer(c.ahead("ICQ", "PQN", "error", -1), *results).numbers


def test_errors_that_do_not_rise() -> None:
    check = c.at_least("ICQ", "SQ+CQ", measure="error", sign=-1)

    def errors(ours: float, theirs: float, n_books: int = 4) -> list[Result]:
        return [made(label, n_books=n_books, relative_error=v) for label, v in (("ICQ", ours), ("SQ+CQ", theirs))]

    assert verdict(check, *errors(0.1, 0.2)) == c.HELD
    assert verdict(check, *errors(0.2, 0.1)) == c.FAILED
    assert verdict(check, *errors(0.2, 0.1), *errors(0.1, 0.2, 8)) == c.PARTLY
    assert verdict(check, *errors(0.2, 0.1, 2)) == c.OPEN  # there they are one method


def test_precision_that_peaks_with_the_most_books() -> None:
    def lines(*maps: float, data: str = "mnist") -> list[Result]:
        return [made("ICQ", data, n_books=k, map=v) for k, v in zip((2, 4, 8), maps, strict=False)]

    check = c.peaks_with_most_books("ICQ", "SQ+CQ")
    assert verdict(check, *lines(0.3, 0.5, 0.6)) == c.HELD
    assert verdict(check, *lines(0.3, 0.6, 0.5)) == c.FAILED
    assert verdict(check, *lines(0.4, 0.3, 0.5)) == c.FAILED  # the fewest are not the worst
    assert verdict(check, *lines(0.3, 0.5, 0.6), *lines(0.6, 0.5, data="cifar10")) == c.PARTLY
    assert verdict(check, *lines(0.3)) == c.OPEN
    assert verdict(check, *lines(0.3, 0.5, 0.6), made("ICQ", "mnist", 1, map=0.9)) == c.HELD  # K = 1 is a control


def test_the_worst_case_is_named_with_its_interval() -> None:
    numbers = answer(c.at_least("ICQ", "SQ+CQ"), *pair(0.5, 0.4), *pair(0.42, 0.5, 8)).numbers
    start = "MAP@100 +0.010 on average over 2 cases, worst -0.080 [-0.080, -0.080] (synthetic1, 8 books); ahead in 1"
    assert numbers.startswith(start)


def test_operations() -> None:
    few = pair(0.5, 0.5, 4, ops=3.0)
    assert verdict(c.fewer_ops("SQ+CQ"), *few) == c.HELD  # than the four of the exhaustive scan
    assert verdict(c.fewer_ops("SQ+CQ", reference=OPS), *few) == c.FAILED  # which are two
    assert verdict(c.fewer_ops("SQ+CQ"), *pair(0.5, 0.5, 2, ops=1.0)) == c.OPEN


def test_the_gap_grows() -> None:
    def lines(*ops: float) -> list[Result]:
        return [made(n_books=k, ops=o) for k, o in zip((2, 4, 8), ops, strict=False)]

    assert verdict(c.growing_gap(), *lines(2.0, 3.0, 4.0)) == c.HELD
    assert verdict(c.growing_gap(), *lines(1.0, 2.0, 4.0)) == c.PARTLY  # with two books, too
    assert verdict(c.growing_gap(), *lines(1.0, 3.5, 7.6)) == c.FAILED
    assert verdict(c.growing_gap(), *lines(2.0)) == c.OPEN


def test_equal_length() -> None:
    theirs = [made("SQ+CQ", n_books=k, map=v) for k, v in ((2, 0.3), (4, 0.5))]
    # 32 bits at 2 of 4 operations are worth 16 bits.
    assert verdict(c.equal_length("SQ+CQ"), *theirs, made(n_books=4, ops=2.0, map=0.4)) == c.HELD
    assert verdict(c.equal_length("SQ+CQ"), *theirs, made(n_books=4, ops=2.0, map=0.2)) == c.FAILED
    dqn = [made("DQN", n_books=k, map=v) for k, v in ((2, 0.3), (4, 0.5))]
    short, long = made(n_books=2, ops=2.0, map=0.2), made(n_books=4, ops=2.0, map=0.4)
    assert verdict(c.equal_length("DQN"), *theirs, *dqn, short, long) == c.PARTLY
    assert verdict(c.equal_length("DQN", long_only=True), *theirs, *dqn, short, long) == c.HELD
    assert verdict(c.equal_length("DQN", long_only=True), *theirs, *dqn, short, made(n_books=4, ops=2.0, map=0.1)) == (
        c.FAILED
    )
    found = answer(c.equal_length("DPQ"), *theirs, short, long, made("DPQ", n_books=2, map=0.9))
    told = (
        "MAP@100 -0.700 at 16 bits (2 books), -0.500 at 16 bits (4 books); ahead in 0, behind in 2, no difference in 0"
    )
    assert found.verdict == c.FAILED
    assert found.numbers == f"{told}; by MAP of the whole ranking did not hold: -0.700, -0.500"
    cheap = made(n_books=4, ops=1.0, map=0.4)
    assert "+0.100 at 8 bits (4 books, against 16)" in answer(c.equal_length("SQ+CQ"), *theirs, cheap).numbers
    by_work = answer(c.equal_length("SQ+CQ", operations=True), *theirs, cheap).numbers
    assert "+0.100 at 1.0 additions (4 books, against 2)" in by_work
    both = [*theirs, long, *(made(label, "mnist", ops=2.0) for label in ("ICQ", "SQ+CQ"))]
    assert "16 bits (synthetic1, 4 books)" in answer(c.equal_length("SQ+CQ"), *both).numbers
    elsewhere = made("DPQ", "mnist", 2, map=0.9)
    assert verdict(c.equal_length("DPQ"), *theirs, short, long, elsewhere) == c.OPEN


def test_equal_length_within_noise_is_not_ahead() -> None:
    def seeds(*maps: float) -> Results:
        theirs = [made("SQ+CQ", n_books=4, seed=s, map=0.3) for s in range(len(maps))]
        return Results(theirs + [made(n_books=4, ops=2.0, seed=s, map=v) for s, v in enumerate(maps)])

    assert c.equal_length("SQ+CQ")(seeds(0.32, 0.321, 0.322)).verdict == c.HELD
    assert c.equal_length("SQ+CQ")(seeds(0.2, 0.3, 0.5)).verdict == c.LEVEL


def test_two_books_where_both_are_one_method_are_left_out() -> None:
    same, more = pair(0.3, 0.3, 2, ops=2.0), pair(0.5, 0.4, 4, ops=2.0)
    for check in (c.ahead("ICQ", "SQ+CQ"), c.equal_length("SQ+CQ")):
        assert verdict(check, *same, *more) == c.HELD
        assert verdict(check, *same) == c.OPEN
        assert answer(check, *same, *more).numbers.endswith("because both methods are the same there")
    pqn = [made("PQN", n_books=2, map=0.4), *same]
    assert verdict(c.ahead("ICQ", "PQN"), *pqn) == c.FAILED  # another method, also with two


def test_many_informative_features() -> None:
    def gaps(*values: float) -> list[Result]:
        return [r for i, v in enumerate(values, 1) for r in pair(0.5 + v, 0.5, data=f"synthetic{i}")]

    assert verdict(c.many_informative, *gaps(0.1, 0.05, -0.1)) == c.HELD
    assert verdict(c.many_informative, *gaps(0.01, 0.05, 0.1)) == c.PARTLY
    assert verdict(c.many_informative, *gaps(-0.01, 0.05, 0.1)) == c.FAILED
    assert verdict(c.many_informative, *gaps(0.1)) == c.OPEN
    assert c.many_informative(Results(gaps(0.1, 0.05, -0.1))).verdict == c.SINGLE
    told = answer(c.many_informative, *gaps(0.01, 0.05, 0.1)).numbers
    assert "at 4 books +0.010 on synthetic1, +0.050 on synthetic2, +0.100 on synthetic3" in told
    assert told.endswith("its gain with many informative features (32) is smaller than with few (8)")


def test_many_informative_features_are_compared_at_the_same_books_and_beyond_noise() -> None:
    same = [r for i in (1, 2, 3) for r in pair(0.6, 0.5, data=f"synthetic{i}")]
    only_there = pair(0.9, 0.5, 16)  # which only Dataset 1 has
    found = answer(c.many_informative, *same, *only_there)
    assert found.verdict == c.PARTLY
    assert found.numbers.endswith("is no different from the gain with few (8)")
    noisy = [
        made(label, f"synthetic{i}", seed=s, map=0.5 + (label == "ICQ") * (0.1 + (i == 1) * d))
        for s, d in enumerate((0.1, -0.08, 0.0))
        for i in (1, 2, 3)
        for label in ("ICQ", "SQ+CQ")
    ]
    assert c.many_informative(Results(noisy)).numbers.endswith("is no different from the gain with few (8)")


def test_dense_against_product_books() -> None:
    check = levels.lower_error(("CQ", "ICQ residual"), ("PQ", "OPQ"))

    def errors(cq: float, residual: float, pq: float, opq: float) -> list[Result]:
        named = {"CQ": cq, "ICQ residual": residual, "PQ": pq, "OPQ": opq}
        return [made(label, "vectors", relative_error=v) for label, v in named.items()]

    assert verdict(check, *errors(0.2, 0.1, 0.4, 0.3)) == c.HELD
    assert verdict(check, *errors(0.35, 0.1, 0.4, 0.3)) == c.FAILED  # the worst against the best
    assert verdict(check, *errors(0.2, 0.1, 0.4, 0.3)[:2]) == c.OPEN


def test_settings_that_move_little() -> None:
    results = [made(n_books=8, map=0.5), made("alpha2 = -1", n_books=8, map=0.495)]
    assert verdict(ablations.moves_little("alpha2"), *results) == c.HELD
    assert verdict(ablations.moves_little("alpha2", needed=False), *results) == c.FAILED
    assert verdict(ablations.moves_little("alpha2"), *results, made("alpha2 = -3", n_books=8, map=0.4)) == c.FAILED
    assert verdict(ablations.moves_little("pi2"), *results) == c.OPEN


@pytest.mark.parametrize(
    ("start", "label"),
    [
        ("EM and gradient", "prior by EM"),
        ("Soft constraints", "soft groups to the end"),
        ("(Ours:) The method as written", "as written"),
    ],
)
def test_a_variant_that_is_better_does_not_speak_against_it(start: str, label: str) -> None:
    (check,) = (claim.check for claim in CLAIMS["ablation"] if claim.sentence.startswith(start))
    found = [verdict(check, made(n_books=8, map=0.5), made(label, n_books=8, map=v)) for v in (0.6, 0.495, 0.4)]
    assert found == [c.HELD, c.LEVEL, c.FAILED]


def test_the_robustness_term() -> None:
    (check,) = (claim.check for claim in CLAIMS["ablation"] if claim.sentence.startswith("The robustness term"))
    default, label = made(n_books=8, map=0.5), "no robustness term"
    assert verdict(check, default, made(label, n_books=8, map=0.4)) == c.HELD  # without it MAP falls
    assert verdict(check, default, made(label, n_books=8, map=0.6)) == c.FAILED  # it does not rise
    assert verdict(check, default, made(label, n_books=8, map=0.499)) == c.LEVEL


def test_parts_that_are_needed() -> None:
    check, default = ablations.needed("no L_P"), made(n_books=8, map=0.5, ops=2.0)
    assert verdict(check, default, made("no L_P", n_books=8, map=0.4, ops=2.0)) == c.HELD
    assert verdict(check, default, made("no L_P", n_books=8, map=0.5, ops=2.5)) == c.HELD
    assert verdict(check, default, made("no L_P", n_books=8, map=0.6, ops=2.0)) == c.FAILED
    assert verdict(check, default, made("no L_P", n_books=8, map=0.495, ops=2.05)) == c.FAILED  # a little
    assert verdict(check, default) == c.OPEN
    assert check(Results([default, made("no L_P", n_books=8, map=0.4)])).verdict == c.SINGLE


def test_the_margin_of_the_paper() -> None:
    def agreeing(label: str, value: float) -> Result:
        result = made(label, n_books=8)
        searches = {"paper": value, "paper, codes": value / 2}
        result["measures"]["searches"] = {
            f"crude order, {name}": {"ops": 1.0, "agreement": found} for name, found in searches.items()
        }
        return result

    both = answer(ablations.margin_suffices, agreeing("ICQ", 0.995), agreeing("sigma = 0.5", 0.7))
    assert both.verdict == c.HELD
    assert "0.995, of codes 0.497 (sigma = 1, synthetic1, 8 books)" in both.numbers
    assert verdict(ablations.margin_suffices, agreeing("ICQ", 0.9)) == c.FAILED
    assert verdict(ablations.margin_suffices, agreeing("sigma = 2", 0.9)) == c.OPEN


def test_a_level_that_is_reached() -> None:
    results = [made("SQ", "mnist", 4, map=0.9), made("SQ", "mnist", 8, map=0.95)]
    assert verdict(levels.reaches("SQ", "mnist", 0.94), *results) == c.HELD
    assert verdict(levels.reaches("SQ", "mnist", 0.96), *results) == c.FAILED
    assert verdict(levels.reaches("SQ", "text", 0.1), *results) == c.OPEN
    assert "0.950 ± 0.000 (8 books)" in answer(levels.reaches("SQ", "mnist", 0.94), *results).numbers


def test_codes_beyond_the_float_vectors() -> None:
    ours, theirs = made("ICQ", "text", map=0.7), made("OPQ", "text", map=0.1)  # whose float vectors are at .61
    found = answer(levels.beyond_float("ICQ", "OPQ"), ours, theirs)
    assert found.verdict == c.HELD
    assert "+0.090 [+0.090, +0.090] (text, 4 books)" in found.numbers
    assert verdict(levels.beyond_float("ICQ", "OPQ"), made("ICQ", "text", map=0.5), theirs) == c.FAILED
    assert verdict(levels.beyond_float("ICQ", "PQ"), ours) == c.OPEN


def test_methods_on_other_features_of_the_same_images() -> None:
    ours = [made(label, "gist", k, ops=2.0, map=0.4) for label in ("ICQ", "SQ+CQ") for k in (2, 4)]
    deep = [made("DQN (CNN)", "cnn", k, map=v) for k, v in ((2, 0.3), (4, 0.5))]
    check = c.equal_length("DQN (CNN)", their_data="cnn")
    assert "+0.100 at 16 bits (gist, 4 books)" in answer(check, *ours, *deep).numbers
    assert verdict(c.equal_length("DQN (CNN)"), *ours, *deep) == c.OPEN
