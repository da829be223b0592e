"""Index files: saved whole or not at all, mapped and not read, as docs/format.md says, and readable for ever."""

from __future__ import annotations

import ast
import os
import re
import shutil
import stat
import subprocess
import tempfile
import threading
import tracemalloc
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import interlace as il
from books import index_with
from helpers import LAYOUTS, METRICS, build, clustered, hand_made, run_python, same_index, small_index
from interlace.engine.segments import Segment
from interlace.files import storage
from interlace.index.ids import Ids
from raising import raises

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
GOLDEN = TESTS / "golden"


# --- saving and opening -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_opened_index_is_the_index_saved(layout: str, metric: str, tmp_path: Path) -> None:
    index = build(layout=layout, metric=metric, ids="string")
    index.save(tmp_path / "i")
    opened = il.open(tmp_path / "i")
    opened.verify()
    assert same_index(index, opened)
    assert repr(opened) == repr(index)
    q = clustered(7, 6, seed=1)
    for margin in (0.999, 0.9, "exact", "paper", float("inf")):
        a, b = index.search(q, 5, margin=margin, threads=1), opened.search(q, 5, margin=margin, threads=1)
        assert a.stats.margin == b.stats.margin
        np.testing.assert_array_equal(a.ids, b.ids)
        np.testing.assert_array_equal(a.distances, b.distances)


@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 700])
def test_any_number_of_rows(n: int, tmp_path: Path) -> None:
    index = il.Index(hand_made(norms=True))
    for first in range(0, n, 100):  # many segments in memory, one in the file
        index.add(clustered(min(100, n - first), 4, seed=first), threads=1)
    index.save(tmp_path / "i")
    opened = il.open(tmp_path / "i")
    opened.verify()
    assert len(opened) == n
    assert same_index(index, opened)


def test_an_opened_index_grows_in_memory_only(tmp_path: Path) -> None:
    small_index().save(tmp_path / "i")
    before = (tmp_path / "i").read_bytes()
    opened = il.open(tmp_path / "i")
    opened.add(clustered(4, 4, seed=3))
    opened.verify()
    assert len(opened) == 13
    assert (tmp_path / "i").read_bytes() == before


def test_paths_of_every_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path in ("plain", Path("path.interlace"), str(tmp_path / "ünï cödé"), "./a/../dotted"):
        (tmp_path / "a").mkdir(exist_ok=True)
        small_index().save(path)
        assert len(il.open(path)) == 9
    assert sorted(p.name for p in tmp_path.iterdir() if p.is_file()) == [
        "dotted",
        "path.interlace",
        "plain",
        "ünï cödé",
    ]


def test_saving_over_the_file_it_is_mapped_from(tmp_path: Path) -> None:
    path = tmp_path / "i"
    small_index(n=200).save(path)
    opened, bystander = il.open(path), il.open(path)
    opened.add(clustered(50, 4, seed=1))
    opened.save(path)
    for index, n in ((opened, 250), (bystander, 200), (il.open(path), 250)):
        index.verify()
        assert len(index) == n
    assert same_index(opened, il.open(path))
    assert same_index(bystander, small_index(n=200))
    assert bystander.report().file != il.open(path).report().file  # each knows the file it maps


def test_an_index_outlives_its_file(tmp_path: Path) -> None:
    small_index().save(tmp_path / "i")
    opened = il.open(tmp_path / "i")
    size = (tmp_path / "i").stat().st_size
    (tmp_path / "i").unlink()
    opened.verify()
    assert opened.report().file == size


def test_saving_through_a_symlink_keeps_the_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "link"
    link.symlink_to(Path("real") / "i")
    small_index(n=3).save(link)  # the target does not exist yet
    small_index(n=5).save(link)
    assert link.is_symlink()
    assert len(il.open(tmp_path / "real" / "i")) == 5
    assert os.listdir(tmp_path / "real") == ["i"]
    assert sorted(os.listdir(tmp_path)) == ["link", "real"]


