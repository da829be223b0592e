"""A small Ray cluster on the loopback interface for all tests of this folder, and an index that was built on it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from s3_server import s3_server

import interlace as il

ROWS, DIM = 3000, 16
os.environ.setdefault("RAY_worker_niceness", "0")  # 15 by default: on a busy machine workers would hardly run
# Ray Serve kills a proxy that takes longer than 5 s to start, as it does on a busy machine.
os.environ.setdefault("RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S", "240")


@pytest.fixture(scope="session")
def s3() -> Iterator[tuple[dict[str, bytes], dict[str, str]]]:
    """An object store: its objects, and the environment of its clients."""
    with s3_server() as served:
        yield served


@pytest.fixture(scope="session")
def cluster_of_ray(s3: tuple[dict[str, bytes], dict[str, str]]) -> Iterator[None]:
    """One node with two logical CPUs, whose workers can reach the object store."""
    ray = pytest.importorskip("ray", reason="the ray extra is not installed")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in s3[1].items():
            patch.setenv(name, value)
        _start(ray)
    yield
    ray.shutdown()


def _start(ray: Any) -> None:
    ray.init(
        address="local",
        include_dashboard=False,
        log_to_driver=False,
        num_cpus=2,
        object_store_memory=200 << 20,
        _node_ip_address="127.0.0.2",
    )


@pytest.fixture(scope="session")
def rows() -> np.ndarray:
    """Rows with ties: small integers, and every fifth row is a copy of another one."""
    rng = np.random.default_rng(5)
    x = (rng.normal(size=(40, DIM)) * 4)[rng.integers(0, 40, ROWS)] + rng.normal(size=(ROWS, DIM))
    x[::5] = x[rng.integers(0, ROWS, len(x[::5]))]
    return np.round(x).astype(np.float32)


@pytest.fixture(scope="session")
def queries(rows: np.ndarray) -> np.ndarray:
    return rows[::150] + np.float32(0.25)


@pytest.fixture(scope="session")
def one(rows: np.ndarray) -> il.Index:
    """What a cluster must answer like."""
    return il.Index.build(rows, n_bytes=4, layout="hybrid", originals="float16", threads=1, progress=False)


@pytest.fixture(scope="session")
def built(cluster_of_ray: None, rows: np.ndarray, one: il.Index, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seven shards of the rows, with the codebooks of ``one``."""
    out = tmp_path_factory.mktemp("shards") / "seven"
    il.ray.build(rows, one, out, shards=7, originals="float16", calibrate=True, progress=False)
    return out
