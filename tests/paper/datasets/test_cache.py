"""Computed arrays are cached, checked, and computed again if their file is damaged."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from interlace.data import cache_folder
from interlace.paper.datasets import cache
from interlace.paper.datasets.cache import cached

ARRAYS = {"x": np.arange(12, dtype=np.float32).reshape(3, 4), "labels": np.arange(3, dtype=np.uint8)}


class Maker:
    """Counts how often it is asked."""

    def __init__(self):
        self.calls = 0

    def __call__(self):
        self.calls += 1
        return ARRAYS


@pytest.fixture(autouse=True)
def _own_folder(monkeypatch, tmp_path):
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "cache"))


def check(found):
    assert found.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype


def test_what_was_computed_is_kept(tmp_path):
    make = Maker()
    for _ in range(3):
        check(cached("thing", {"source": "abc", "scales": 4}, make))
    assert make.calls == 1
    [file] = (tmp_path / "cache").iterdir()
    assert file.name.startswith("thing-")


@pytest.mark.parametrize("key", [{"source": "abd", "scales": 4}, {"source": "abc", "scales": 5}, {"source": "abc"}])
def test_another_source_or_parameter_is_another_file(key):
    make = Maker()
    cached("thing", {"source": "abc", "scales": 4}, make)
    cached("thing", key, make)
    assert make.calls == 2
    cached("thing", {"scales": 4, "source": "abc"}, make)  # the order of a key is none of its meaning
    assert make.calls == 2


@pytest.mark.parametrize("damage", ["flipped", "header", "truncated", "empty", "foreign", "another key"])
def test_a_damaged_file_is_computed_again_with_a_warning(damage, tmp_path):
    make, key = Maker(), {"source": "abc"}
    cached("thing", key, make)
    [file] = (tmp_path / "cache").iterdir()
    content = bytearray(file.read_bytes())
    if damage == "another key":
        cached("thing", {"source": "other"}, make)
        [other] = [one for one in (tmp_path / "cache").iterdir() if one != file]
        os.replace(other, file)
    else:
        place = {"flipped": len(content) - 70, "header": 40}.get(damage, 0)
        content[place] ^= 4
        cut = {"truncated": content[:-100], "empty": b"", "foreign": b"\x93NUMPY and so on"}
        file.write_bytes(cut.get(damage, content))
    calls = make.calls
    with pytest.warns(UserWarning, match="computing thing again"):
        check(cached("thing", key, make))
    assert make.calls == calls + 1
    check(cached("thing", key, make))  # whole again, and silent
    assert make.calls == calls + 1


def test_a_folder_that_cannot_be_written_costs_only_time(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "file"))
    make = Maker()
    for calls in (1, 2):
        with pytest.warns(UserWarning, match="thing is not cached.*INTERLACE_CACHE"):
            check(cached("thing", {}, make))
        assert make.calls == calls


def test_nothing_is_left_when_making_fails(tmp_path):
    def fail():
        raise RuntimeError("no memory")

    with pytest.raises(RuntimeError, match="no memory"):
        cached("thing", {}, fail)
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {}, "~/.cache/interlace"),
        ("linux", {"XDG_CACHE_HOME": "/somewhere"}, "/somewhere/interlace"),
        ("linux", {"XDG_CACHE_HOME": "relative"}, "~/.cache/interlace"),  # to be ignored, says the standard
        ("darwin", {"XDG_CACHE_HOME": "/somewhere"}, "~/Library/Caches/interlace"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/interlace"),
        ("win32", {}, "~/AppData/Local/interlace"),
        ("linux", {"INTERLACE_CACHE": "/mine", "XDG_CACHE_HOME": "/somewhere"}, "/mine"),
    ],
)
def test_the_folder_is_the_platforms_or_the_one_named(platform, variables, expected, monkeypatch, tmp_path):
    for name in ("INTERLACE_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert cache_folder() == Path(expected.replace("~", str(tmp_path)))
