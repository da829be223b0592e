"""The demo at a small size: the table, the plot, and every fallback."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from interlace import cli
from interlace.cli import demo_data, demo_peers
from interlace.cli import demo_run as demo
from interlace.cli.plot import draw

OURS = [demo.CODES, demo.DEFAULT_NAME, demo.EXACT]


@pytest.fixture(scope="module")
def result():
    pytest.importorskip("sklearn")
    seen = []
    found = demo.run(1500, 40, rounds=1, progress=lambda what, done: seen.append(done))
    assert seen == sorted(seen)
    assert seen[-1] == 1.0
    return found


def faiss_installed():
    try:
        import faiss  # noqa: F401
    except ImportError:
        return False
    return True


def test_every_method_is_measured(result):
    peers = ["faiss IndexPQ", "faiss IndexPQFastScan"] if faiss_installed() else []
    assert [line.method for line in result.lines] == [*ours(result), *peers, "exact search"]
    assert (result.rows, result.dim, result.queries) == (1500, 64, 40)
    lines = {line.method: line for line in result.lines}
    assert lines["exact search"].recall > 0.99  # float32 may swap near neighbours
    assert lines["exact search"].bytes_per_vector == 256
    assert lines[result.reference].speed == 1.0
    kept = lines.pop(demo.DEFAULT_NAME)
    assert kept.recall >= lines[demo.CODES].recall
    assert kept.bytes_per_vector == lines[demo.CODES].bytes_per_vector + 128
    for name in [name for name in ours(result) if name in lines]:
        assert 0.2 < lines[name].recall <= 1.0  # 2,048 words may know 1,500 rows by heart
        assert 8 <= lines[name].bytes_per_vector < 12  # cell bounds weigh more among few rows
        assert 0 < lines[name].ops_per_vector <= 9
        assert lines[name].microseconds > 0
    for name in peers:
        assert lines[name].bytes_per_vector == 8


def ours(found):
    """Codes alone come first; the fastest layout is listed where the default chose another one."""
    return [*OURS, *([demo.QUICK] if found.chosen != demo.FAST else [])]


def test_a_search_by_codes_prunes_and_agrees(result):
    assert 0 < result.survivors <= result.scanned <= 1
    assert result.agreement > 0.98


def test_the_table_begins_with_codes_alone_and_says_what_the_data_is(result):
    text = demo.table(result)
    head, rule, *lines = text.splitlines()
    for word in ("method", "recall@10", "bytes/vector", "us/query", "speed"):
        assert word in head
    assert set(rule) == {"-", " "}
    assert lines[0].startswith("interlace, margin=0.999 ")
    assert len([line for line in lines[: len(result.lines)] if "x" in line]) == len(result.lines)
    assert "scikit-learn's digits" in text
    assert f"relative to {result.reference}" in text
    assert result.why in text
    assert max(map(len, lines[: len(result.lines)])) <= 80


@pytest.mark.parametrize(
    ("recall", "microseconds", "words"),
    [(0.7, 50.0, "recall better, 0.700 to 0.600; 2.00 times as fast"),
     (0.5, 400.0, "recall no better, 0.500 to 0.600; 4.00 times slower")],
)  # fmt: skip
def test_the_notes_say_where_ours_is_behind(recall, microseconds, words):
    line = demo.Line(demo.CODES, "interlace", recall, 8.0, 1.0, microseconds, 1.0, "")
    peer = demo.Line("faiss IndexPQ", "faiss", 0.6, 8.0, 8.0, 100.0, 1.0, "")
    found = demo.Result("data", 10, 4, 2, "faiss IndexPQ", [line, peer], 0.5, 0.1, 1.0, "residual", "why", 1.0)
    assert f"interlace, margin=0.999 against faiss IndexPQ: {words}" in demo.table(found)


def test_names_of_points_do_not_overlap():
    from interlace.cli.plot import _apart

    places = _apart([0.5, 0.5, 0.51, 0.99, 1.0], 0.1, 1.0)
    assert min(np.diff(places)) >= 0.1 - 1e-9
    assert max(places) <= 1.0
    assert _apart([0.2, 0.8], 0.1, 1.0) == [0.2, 0.8]


def test_the_plot_is_a_picture(result, tmp_path):
    pytest.importorskip("matplotlib")
    path = draw(result, tmp_path / "plot.png")
    assert path.read_bytes().startswith(b"\x89PNG")
    assert "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()


def test_no_plot_without_matplotlib(result, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert draw(result, tmp_path / "plot.png") is None


def test_copies_are_seeded_shifted_and_noisy():
    pytest.importorskip("sklearn")
    x, q, _ = demo_data.augmented_digits(3000, 50, 1)
    again, _, _ = demo_data.augmented_digits(3000, 50, 1)
    other, _, _ = demo_data.augmented_digits(3000, 50, 2)
    assert_array_equal(x, again)
    assert not np.array_equal(x, other)
    assert (x.shape, q.shape, x.dtype) == ((3000, 64), (50, 64), np.float32)
    assert x.min() >= 0
    assert x.max() <= 16


@pytest.mark.parametrize(("dy", "dx"), demo_data.SHIFTS)
def test_shift_moves_by_a_pixel_and_lets_zeros_in(dy, dx):
    image = np.arange(1, 65).reshape(1, 8, 8)
    moved = demo_data.shift(image, dy, dx)
    for row in range(8):
        for column in range(8):
            source = row - dy, column - dx
            inside = all(0 <= s < 8 for s in source)
            assert moved[0, row, column] == (image[0, source[0], source[1]] if inside else 0)


def test_without_scikit_learn_and_faiss(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    monkeypatch.setitem(sys.modules, "faiss", None)
    monkeypatch.setitem(sys.modules, "threadpoolctl", None)
    found = demo.run(1000, 20, rounds=1)
    assert found.data.startswith("generated, 1,000 x 64 in 200 Gaussian clusters")
    assert found.reference == "exact search"
    assert [line.method for line in found.lines] == [*ours(found), "exact search"]
    assert "without faiss, which is not installed" in demo.table(found)


def test_faiss_is_left_as_it_was():
    faiss = pytest.importorskip("faiss")
    levels = demo_peers.simd_levels(faiss)
    threads = faiss.omp_get_max_threads()
    level = faiss.SIMDConfig.get_level() if hasattr(faiss, "SIMDConfig") else None
    for number in levels.values():
        with demo_peers.one_thread(faiss, number):
            assert faiss.omp_get_max_threads() == 1
    assert faiss.omp_get_max_threads() == threads
    assert level is None or faiss.SIMDConfig.get_level() == level


def test_an_older_faiss_has_one_level():
    assert demo_peers.simd_levels(object()) == {"default SIMD": None}


@pytest.mark.parametrize("as_json", [False, True])
def test_the_command(as_json, result, tmp_path, monkeypatch, capsys):
    sizes = []
    monkeypatch.setattr(demo, "run", lambda *args, **kwargs: sizes.append(args) or result)
    args = ["demo", "--quick", "--out", str(tmp_path / "new" / "folder"), *(["--json"] if as_json else [])]
    assert cli.main(args) == 0
    assert sizes == [(6000, 200)]
    out = capsys.readouterr().out
    if as_json:
        found = json.loads(out)
        assert len(found["lines"]) == len(result.lines)
        assert found["survivors"] == result.survivors
    else:
        assert demo.table(result) in out
