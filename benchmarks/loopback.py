"""A Ray cluster of several nodes on this machine, each with its own loopback address; nodes can be killed."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_worker_niceness", "0")  # 15 by default: on a busy machine workers would hardly run

import ray
from ray.cluster_utils import Cluster

#: A node that was killed is given up after about two seconds, instead of 17.
QUICK = {
    "health_check_initial_delay_ms": 1000,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 5000,  # a busy node answers late; a dead one refuses at once
    "health_check_failure_threshold": 3,
}
STORE = 150 << 20  # bytes of each object store
OURS = (b"ray::_answer", b"ray::Holder", b"ray::StoreShard")  # how processes of our tasks and actors begin


class Loopback:
    """The first node stays: the driver, and what Ray knows of the cluster, are there. The others can be killed."""

    def __init__(self, nodes: int = 3, cpus: int = 2) -> None:
        self._cpus, self._next = cpus, 3
        self._cluster = Cluster(
            initialize_head=True,
            head_node_args={
                "num_cpus": cpus,
                "node_ip_address": "127.0.0.2",
                "object_store_memory": STORE,
                "include_dashboard": False,
                "_system_config": QUICK,
            },
        )
        self._others: list[Any] = []
        for _ in range(nodes - 1):
            self.add()
        ray.init(address=self._cluster.address, log_to_driver=False, _node_ip_address="127.0.0.2")

    def add(self) -> None:
        """One more node."""
        address = f"127.0.0.{self._next}"
        self._next = 3 if self._next == 250 else self._next + 1
        self._others.append(
            self._cluster.add_node(num_cpus=self._cpus, node_ip_address=address, object_store_memory=STORE)
        )

    @property
    def n_killable(self) -> int:
        """Nodes that may be killed."""
        return len(self._others)

    def killable(self, ids: set[str]) -> list[int]:
        """Numbers of the nodes that may be killed and have one of these ids."""
        return [number for number, node in enumerate(self._others) if str(node.node_id) in ids]

    def kill(self, number: int) -> str:
        """End a node and all of its processes at once, without a word to the others; returns its id."""
        node = self._others.pop(number)
        self._cluster.remove_node(node, allow_graceful=False)
        return str(node.node_id)

    def workers(self) -> list[int]:
        """Processes of tasks and actors, of all nodes."""
        nodes = [self._cluster.head_node, *self._others]
        parents = {one.process.pid for node in nodes for one in node.all_processes.get("raylet", [])}
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError, IndexError):
                if entry.name.isdigit() and int((entry / "stat").read_text().rpartition(")")[2].split()[1]) in parents:
                    name = (entry / "cmdline").read_bytes()
                    if name.startswith(OURS):  # a node ends with its agents
                        found.append(int(entry.name))
        return found

    def close(self) -> None:
        """Stop everything that was started here."""
        ray.shutdown()
        self._cluster.shutdown()


def kill_process(process: int) -> bool:
    """End one process at once; whether it was there."""
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


@contextlib.contextmanager
def loopback(nodes: int = 3, cpus: int = 2) -> Iterator[Loopback]:
    """A cluster that is stopped at the end, whatever happens."""
    made = Loopback(nodes, cpus)
    try:
        yield made
    finally:
        made.close()
