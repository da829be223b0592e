"""Calls in odd orders: builds that are killed, or run twice at once, sources that change, clusters that are closed."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import interlace as il

pytest.importorskip("ray.exceptions", reason="the ray extra is not installed")
pytestmark = [
    pytest.mark.usefixtures("cluster_of_ray"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray"),
]
OPTIONS = {"shards": 7, "originals": "float16", "progress": False}


def same_shards(out: Path, built: Path) -> bool:
    names = [path.name for path in built.iterdir() if path.name.startswith(("shard", "calibration", "model"))]
    return len(names) == 9 and all((out / name).read_bytes() == (built / name).read_bytes() for name in names)


def test_a_build_whose_process_is_killed_goes_on(built: Path, one: il.Index, rows: np.ndarray, tmp_path: Path) -> None:
    import ray

    np.save(tmp_path / "x.npy", rows)
    il.Index(one.codebooks).save(tmp_path / "model")
    out = tmp_path / "out"
    code = (
        "import sys, interlace as il; il.ray.build(*sys.argv[1:4], shards=7, originals='float16', calibrate=True,"
        " address=sys.argv[4], threads=2, progress=False)"
    )
    arguments = [str(tmp_path / "x.npy"), str(tmp_path / "model"), str(out), ray.get_runtime_context().gcs_address]
    process = subprocess.Popen([sys.executable, "-c", code, *arguments], stderr=subprocess.DEVNULL)
    try:
        while process.poll() is None and len(list(out.glob("building/shard-*"))) < 2:
            time.sleep(0.005)
        assert process.poll() is None, "it ended by itself"
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert not (out / "manifest.json").exists()
    with pytest.raises(FileNotFoundError, match="has not finished"):
        il.ray.open(out)
    first = out / "shard-00000.interlace"
    before = first.stat().st_ino
    il.ray.build(tmp_path / "x.npy", tmp_path / "model", out, calibrate=True, **OPTIONS)
    assert first.stat().st_ino == before, "not made again"
    assert same_shards(out, built)


def test_two_builds_in_one_folder(one: il.Index, rows: np.ndarray, tmp_path: Path) -> None:
    """The second one, of other rows, is refused while the first one works; it would write over its files."""
    refused: list[BaseException] = []

    def meanwhile(what: str, done: float) -> None:
        if what.startswith("coding") and not refused:
            with pytest.raises(il.ray.BuildError, match="another process is building in") as caught:
                il.ray.build(rows[:100], one, tmp_path / "out", shards=2, progress=False)
            refused.append(caught.value)

    il.ray.build(rows, one, tmp_path / "out", shards=2, calibrate=False, progress=meanwhile)
    assert refused
    il.ray.verify(tmp_path / "out")
    with pytest.raises(il.InputError, match="already has an index"):
        il.ray.build(rows[:100], one, tmp_path / "out", shards=2, progress=False)


def test_a_source_that_changes_while_it_is_read(one: il.Index, rows: np.ndarray, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", rows)

    def meanwhile(what: str, done: float) -> None:
        if what.startswith("coding: 2"):
            np.save(tmp_path / "x.npy", rows[::-1])

    with pytest.raises(il.FileError, match=r"x\.npy' has changed while it was read"):
        il.ray.build(tmp_path / "x.npy", one, tmp_path / "out", shards=2, calibrate=False, progress=meanwhile)
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_nan_is_named_with_its_file_and_row(one: il.Index, rows: np.ndarray, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq
    import ray.data

    bad = rows[:900].copy()
    bad[700, 3] = np.nan
    table = pa.table({"v": pa.FixedSizeListArray.from_arrays(bad.ravel(), bad.shape[1])})
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=200)
    ray.data.DataContext.get_current().enable_progress_bars = False
    dataset = ray.data.from_arrow([table.slice(0, 600), table.slice(600)])
    for source, place in ((tmp_path / "x.parquet", r"x\.parquet'\[700"), (dataset, r"block 1 of the dataset\[100")):
        with pytest.raises(il.ray.BuildError, match=rf"shard 2 .*{place}, 3\] is nan") as caught:
            il.ray.build(source, one, tmp_path / "out", shards=3, threads=2, calibrate=False, progress=False)
        assert caught.value.shards == (2,)


def test_searches_at_the_edges(built: Path, one: il.Index, queries: np.ndarray) -> None:
    with il.ray.open(built, groups=2, threads=1, timeout=300) as cluster:
        for given in (queries[:0], queries[:1]):
            found, expected = (
                one_of.search(given, 5, margin="exact", filter=[], rerank=10) for one_of in (cluster, one)
            )
            assert np.array_equal(found.ids, expected.ids)
            assert found.counts.sum() == 0
            near = cluster.range_search(given, 30.0, timeout=float("inf"))
            assert np.array_equal(near.offsets, one.range_search(given, 30.0).offsets)
        with pytest.raises(il.InputError, match="radius"):
            cluster.range_search(queries, [1.0, 2.0])
        with pytest.raises(il.InputError, match="single query"):
            cluster.explain(queries[:2], 5)
        found = []
        threads = [
            threading.Thread(target=lambda: found.append(cluster.search(queries, margin="exact").ids.tolist()))
            for _ in range(12)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [one.search(queries, margin="exact").ids.tolist()] * 12
    with pytest.raises(il.ray.ClusterError, match=r"Cluster\(3000 rows, 7 shards, 2 groups x 1\) is closed"):
        cluster.search(queries)
    cluster.close()


def test_a_store_that_is_open_twice(one: il.Index, rows: np.ndarray, tmp_path: Path) -> None:
    with il.ray.create(tmp_path / "store", one, shards=1, originals="float16", timeout=300) as store:
        store.upsert(rows[:50], np.arange(50))
        with pytest.raises(il.StoreLockedError):
            il.ray.rebuild(tmp_path / "store", shards=2, progress=False)
        with pytest.raises(il.StoreLockedError):
            il.ray.open_store(tmp_path / "store", timeout=300)
        assert len(store) == 50
    with pytest.raises(il.ray.ClusterError, match="is closed"):
        store.upsert(rows[:1], [1])
    with il.ray.open_store(tmp_path / "store", timeout=300) as again:
        assert len(again) == 50
