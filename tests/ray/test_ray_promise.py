"""Calibrated margins over several groups of shards together, with enough rows for rules that skip most of the work."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import interlace as il

pytest.importorskip("ray.exceptions", reason="the ray extra is not installed")
pytestmark = [
    pytest.mark.usefixtures("cluster_of_ray"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray"),
]

ROWS, DIM, SHARDS, K = 40_000, 24, 4, 10


def drawn(seed: int, n: int) -> np.ndarray:
    """Rows of 300 clusters, the same ones for every seed."""
    centres = np.random.default_rng(3).normal(size=(300, DIM)) * 1.5
    rng = np.random.default_rng(seed)
    return (centres[rng.integers(0, 300, n)] + rng.normal(size=(n, DIM))).astype(np.float32)


@pytest.fixture(scope="module")
def manifests(cluster_of_ray: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, il.ray.ShardManifest]:
    """Calibrated for all shards together, which is the default, and for each shard."""
    folder: Path = tmp_path_factory.mktemp("promise")
    settings = {"n_bytes": 6, "layout": "hybrid", "effort": "fastest", "threads": 2}
    options = {"shards": SHARDS, "threads": 1, "progress": False}
    together = il.ray.build(drawn(4, ROWS), settings, folder / "a", **options)
    model = together.file("model.interlace")
    return {"all": together, "shards": il.ray.build(drawn(4, ROWS), model, folder / "b", calibrate="shards", **options)}


@pytest.mark.parametrize(
    ("calibrated", "groups"), [("all", 1), ("all", 2), ("all", SHARDS), ("shards", SHARDS)], ids=str
)
def test_promises_hold_over_all_groups_together(
    manifests: dict[str, il.ray.ShardManifest], calibrated: str, groups: int
) -> None:
    from interlace.ray.holder import Holder, Options
    from interlace.ray.merging import merged

    queries, manifest = drawn(5, 2000), manifests[calibrated]
    numbers = np.array_split(np.arange(SHARDS), groups)
    holders = [Holder(manifest, tuple(part.tolist()), 1, None) for part in numbers]  # what actors run, in this process

    def search(margin: float | str) -> il.Matches:
        parts = [holder.search(queries, Options(K, margin, 1), None) for holder in holders]
        return merged(parts, K, 0, None)

    exact = search("exact")
    for target, share in ((0.99, 0.9), (0.999, 1.0)):  # two groups use the careful rule of all shards: little is saved
        found = search(target)
        assert (found.stats.rule, found.stats.fallback) == ("calibrated", None), "the rule is a calibrated one"
        assert found.stats.lookups < share * exact.stats.lookups, "and it saves work"
        lost = sum(K - len(np.intersect1d(a, b)) for a, b in zip(exact.ids, found.ids, strict=True))
        assert 1 - lost / (K * len(queries)) >= target
