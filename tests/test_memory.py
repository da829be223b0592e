"""Anonymous memory, whatever the size of the input: reading takes a few blocks, building codes + ids + one sample."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import interlace as il
from helpers import clustered, run_python
from interlace.inputs.arrays import Rows

ROWS, N_BYTES, SAMPLE = 300_000, 8, 2000
MB = 1 << 20

BUILD = """
import json, sys, threading, time
import numpy as np
import interlace as il

def anonymous():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("RssAnon"))

path, metric, with_ids = sys.argv[1], sys.argv[2], sys.argv[3] == "ids"
x = np.load(path, mmap_mode="r")
il.Index.build(x[:500], n_bytes=8, layout="subspace", metric=metric, threads=1)  # what is made once is made now
ids = np.arange(len(x))[::-1].copy() if with_ids else None
before, peak, done = anonymous(), 0, False

def watch():
    global peak
    while not done:
        peak = max(peak, anonymous())
        time.sleep(0.001)

watcher = threading.Thread(target=watch)
watcher.start()
index = il.Index.build(
    x, n_bytes=8, layout="subspace", metric=metric, ids=ids, max_train_rows=int(sys.argv[4]), threads=1
)
after = anonymous()
done = True
watcher.join()
report = index.report()
kept = report.codes + report.row_numbers + sum(a.nbytes for a in index.ids_of_rows.arrays.values())
print(json.dumps({"peak": peak - before, "after": after - before, "kept": kept, "codes": report.codes}))
"""


def measured(folder: Path, dim: int, *, metric: str = "l2", ids: str = "default") -> dict[str, int]:
    """Peak of anonymous memory above what the process had before building from a memmap of ROWS x dim floats."""
    path = folder / f"x{dim}.npy"
    if not path.exists():
        x = np.lib.format.open_memmap(path, "w+", np.float32, (ROWS, dim))
        part = clustered(20_000, dim)
        for start in range(0, ROWS, len(part)):
            x[start : start + len(part)] = part
    found: dict[str, int] = run_python(BUILD, str(path), metric, ids, str(SAMPLE))
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("memory")


def bound(dim: int, *, ids: bool) -> int:
    """What building may take at its peak; none of it grows with the bytes of a row but the sample and the block."""
    codes = ROWS * (N_BYTES + N_BYTES + 4 + 2)  # in row order and packed; row numbers while packing, and packed
    sample = SAMPLE * dim * 4 * 6  # rows to learn from, centred, rotated, in parts
    blocks = 2 * 16384 * dim * 4  # of the input, converted
    queries = 14_400  # 12,000, and a fifth more
    calibration = queries * 110 * 88  # hits, and what their three answers ask of a rule
    cells = queries * 256 * 16  # bases, rows of each cell, gaps
    id_bytes = ROWS * 8 * 4 if ids else 0  # the ids, and three copies while they are sorted and compared
    return codes + sample + blocks + calibration + cells + id_bytes + 2 * MB


def checked(folder: Path, dim: int, *, metric: str = "l2", ids: str = "default") -> int:
    found = measured(folder, dim, metric=metric, ids=ids)
    size = ROWS * dim * 4
    assert size >= 10 * found["codes"]
    assert found["kept"] <= found["peak"] <= bound(dim, ids=ids == "ids")
    assert bound(dim, ids=ids == "ids") < size  # the bound would notice a copy of the input
    return found["peak"]


def test_memory_does_not_grow_with_the_input(folder: Path) -> None:
    narrow, wide = checked(folder, 224), checked(folder, 320)
    assert wide - narrow <= bound(320, ids=False) - bound(224, ids=False)  # ten sevenths of the input


@pytest.mark.parametrize(("metric", "ids"), [("cosine", "default"), ("l2", "ids")])
def test_memory_with_normalized_rows_and_with_ids(folder: Path, metric: str, ids: str) -> None:
    checked(folder, 256, metric=metric, ids=ids)


BOUNDED = """
import json, sys
import numpy as np
import interlace as il

def memory(name):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(name))

n, dim, allowed, setting = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), json.loads(sys.argv[4])
x = np.random.default_rng(0).normal(size=(n, dim)).astype(np.float32)
il.Index.build(x[:400], n_bytes=4, n_words=16, iterations=1, threads=2)  # what is made once is made now
before = memory("VmRSS")
with open("/proc/self/clear_refs", "w") as marks:
    marks.write("5")  # the peak starts anew
