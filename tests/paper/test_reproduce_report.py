"""What the report says is what the results say: means, gaps, claims, tables, pictures."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import interlace as il
from interlace.paper import drawing
from interlace.paper.claims import CLAIMS
from interlace.paper.coverage import coverage_table
from interlace.paper.figures import BASELINES, FIGURES, runs_of
from interlace.paper.looks import METHODS, look
from interlace.paper.report import ORIGINATED, notes_of, page_text, table_of, write_report
from interlace.paper.results import Result, ResultFolder
from interlace.paper.sizes import SIZES
from interlace.paper.summary import Mean, Results, value_of
from interlace.plot.style import INK
from raising import raises
from reproduce_data import made

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
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
        assert results.mean("synthetic1", "random codes", 0, "ops") is None
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
        assert results.effective_length("synthetic1", "ICQ", 8, "SQ+CQ", "ops") == pytest.approx(64 * 2 / 5)
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
    axes = backend.Figure().subplots(*drawing.shape_of(FIGURES[figure], Results(results)), squeeze=False)
    drawing.KINDS[FIGURES[figure].drawn](axes, Results(results))
    return list(axes.ravel())


class TestReport:
    def test_a_table_has_every_line_and_the_baselines(self) -> None:
        table = table_of(Results(some("synthetic-cq")), "synthetic1").splitlines()
        assert table[0] == "**Dataset 1**"
        assert [row.split(" | ")[0] for row in table[4:]] == [
            *("| ICQ",) * 2,
            *("| SQ+CQ",) * 2,
            *("| class topline", "| known labels", "| random codes"),
        ]
        assert table[2].startswith("|  | K | MAP@100 | ops | agreement | MAP |")
        assert "| psi |" in table[2]
        assert "ms" not in table[2]  # no result has it
        assert "| ICQ | 2 | 0.520 ± 0.001 | 1.00 ± 0.00 | 1.0000 ± 0.0000 | 0.520 ± 0.001 |" in table[4]
        assert all(row.count("|") == table[2].count("|") for row in table[2:])

    def test_the_map_of_a_point_is_that_of_its_own_search(self) -> None:
        result = made(map=0.4, **{"map@100": 0.5})
        assert value_of(result, "map@100") == 0.5  # of an older version
        searches = result["measures"]["searches"]
        searches["crude order, 0.999"] = searches["crude order, 0.999"] | {"map@100": 0.49, "seconds": 0.002}
        searches["two-step, 0.999"] = searches["two-step, 0.999"] | {"map@100": 0.48}
        assert value_of(result, "map@100") == 0.49
        assert value_of(result, "stored order map@100") == 0.48
        assert value_of(result, "map") == 0.4
        assert value_of(result, "milliseconds") == 2.0

    def test_the_plot_of_protocols_has_a_row_for_every_line_and_the_reported_figures(self) -> None:
        measured = [
            made("SQ", "mnist-kernel", k, seed, figure="published", map=0.9 + 0.01 * seed)
            for k in (4, 8)
            for seed in (0, 1)
        ]
        measured.append(made("DQN (CNN)", "cifar10-54k", 6, 0, figure="published", map=0.4))
        (ax,) = drawn("published", [*measured, made("class topline", "mnist-kernel", 0, 0, figure="published")])
        rows = [
            ("CIFAR-10 (54K rows), DQN (CNN), 48 bits", 0.4, [0.55, 0.58]),
            ("MNIST (kernel features), SQ, 32 bits", 0.905, None),
            ("MNIST (kernel features), SQ, 64 bits", 0.905, [0.94, 0.94]),
        ]
        assert sorted(label.get_text() for label in ax.get_yticklabels()) == [name for name, _, _ in rows]
        places = {label.get_text(): at for at, label in zip(ax.get_yticks(), ax.get_yticklabels(), strict=True)}
        for name, value, theirs in rows:
            (bar,) = (bar for bar in ax.containers if bar.lines[0].get_ydata()[0] == places[name])
            assert bar.lines[0].get_xdata() == pytest.approx([value])
            reported = [
                list(line.get_xdata())
                for line in ax.lines
                if line.get_label() == "reported" and line.get_ydata()[0] == places[name]
            ]
            assert reported == ([] if theirs is None else [theirs])

    @pytest.mark.parametrize("figure", FIGURES)
    def test_every_figure_is_drawn_and_reported(self, figure: str, tmp_path: Path) -> None:
        pytest.importorskip("matplotlib", reason="the plot extra is not installed")
        store = stored(tmp_path / "results", figure)
        page, without = write_report(store, tmp_path / "RESULTS.md")
        text = page.read_text()
        assert (tmp_path / "results" / figure / f"{figure}.png").read_bytes().startswith(b"\x89PNG")
        assert f"](results/{figure}/{figure}.png)" in text
        assert set(without) == set(FIGURES) - {figure}
        appendix = text.split("# Appendix")[1]
        for claim in CLAIMS[figure]:
            assert appendix.count(claim.sentence) == 2  # in the overview, and with its numbers

    def test_points_against_operations_tell_their_books(self) -> None:
        ax = drawn("synthetic-pq", [made(k_label, n_books=k) for k_label in ("ICQ", "SQ+PQ") for k in (2, 4, 16)])[0]
        assert [text.get_text() for text in ax.texts] == ["2", "4", "16"]

    def test_no_line_runs_backwards(self) -> None:
        ops = {2: 2.0, 4: 1.2, 8: 1.7, 16: 2.7}
        results = [made(label, n_books=k, ops=v, map=0.1 * k) for label in ("ICQ", "SQ+CQ") for k, v in ops.items()]
        for ax in drawn("synthetic-cq", results):
            for line in ax.lines:
                x = [float(value) for value in line.get_xdata()]
                assert x == sorted(x)
        ours = drawn("synthetic-cq", results)[0].lines[0]
        assert ours.get_xydata()[:, 0].tolist() == [1.2, 1.7, 2.0, 2.7]
        assert ours.get_xydata()[:, 1] == pytest.approx([0.4, 0.8, 0.2, 1.6])

    def test_a_method_has_one_colour_in_every_figure(self) -> None:
        lines = [label for figure in FIGURES.values() for label in figure.lines if label not in BASELINES]
        common = ("ICQ", "SQ+CQ", "SQ+PQ", "PQN", "PQN+CQ", "DQN", "DPQ")
        assert len({look(label)["color"] for label in common}) == len(common)
        for figure in ("synthetic-cq", "real-sq"):
            for ax in drawn(figure, some(figure)):
                for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
                    if label in lines:
                        shown = handle if hasattr(handle, "get_color") else handle.lines[0]
                        assert shown.get_color() == look(label)["color"]

    @pytest.mark.parametrize("figure", [name for name in FIGURES if FIGURES[name].drawn != "variants"])
    def test_no_two_lines_of_a_figure_look_the_same(self, figure: str) -> None:
        """Regression: PQN and ICQ with its loss, SQ+CQ and DQN (CNN), and others had one colour and marker."""
        labels = [label for label in FIGURES[figure].lines if label not in BASELINES]
        looks = [(look(label)["color"], look(label)["marker"]) for label in labels]
        assert len(set(looks)) == len(labels)
        assert INK not in [colour for colour, _ in looks]  # of "all tables"

    def test_lines_of_one_method_have_its_colour(self) -> None:
        for figure in FIGURES.values():
            for series in (series for part in figure.parts for series in part.series):
                if series.method not in BASELINES and series.label != "one book":
                    assert look(series.label)["color"] == look(series.method)["color"]
        assert len({colour for colour, _ in METHODS.values()}) == len(METHODS)

    def test_every_line_of_the_legend_is_drawn(self) -> None:
        """Regression: ICQ on a network had no SQ+CQ beside it, hence no effective length, but a legend."""
        lines = [("ICQ", "cifar10-gist"), ("SQ+CQ", "cifar10-gist"), ("ICQ (CNN)", "cifar10-cnn3")]
        for ax in drawn("effective", [made(label, data, k) for label, data in lines for k in (4, 8)]):
            found = {line.get_label(): line.get_xdata().tolist() for line in ax.lines}
            assert found["ICQ (CNN), effective"] == [16, 32]
            assert all(found.values())

    def test_numbers_beside_points_do_not_cover_each_other(self) -> None:
        ops = {2: 2.0, 4: 1.1, 8: 1.97, 16: 2.1}
        results = [
            made(label, n_books=k, ops=v, map=0.5 + 0.001 * k * (label == "ICQ"))
            for label in ("ICQ", "SQ+CQ")
            for k, v in ops.items()
        ]
        ax = drawn("synthetic-cq", results)[0]
        unit = ax.figure.dpi / 72
        middles = [ax.transData.transform(text.xy) / unit + text.xyann for text in ax.texts]
        assert len(middles) == 8
        assert min(math.dist(a, b) for i, a in enumerate(middles) for b in middles[:i]) > 4

    def test_bars_of_agreement_end_at_one(self) -> None:
        shares = (1.0, 0.9, 1.0)
        results = [made("ICQ", "synthetic2", 8, seed, figure="ablation") for seed in range(3)]
        for result, share in zip(results, shares, strict=True):
            result["measures"]["searches"]["crude order, paper"] = {"ops": 2.0, "agreement": share}
        ax = drawn("ablation", results)[2]
        ((low, _), (high, _)) = ax.containers[0].lines[2][0].get_segments()[0]
        assert high == pytest.approx(1.0)
        assert low == pytest.approx(Mean.of(shares).value - Mean.of(shares).half)

    def test_variants_that_measured_nothing_are_left_out(self, tmp_path: Path) -> None:
        (tmp_path / "ablation").mkdir()
        for label, value in (("ICQ", 0.5), ("sigma = 4", 0.5), ("pi2 = 0.1", 0.6)):
            result = made(label, "synthetic2", 8, figure="ablation", map=value)
            result["run"]["method"] = "ICQ"
            (tmp_path / "ablation" / f"{label}.json").write_text(json.dumps(result))
        text = page_text(ResultFolder(tmp_path), tmp_path / "RESULTS.md")
        assert "| pi2 = 0.1 | 8 |" in text
        assert "| sigma = 4 | 8 |" not in text
        assert "every measure of every fit equals that of ICQ: sigma = 4 (the code of these results searched" in text

    def test_all_images_are_shown_from_the_full_size_and_do_not_mix(self, tmp_path: Path) -> None:
        for size, data, label, k, commit in (
            ("standard", "cifar10-54k", "DQN (CNN)", 6, "abc"),
            ("full", "cifar10-images", "PQN (CNN)", 6, "def"),
        ):
            result = made(label, data, k, figure="published", map=0.76)
            result |= {"size": size, "provenance": {"commit": commit, "code": commit}}
            folder = tmp_path / ("" if size == "standard" else size) / "published"
            folder.mkdir(parents=True)
            (folder / f"{data}.json").write_text(json.dumps(result))
        text = page_text(ResultFolder(tmp_path), tmp_path / "RESULTS.md")
        assert "Results: 1 of commit abc (code abc)." in text
        assert "| .786 (reported) | 0.760 | MAP | full | 1 | def |" in text
        assert "*(Ours:) PQN reaches .75 on CIFAR-10.* held: MAP 0.760 (6 books)." in text
        assert "**CIFAR-10 (all images), full size**" in text
        assert "different code" not in text

    def test_searches_that_were_repeated_are_noted(self, tmp_path: Path) -> None:
        results = Results([made(n_books=16, ops=17.5), made(n_books=16, ops=16.2, seed=1), made(n_books=16, seed=2)])
        (note,) = notes_of(results)
        assert note.startswith("Fits with more operations than books")
        assert note.endswith(": ICQ (2, up to 17.50 of 16)")

    def test_gaps_are_paired_and_have_their_intervals(self) -> None:
        draws = {"ICQ": (0.5, 0.7, 0.6), "SQ+CQ": (0.4, 0.61, 0.5)}
        results = [
            made(label, "mnist", k, seed, map=v)
            for label, maps in draws.items()
            for seed, v in enumerate(maps)
            for k in (4, 8)
        ]
        (bars,) = drawn("real-sq", results)[2].containers
        expected = Mean.of([-0.1, -0.09, -0.1])
        assert bars.lines[0].get_ydata() == pytest.approx([expected.value] * 2)
        low, high = bars.lines[2][0].get_segments()[0][:, 1]
        assert (high - low) / 2 == pytest.approx(expected.half)

    def test_lines_that_lie_on_each_other_are_one(self) -> None:
        lines = [made(name, "mnist-lenet", k) for name in ("ICQ", "PQN", "PQN+CQ") for k in (2, 4)]
        left, middle, _ = drawn("pqn", lines)
        cascades = ["PQN, our search", "PQN+CQ, our search"]
        assert left.get_legend_handles_labels()[1] == ["ICQ", "all tables", *cascades]
        assert middle.get_legend_handles_labels()[1] == ["ICQ", "PQN", "PQN+CQ"]

    def test_a_network_trained_end_to_end_stands_beside_the_others(self) -> None:
        lines = [made("ICQ", "mnist-lenet", k) for k in (2, 8)]
        other = made("ICQ end to end", "mnist-images", 8, map=0.9), made("ICQ end to end", "cifar10-images", 8, map=0.1)
        for ax in drawn("pqn", [*lines, *other])[:2]:
            assert ax.get_legend_handles_labels()[1] == ["ICQ", "ICQ end to end"]

    def test_a_number_of_books_without_a_measure_leaves_the_others_in_place(self) -> None:
        results = [made("ICQ", "mnist", k, ops=float(k), figure="real-sq") for k in (2, 4, 8)]
        del results[0]["measures"]["searches"]
        (line,) = drawn("real-sq", results)[0].lines
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
        assert "runs have size" not in page_text(store, tmp_path / "RESULTS.md")
        for path in tmp_path.rglob("*.json"):
            path.write_text(path.read_text().replace('"size": "standard"', '"size": "quick"'))
        page = page_text(ResultFolder(tmp_path, "quick"), tmp_path / "RESULTS.md")
        assert "**These runs have size quick" in page.split("## The claims")[0]

    def test_the_page_says_what_was_not_run(self, tmp_path: Path) -> None:
        store = ResultFolder(tmp_path)
        runs = runs_of(FIGURES["synthetic-cq"], SIZES["standard"])
        last = max(run.seed for run in runs)
        kept = [run for run in runs if run.seed != last or run.data != "synthetic2"]
        assert 0 < len(kept) < len(runs)
        for run in [*kept, *runs_of(FIGURES["codes"], SIZES["standard"])]:
            result = made(run.label, run.data, run.n_books, run.seed, figure=run.figure)
            store.write(run, {name: result[name] for name in ("data", "measures", "fit", "provenance", "warnings")})
        rows = dict(line.strip("| ").split(" | ", 1) for line in coverage_table(store).splitlines()[6:])
        assert set(rows) == {"tuning", *FIGURES}
        assert rows["codes"].startswith("complete (36 of 36) | 0.0 | - |")
        assert rows["synthetic-cq"].startswith(
            f"**{len(kept)} of {len(runs)}** | 0.0 | synthetic2: some of seed {last} |"
        )
        assert rows["published"].endswith("| everything | cifar10-images; cifar10-59k")
        assert rows["unseen"].endswith("| everything | K = 2, 8")
        assert rows["real-sq"].startswith("**not run** (0 of")

    def test_links_lead_somewhere(self, tmp_path: Path) -> None:
        store = stored(tmp_path, "synthetic-cq")
        assert "](PROTOCOL.md)" not in page_text(store, tmp_path / "RESULTS.md")
        (tmp_path / "PROTOCOL.md").touch()
        assert "](PROTOCOL.md)" in page_text(store, tmp_path / "RESULTS.md")
        assert "](archive/RESULTS.md)" not in page_text(store, tmp_path / "RESULTS.md")
        (tmp_path / "archive").mkdir()
        (tmp_path / "archive" / "RESULTS.md").touch()
        assert "](archive/RESULTS.md)" in page_text(store, tmp_path / "RESULTS.md")

    @pytest.mark.parametrize(
        ("folder", "size", "page", "command"),
        [
            ("results", "standard", "RESULTS.md", "interlace reproduce report"),
            ("archive", "full", "archive/RESULTS.md", "interlace reproduce report --full --out experiments/archive"),
        ],
    )
    def test_a_page_of_the_project_is_what_its_results_say(
        self, folder: str, size: str, page: str, command: str
    ) -> None:
        path = EXPERIMENTS / page
        assert path.read_text() == page_text(ResultFolder(EXPERIMENTS / folder, size), path), f"run: {command}"

    def test_the_results_of_the_project_are_of_one_commit(self) -> None:
        found = ResultFolder(EXPERIMENTS / "results").every(ORIGINATED)
        commits = {result["provenance"]["commit"] for result in found}
        assert len(commits) <= 1
        assert all(re.fullmatch("[0-9a-f]{40}", commit) for commit in commits)  # not dirty, not unknown
