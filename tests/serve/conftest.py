"""Servers for tests: one per module for those that only need their own collections, others where settings differ."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

for name in ("fastapi", "uvicorn", "prometheus_client", "pyarrow", "httpx"):
    pytest.importorskip(name, reason=f"{name} of the serve extra is not installed")

from serve_helpers import Running, running  # noqa: E402

import interlace as il  # noqa: E402
from interlace import store as stores  # noqa: E402

if "dim" not in inspect.signature(stores.create).parameters:
    _create = stores.create

    def _create_empty(path: Any, source: Any = None, **settings: Any) -> il.Store:
        if source is None:
            settings.pop("relearn")
            dim, metric, n_bytes = (settings.pop(name) for name in ("dim", "metric", "n_bytes"))
            x = np.random.default_rng(0).normal(size=(500, dim))
            source = il.Index.build(x, n_bytes=min(8, n_bytes), metric=metric, layout="subspace").codebooks
        return _create(path, source, **settings)

    _create_empty.__name__ = "create"
    stores.create = _create_empty  # type: ignore[assignment]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server without keys."""
    with running(tmp_path_factory.mktemp("served")) as found:
        yield found