def test_the_mode_of_a_file_is_kept_and_that_of_a_new_one_is_usual(tmp_path: Path) -> None:
    small_index().save(tmp_path / "i")
    (tmp_path / "usual").touch()
    assert stat.S_IMODE((tmp_path / "i").stat().st_mode) == stat.S_IMODE((tmp_path / "usual").stat().st_mode)
    (tmp_path / "i").chmod(0o640)
    small_index().save(tmp_path / "i")
    assert stat.S_IMODE((tmp_path / "i").stat().st_mode) == 0o640


def test_a_path_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    small_index().save(tmp_path / "i")
    for path, error in [
        (tmp_path, IsADirectoryError),
        (tmp_path / "missing" / "i", FileNotFoundError),
        (tmp_path / "i" / "j", NotADirectoryError),
    ]:
        with pytest.raises(error, match=f"cannot write an interlace file.*{re.escape(str(path))}'$"):
            small_index().save(path)
    assert os.listdir(tmp_path) == ["i"]


def test_nothing_in_a_file_can_run_code(tmp_path: Path) -> None:
    """Opening, verifying and searching work where nothing can be unpickled, compiled or evaluated."""
    code = """
import _pickle, json, marshal, mmap, pickle, sys
import numpy as np
import interlace as il
x = np.random.default_rng(0).normal(size=(50, 4))
il.Index.build(x, n_bytes=2, n_words=16, ids=[str(i) for i in range(50)], threads=1).save(sys.argv[1])
il.open  # imported now: the import of a module needs what is taken away next
for module in (pickle, _pickle, marshal):
    for attribute in ("load", "loads", "Unpickler"):
        setattr(module, attribute, None)
for name in ("eval", "exec", "compile"):
    setattr(__builtins__, name, None)
index = il.open(sys.argv[1])
index.verify()
index.search(x[:3])
print(json.dumps([len(index)]))
"""
    assert run_python(code, str(tmp_path / "i")) == [50]
    names: set[str] = set()
    for path in Path(storage.__file__).parent.glob("*.py"):
        if path.name == "remote.py":  # imports fsspec, by its name; what it downloads is opened like any other file
            continue
        source = ast.parse(path.read_text())
        names |= {node.id for node in ast.walk(source) if isinstance(node, ast.Name)}
        names |= {node.attr for node in ast.walk(source) if isinstance(node, ast.Attribute)}
        names |= {alias.name for node in ast.walk(source) if isinstance(node, ast.Import) for alias in node.names}
    assert {"json", "zlib"} <= names
    assert not names & {"pickle", "marshal", "importlib", "eval", "exec", "compile", "load", "__import__"}


# --- atomic saves -----------------------------------------------------------------------------------------------------


