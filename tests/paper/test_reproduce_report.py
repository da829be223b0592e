"""What the report says is what the results say: means, gaps, claims, tables, pictures."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import interlace as il
from interlace.paper import ablations, drawing
from interlace.paper import checks as c
from interlace.paper.claims import CLAIMS
from interlace.paper.figures import BASELINES, FIGURES
from interlace.paper.report import notes_of, page_text, table_of, write_report
from interlace.paper.results import Result, ResultFolder
from interlace.paper.summary import Mean, Results, value_of
from raising import raises
from reproduce_data import made

MAPS = st.lists(st.floats(0, 1), min_size=1, max_size=6)


class TestSummary:
    @given(MAPS)
    def test_means_are_over_seeds(self, maps: list[float]) -> None:
        results = Results(made(seed=i, map=v) for i, v in enumerate(maps))
        found = results.mean("synthetic1", "ICQ", 4, "map")
        assert found is not None
        assert found.n == len(maps)
        assert found.value == pytest.approx(sum(maps) / len(maps))
        variance = sum((v - sum(maps) / len(maps)) ** 2 for v in maps) / max(1, len(maps) - 1)
        assert found.spread == pytest.approx(math.sqrt(variance), abs=1e-9)
        assert found.noise == pytest.approx(2 * math.sqrt(variance / len(maps)), abs=1e-9)

    @given(MAPS, MAPS)
    def test_gaps_pair_seeds(self, ours: list[float], theirs: list[float]) -> None:
        results = Results(
            [
                *(made("ICQ", seed=i, map=v) for i, v in enumerate(ours)),
                *(made("SQ+CQ", seed=i, map=v) for i, v in enumerate(theirs)),
            ]
        )
        gap = results.gap("synthetic1", 4, "ICQ", "SQ+CQ", "map")
        differences = [a - b for a, b in zip(ours, theirs, strict=False)]
        assert gap is not None
        assert gap.n == len(differences)
        assert gap.value == pytest.approx(np.mean(differences))

    def test_what_was_not_measured_is_none(self) -> None:
        results = Results([made(), made("random codes", n_books=0)])
        assert results.mean("synthetic1", "ICQ", 8, "map") is None
        assert results.gap("synthetic1", 4, "ICQ", "SQ+CQ", "map") is None
        assert results.mean("synthetic1", "random codes", 0, "two-step") is None
        assert value_of(made("random codes", n_books=0), "exhaustive") is None
        assert value_of(made(n_books=8), "exhaustive") == 8
        assert results.labels() == ["ICQ"]
        assert results.labels(codes=False) == ["random codes"]

    def test_lines_come_as_the_figure_lists_them_and_others_by_name(self) -> None:
        results = [made(label) for label in ("z", "ICQ x", "pi2 = 0.1", "a", "no L_P", "ICQ")]
        order = FIGURES["ablation"].lines
        assert order.index("no L_P") < order.index("pi2 = 0.1")
        assert Results(results, order).labels() == ["ICQ", "no L_P", "pi2 = 0.1", "ICQ x", "a", "z"]
        assert Results(results, order).by_seed()[0].labels() == Results(results, order).labels()

    def test_warnings_and_versions_are_notes(self) -> None:
        said = "the prior collapsed (a sigma ran to 0); see docs"
        results = [made("ICQ"), made("a", seed=0), made("a", seed=1), made("b")]
        for result in results[1:]:
            result["warnings"] = [said, said.replace("sigma", "mode")]
        assert notes_of(Results(results)) == ["Fits with the warning that the prior collapsed: a (2), b (1)"]
        results[0]["versions"], results[1]["versions"] = {"interlace": "0.1"}, {"interlace": "0.2"}
        assert notes_of(Results(results[:2]))[1] == (
            "Results of different versions of interlace (0.1, 0.2): compare with care"
        )

    def test_the_effective_length_is_that_of_the_paper(self) -> None:
        results = Results([made("ICQ", n_books=8, ops=2.0), made("SQ+CQ", n_books=8, ops=5.0)])
        assert results.effective_length("synthetic1", "ICQ", 8, "SQ+CQ", "exhaustive") == pytest.approx(64 * 2 / 8)
        assert results.effective_length("synthetic1", "ICQ", 8, "SQ+CQ", "two-step") == pytest.approx(64 * 2 / 5)
        assert results.effective_length("synthetic1", "ICQ", 4, "SQ+CQ", "exhaustive") is None

    def test_lengths_between_two_codes(self) -> None:
        results = Results(made(n_books=k, map=v) for k, v in ((2, 0.2), (4, 0.4), (16, 0.6)))
        for bits, expected in ((1, 0.2), (16, 0.2), (32, 0.4), (64, 0.5), (128, 0.6), (999, 0.6)):
            assert results.at_length("synthetic1", "ICQ", bits) == pytest.approx(expected)
        assert results.at_length("synthetic1", "PQ", 32) is None

    def test_results_of_different_data_are_not_mixed(self) -> None:
        with raises(il.InputError, "synthetic1", 0):
            Results([made("ICQ"), made("SQ+CQ", sha256="other")])
        Results([made("ICQ"), made("SQ+CQ", seed=1, sha256="other")])  # another seed is another draw

    def test_text(self) -> None:
        assert Mean(0.5, 0.01, 3).text() == "0.500 ± 0.010"
        assert Mean(0.5, 0.0, 1).text(2) == "0.50"


def pair(ours: float, theirs: float, n_books: int = 4, data: str = "synthetic1", **more: Any) -> list[Result]:
    return [made("ICQ", data, n_books, map=ours, **more), made("SQ+CQ", data, n_books, map=theirs)]


def verdict(check: c.Check, *results: Result) -> str:
    return check(Results(results)).verdict


class TestClaims:
    def test_at_least(self) -> None:
        check = c.at_least("ICQ", "SQ+CQ")
        assert verdict(check, *pair(0.5, 0.4)) == c.HELD
        assert verdict(check, *pair(0.5, 0.5)) == c.HELD
        assert verdict(check, *pair(0.4, 0.5)) == c.FAILED
        assert verdict(check, *pair(0.5, 0.4), *pair(0.6, 0.5, 8), *pair(0.4, 0.5, 2)) == c.PARTLY
        assert verdict(check, *pair(0.5, 0.4), *pair(0.4, 0.5, 2)) == c.PARTLY  # behind in half of the cases
        assert verdict(check, *pair(0.5, 0.4), *pair(0.4, 0.5, 8), *pair(0.4, 0.5, 2)) == c.FAILED
        assert verdict(c.at_least("ICQ", "SQ+CQ", 0.01), *pair(0.495, 0.5)) == c.HELD
        assert verdict(c.at_least("ICQ", "SQ+CQ", 0.01), *pair(0.485, 0.5)) == c.FAILED
        assert verdict(check, made("ICQ")) == c.OPEN

    def test_a_gap_within_noise_is_neither(self) -> None:
        results = [made("ICQ", seed=s, map=0.5 + d) for s, d in enumerate((0.1, -0.11, 0.0))]
        results += [made("SQ+CQ", seed=s, map=0.5) for s in range(3)]
        assert verdict(c.at_least("ICQ", "SQ+CQ"), *results) == c.HELD
        assert verdict(c.ahead("ICQ", "SQ+CQ"), *results) == c.FAILED
        assert "within noise in 1" in c.ahead("ICQ", "SQ+CQ")(Results(results)).numbers

    def test_ahead_and_where_less_is_better(self) -> None:
        assert verdict(c.ahead("ICQ", "SQ+CQ"), *pair(0.5, 0.4), *pair(0.4, 0.4, 8)) == c.PARTLY
        lower = [made("CQ", relative_error=0.1), made("PQ", relative_error=0.2)]
        assert verdict(c.ahead("CQ", "PQ", "error", "error", -1), *lower) == c.HELD
        assert verdict(c.ahead("PQ", "CQ", "error", "error", -1), *lower) == c.FAILED

    def test_gaps_of_map_tell_those_of_lists_as_well(self) -> None:
        results = Results([made("ICQ", map=0.6, **{"map@100": 0.5}), made("PQN", map=0.5, **{"map@100": 0.7})])
        for check in (c.ahead("ICQ", "PQN"), c.at_least("ICQ", "PQN")):
            assert check(results).verdict == c.HELD
            assert check(results).numbers.endswith("; MAP@100 -0.200, ahead in 0, behind in 1")
        assert "MAP@100" not in c.ahead("ICQ", "PQN", "error", "error", -1)(results).numbers

    def test_errors_that_do_not_rise(self) -> None:
        check = c.at_least("ICQ", "SQ+CQ", measure="error", what="error", sign=-1)

        def errors(ours: float, theirs: float, n_books: int = 4) -> list[Result]:
            return [made(label, n_books=n_books, relative_error=v) for label, v in (("ICQ", ours), ("SQ+CQ", theirs))]

        assert verdict(check, *errors(0.1, 0.2)) == c.HELD
        assert verdict(check, *errors(0.2, 0.1)) == c.FAILED
        assert verdict(check, *errors(0.2, 0.1), *errors(0.1, 0.2, 8)) == c.PARTLY
        assert verdict(check, *errors(0.2, 0.1, 2)) == c.OPEN  # there they are one method

    def test_precision_that_peaks_with_the_most_books(self) -> None:
        def lines(*maps: float, data: str = "mnist") -> list[Result]:
            return [made("ICQ", data, n_books=k, map=v) for k, v in zip((2, 4, 8), maps, strict=False)]

        check = c.peaks_with_most_books("ICQ", "SQ+CQ")
        assert verdict(check, *lines(0.3, 0.5, 0.6)) == c.HELD
        assert verdict(check, *lines(0.3, 0.6, 0.5)) == c.FAILED
        assert verdict(check, *lines(0.4, 0.3, 0.5)) == c.FAILED  # the fewest are not the worst
        assert verdict(check, *lines(0.3, 0.5, 0.6), *lines(0.6, 0.5, data="cifar10")) == c.PARTLY
        assert verdict(check, *lines(0.3)) == c.OPEN

    def test_the_worst_case_is_named(self) -> None:
        numbers = c.at_least("ICQ", "SQ+CQ")(Results([*pair(0.5, 0.4), *pair(0.42, 0.5, 8)])).numbers
        assert numbers.startswith("MAP +0.010 on average over 2 cases, worst -0.080 (synthetic1, 8 books)")

    def test_operations(self) -> None:
        few = pair(0.5, 0.5, 4, ops=3.0)
        assert verdict(c.fewer_ops("SQ+CQ"), *few) == c.HELD  # than the four of the exhaustive scan
        assert verdict(c.fewer_ops("SQ+CQ", reference="two-step"), *few) == c.FAILED  # which are two
        assert verdict(c.fewer_ops("SQ+CQ"), *pair(0.5, 0.5, 2, ops=1.0)) == c.OPEN

    def test_the_gap_grows(self) -> None:
        def lines(*ops: float) -> list[Result]:
            return [made(n_books=k, ops=o) for k, o in zip((2, 4, 8), ops, strict=False)]

        assert verdict(c.growing_gap(), *lines(2.0, 3.0, 4.0)) == c.HELD
        assert verdict(c.growing_gap(), *lines(1.0, 2.0, 4.0)) == c.PARTLY  # with two books, too
        assert verdict(c.growing_gap(), *lines(1.0, 3.5, 7.6)) == c.FAILED
        assert verdict(c.growing_gap(), *lines(2.0)) == c.OPEN

    def test_equal_length(self) -> None:
        theirs = [made("SQ+CQ", n_books=k, map=v) for k, v in ((2, 0.3), (4, 0.5))]
        # 32 bits at 2 of 4 operations are worth 16 bits.
        assert verdict(c.equal_length("SQ+CQ"), *theirs, made(n_books=4, ops=2.0, map=0.4)) == c.HELD
        assert verdict(c.equal_length("SQ+CQ"), *theirs, made(n_books=4, ops=2.0, map=0.2)) == c.FAILED
        dqn = [made("DQN", n_books=k, map=v) for k, v in ((2, 0.3), (4, 0.5))]
        short, long = made(n_books=2, ops=2.0, map=0.2), made(n_books=4, ops=2.0, map=0.4)
        assert verdict(c.equal_length("DQN"), *theirs, *dqn, short, long) == c.PARTLY
        assert verdict(c.equal_length("DQN", long_only=True), *theirs, *dqn, short, long) == c.HELD
        found = c.equal_length("DPQ")(Results([*theirs, short, long, made("DPQ", n_books=2, map=0.9)]))
        told = "MAP -0.700 at 16 bits (2 books), -0.500 at 16 bits (4 books); ahead in 0 of 2; MAP@100 +0.000, +0.000"
        assert found == c.Answer(c.FAILED, told)
        shorter = c.equal_length("SQ+CQ")(Results([*theirs, made(n_books=4, ops=1.0, map=0.4)])).numbers
        assert "+0.100 at 8 bits (4 books, against 16)" in shorter  # it has none of 8
        by_work = c.equal_length("SQ+CQ", operations=True)(
            Results([*theirs, made(n_books=4, ops=1.0, map=0.4)])
        ).numbers
        assert "+0.100 at 1.0 additions (4 books, against 2)" in by_work
        both = [*theirs, long, *(made(label, "mnist", ops=2.0) for label in ("ICQ", "SQ+CQ"))]
        assert "16 bits (synthetic1, 4 books)" in c.equal_length("SQ+CQ")(Results(both)).numbers
        elsewhere = made("DPQ", "mnist", 2, map=0.9)
        assert verdict(c.equal_length("DPQ"), *theirs, short, long, elsewhere) == c.OPEN

    def test_equal_length_within_noise_is_not_ahead(self) -> None:
        def seeds(*maps: float) -> list[Result]:
            theirs = [made("SQ+CQ", n_books=4, seed=s, map=0.3) for s in range(len(maps))]
            return theirs + [made(n_books=4, ops=2.0, seed=s, map=v) for s, v in enumerate(maps)]

        assert verdict(c.equal_length("SQ+CQ"), *seeds(0.31, 0.32, 0.33)) == c.HELD
        assert verdict(c.equal_length("SQ+CQ"), *seeds(0.2, 0.3, 0.5)) == c.FAILED

    def test_two_books_where_both_are_one_method_are_left_out(self) -> None:
        same, more = pair(0.3, 0.3, 2, ops=2.0), pair(0.5, 0.4, 4, ops=2.0)
        for check in (c.ahead("ICQ", "SQ+CQ"), c.equal_length("SQ+CQ")):
            assert verdict(check, *same, *more) == c.HELD
            assert verdict(check, *same) == c.OPEN
            assert check(Results([*same, *more])).numbers.endswith("because both methods are the same there")
        pqn = [made("PQN", n_books=2, map=0.3), *same]
        assert verdict(c.ahead("ICQ", "PQN"), *pqn) == c.FAILED  # another method, also with two

    def test_many_informative_features(self) -> None:
        def gaps(*values: float) -> list[Result]:
            return [r for i, v in enumerate(values, 1) for r in pair(0.5 + v, 0.5, data=f"synthetic{i}")]

        assert verdict(c.many_informative, *gaps(0.1, 0.05, -0.1)) == c.HELD
        assert verdict(c.many_informative, *gaps(0.01, 0.05, 0.1)) == c.PARTLY
        assert verdict(c.many_informative, *gaps(-0.01, 0.05, 0.1)) == c.FAILED
        assert verdict(c.many_informative, *gaps(0.1)) == c.OPEN
        told = c.many_informative(Results(gaps(0.01, 0.05, 0.1))).numbers
        assert "at 4 books +0.010 on synthetic1, +0.050 on synthetic2, +0.100 on synthetic3" in told
        assert told.endswith("its gain with many informative features (32) is smaller than with few (8)")

    def test_many_informative_features_are_compared_at_the_same_books_and_beyond_noise(self) -> None:
        same = [r for i in (1, 2, 3) for r in pair(0.6, 0.5, data=f"synthetic{i}")]
        only_there = pair(0.9, 0.5, 16)  # which only Dataset 1 has
        found = c.many_informative(Results([*same, *only_there]))
        assert found.verdict == c.PARTLY
        assert found.numbers.endswith("is within noise of the gain with few (8)")
        noisy = [
            made(label, f"synthetic{i}", seed=s, map=0.5 + (label == "ICQ") * (0.1 + (i == 1) * d))
            for s, d in enumerate((0.1, -0.08, 0.0))
            for i in (1, 2, 3)
            for label in ("ICQ", "SQ+CQ")
        ]
        assert c.many_informative(Results(noisy)).numbers.endswith("is within noise of the gain with few (8)")

    def test_dense_against_product_books(self) -> None:
        check = c.lower_error(("CQ", "ICQ residual"), ("PQ", "OPQ"))

        def errors(cq: float, residual: float, pq: float, opq: float) -> list[Result]:
            named = {"CQ": cq, "ICQ residual": residual, "PQ": pq, "OPQ": opq}
            return [made(label, "vectors", relative_error=v) for label, v in named.items()]

        assert verdict(check, *errors(0.2, 0.1, 0.4, 0.3)) == c.HELD
        assert verdict(check, *errors(0.35, 0.1, 0.4, 0.3)) == c.FAILED  # the worst against the best
        assert verdict(check, *errors(0.2, 0.1, 0.4, 0.3)[:2]) == c.OPEN

    def test_settings_that_move_little(self) -> None:
        results = [made(n_books=8, map=0.5), made("alpha2 = -1", n_books=8, map=0.495)]
        assert verdict(ablations.moves_little("alpha2"), *results) == c.HELD
        assert verdict(ablations.moves_little("alpha2", needed=False), *results) == c.FAILED
        assert verdict(ablations.moves_little("alpha2"), *results, made("alpha2 = -3", n_books=8, map=0.4)) == c.FAILED
        assert verdict(ablations.moves_little("pi2"), *results) == c.OPEN

    def test_a_variant_that_is_better_does_not_speak_against_it(self) -> None:
        checks = {claim.sentence: claim.check for claim in CLAIMS["ablation"]}

        def answer(start: str, label: str, map: float) -> str:
            (check,) = (check for sentence, check in checks.items() if sentence.startswith(start))
            return verdict(check, made(n_books=8, map=0.5), made(label, n_books=8, map=map))

        for start, label in (
            ("EM and gradient", "prior by EM"),
            ("Soft constraints", "soft groups to the end"),
            ("(Ours:) The method as written", "as written"),
        ):
            assert [answer(start, label, v) for v in (0.6, 0.495, 0.4)] == [c.HELD, c.HELD, c.FAILED]
        robust = [answer("The robustness term", "no robustness term", v) for v in (0.4, 0.6)]
        assert robust == [c.HELD, c.FAILED]  # without it MAP falls; it does not rise

    def test_parts_that_are_needed(self) -> None:
        check, default = ablations.needed("no L_P"), made(n_books=8, map=0.5, ops=2.0)
        assert verdict(check, default, made("no L_P", n_books=8, map=0.4, ops=2.0)) == c.HELD
        assert verdict(check, default, made("no L_P", n_books=8, map=0.5, ops=2.5)) == c.HELD
        assert verdict(check, default, made("no L_P", n_books=8, map=0.6, ops=2.0)) == c.FAILED
        assert verdict(check, default, made("no L_P", n_books=8, map=0.495, ops=2.05)) == c.FAILED  # a little
        assert verdict(check, default) == c.OPEN

    def test_the_margin_of_the_paper(self) -> None:
        def agreeing(label: str, value: float) -> Result:
            result = made(label, n_books=8)
            result["measures"]["searches"] = {"two-step, paper": {"ops": 1.0, "agreement": value}}
            return result

        assert verdict(ablations.margin_suffices, agreeing("ICQ", 0.995), agreeing("sigma = 0.5", 0.7)) == c.HELD
        assert verdict(ablations.margin_suffices, agreeing("ICQ", 0.9)) == c.FAILED
        assert verdict(ablations.margin_suffices, agreeing("sigma = 2", 0.9)) == c.OPEN


def some(figure: str) -> list[Result]:
    """Two seeds of a few lines of a figure."""
    labels = {"codes": ("PQ", "CQ", "ICQ residual"), "ablation": ("ICQ", "as written", "pi2 = 0.1", "SQ+CQ")}
    data = {"codes": ("vectors",), "effective": ("cifar10-gist",), "real-sq": ("mnist", "cifar10-gist")}
    books = (8,) if figure == "ablation" else (2, 4)
    recalls = {f"recall@{k}": 0.3 for k in (1, 10, 100)} if figure == "codes" else {}
    found = [
        made(label, name, k, seed, figure=figure, map=0.5 + 0.01 * k + 0.001 * seed, **recalls)
        for label in labels.get(figure, ("ICQ", "SQ+CQ"))
        for name in data.get(figure, ("synthetic1", "synthetic2"))
        for k in books
        for seed in (0, 1)
    ]
    return found + [
        made(label, name, 0, seed, figure=figure, **recalls)
        for label in BASELINES
        for name in data.get(figure, ("synthetic1", "synthetic2"))
        for seed in (0, 1)
    ]


def stored(folder: Path, *figures: str) -> ResultFolder:
    for figure in figures:
        (folder / figure).mkdir(parents=True)
        for i, result in enumerate(some(figure)):
            (folder / figure / f"{i}.json").write_text(json.dumps(result))
    return ResultFolder(folder)


def drawn(figure: str, results: list[Result]) -> list[Any]:
    """The axes of a picture."""
    backend = pytest.importorskip("matplotlib.figure", reason="the plot extra is not installed")
    kind = FIGURES[figure].drawn
    axes = backend.Figure().subplots(*drawing._shape(FIGURES[figure], Results(results)), squeeze=False)
    getattr(drawing, f"_{kind}")(axes, Results(results))
    return list(axes.ravel())


class TestReport:
    def test_a_table_has_every_line_and_the_baselines(self) -> None:
        table = table_of(Results(some("synthetic-cq")), "synthetic1").splitlines()
        assert table[0] == "**Dataset 1**"
        assert [row.split(" | ")[0] for row in table[4:]] == [
            *("| ICQ",) * 2,
            *("| SQ+CQ",) * 2,
            *("| class topline", "| random codes"),
        ]
        assert "| ICQ | 2 | 0.520 ± 0.001 | 0.600 ± 0.000 |" in table[4]
        assert all(row.count("|") == table[2].count("|") for row in table[2:])

    @pytest.mark.parametrize("figure", FIGURES)
    def test_every_figure_is_drawn_and_reported(self, figure: str, tmp_path: Path) -> None:
        pytest.importorskip("matplotlib", reason="the plot extra is not installed")
        store = stored(tmp_path / "results", figure)
        page, without = write_report(store, tmp_path / "RESULTS.md")
        text = page.read_text()
        assert (tmp_path / "results" / figure / f"{figure}.png").read_bytes().startswith(b"\x89PNG")
        assert f"](results/{figure}/{figure}.png)" in text
        assert set(without) == set(FIGURES) - {figure}
        for claim in CLAIMS[figure]:
            assert text.count(claim.sentence) == 2  # in the overview, and with its numbers

    def test_points_against_operations_tell_their_books(self) -> None:
        ax = drawn("synthetic-pq", [made(k_label, n_books=k) for k_label in ("ICQ", "SQ+PQ") for k in (2, 4, 16)])[0]
        assert [text.get_text() for text in ax.texts] == ["2", "4", "16"]

    def test_lines_that_lie_on_each_other_are_one(self) -> None:
        lines = [made(name, "mnist-lenet", k) for name in ("ICQ", "PQN", "PQN+CQ") for k in (2, 4)]
        left, right = drawn("pqn", lines)
        cascades = ["PQN, our search", "PQN+CQ, our search"]
        assert left.get_legend_handles_labels()[1] == ["ICQ", "all tables: PQN, PQN+CQ", *cascades]
        assert right.get_legend_handles_labels()[1] == ["ICQ", "PQN", "PQN+CQ"]

    def test_a_network_trained_end_to_end_stands_beside_the_others(self) -> None:
        lines = [made("ICQ", "mnist-lenet", k) for k in (2, 8)]
        other = made("ICQ end to end", "mnist-images", 8, map=0.9), made("ICQ end to end", "cifar10-images", 8, map=0.1)
        for ax in drawn("pqn", [*lines, *other]):
            assert ax.get_legend_handles_labels()[1] == ["ICQ", "ICQ end to end"]

    def test_a_number_of_books_without_a_measure_leaves_the_others_in_place(self) -> None:
        results = [made("ICQ", "mnist", k, ops=float(k), figure="real-sq") for k in (2, 4, 8)]
        del results[0]["measures"]["searches"]
        (line,) = (c.lines[0] for c in drawn("real-sq", results)[0].containers)
        assert line.get_xydata().tolist() == [[4, 4], [8, 8]]

    def test_noise_does_not_fill_an_axis(self) -> None:
        for level in (0.5, 0.999):
            ax = drawn("real-sq", [made("ICQ", "mnist", k, map=level + 1e-5 * k) for k in (2, 4)])[1]
            low, high = ax.get_ylim()
            assert high - low >= 0.039
            assert high <= 1.001

    def test_the_same_results_make_the_same_page(self, tmp_path: Path) -> None:
        store = stored(tmp_path / "results", "synthetic-cq", "codes")
        first = write_report(store, tmp_path / "a.md", pictures=False)[0].read_bytes()
        assert write_report(store, tmp_path / "b.md", pictures=False)[0].read_bytes() == first

    def test_without_results_there_is_nothing_to_report(self, tmp_path: Path) -> None:
        with raises(il.InputError, "none'"):
            write_report(ResultFolder(tmp_path / "none"), tmp_path / "none" / "RESULTS.md")
        assert list(tmp_path.iterdir()) == []

    def test_results_of_a_small_size_say_so(self, tmp_path: Path) -> None:
        store = stored(tmp_path, "synthetic-cq")
        assert "size" not in page_text(store, tmp_path / "RESULTS.md")
        for path in tmp_path.rglob("*.json"):
            path.write_text(path.read_text().replace('"size": "full"', '"size": "quick"'))
        page = page_text(ResultFolder(tmp_path, "quick"), tmp_path / "RESULTS.md")
        assert "**These runs have size quick" in page.split("## Claims")[0]

    def test_links_lead_somewhere(self, tmp_path: Path) -> None:
        store = stored(tmp_path, "synthetic-cq")
        assert "](PROTOCOL.md)" not in page_text(store, tmp_path / "RESULTS.md")
        (tmp_path / "PROTOCOL.md").touch()
        assert "](PROTOCOL.md)" in page_text(store, tmp_path / "RESULTS.md")

    def test_the_page_of_the_project_is_what_its_results_say(self) -> None:
        experiments = Path(__file__).parents[2] / "experiments"
        page = experiments / "RESULTS.md"
        assert page.read_text() == page_text(ResultFolder(experiments / "results"), page), (
            "run: interlace reproduce report"
        )
