"""Pictures: what is drawn is what was learned and measured; nothing is shown."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import interlace as il
from helpers import clustered
from interlace import evaluate
from interlace.learn.prior import Prior, fit_em
from raising import raises

pytest.importorskip("matplotlib", reason="the plot extra is not installed").use("Agg")
from matplotlib import pyplot  # noqa: E402
from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402

X = clustered(1500, 12)
QUERIES = clustered(60, 12, seed=1)
HISTORY: list[dict[str, Any]] = [
    {"epoch": 0, "phase": "warm-up", "embedding": 6.0},
    {"epoch": 1, "phase": "shape", "embedding": 5.0, "prior": 0.004},
    {
        **{"epoch": 2, "phase": "learn", "embedding": 4.0, "prior": 0.003, "quantization": 0.1, "cross": 0.2},
        **{"interleaving": 0.5, "map": 0.7},
    },
    {
        **{"epoch": 3, "phase": "learn", "embedding": 3.0, "prior": 0.002, "quantization": 0.2, "cross": 0.1},
        **{"interleaving": 0.1, "map": 0.6},
    },
]


@pytest.fixture(autouse=True)
def no_figure_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(pyplot, "show", lambda *_: pytest.fail("a plot was shown"))
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def model() -> il.ICQ:
    return il.ICQ(4, layout="subspace", n_words=32, threads=1).fit(X)


@pytest.fixture(scope="module")
def index(model: il.ICQ) -> il.Index:
    index = model.index(X)
    index.calibrate(clustered(4400, 12, seed=2))
    return index


def labels(ax: Any) -> list[str]:
    return [text.get_text() for text in ax.get_legend().get_texts()]


def inside(figure: Figure) -> None:
    """Nothing sticks out of the picture, and no two texts of it lie on each other."""
    canvas, box = FigureCanvasAgg(figure), figure.bbox
    canvas.draw()
    renderer = canvas.get_renderer()
    boxes = []
    for ax in figure.get_axes():
        whole = ax.get_tightbbox(renderer)
        assert box.x0 - 1 <= whole.x0
        assert whole.x1 <= box.x1 + 1
        assert box.y0 - 1 <= whole.y0
        assert whole.y1 <= box.y1 + 1
        texts = [*ax.texts, ax.xaxis.label, ax.yaxis.label]
        legend = ax.get_legend()
        texts += [] if legend is None else legend.get_texts()
        boxes += [(t.get_text(), t.get_window_extent(renderer)) for t in texts if t.get_text()]
    for (a, one), (b, other) in itertools.combinations(boxes, 2):
        assert not one.padded(-1).overlaps(other.padded(-1)), f"{a!r} lies on {b!r}"


class TestVarianceSpectrum:
    def test_bars_are_the_variances_and_psi_is_in_colour(self, model: il.ICQ) -> None:
        ax = il.plot.variance_spectrum(model)
        books = model.codebooks_
        psi, others = ax.containers
        heights = [bar.get_height() for bar in (*psi, *others)]
        assert sorted(heights, reverse=True) == pytest.approx(np.sort(books.variances)[::-1].tolist())
        in_psi = np.sort(books.variances[books.crude_dims])[::-1]
        assert [bar.get_height() for bar in psi] == pytest.approx(in_psi.tolist())
        assert psi[0].get_facecolor() != others[0].get_facecolor()
        share = in_psi.sum() / books.variances.sum()
        assert labels(ax)[0] == f"$\\psi$: {len(in_psi)} of 12 dimensions, {share:.1%} of the variance"
        inside(ax.figure)

    def test_the_prior_stands_beside(self, model: il.ICQ) -> None:
        ax = il.plot.variance_spectrum(model)
        side = next(other for other in ax.figure.get_axes() if other is not ax)
        assert side.get_ylim() == ax.get_ylim()
        density, variances = side.get_lines()[0].get_data()
        assert isinstance(model.prior_, Prior)
        np.testing.assert_allclose(density, np.maximum(model.prior_.density(variances), density.min()))
        assert [text.partition(",")[0] for text in labels(side)] == ["low mode", "high mode"]

    def test_codebooks_with_and_without_a_prior(self, model: il.ICQ) -> None:
        assert len(il.plot.variance_spectrum(model.codebooks_).figure.get_axes()) == 1
        given = il.plot.variance_spectrum(model.codebooks_, model.prior_)
        assert len(given.figure.get_axes()) == 2

    def test_no_split(self) -> None:
        flat = il.ICQ(2, layout="residual", n_words=16, iterations=1, threads=1).fit(X[:400])
        ax = il.plot.variance_spectrum(flat)
        assert labels(ax) == ["12 dimensions, no split"]
        inside(ax.figure)
        prior = fit_em(flat.codebooks_.variances)  # tells a psi, which the books do not have
        assert labels(il.plot.variance_spectrum(flat.codebooks_, prior))[0].startswith("$\\psi$: ")

    def test_many_dimensions(self) -> None:
        book = il.Book(np.zeros((2, 300), np.float32), np.arange(300))
        variances = np.linspace(1, 0.01, 300)
        ax = il.plot.variance_spectrum(
            il.Codebooks([book], dim=300, n_crude=1, variances=variances, crude_dims=range(9))
        )
        assert sum(len(bars) for bars in ax.containers) == 300
        inside(ax.figure)

    def test_bad_input(self, model: il.ICQ) -> None:
        with raises(il.InputError, "ICQ"):
            il.plot.variance_spectrum(il.ICQ())
        with pytest.raises(il.InputError, match="fitted model or Codebooks"):
            il.plot.variance_spectrum([1.0, 2.0])
        with raises(il.InputError, "prior", "prior_"):
            il.plot.variance_spectrum(model, 3)
        bare = il.Codebooks([il.Book(np.zeros((2, 3), np.float32), np.arange(3))], dim=3, n_crude=1)
        with pytest.raises(il.InputError, match="do not contain the variances"):
            il.plot.variance_spectrum(bare)


class TestLosses:
    def test_parts_phases_and_map(self) -> None:
        ax = il.plot.losses(HISTORY)
        lines = {line.get_label(): line for line in ax.get_lines()}
        np.testing.assert_array_equal(lines["$L_E$"].get_data(), [[1, 2, 3, 4], [6.0, 5.0, 4.0, 3.0]])
        np.testing.assert_array_equal(lines["$\\gamma_1 L_P$"].get_ydata(), [math.nan, 0.004, 0.003, 0.002])
        assert len(lines) == 5
        assert [text.get_text() for text in ax.texts] == ["warm-up", "shape", "learn"]
        right = next(other for other in ax.figure.get_axes() if other is not ax)
        np.testing.assert_array_equal(right.get_lines()[0].get_ydata(), [math.nan, math.nan, 0.7, 0.6])
        assert labels(ax)[-1] == "best epoch, MAP 0.700"
        assert ax.get_yscale() == "log"
        inside(ax.figure)

    def test_without_validation(self) -> None:
        ax = il.plot.losses([row | {"map": None} for row in HISTORY])
        assert ax.figure.get_axes() == [ax]

    def test_losses_of_either_sign(self) -> None:
        figure = Figure(figsize=(7.2, 3), layout="constrained")
        ax = il.plot.losses([row | {"prior": -0.01} for row in HISTORY], ax=figure.subplots())
        assert ax.get_yscale() == "symlog"
        inside(figure)

    def test_names_that_do_not_fit_are_left_out(self) -> None:
        learn = [HISTORY[-1] | {"epoch": epoch} for epoch in range(2, 100)]
        ax = il.plot.losses([*HISTORY[:2], *learn])
        assert [text.get_text() for text in ax.texts] == ["learn"]
        inside(ax.figure)

    def test_bad_input(self, model: il.ICQ) -> None:
        with raises(il.InputError, "ICQ"):
            il.plot.losses(model)
        with raises(il.InputError, "ICQ"):
            il.plot.losses(il.ICQ())
        for bad in (3, [1, 2], [{"epoch": 1}]):
            with pytest.raises(il.InputError, match="history_"):
                il.plot.losses(bad)
        with pytest.raises(il.InputError, match="history is empty"):
            il.plot.losses([])


class TestMargins:
    def test_points_are_what_searches_tell(self, index: il.Index) -> None:
        points = il.plot.margin_points(index, QUERIES, 10, threads=1)
        assert [(p.margin, p.value) for p in points] == [
            *(("paper", c) for c in (0.25, 1.0, 4.0, 16.0)),
            *(("target", t) for t in (0.9, 0.95, 0.99, 0.999)),
            ("exact", 1.0),
        ]
        scan = index.search(QUERIES, 10, margin=math.inf)
        for point in points:
            if point.margin == "paper" and point.value != 1:
                continue
            margin: Any = point.value if point.margin == "target" else point.margin
            found = index.search(QUERIES, 10, margin=margin)
            assert point.ops_per_vector == pytest.approx(found.stats.ops_per_vector)
            assert point.agreement == pytest.approx(evaluate.agreement(found, scan))
            assert point.survivors == pytest.approx(found.stats.survivors / (60 * 1500))
        assert points[-1].agreement == 1
        paper = [p for p in points if p.margin == "paper"]
        assert [p.agreement for p in paper] == sorted(p.agreement for p in paper)
        assert {p.recall for p in points} == {None}

    def test_recall(self, index: il.Index) -> None:
        truth, _ = evaluate.exact_neighbours(X, QUERIES, 10)
        (point,) = il.plot.margin_points(index, QUERIES, 10, ["exact"], truth)
        assert point.recall == evaluate.recall(index.search(QUERIES, 10, margin="exact"), truth, 10)
        ax = il.plot.ops_against_agreement([point])
        assert labels(ax) == [f"exact bound, recall@10 {point.recall:.3f}"]

    def test_cosine_queries_of_any_length(self) -> None:
        index = il.Index.build(X, n_bytes=3, metric="cosine", threads=1)
        one, other = (il.plot.margin_points(index, QUERIES * scale, 5, threads=1) for scale in (1, 100))
        assert one == other

    def test_picture(self, index: il.Index) -> None:
        ax = il.plot.ops_against_agreement(index, QUERIES, 10)
        points = il.plot.margin_points(index, QUERIES, 10)
        drawn = {line.get_label().partition(":")[0]: line for line in ax.get_lines()}
        exact = drawn["exact bound"]
        assert exact.get_xdata().tolist() == [points[-1].ops_per_vector]
        low, high = ax.get_ylim()
        assert low > high == exact.get_ydata()[0]  # 100 % is on top
        ticks = [text.get_text() for text in ax.get_yticklabels()]
        assert ticks[-1] == "100 %"
        assert {"90 %", "99 %"} & set(ticks)
        np.testing.assert_allclose(
            drawn["paper"].get_ydata(), [max(1 - p.agreement, 0.3 / 600) for p in points if p.margin == "paper"]
        )
        inside(ax.figure)

    def test_names_of_points_are_clear_of_the_markers(self, index: il.Index) -> None:
        points = il.plot.margin_points(index, QUERIES, 10)
        most = max(p.ops_per_vector for p in points)
        targets = [p for p in points if p.margin == "target"]
        near = [replace(p, ops_per_vector=most * (0.5 + 0.04 * i), agreement=1.0) for i, p in enumerate(targets)]
        ax = il.plot.ops_against_agreement([*near, *(p for p in points if p.margin != "target")])
        canvas = FigureCanvasAgg(ax.figure)
        canvas.draw()
        (line,) = (line for line in ax.get_lines() if line.get_label().startswith("calibrated"))
        radius = line.get_markersize() / 2 * ax.figure.dpi / 72
        for text in (text for text in ax.texts if text.get_text().startswith("0.")):
            box = text.get_window_extent(canvas.get_renderer()).padded(radius)
            for place in ax.transData.transform(line.get_xydata()):
                assert not box.contains(*place), f"{text.get_text()} lies on a marker"

    def test_targets_without_calibration_are_left_out(self, model: il.ICQ) -> None:
        bare = il.Index.from_codes(model.codebooks_, model.encode(X[:200]))
        assert {p.margin for p in il.plot.margin_points(bare, QUERIES, 10)} == {"paper", "exact"}
        with raises(il.InputError, "(0.99,)", 10):
            il.plot.margin_points(bare, QUERIES, 10, [0.99])

    def test_no_answer_is_longer_than_the_index(self, model: il.ICQ) -> None:
        bare = il.Index.from_codes(model.codebooks_, model.encode(X[:20]))
        (whole,) = il.plot.margin_points(bare, QUERIES, 20, "exact", threads=1)
        (more,) = il.plot.margin_points(bare, QUERIES, 10**9, ["exact"], threads=1)  # no room for so many ids
        assert more == whole
        assert more.k == 20

    def test_bad_input(self, index: il.Index, model: il.ICQ) -> None:
        with raises(il.InputError, "index", "ICQ"):
            il.plot.ops_against_agreement(model, QUERIES)
        with pytest.raises(il.InputError, match="queries are needed"):
            il.plot.ops_against_agreement(index)
        with raises(il.InputError, 0, 1500):
            il.plot.margin_points(index, QUERIES[:0])
        for bad in (("paper",), ("paper", -1), ("exact", 1), ("paper", math.nan)):
            with raises(il.InputError, "'exact'"):
                il.plot.margin_points(index, QUERIES, 10, [bad])
        with pytest.raises(il.InputError, match="margin inf"):
            il.plot.margin_points(index, QUERIES, 10, [math.inf])
        with pytest.raises(il.InputError, match="margin must be"):
            il.plot.margin_points(index, QUERIES, 10, ["close"])


def test_axes_of_the_user_are_used_and_returned(model: il.ICQ, index: il.Index) -> None:
    figure = Figure(figsize=(20, 5), layout="constrained")
    axes = figure.subplots(1, 3)
    assert il.plot.variance_spectrum(model, ax=axes[0]) is axes[0]
    assert il.plot.losses(HISTORY, ax=axes[1]) is axes[1]
    assert il.plot.ops_against_agreement(index, QUERIES, 10, ax=axes[2]) is axes[2]
    assert pyplot.get_fignums() == []
    inside(figure)


def test_without_matplotlib(model: il.ICQ, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(il.InputError, match=r"pip install 'interlace\[plot\]'"):
        il.plot.variance_spectrum(model)