def test_two_threads_saving_to_one_path_leave_one_whole_file(tmp_path: Path) -> None:
    indexes = [small_index(n=n) for n in (300, 400)]
    threads = [threading.Thread(target=lambda i=i: [i.save(tmp_path / "i") for _ in range(15)]) for i in indexes]
    for thread in threads:
        thread.start()
    opened = 0
    while any(thread.is_alive() for thread in threads):
        try:
            index = il.open(tmp_path / "i")
        except FileNotFoundError:
            continue
        index.verify()  # header and sections are of one file, although its name changes hands all the time
        assert len(index) in (300, 400)
        opened += 1
    assert opened > 0
    assert os.listdir(tmp_path) == ["i"]


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
@pytest.mark.parametrize("call", ["fsync", "replace", "fchmod"])
def test_a_failure_at_any_step_leaves_the_old_file_and_nothing_else(
    call: str, error: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_index(n=5).save(tmp_path / "i")
    before = (tmp_path / "i").read_bytes()

    def fails(*arguments: Any) -> None:
        raise error(28, "No space left on device")

    monkeypatch.setattr(storage.os, call, fails)
    with pytest.raises(error) as caught:
        small_index(n=9).save(tmp_path / "i")
    monkeypatch.undo()
    if error is OSError:
        assert str(caught.value) == (
            f"[Errno 28] cannot write an interlace file (No space left on device): '{os.path.realpath(tmp_path / 'i')}'"
        )
    assert (tmp_path / "i").read_bytes() == before
    assert os.listdir(tmp_path) == ["i"]


def test_the_data_reach_the_disk_before_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = []
    fsync, replace = os.fsync, os.replace

    def noted_fsync(descriptor: int) -> None:
        steps.append("fsync folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "fsync file")
        fsync(descriptor)

    def noted_replace(a: str, b: str) -> None:
        steps.append("replace")
        replace(a, b)

    monkeypatch.setattr(storage.os, "fsync", noted_fsync)
    monkeypatch.setattr(storage.os, "replace", noted_replace)
    small_index().save(tmp_path / "i")
    assert steps == ["fsync file", "replace", "fsync folder"]


SAVE_LARGER = """
import json, os, signal, sys
sys.path.insert(0, sys.argv[1])
from helpers import small_index, il
large = small_index(n=20000)
{before}
error = None
try:
    large.save(sys.argv[2])
except OSError as e:
    error = [type(e).__name__, e.errno, str(e)]
print(json.dumps(error))
"""


def assert_old_file_whole(folder: Path, before: bytes) -> None:
    assert (folder / "i").read_bytes() == before
    il.open(folder / "i").verify()
    assert os.listdir(folder) == ["i"]


def test_a_file_size_limit_during_save_leaves_the_old_file(tmp_path: Path) -> None:
    small_index(n=5).save(tmp_path / "i")
    before = (tmp_path / "i").read_bytes()
    limit = """
import resource
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (30000, 30000))
"""
    tests = str(TESTS)
    name, errno, message = run_python(SAVE_LARGER.format(before=limit), tests, str(tmp_path / "i"))
    assert (name, errno) == ("OSError", 27)
    assert "cannot write an interlace file (File too large)" in message
    assert_old_file_whole(tmp_path, before)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(disk)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("this user may not mount a small disk; the size limit stands in for it")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_full_disk_during_save_leaves_the_old_file(small_disk: Path) -> None:
    small_index(n=5).save(small_disk / "i")
    before = (small_disk / "i").read_bytes()
    with raises(OSError, "(No space left on device)", "i'") as caught:
        small_index(n=60000).save(small_disk / "i")
    assert caught.value.errno == 28
    assert_old_file_whole(small_disk, before)
    small_index(n=6).save(small_disk / "i")  # there is room again
    assert len(il.open(small_disk / "i")) == 6


KILLED = """
import json, os, random, signal, sys, time
sys.path.insert(0, sys.argv[1])
from helpers import il, small_index
path, steps = sys.argv[2], sys.argv[3] == "steps"
old, new = small_index(n=30000), small_index(n=30001)
old.save(path)
found = {}

def child_at_step(step):
    left = [step]
    def counted(call):
        def run(*arguments):
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments)
        return run
    for name in ("open", "fchmod", "fsync", "replace", "close"):
        setattr(os, name, counted(getattr(os, name)))
    new.save(path)

rng = random.Random(0)
for turn in range(12 if steps else 40):
    old.save(path)
    ready, started = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(started, b"!")
        child_at_step(turn) if steps else [new.save(path) for _ in range(1000)]
        os._exit(0)
    os.read(ready, 1)
    if not steps:
        time.sleep(0.1 * rng.random() ** 3)  # at once, or after a few saves
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    index = il.open(path)
    index.verify()
    key = f"{len(index)} {'killed' if os.WIFSIGNALED(status) else 'done'}"
    found[key] = found.get(key, 0) + 1
print(json.dumps(found))
"""


@pytest.mark.parametrize("when", ["steps", "any instant"])
def test_a_killed_save_leaves_the_old_or_the_new_file(when: str, tmp_path: Path) -> None:
    """SIGKILL before every system call of a save, and at random instants of one."""
    found = run_python(KILLED, str(TESTS), str(tmp_path / "i"), when)
    assert set(found) <= {"30000 killed", "30001 killed", "30001 done"}
    assert sum(found.values()) == (12 if when == "steps" else 40)
    if when == "steps":  # elsewhere chance, and the load of the machine, say which of them were met
        assert found["30000 killed"] >= 1
        assert found["30001 killed"] >= 1
        assert found["30001 done"] >= 1  # the last turns kill after everything is done: every step was met


AS_NOBODY = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
from helpers import small_index, il
index = small_index(n=12)
il.open  # imported now: nobody may not read the folder of the package
if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)

def refused(call, *arguments):
    try:
        call(*arguments)
    except PermissionError as e:
        return str(e)
    return "allowed"

folder = sys.argv[2]
print(json.dumps({
    "open": refused(il.open, folder + "/locked/i"),
    "save": refused(index.save, folder + "/locked/new"),
    "replace": refused(index.save, folder + "/locked/i"),
    "unlisted": refused(index.save, folder + "/unlisted/i"),
}))
"""


def test_a_path_without_permission_is_named() -> None:
    with tempfile.TemporaryDirectory() as folder:  # the folders of pytest are closed to other users
        os.chmod(folder, 0o755)
        locked, unlisted = Path(folder) / "locked", Path(folder) / "unlisted"
        locked.mkdir()
        small_index(n=5).save(locked / "i")
        before = (locked / "i").read_bytes()
        (locked / "i").chmod(0o000)
        locked.chmod(0o555)
        unlisted.mkdir()
        unlisted.chmod(0o333)
        answers = run_python(AS_NOBODY, str(TESTS), os.path.realpath(folder))
        real = os.path.realpath(locked)
        assert answers == {
            "open": f"[Errno 13] Permission denied: '{real}/i'",
            "save": f"[Errno 13] cannot write an interlace file (Permission denied): '{real}/new'",
            "replace": f"[Errno 13] cannot write an interlace file (Permission denied): '{real}/i'",
            "unlisted": "allowed",
        }
        for path in (locked, unlisted, locked / "i"):
            path.chmod(0o755)
        assert_old_file_whole(locked, before)
        assert os.listdir(unlisted) == ["i"]
        assert len(il.open(unlisted / "i")) == 12


# --- large files ------------------------------------------------------------------------------------------------------


def test_a_large_file_is_mapped_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few bytes are checked and allocated at open, however many rows; ``benchmarks/latency.py`` measures the time."""
    n, columns = 300_000, 31
    words = np.random.default_rng(0).normal(size=(256, 1)).astype(np.float32)
    codebooks = il.Codebooks([il.Book(words, [d]) for d in range(columns + 1)], dim=columns + 1, n_crude=4)
    codes = np.empty((n, columns + 1), np.uint8)
    codes[:] = np.random.default_rng(1).integers(0, 256, (1, columns + 1))
    codes[:, 0] = np.arange(n, dtype=np.uint32) * 2654435761 >> 24 & 255
    index = index_with(codebooks, (Segment.pack(codes, codebooks),), Ids.default(n))
    del codes
    index.save(tmp_path / "large")
    del index
    assert (tmp_path / "large").stat().st_size > 9_000_000
    il.open(tmp_path / "large")  # what is made once is made now
    checked, real = [0], zlib.crc32

    def counted(data: Any, *start: int) -> int:
        checked[0] += memoryview(data).nbytes
        return real(data, *start)

    monkeypatch.setattr(zlib, "crc32", counted)
    tracemalloc.start()
    opened = il.open(tmp_path / "large")
    allocated = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert checked[0] < 200_000
    assert allocated < 2_000_000
    assert len(opened) == n
    assert opened.reconstruct(n - 1).shape == (columns + 1,)
    os.unlink(tmp_path / "large")
