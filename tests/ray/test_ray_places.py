"""Object stores and clusters that refuse: real clients, errors that name the shard, and nothing half-built."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import interlace as il

pytest.importorskip("ray.exceptions", reason="the ray extra is not installed")
pytestmark = [
    pytest.mark.usefixtures("cluster_of_ray"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray"),
]


@pytest.fixture
def objects(s3: tuple[dict[str, bytes], dict[str, str]], monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """The object store, which this process can reach too."""
    for name, value in s3[1].items():
        monkeypatch.setenv(name, value)
    return s3[0]


def test_an_index_in_an_object_store(objects, built: Path, one: il.Index, rows, queries, tmp_path: Path) -> None:
    """By pyarrow's S3 client: sources, shards, records of the build, copies in the cache of a node."""
    for name, part in (("a", rows[:1000]), ("b", rows[1000:])):
        np.save(data := io.BytesIO(), part)
        objects[f"bucket/in/{name}.npy"] = data.getvalue()
    out = "s3://bucket/index"
    made = il.ray.build("s3://bucket/in", one, out, shards=7, originals="float16", calibrate=True, progress=False)
    names = [path.name for path in built.iterdir()]
    for name in names:
        same = objects[f"bucket/index/{name}"] == (built / name).read_bytes()
        assert same or name == "manifest.json", "the sources differ, and so does the key of the build"
    assert not [name for name in objects if "building/" in name and not name.endswith("/")]
    il.ray.verify(made)
    with il.ray.open(out, groups=2, threads=1, timeout=300, cache=str(tmp_path / "cache")) as cluster:
        found = cluster.search(queries, margin="exact", rerank=50)
    assert np.array_equal(found.ids, one.search(queries, margin="exact", rerank=50).ids)
    del objects["bucket/index/shard-00004.interlace"]
    with pytest.raises(il.FileError, match=r"shard 4 .*missing"):
        il.ray.open(out, groups=7, cache=str(tmp_path / "empty"))


def test_a_copy_of_another_version_of_the_format_is_not_read(tmp_path: Path, monkeypatch) -> None:
    from interlace.files import versions
    from interlace.ray import places

    (tmp_path / "file").write_bytes(b"new")
    asked = f"local://{tmp_path}/file", str(tmp_path / "cache"), "fingerprint"
    copy = Path(places.fetched(*asked))
    copy.write_bytes(b"old")
    assert Path(places.fetched(*asked)) == copy
    assert copy.read_bytes() == b"old"
    monkeypatch.setattr(versions, "VERSION", versions.VERSION + 1)
    assert Path(places.fetched(*asked)).read_bytes() == b"new"


def test_missing_credentials(objects, one: il.Index, rows: np.ndarray, tmp_path: Path) -> None:
    for source, out in (("s3://denied/x.npy", tmp_path / "out"), (rows, "s3://denied/index")):
        with pytest.raises(
            il.FileError, match=r"s3://denied/.*ACCESS_DENIED.*credentials for s3:// in the environment"
        ):
            il.ray.build(source, one, out, shards=2, progress=False)
    assert not (tmp_path / "out").exists()
    assert not [name for name in objects if name.startswith("denied")]
    with pytest.raises(il.FileError, match="credentials for s3"):
        il.ray.open("s3://denied/index")


def python(code: str, *arguments: str) -> str:
    """What another process prints."""
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_another_version_of_ray(cluster_of_ray: None) -> None:
    """By Ray's own comparison, when a process joins."""
    import ray

    code = """if True:
        import sys, ray
        ray.__version__ = "2.1.0"
        import interlace as il
        try:
            il.ray.open("anything", address=sys.argv[1])
        except FileNotFoundError:
            from interlace.ray import runtime
            try:
                runtime.connect(sys.argv[1])
            except il.ray.ClusterError as error:
                print(error)
    """
    said = python(code, ray.get_runtime_context().gcs_address)
    assert ray.__version__ in said
    assert "2.1.0" in said
    assert "need the same versions of Ray and of Python" in said


def test_a_node_without_memory(one: il.Index, rows: np.ndarray, tmp_path: Path) -> None:
    """Ray ends tasks of a node whose memory is used up; here it thinks so from the start."""
    np.save(tmp_path / "x.npy", rows)
    one.codebooks.save(tmp_path / "books")
    code = """if True:
        import sys, ray
        import interlace as il
        config = {"memory_usage_threshold": 0.001, "memory_monitor_refresh_ms": 50, "task_oom_retries": 0}
        ray.init(address="local", include_dashboard=False, log_to_driver=False, num_cpus=1,
                 _node_ip_address="127.0.0.7", object_store_memory=100 << 20, _system_config=config)
        folder = sys.argv[1]
        try:
            il.ray.build(f"{folder}/x.npy", f"{folder}/books", f"{folder}/out", shards=2, retries=0, progress=False)
        except il.ray.BuildError as error:
            print(error, error.shards)
    """
    said = python(code, str(tmp_path))
    assert said.startswith("shard 0 (rows 0 to 1,499): a node ran out of memory")
    assert "more shards" in said
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_memory_that_numpy_does_not_get(one, rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from interlace.ray import coding

    def refuse(*_: object, **__: object) -> None:
        raise MemoryError("Unable to allocate 1 TiB")

    monkeypatch.setattr(coding, "built", refuse)
    job = coding.ShardJob(3, 100, 50, str(tmp_path), "", "", "", None, 0, 1, False)
    with pytest.raises(MemoryError, match=r"shard 3 \(rows 100 to 149\): Unable to allocate 1 TiB"):
        coding.build_shard(job, None, np.zeros(0, np.int64), None)  # type: ignore[arg-type]
