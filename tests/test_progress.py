"""The bar: one line that is written over, and fits the terminal."""

from __future__ import annotations

import inspect
import io
import os
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import interlace as il
from interlace import progress
from interlace.progress import Bar


class Terminal(io.StringIO):
    """A terminal of so many columns; ``screen`` is what a person sees of its last line."""

    def __init__(self, columns: int) -> None:
        super().__init__()
        self.columns = columns

    def fileno(self) -> int:
        return 2

    @property
    def screen(self) -> str:
        line: list[str] = []
        for part in self.getvalue().rpartition("\n")[2].split("\r"):
            line[: len(part)] = part
        return "".join(line).rstrip()


@pytest.fixture(autouse=True)
def terminal_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "get_terminal_size", lambda fd: os.terminal_size((COLUMNS[0], 24)))


COLUMNS = [80]


@given(
    st.integers(8, 200),
    st.lists(st.tuples(st.text("abc :.", max_size=120), st.floats(-0.5, 1.5, allow_nan=False)), max_size=8),
)
def test_no_line_wraps_and_nothing_of_an_older_one_stays(columns: int, steps: list[tuple[str, float]]) -> None:
    COLUMNS[0] = columns
    out = Terminal(columns)
    bar = Bar(out)
    for what, done in steps:
        bar(what, done)
        last = out.getvalue().removesuffix("\n").rpartition("\r")[2]
        assert len(last.rstrip()) < columns
        if done < 1:
            # Nothing is seen but what the last call wrote.
            assert out.screen == last.rstrip()
    bar.clear()
    assert out.screen == ""


def test_what_goes_first_where_there_is_little_room() -> None:
    what = "learn 18/32: L_E 5.02 L_C 0.21"

    def as_progress(columns: int) -> str:
        COLUMNS[0] = columns
        out = Terminal(columns)
        Bar(out)(what, 0.5)
        return out.screen

    assert as_progress(120) == f"[{'#' * 12}{'.' * 12}]  50% {what} (0:00, 0:00 left)"
    assert as_progress(60) == f" 50% {what} (0:00, 0:00 left)"
    assert as_progress(50) == f" 50% {what} (0:00 left)"
    assert as_progress(40) == f" 50% {what}"
    assert as_progress(20) == f" 50% {what}"[:19]


def test_the_line_stays_or_goes() -> None:
    COLUMNS[0] = 80
    kept, gone = Terminal(80), Terminal(80)
    for bar in (Bar(kept), Bar(gone, leave=False)):
        bar("working", 0.5)
        bar("done", 1.0)
    assert kept.getvalue().splitlines()[-1].rpartition("\r")[2].rstrip() == f"[{'#' * 24}] 100% done (0:00)"
    assert gone.screen == ""
    assert "\n" not in gone.getvalue()


def test_quick_work_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    out = Terminal(80)
    bar = Bar(out, delay=1.0)
    bar("working", 0.5)
    bar("done", 1.0)
    assert out.getvalue() == ""
    clock[0] = 1.5
    bar("working", 0.5)
    assert "working" in out.screen


class TestAuto:
    """``progress="auto"``, the default: a bar where a person watches, after half a second."""

    @staticmethod
    def watched(monkeypatch: pytest.MonkeyPatch) -> Terminal:
        """A terminal instead of what pytest captures."""
        COLUMNS[0], out = 80, Terminal(80)
        monkeypatch.setattr(out, "isatty", lambda: True)
        monkeypatch.setattr("sys.stderr", out)
        for name in ("CI", "PYTEST_CURRENT_TEST"):
            monkeypatch.delenv(name, raising=False)
        return out

    def test_a_terminal_gets_a_bar_that_goes_when_all_is_done(self, monkeypatch: pytest.MonkeyPatch) -> None:
        terminal, bar = self.watched(monkeypatch), progress.as_progress("auto")
        assert isinstance(bar, Bar)
        bar("learning", 0.2)
        assert terminal.getvalue() == ""  # quick work stays silent
        bar._started -= progress.AUTO_DELAY
        bar("learning", 0.5)
        assert "learning" in terminal.screen
        bar("done", 1.0)
        assert terminal.screen == ""

    @pytest.mark.parametrize("name", ["CI", "PYTEST_CURRENT_TEST"])
    def test_tests_and_build_servers_get_none(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.watched(monkeypatch)
        monkeypatch.setenv(name, "true")
        assert progress.as_progress("auto") is progress.silent

    def test_no_terminal_or_no_stderr(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.watched(monkeypatch)
        closed = io.StringIO()
        closed.close()
        for stderr in (io.StringIO(), None, closed):
            monkeypatch.setattr("sys.stderr", stderr)
            assert progress.as_progress("auto") is progress.silent

    @pytest.mark.parametrize("call", [il.Index.build, il.ICQ, il.Store.relearn])
    def test_it_is_the_default(self, call: Any) -> None:
        assert inspect.signature(call).parameters["progress"].default == "auto"
