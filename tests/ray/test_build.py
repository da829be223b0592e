"""Builds on Ray: the same bytes from every source, nothing half-built, errors that name the shard."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import interlace as il

pytest.importorskip("ray.exceptions", reason="the ray extra is not installed")
pytestmark = [
    pytest.mark.usefixtures("cluster_of_ray"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray"),  # of Ray, about Ray
]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


def shards_only(folder: Path) -> dict[str, bytes]:
    return {name: data for name, data in contents(folder).items() if name.startswith("shard")}


def shards_of(folder: Path) -> list[il.Index]:
    manifest = il.ray.ShardManifest.read(folder)
    return [manifest.open_shard(shard.number) for shard in manifest.shards]


def test_shards_are_the_rows_in_order_with_the_codebooks_of_one_index(built: Path, one: il.Index) -> None:
    found = shards_of(built)
    assert [len(shard) for shard in found] == [428, 429, 428, 429, 428, 429, 429]
    assert all(shard.codebooks == one.codebooks for shard in found)
    assert np.array_equal(np.concatenate([shard.codes for shard in found]), one.codes)
    assert np.array_equal(np.concatenate([shard.ids for shard in found]), one.ids)
    for number in range(7):
        il.ray.ShardManifest.read(built).verify_shard(number)


def test_settings_learn_the_codebooks_of_one_index(one: il.Index, rows: np.ndarray, tmp_path: Path) -> None:
    settings = {"n_bytes": 4, "layout": "hybrid", "threads": 1}
    np.save(tmp_path / "x.npy", rows)
    for source, out in ((rows, "a"), (tmp_path / "x.npy", "b")):
        made = il.ray.build(source, settings, tmp_path / out, shards=2, calibrate=False, progress=False)
        assert made.open_shard(1).codebooks == one.codebooks
    assert contents(tmp_path / "a").keys() == contents(tmp_path / "b").keys()
    assert (tmp_path / "a" / "shard-00000.interlace").read_bytes() == (
        tmp_path / "b" / "shard-00000.interlace"
    ).read_bytes()


def test_every_kind_of_source_gives_the_same_bytes(
    built: Path, one: il.Index, rows: np.ndarray, tmp_path: Path
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    np.save(tmp_path / "a.npy", rows[:1000])
    np.save(tmp_path / "b.npy", rows[1000:])
    table = pa.table({"vector": pa.FixedSizeListArray.from_arrays(rows.ravel(), rows.shape[1])})
    pq.write_table(table, tmp_path / "all.parquet", row_group_size=700)
    sources = {
        "npy": [tmp_path / "a.npy", tmp_path / "b.npy"],
        "parquet": tmp_path / "all.parquet",
        "url": [f"local://{tmp_path}/a.npy", f"local://{tmp_path}/b.npy"],
        "parquet url": f"local://{tmp_path}/all.parquet",
    }
    expected = shards_only(built)
    for name, source in sources.items():
        out = tmp_path / f"out {name}"
        il.ray.build(source, one, out, shards=7, originals="float16", calibrate="shards", progress=False)
        assert shards_only(out) == expected, name


def test_a_dataset_gives_the_same_bytes(built: Path, one: il.Index, rows: np.ndarray, tmp_path: Path) -> None:
    data = pytest.importorskip("ray.data")
    data.DataContext.get_current().enable_progress_bars = False
    dataset = data.from_numpy([rows[:700], rows[700:]])
    out = tmp_path / "out"
    il.ray.build(dataset, one, out, shards=7, originals="float16", key="data", calibrate="shards", progress=False)
    assert shards_only(out) == shards_only(built)


def test_shards_can_be_written_below_a_url(built: Path, one: il.Index, rows: np.ndarray, tmp_path: Path) -> None:
    out = f"local://{tmp_path}/bucket/index"
    made = il.ray.build(rows, one, out, shards=7, originals="float16", calibrate=True, progress=False)
    assert contents(tmp_path / "bucket" / "index") == contents(built)
    assert len(made.open_shard(3, cache=str(tmp_path / "cache"))) == 429
    assert len(list((tmp_path / "cache").iterdir())) == 1


def test_a_finished_build_is_not_repeated_and_not_overwritten(built: Path, one: il.Index, rows: np.ndarray) -> None:
    before = {path: path.stat().st_mtime_ns for path in built.iterdir()}
    il.ray.build(rows, one, built, shards=7, originals="float16", calibrate=True, progress=False)
    assert {path: path.stat().st_mtime_ns for path in built.iterdir()} == before
    with pytest.raises(il.InputError, match="already has an index"):
        il.ray.build(rows, one, built, shards=3, originals="float16", progress=False)


def test_a_build_goes_on_with_the_shards_that_are_done(one: il.Index, rows: np.ndarray, tmp_path: Path) -> None:
    """One file has a NaN; when it is mended, the shards of the other one are not made again."""
    bad = rows[1500:].copy()
    bad[700, 3] = np.nan
    np.save(tmp_path / "good.npy", rows[:1500])
    np.save(tmp_path / "bad.npy", bad)
    files, out = [tmp_path / "good.npy", tmp_path / "bad.npy"], tmp_path / "out"
    with pytest.raises(il.ray.BuildError, match=r"shard 2 .*bad\.npy'\[700, 3\] is nan") as caught:
        il.ray.build(files, one, out, shards=4, threads=2, calibrate=False, progress=False)
    assert caught.value.shards == (2,)
    assert 0 in caught.value.done
    assert not (out / "manifest.json").exists()
    with pytest.raises(FileNotFoundError, match="has not finished"):
        il.ray.ShardManifest.read(out)
    first = (out / "shard-00000.interlace").stat()
    # The same size and time: to the build it is the same file, which now can be read.
    kept = (tmp_path / "bad.npy").stat()
    np.save(tmp_path / "bad.npy", rows[1500:])
    import os

    os.utime(tmp_path / "bad.npy", ns=(kept.st_atime_ns, kept.st_mtime_ns))
    il.ray.build(files, one, out, shards=4, threads=2, calibrate=False, progress=False)
    assert (out / "shard-00000.interlace").stat().st_ino == first.st_ino
    assert np.array_equal(np.concatenate([shard.codes for shard in shards_of(out)]), one.codes)
    assert not (out / "building").exists()


def test_a_dimension_that_changes_half_way_is_refused_with_the_file(
    one: il.Index, rows: np.ndarray, tmp_path: Path
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    np.save(tmp_path / "a.npy", rows[:1500])
    np.save(tmp_path / "b.npy", rows[1500:, :9])
    with pytest.raises(il.InputError, match=r"b\.npy' has 9 dimensions, .*a\.npy' has 16"):
        il.ray.build([tmp_path / "a.npy", tmp_path / "b.npy"], one, tmp_path / "out", shards=2, progress=False)
    lists = [list(map(float, row)) for row in rows[:400]]
    lists[300] = lists[300][:5]
    pq.write_table(pa.table({"v": lists}), tmp_path / "c.parquet")
    with pytest.raises(il.ray.BuildError, match=r"shard 1 .*c\.parquet.*row 300.*has 5 values") as caught:
        il.ray.build(tmp_path / "c.parquet", one, tmp_path / "out", shards=2, threads=2, progress=False)
    assert caught.value.done == (0,)


def test_ids_of_columns_and_arrays(one: il.Index, rows: np.ndarray, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = [f"item {i}" for i in range(len(rows))]
    vectors = pa.FixedSizeListArray.from_arrays(rows.ravel(), rows.shape[1])
    pq.write_table(pa.table({"name": names, "vector": vectors}), tmp_path / "named.parquet")
    made = il.ray.build(
        tmp_path / "named.parquet",
        one,
        tmp_path / "a",
        shards=2,
        ids="name",
        key="vector",
        calibrate=False,
        progress=False,
    )
    assert made.ids == "string"
    assert made.open_shard(1).ids.tolist() == names[1500:]
    pq.write_table(pa.table({"id": names, "vector": vectors}), tmp_path / "ids.parquet")  # the default column
    made = il.ray.build(tmp_path / "ids.parquet", one, tmp_path / "d", shards=2, calibrate=False, progress=False)
    assert made.open_shard(1).ids.tolist() == names[1500:]
    numbers = np.arange(len(rows)) * 3 + 1
    made = il.ray.build(rows, one, tmp_path / "b", shards=2, ids=numbers, calibrate=False, progress=False)
    assert np.array_equal(made.open_shard(1).ids, numbers[1500:])
    numbers[2999] = 1
    with pytest.raises(il.DuplicateIdError, match="id 1 is in more than one shard"):
        il.ray.build(rows, one, tmp_path / "c", shards=2, ids=numbers, calibrate=False, progress=False)
    assert not (tmp_path / "c" / "manifest.json").exists()


def test_margins_are_calibrated_for_the_groups_that_were_asked_for(one: il.Index, rows: np.ndarray, tmp_path) -> None:
    from interlace.ray.holder import Holder

    def calibrated_for(name: object, *numbers: int) -> int | None:
        """Rows of the calibration that an actor with these shards uses."""
        manifest = il.ray.build(rows, one, tmp_path / str(name), shards=2, calibrate=name, progress=False)
        found = Holder(manifest, numbers, 1, None).searcher.engine.calibration
        return None if found is None else found.n

    assert calibrated_for("auto", 0, 1) == 3000
    assert calibrated_for("all", 0, 1) == 3000
    assert contents(tmp_path / "auto") == contents(tmp_path / "all")
    assert calibrated_for("all", 1) == 3000, "its rules hold for fewer rows, too"
    assert calibrated_for("shards", 1) == 1500
    assert calibrated_for("shards", 0, 1) is None
    assert calibrated_for(False, 1) is None
    with pytest.raises(il.InputError, match="calibrate must be"):
        il.ray.build(rows, one, tmp_path / "x", shards=2, calibrate="none")  # type: ignore[arg-type]


def test_progress_goes_up_to_the_end(one: il.Index, rows: np.ndarray, tmp_path: Path) -> None:
    seen: list[tuple[str, float]] = []
    il.ray.build(
        rows, one, tmp_path / "out", shards=2, calibrate=False, progress=lambda what, done: seen.append((what, done))
    )
    assert seen[-1] == ("done", 1.0)
    assert any(what == "coding: 2 of 2 shards" for what, _ in seen)
    assert all(before <= after for (_, before), (_, after) in zip(seen, seen[1:], strict=False))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"shards": 0}, "shards must be"),
        ({"shards": 4000}, "shards must be 1 to 3000"),
        ({"model": {"bytes": 8}}, "unknown settings: bytes"),
        ({"model": il.ICQ()}, "must be fitted"),
        ({"model": 3}, "model must be settings"),
        ({"source": [1, 2]}, "source must be an array"),
        ({"ids": [1, 2]}, "one for each of the 3000 rows"),
        ({"ids": "name"}, "names a column"),
        ({"key": "v"}, "key names a column"),
        ({"progress": 3}, "progress must be"),
    ],
)
def test_bad_arguments(one: il.Index, rows: np.ndarray, tmp_path: Path, arguments: dict, message: str) -> None:
    given = {"source": rows, "model": one, "out": tmp_path / "out", "shards": 2, "progress": False} | arguments
    with pytest.raises(il.InputError, match=message):
        il.ray.build(given.pop("source"), given.pop("model"), given.pop("out"), **given)
    assert not (tmp_path / "out").exists()


def test_bad_places(one: il.Index, rows: np.ndarray, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no\.npy"):
        il.ray.build(tmp_path / "no.npy", one, tmp_path / "out", shards=2, progress=False)
    with pytest.raises(il.FileError, match="nonsense://.*Protocol not known"):
        il.ray.build("nonsense://bucket/x.npy", one, tmp_path / "out", shards=2, progress=False)
    (tmp_path / "x.txt").write_text("1 2 3")
    with pytest.raises(il.InputError, match="no files of vectors"):
        il.ray.build(f"local://{tmp_path}/x.txt", one, tmp_path / "out", shards=2, progress=False)


def test_a_manifest_that_does_not_fit_its_files(built: Path, one: il.Index, rows: np.ndarray, tmp_path: Path) -> None:
    import shutil

    def damaged(change) -> il.ray.ShardManifest:
        folder = tmp_path / "copy"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(built, folder)
        change(folder)
        return il.ray.ShardManifest.read(folder)

    def foreign(folder: Path) -> None:
        shutil.copy(folder / "shard-00001.interlace", folder / "shard-00003.interlace")

    def other_model(folder: Path) -> None:
        il.ray.build(
            rows[:2900], {"n_bytes": 2, "layout": "hybrid"}, tmp_path / "b", shards=7, calibrate=False, progress=False
        )
        shutil.copy(tmp_path / "b" / "shard-00003.interlace", folder / "shard-00003.interlace")

    def flipped(folder: Path) -> None:
        data = bytearray((folder / "shard-00003.interlace").read_bytes())
        data[-100] ^= 1
        (folder / "shard-00003.interlace").write_bytes(data)

    with pytest.raises(il.FileError, match=r"shard 3 .*missing"):
        damaged(lambda folder: (folder / "shard-00003.interlace").unlink()).open_shard(3)
    with pytest.raises(il.DamagedFileError, match=r"shard 3 .*changed or replaced"):
        damaged(foreign).open_shard(3)
    with pytest.raises(il.FileError, match=r"shard 3 .*another model"):
        damaged(other_model).open_shard(3)
    with pytest.raises(il.DamagedFileError, match=r"shard 3 .*damaged"):
        damaged(flipped).verify_shard(3)

    def edited(folder: Path) -> None:
        about = json.loads((folder / "manifest.json").read_text())
        about["rows"] += 1
        (folder / "manifest.json").write_text(json.dumps(about))

    with pytest.raises(il.DamagedFileError, match="checksum does not match"):
        damaged(edited)
    with pytest.raises(il.NotAnIndexError, match="no manifest"):
        damaged(lambda folder: (folder / "manifest.json").write_text("{}"))
