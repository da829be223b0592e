"""``interlace ray`` and ``interlace plan --machines``."""

from __future__ import annotations

import json
import socket
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest

import interlace as il
from interlace import cli
from interlace.index.machines import plan_machines

pytest.importorskip("ray.exceptions", reason="the ray extra is not installed")
pytestmark = [
    pytest.mark.usefixtures("cluster_of_ray"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray"),
]


def run(capsys: pytest.CaptureFixture[str], *args: object) -> tuple[int, str, str]:
    code = cli.main([str(arg) for arg in args])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_build_search_info_verify(one, rows, queries, tmp_path: Path, capsys) -> None:
    np.save(tmp_path / "x.npy", rows)
    np.save(tmp_path / "q.npy", queries)
    one.codebooks.save(tmp_path / "books")
    out = tmp_path / "shards"
    code, text, _ = run(
        capsys,
        "ray",
        "build",
        tmp_path / "x.npy",
        "-o",
        out,
        "--shards",
        2,
        "--model",
        tmp_path / "books",
        "--calibrate",
        "none",
    )
    assert code == 0
    assert "2 shards" in text
    code, text, _ = run(
        capsys, "ray", "search", out, tmp_path / "q.npy", "-k", 3, "--margin", "exact", "--json", "--timeout", 300
    )
    assert code == 0
    hits = json.loads(text)["hits"]
    assert [hit["ids"] for hit in hits] == one.search(queries[:5], 3, margin="exact").ids.tolist()
    assert "shard 1 ('shard-00001.interlace', rows 1,500 to 2,999)" in run(capsys, "ray", "info", out)[1]
    assert "no damage" in run(capsys, "ray", "verify", out)[1]
    data = bytearray((out / "shard-00001.interlace").read_bytes())
    data[-1000] ^= 4
    (out / "shard-00001.interlace").write_bytes(data)
    code, _, error = run(capsys, "ray", "verify", out)
    assert code == 1
    assert "shard 1" in error
    code, _, error = run(capsys, "ray", "info", tmp_path)
    assert code == 1
    assert "manifest.json" in error
    code, _, error = run(capsys, "ray", "build", "x.npy", "-o", out, "--shards", 2, "--model", "m", "--n-bytes", 4)
    assert code == 1
    assert "cannot be combined" in error


def test_serve(built: Path, one, queries, tmp_path: Path) -> None:
    """``interlace serve --ray ADDRESS`` as a process of its own, which joins the cluster and ends by a signal."""
    import signal
    import subprocess
    import sys

    import ray

    pytest.importorskip("fastapi", reason="the serve extra is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = ray.get_runtime_context().gcs_address
    command = [sys.executable, "-m", "interlace", "serve", str(built), "--ray", address, "--port", str(port)]
    more = ["--replicas", "1", "--max-replicas", "2"]
    with open(tmp_path / "said", "w") as said, subprocess.Popen([*command, *more], stderr=said) as process:
        try:
            body = json.dumps({"query": queries[0].tolist(), "limit": 5, "params": {"exact": True}}).encode()
            url = f"http://127.0.0.1:{port}/collections/shards/points/query"
            request = urllib.request.Request(url, body, {"content-type": "application/json"})
            for _ in range(2000):
                assert process.poll() is None, (tmp_path / "said").read_text()
                try:
                    with urllib.request.urlopen(request, timeout=60) as answer:
                        points = json.loads(answer.read())["result"]["points"]
                    break
                except urllib.error.URLError:
                    time.sleep(0.1)
            process.send_signal(signal.SIGTERM)
            assert process.wait(120) == 0
        finally:
            process.kill()
    assert [point["id"] for point in points] == one.search(queries[0], 5, margin="exact", rerank=3000).ids.tolist()
    assert "2 groups" not in (tmp_path / "said").read_text(), "one group for the only node"


def test_bad_options_of_serve(capsys) -> None:
    code, _, error = run(capsys, "serve", ".", "--replicas", 2)
    assert code == 1
    assert "--replicas and --max-replicas belong to --ray" in error


def test_plans(capsys) -> None:
    code, text, _ = run(
        capsys, "plan", "--rows", "1e9", "--dim", 128, "--machines", 8, "--memory", "64GB", "--replicas", 2, "--json"
    )
    found = json.loads(text)
    assert code == 0
    assert found["rows"] == 1_000_000_000
    assert (found["shards"], found["groups"], found["rows_per_shard"]) == (8, 8, 125_000_000)
    assert found["fits"] is True
    assert 9e9 < found["file"] < 11e9
    assert 2 * found["file"] / 8 < found["bytes_per_machine"] < 2 * found["file"]
    small = plan_machines(10**9, 128, machines=2, memory="1GB", measure=False, n_bytes=16, layout="hybrid")
    assert not small.fits
    assert "use more machines" in str(small)
    assert small.shards % 2 == 0
    assert small.build_seconds is None
    more = plan_machines(10**9, 128, machines=4, measure=False, n_bytes=16, layout="hybrid")
    assert more.query_seconds < small.query_seconds
    with pytest.raises(il.InputError, match="at most 2"):
        plan_machines(1000, 8, machines=2, replicas=3, measure=False)
    assert run(capsys, "plan", "--rows", "10", "--dim", 4, "--memory", "1GB")[0] == 1
    assert run(capsys, "plan", "--rows", "1e-3", "--dim", 4)[0] == 2