il.Index.build(x, max_memory=allowed, iterations=1, threads=2, **setting)
print(json.dumps(memory("VmHWM") - before))
"""


@pytest.mark.parametrize(
    ("n", "dim", "setting"),
    [
        (12_000, 32, {"layout": "subspace", "rotation": "learned", "n_bytes": 4}),
        (12_000, 48, {"layout": "hybrid", "metric": "cosine"}),
        (12_000, 48, {"layout": "residual"}),
        (1500, 400, {"layout": "residual", "cross": "byte", "n_bytes": 5}),
    ],
)
def test_building_stays_within_max_memory(n: int, dim: int, setting: dict[str, Any]) -> None:
    """All memory of the process, at the smallest bound that is accepted."""
    with pytest.raises(il.InputError) as refused:
        il.plan(n, dim, max_memory=1, threads=2, measure=False, **setting)
    least = int(str(refused.value).partition("max_memory=")[2].split()[0])
    peak = run_python(BOUNDED, str(n), str(dim), str(least), json.dumps(setting))
    assert 0 < peak <= least


def test_calibration_draws_rows_that_were_not_learned_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are numbered without a list of all rows, so the numbering is checked here."""
    taken: list[np.ndarray] = []
    take = Rows.take

    def noted(self: Rows, rows: np.ndarray) -> np.ndarray:
        taken.append(rows)
        return take(self, rows)

    monkeypatch.setattr(Rows, "take", noted)
    for n, sample in ((3000, 500), (3000, 1999), (1500, 500), (2501, 1)):
        taken.clear()
        il.Index.build(clustered(n, 3), n_bytes=2, max_train_rows=sample, threads=1)
        learned, errors, drawn = taken
        assert len(learned) == sample
        assert len(errors) == min(1000, n - sample)  # whose error is measured
        assert not np.isin(errors, learned).any()
        drawn, filled = drawn[~np.isin(drawn, learned)], drawn[np.isin(drawn, learned)]
        assert len(drawn) == n - sample  # all others are too few for the default margin
        assert len(filled) == sample
        assert (np.diff(drawn) > 0).all()
        assert 0 <= drawn[0] <= drawn[-1] < n


READ = """
import json, sys, threading, time
import numpy as np
import interlace as il
from interlace.inputs.arrays import Rows

def anonymous():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("RssAnon"))

kind, rows, dim = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
if kind == "generator":
    block = np.ones((10_000, dim), np.float32)
    x = (block + i for i in range(rows // len(block)))
else:
    il.data.read_vectors(sys.argv[4])[:]  # what is made once is made now, with another file
    x = il.data.read_vectors(kind)
before, peak, done = anonymous(), 0, False

def watch():
    global peak
    while not done:
        peak = max(peak, anonymous())
        time.sleep(0.001)

watcher = threading.Thread(target=watch)
watcher.start()
read = Rows(x)
n = sum(len(block) for block in read.blocks())
read.take(np.arange(0, rows, 500))
done = True
watcher.join()
print(json.dumps([n, peak - before]))
"""


def test_a_generator_is_read_in_blocks() -> None:
    rows, dim = 400_000, 128
    n, peak = run_python(READ, "generator", str(rows), str(dim))
    assert n == rows
    assert peak < 4 * 16384 * dim * 4 + 2 * MB < rows * dim * 4 / 5  # the block, the one before, a sample


@pytest.mark.parametrize("groups", [1, 8])
def test_a_parquet_file_is_read_in_batches(groups: int, tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows, dim = 400_000, 128
    part = pa.array(np.random.default_rng(0).normal(size=rows // 8 * dim).astype(np.float32))
    column = pa.chunked_array([pa.FixedSizeListArray.from_arrays(part, dim)] * 8)
    pq.write_table(pa.table({"v": column}), tmp_path / "x.parquet", row_group_size=rows // groups, use_dictionary=False)
    pq.write_table(pa.table({"v": column[:10]}), tmp_path / "small.parquet")
    n, peak = run_python(READ, str(tmp_path / "x.parquet"), str(rows), str(dim), str(tmp_path / "small.parquet"))
    assert n == rows
    # Three blocks of 8 MB, pages and batches being decoded, and what pyarrow's allocator has not given back.
    assert peak < 64 * MB < rows * dim * 4 / 3
