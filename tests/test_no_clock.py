"""Tests read no clock: how long a thing takes depends on what else the machine does. ``benchmarks/`` measures times."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

CLOCKS = ("time", "time_ns", "perf_counter", "perf_counter_ns", "process_time", "thread_time", "monotonic")
IN_TEXT = re.compile(r"\b(perf_counter|process_time|thread_time|time\.monotonic|time\.time)\w*\(")
#: Programs of ``make fuzz``, ``make faults`` and ``make ray-faults``, which run for as long as they are told to.
PROGRAMS = ("fuzz.py", "fuzz_atheris.py", "faults.py", "ray_chaos.py")


def reads(source: str) -> Iterator[int]:
    """Lines that call a function of ``time`` that tells one, also in programs that are passed on as text."""
    tree = ast.parse(source)
    imported = {
        name.asname or name.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "time"
        for name in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = node.func
            if isinstance(called, ast.Attribute) and called.attr in CLOCKS and isinstance(called.value, ast.Name):
                if called.value.id == "time":
                    yield node.lineno
            elif isinstance(called, ast.Name) and called.id in imported & set(CLOCKS):
                yield node.lineno
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and IN_TEXT.search(node.value):
            yield node.lineno


def test_tests_read_no_clock() -> None:
    left_out = (*PROGRAMS, Path(__file__).name)
    files = [path for path in sorted(Path(__file__).parent.rglob("*.py")) if path.name not in left_out]
    assert len(files) > 100
    assert [f"{path.name}:{line}" for path in files for line in reads(path.read_text())] == []


def test_clocks_are_seen() -> None:
    assert [*reads("import time\nbegan = time.perf_counter()")] == [2]
    assert [*reads("from time import monotonic\nassert monotonic() < 3")] == [2]
    assert [*reads("CODE = '''\nbegan = time.perf_counter()\n'''")] == [1]
    assert [*reads("import time\ntime.sleep(1)\nclock = time.monotonic")] == []
