"""Start the actors that hold the shards of a manifest."""

from __future__ import annotations

from os import PathLike

import numpy as np

from .. import _version
from ..codec.space import Space
from ..errors import ClusterError, InputError
from ..inputs.arrays import positive
from . import runtime
from .calls import ShardGroup, ask
from .cluster import Cluster, as_seconds
from .holder import Holder
from .manifest import MODEL, ShardManifest
from .models import open_model
from .scaling import GroupActor, Reporter, Scaling, as_scaling, start_scaler

OPEN_TIMEOUT = 120.0  # seconds for all actors to open their files


def open(
    manifest: str | PathLike[str] | ShardManifest,
    *,
    replicas: int = 1,
    groups: int | None = None,
    threads: int | None = None,
    timeout: float = 30.0,
    address: str | None = None,
    cache: str | None = None,
    scaling: Scaling | int | None = None,
) -> Cluster:
    """Start actors that hold the shards of a manifest, and wait until all have opened their files.

    ``groups`` is how many actors hold the shards together (as many as there are nodes, at most one for each shard):
    shards of one actor are searched in one scan, which takes less work than one for each. Each group has ``replicas``
    actors, on different nodes where there are enough. ``threads`` is what an actor uses for a batch of queries (its
    share of the CPUs of a node); a single query runs on one. ``cache`` is a folder of each node for files of object
    stores. ``scaling`` adds replicas while calls wait, up to this number, and removes them when they are idle; see
    :class:`Scaling`. The actors end with this process, or with :meth:`Cluster.close`.
    """
    found = manifest if isinstance(manifest, ShardManifest) else ShardManifest.read(manifest)
    n_replicas, seconds = positive(replicas, "replicas"), as_seconds(timeout)
    scales = as_scaling(scaling, n_replicas)
    runtime.connect(address)
    nodes = runtime.node_ids()
    if not nodes:
        raise ClusterError("no node of the Ray cluster is alive")
    n_groups = min(len(found.shards), len(nodes)) if groups is None else positive(groups, "groups")
    if n_groups > len(found.shards):
        raise InputError(f"groups must be 1 to {len(found.shards)}, the number of shards, got {n_groups}")
    if threads is None:
        threads = max(1, runtime.cpus() // (n_groups * n_replicas))
    model = open_model(found.file(MODEL), cache, found.model[:16])
    if model.fingerprint != found.model:
        raise ClusterError(f"{found.file(MODEL)!r} is not the model that the manifest describes")
    made, kinds = [], []
    for number, numbers in enumerate(np.array_split(np.arange(len(found.shards)), n_groups)):
        shards = [found.shards[i] for i in numbers]
        kind = GroupActor(Holder, (found, tuple(numbers.tolist()), threads, cache))
        actors = [kind.start(nodes[(number + r) % len(nodes)]) for r in range(n_replicas)]
        made.append(ShardGroup(tuple(numbers.tolist()), shards[0].first, sum(shard.rows for shard in shards), actors))
        kinds.append(kind)
    reporter = None if scales is None else Reporter(start_scaler(kinds, n_replicas, scales), made)
    cluster = Cluster(found, Space(model.codebooks, model.embedding), made, seconds, reporter)
    try:
        alone = [one for group in made for one in group.alone()]
        for info in ask(alone, [("ready",)] * len(alone), timeout=max(OPEN_TIMEOUT, seconds)):
            if info["version"] != _version.__version__:
                raise ClusterError(
                    f"a node has interlace {info['version']}, this process {_version.__version__}: install the same"
                )
    except BaseException:
        cluster.close()
        raise
    return cluster
