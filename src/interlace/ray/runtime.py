"""Ray itself: joining a cluster, its nodes, and answers of its workers without Ray's wrappers."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import ray

from ..errors import ClusterError, InputError

CALLS_AT_ONCE = 4  # of one actor
ALIVE = "alive"  # a thread of its own in each actor, which answers while all others work


def connect(address: str | None = None) -> None:
    """Join the cluster of this address, or of ``RAY_ADDRESS``, once; without either start one on this machine."""
    if ray.is_initialized():
        return
    if address is not None and not isinstance(address, str):
        raise InputError(f"address must be a text such as '10.0.0.1:6379' or 'auto', got {address!r}")
    address = address or os.environ.get("RAY_ADDRESS") or None
    where = {"address": "local", "include_dashboard": False} if address is None else {"address": address}
    try:
        ray.init(**where, log_to_driver=False)
    except RuntimeError as error:  # such as other versions, which Ray compares
        raise ClusterError(
            f"Ray cannot be started or joined at {address!r}: {' '.join(str(error).split())}. Every node, and this "
            "process, need the same versions of Ray and of Python"
        ) from error
    except (ConnectionError, ValueError) as error:
        raise ClusterError(f"there is no Ray cluster at {address!r}: {' '.join(str(error).split())[:300]}") from error


def node_ids() -> list[str]:
    """Nodes that are alive and have CPUs, in a fixed order."""
    return sorted(node["NodeID"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU"))


def cpus() -> int:
    """CPUs of all nodes that are alive."""
    return max(1, int(ray.cluster_resources().get("CPU", 1)))


def cpus_of_any_node() -> int:
    """CPUs that every node has: a task that needs as many can run on each of them."""
    return max(
        1, min(int(node["Resources"]["CPU"]) for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU"))
    )


def on_node(node: str) -> Any:
    """Prefer this node, but run on any other if it is gone."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(node, soft=True)


@dataclass(frozen=True)
class Failed:
    """An exception as the answer of a worker: Ray would wrap one that is raised."""

    error: Exception


def _answer(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    try:
        return function(*arguments)
    except Exception as error:
        return Failed(error)


@functools.cache
def _remote() -> Any:
    return ray.remote(_answer)


def task(function: Callable[..., Any], *arguments: Any, cpus: int = 1, retries: int = 3) -> Any:
    """Call a function of this library on any node; again, up to ``retries`` times, if its worker or node is lost."""
    return _remote().options(num_cpus=cpus, max_retries=retries).remote(function, arguments)


def value_of(call: Any) -> Any:
    """The answer of a task that has ended; what it raised is raised here, and so is what went wrong with Ray."""
    try:
        found = ray.get(call)
    except ray.exceptions.RayError as error:
        raise ClusterError(reason(error)) from error
    if isinstance(found, Failed):
        raise found.error
    return found


def values_of(calls: Sequence[Any]) -> list[Any]:
    """As :func:`value_of`, of several."""
    return [value_of(call) for call in calls]


def reason(error: Exception) -> str:
    """What went wrong with Ray, in one line, and what to do."""
    text = " ".join(str(error).split())[:300].rstrip(".")
    if isinstance(error, ray.exceptions.OutOfMemoryError):
        return f"a node ran out of memory ({text}); use more shards, fewer threads, or nodes with more memory"
    if isinstance(error, ray.exceptions.RayTaskError):
        return f"{type(error.cause).__name__}: {error.cause}"
    return f"{type(error).__name__}: {text}"


def actor(kind: type, *arguments: Any, node: str) -> Any:
    """An actor that Ray starts on this node, and again, here or elsewhere, whenever it is lost.

    It reserves no CPU: an actor that waits for queries must not keep builds from running.
    """
    made = ray.remote(concurrency_groups={ALIVE: 1})(kind).options(
        num_cpus=0,
        max_restarts=-1,
        max_task_retries=0,
        max_concurrency=CALLS_AT_ONCE,
        scheduling_strategy=on_node(node),
    )
    return made.remote(*arguments)
