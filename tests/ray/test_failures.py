"""Actors that are killed or stopped: latency, an explicit error, or a partial answer that says what is missing."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest

import interlace as il

pytest.importorskip("ray.exceptions", reason="the ray extra is not installed")
pytestmark = [
    pytest.mark.usefixtures("cluster_of_ray"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray"),
]


def test_killed_and_stopped_replicas(built: Path, one: il.Index, queries: np.ndarray) -> None:
    expected = one.search(queries, margin="exact")

    def check(found: il.Matches) -> None:
        assert np.array_equal(found.ids, expected.ids)
        assert found.distances.tobytes() == expected.distances.tobytes()

    with il.ray.open(built, replicas=2, groups=2, threads=1, timeout=300) as cluster:
        processes = [info["process"] for info in cluster.nodes()]
        assert len(set(processes)) == 4
        os.kill(processes[0], signal.SIGKILL)
        os.kill(processes[3], signal.SIGKILL)
        for _ in range(4):
            check(cluster.search(queries, margin="exact"))
        processes = [info["process"] for info in cluster.nodes()]
        assert len(processes) == 4, "Ray has started them again"
        os.kill(processes[0], signal.SIGSTOP)  # it neither answers nor dies
        try:
            check(cluster.search(queries, margin="exact"))
            check(cluster.search(queries, margin="exact"))
            os.kill(processes[1], signal.SIGSTOP)  # now the first group has no replica
            with pytest.raises(il.ray.ShardUnavailableError, match=r"shards 0 to 3 \(rows 0 to 1,713\)") as caught:
                cluster.search(queries, timeout=2)
            assert caught.value.shards == (0, 1, 2, 3)
            assert isinstance(caught.value, TimeoutError)
            part = cluster.search(queries, margin="exact", timeout=2, partial=True)
            assert part.missing == (0, 1, 2, 3)
            assert part.missing_rows == ((0, 1714),)
            kept = one.search(queries, margin="exact", filter=np.arange(3000) >= 1714)
            assert np.array_equal(part.ids, kept.ids)
            assert part.stats.rows == 3000 - 1714
            near = cluster.range_search(queries, 30.0, timeout=2, partial=True)
            assert near.missing_rows == ((0, 1714),)
            assert np.array_equal(near.ids, one.range_search(queries, 30.0, filter=np.arange(3000) >= 1714).ids)
            for call in (lambda: cluster.explain(queries[0], 5, timeout=1), lambda: cluster.vectors([5], timeout=1)):
                with pytest.raises(il.ray.ShardUnavailableError, match="shards 0 to 3"):
                    call()
        finally:
            for process in processes[:2]:
                os.kill(process, signal.SIGCONT)
        check(cluster.search(queries, margin="exact"))
        for process in processes[2:]:
            os.kill(process, signal.SIGKILL)
        check(cluster.search(queries, margin="exact"))  # waits until one of them is back


def test_calls_go_to_replicas_in_turn_that_are_not_in_doubt() -> None:
    from interlace.ray.calls import ShardGroup

    group = ShardGroup((0,), 0, 10, ["a", "b", "c"])
    assert [group.chosen(0.0) for _ in range(4)] == ["a", "b", "c", "a"]
    group.doubts["b"] = 5.0
    assert [group.chosen(1.0) for _ in range(3)] == ["c", "c", "a"]
    group.doubts |= {"a": 9.0, "c": 7.0}
    assert group.chosen(1.0) == "b", "all are in doubt: the one whose doubt ends first"
    assert {group.chosen(1.0, ["b"]) for _ in range(3)} == {"c"}, "never the one that has the call already"
    assert {group.chosen(10.0, ["b", "c"]) for _ in range(3)} == {"a"}
    assert {group.chosen(10.0, ["a", "b", "c"]) for _ in range(3)} == {"a", "b", "c"}


def test_a_cluster_that_cannot_be_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    from interlace.ray import runtime

    def refuse(**_: object) -> None:
        raise RuntimeError("Version mismatch: The cluster was started with:\n    Ray: 2.1.0\n    Python: 3.9.1")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", refuse)
    with pytest.raises(il.ray.ClusterError, match=r"10\.0\.0\.1:6379.*2\.1\.0.*same versions of Ray and of Python"):
        runtime.connect("10.0.0.1:6379")

    def nobody(**_: object) -> None:
        raise ConnectionError("Could not find any running Ray instance")

    monkeypatch.setattr(ray, "init", nobody)
    with pytest.raises(il.ray.ClusterError, match="there is no Ray cluster at 'auto'"):
        runtime.connect("auto")
    with pytest.raises(il.InputError, match="address must be a text"):
        runtime.connect(6379)  # type: ignore[arg-type]


def test_what_ray_reports_is_said_in_one_line() -> None:
    import ray

    from interlace.ray.runtime import reason

    text = reason(ray.exceptions.OutOfMemoryError("Task was killed due to the node\nrunning low on memory"))
    assert "ran out of memory" in text
    assert "more shards" in text
    assert "\n" not in text
