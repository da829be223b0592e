"""Replicas of shards that are added by the number of calls that wait, and removed when there are none."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import interlace as il

pytest.importorskip("ray.exceptions", reason="the ray extra is not installed")
pytestmark = [
    pytest.mark.usefixtures("cluster_of_ray"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray"),
]
QUICK = il.ray.Scaling(max_replicas=3, target_calls=1.0, add_after=0.2, remove_after=0.5)


def until(true: Callable[[], bool], attempts: int = 4800) -> bool:
    """Whether it becomes true; waits at least 50 ms between attempts."""
    for _ in range(attempts):
        if true():
            return True
        time.sleep(0.05)
    return true()


class Load:
    """Threads that search without a pause and count answers that differ."""

    def __init__(self, cluster: il.ray.Cluster, queries: np.ndarray, expected: il.Matches, clients: int) -> None:
        self._end, self.wrong, self.answers = threading.Event(), 0, 0
        self._cluster, self._queries, self._expected = cluster, queries, expected
        self._threads = [threading.Thread(target=self._run) for _ in range(clients)]

    def _run(self) -> None:
        while not self._end.is_set():
            found = self._cluster.search(self._queries, margin="exact")
            self.wrong += not np.array_equal(found.ids, self._expected.ids)
            self.answers += 1

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join()


def test_replicas_follow_the_calls_that_wait(built: Path, one: il.Index, queries: np.ndarray) -> None:
    import ray

    expected = one.search(queries, margin="exact")
    with il.ray.open(built, groups=2, threads=1, timeout=300, scaling=QUICK) as cluster:

        def replicas() -> list[int]:
            cluster.search(queries[0])  # a process learns of new replicas by its calls
            return [len(group.actors) for group in cluster.groups]

        assert replicas() == [1, 1]
        with Load(cluster, queries, expected, 8) as load:
            assert until(lambda: replicas() == [3, 3])
            assert len({node["process"] for node in cluster.nodes()}) == 6
            copy = pickle.loads(pickle.dumps(cluster))  # as a replica of the HTTP part gets it
            assert copy.search(queries, margin="exact").ids.tolist() == expected.ids.tolist()
            assert until(lambda: copy.search(queries[0]) is not None and len(copy.groups[1].actors) == 3)
            # The scaler is lost, and with it the replicas that it has added: nobody notices, and it starts again.
            ray.kill(cluster._reporter.scaler, no_restart=False)
            assert until(lambda: replicas() == [1, 1])
            assert until(lambda: replicas() == [3, 3])
        assert load.wrong == 0
        assert load.answers > 0
        assert [group.waiting for group in cluster.groups] == [0, 0]
        assert until(lambda: replicas() == [1, 1]), "removed again"
        assert cluster.search(queries, margin="exact").ids.tolist() == expected.ids.tolist()


def test_readers_of_a_store_are_added(one: il.Index, rows: np.ndarray, queries: np.ndarray, tmp_path: Path) -> None:
    with il.ray.create(tmp_path / "store", one, shards=1, threads=1, timeout=300, scaling=QUICK) as store:
        store.upsert(rows[:500], np.arange(500))
        expected = store.search(queries, margin="exact")
        with Load(store, queries, expected, 4) as load:
            assert until(lambda: len(store.groups[0].actors) == 3)
        assert load.wrong == 0
        store.upsert(rows[500], 500)
        for _ in range(3):  # every replica sees it
            assert 500 in store.search(rows[500], 20, margin="exact").ids


@pytest.mark.parametrize(
    ("scaling", "message"),
    [
        (1, "max_replicas must be at least replicas=2, got 1"),
        (0, "max_replicas must be"),
        (il.ray.Scaling(4, target_calls=0), "target_calls must be a number above 0"),
        (il.ray.Scaling(4, add_after=-1), "add_after must be a number of at least 0"),
        (il.ray.Scaling(4, remove_after=float("nan")), "remove_after must be"),
    ],
)
def test_bad_scaling(built: Path, scaling: object, message: str) -> None:
    with pytest.raises(il.InputError, match=message):
        il.ray.open(built, replicas=2, scaling=scaling)  # type: ignore[arg-type]
