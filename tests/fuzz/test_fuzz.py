"""A few hundred cases of the fuzzer, and whether it would notice anything."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import fuzz_mutations as mutations
import numpy as np
import pytest
from fuzz_targets import FILTERED, HERE, STORES, Target, targets

import interlace as il
from helpers import HANGS
from interlace.files import storage
from interlace.store import log as logs
from interlace.store import manifest as manifests
from interlace.store.filters import as_expression

TORCH = importlib.util.find_spec("torch") is not None
NAMES = [target.name for target in targets() if target.name != "checkpoint" or TORCH]


def fuzz(*args: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(HERE / "fuzz.py"), *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=HANGS, check=False)


def test_some_cases() -> None:
    done = fuzz("--cases", 90, "--seed", 1, "--targets", *(name for name in NAMES if name != "checkpoint"))
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.endswith("\n90 cases, none went wrong\n")


@pytest.mark.skipif(not TORCH, reason="needs torch")
def test_some_checkpoints() -> None:
    done = fuzz("--cases", 10, "--seed", 1, "--targets", "checkpoint")
    assert done.returncode == 0, done.stderr[-3000:]


PLANTED = """
import argparse, ctypes, os, sys
sys.path.insert(0, sys.argv[1])
import fuzz, fuzz_targets, numpy as np
from pathlib import Path
ACTS = {
    "crash": lambda: ctypes.string_at(0),
    "error": lambda: {}["x"],
    "escape": lambda: open("/etc/hostname").close(),
    "code": lambda: eval("1 + 1"),
    "memory": lambda: np.ones(100 << 20, np.uint8),
    "addresses": lambda: np.empty(4 << 30, np.uint8),
    "hang": lambda: __import__("time").sleep(60),
}
fuzz.HANGS_AFTER = 0.5 if sys.argv[2] == "hang" else 20
seed = fuzz_targets.targets(["manifest"])[0].seeds[0]
calls = []
def run(data, folder, seed):
    calls.append(1)
    if len(calls) > 1:  # the first is the warm-up
        ACTS[sys.argv[2]]()
target = fuzz_targets.Target("planted", (seed,), lambda rng, data: data, run)
fuzz.targets = lambda names: [target]
fuzz.work(argparse.Namespace(targets=[], seed=0, folder=sys.argv[3], case=0))
"""


@pytest.mark.parametrize("what", ["crash", "error", "escape", "code", "memory", "addresses", "hang"])
def test_what_goes_wrong_is_noticed(tmp_path: Path, what: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PLANTED, str(HERE), what, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    expected = {
        "crash": "",
        "error": "KeyError: 'x'",
        "escape": "open '/etc/hostname'",
        "code": "compile (",
        "memory": "bytes were allocated for a file of",
        "addresses": "MemoryError",
        "hang": "Timeout",
    }[what]
    assert expected in done.stderr, done.stderr
    assert (tmp_path / "case" / "what").read_text().startswith("case 0 (planted, ")


FILES = [target for target in targets() if target.name in NAMES and target.name != "filter"]


@pytest.mark.parametrize("target", FILES, ids=lambda target: target.name)
def test_changes_that_know_the_format_come_past_its_checksums(target: Target, tmp_path: Path) -> None:
    """Most of them; and they are the same for the same numbers."""
    passed = 0
    for number in range(40):
        rng = np.random.default_rng(number)
        seed = target.seeds[number % len(target.seeds)]
        data = target.knowing(rng, seed.data)
        assert data == target.knowing(np.random.default_rng(number), seed.data)
        (tmp_path / "file").write_bytes(data)
        try:
            if target.name == "manifest":
                manifests.from_bytes(data, "here")
            elif target.name == "log":
                mark = json.loads((seed.path.parent / manifests.NAME).read_text())["manifest"]["store"]
                logs.read(str(tmp_path / "file"), mark)
            else:
                storage.read(tmp_path / "file").verify()
            passed += 1
        except il.FileError as error:
            passed += "checksum" not in str(error)
    assert passed >= 30


def test_filters_are_changed_to_filters_with_characters_of_any_width() -> None:
    (target,), widths, read = targets(["filter"]), set[int](), 0
    for number in range(200):
        seed = target.seeds[number % len(target.seeds)]
        text = target.knowing(np.random.default_rng(number), seed.data).decode(errors="surrogateescape")
        widths.update(len(c.encode(errors="surrogateescape")) for c in text)
        try:
            read += as_expression(text, FILTERED) is not None
        except il.InputError:
            continue
    assert widths == {1, 2, 3, 4}
    assert read >= 20


def test_seeds_are_small_and_sound(tmp_path: Path) -> None:
    for target in targets():
        for number, seed in enumerate(target.seeds):
            assert len(seed.data) < 40_000
            if target.name in NAMES:
                (tmp_path / f"{target.name}{number}").mkdir()
                target.run(seed.data, tmp_path / f"{target.name}{number}", seed)
    for name in STORES:
        store = il.open(HERE / "seeds" / name)
        store.verify()
        assert {path.name for path in Path(store.path).iterdir()} == {
            manifests.NAME,
            *store.session.state.manifest.names,
        }


def test_every_kind_of_file_has_a_target() -> None:
    """Of stores of the newest format; a new kind of file needs one, too."""
    kinds = {path.name.split("-")[0] for name in STORES for path in (HERE / "seeds" / name).iterdir()}
    assert kinds - {manifests.NAME} <= {target.name for target in targets()}


def test_json_is_changed_everywhere() -> None:
    """Every node is reached in the end."""
    value = {"a": [1, 2, {"b": 3}], "c": "x"}
    found = {json.dumps(mutations.in_json(np.random.default_rng(i), json.loads(json.dumps(value)))) for i in range(600)}
    assert len(found) > 60
    assert {'{"a": [1, 2, {"b": 3}]}', '{"c": "x"}', '{"a": [1, 2, {}], "c": "x"}'} <= found


def test_hostile_shapes_are_made() -> None:
    """Extreme floats, offsets back and forth, rows of no bytes, compressed Arrow, headers that announce much."""
    rng = np.random.default_rng(0)
    words = np.zeros((4, 3), np.float32)
    assert {float(np.float32(v)) for v in mutations.FLOATS} >= set(
        mutations._hostile(rng, "codebooks.words.0", words).ravel().tolist()
    ) - {0.0}
    wide = {mutations._hostile(rng, "segment.rest", np.zeros((4, 2), np.uint8)).shape for _ in range(20)}
    assert (2**58, 0) in wide
    offsets = np.arange(10, dtype=np.uint64)
    made = [mutations._hostile(rng, "ids.offsets", offsets).tolist() for _ in range(9)]
    assert [0, 9, 0, 9, 0, 9, 0, 9, 0, 9] in made
    payload = next(t for t in targets(["payload"])[0].seeds).path
    section = bytes(storage.read(payload).array("arrow"))
    assert len({mutations.arrow(np.random.default_rng(i), section) for i in range(20)}) > 4
    place = logs.Place(7, logs.HEADER.size, 0)
    announcing = memoryview(mutations.announcing(rng, place, 5))
    found = [logs.header_at(announcing, at, 7) for at in range(0, len(announcing), logs.FRAME.size)]
    assert [frame and frame[1] for frame in found] == [logs.FRAME.size * i for i in (4, 3, 2, 1, 0)]
