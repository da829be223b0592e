"""Servers for tests: one per module for those that only need their own collections, others where settings differ."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

for name in ("fastapi", "uvicorn", "prometheus_client", "pyarrow", "msgspec", "httpx"):
    pytest.importorskip(name, reason=f"{name} of the serve extra is not installed")

from serve_helpers import Running, running  # noqa: E402


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server without keys."""
    with running(tmp_path_factory.mktemp("served")) as found:
        yield found


@pytest.fixture(scope="module")
def client(served: Running) -> Iterator[Any]:
    """The official client of Qdrant; modules that speak HTTP themselves have another one."""
    qdrant_client = pytest.importorskip("qdrant_client", reason="qdrant-client is not installed")
    client = qdrant_client.QdrantClient(url=served.url, check_compatibility=False, timeout=60)
    yield client
    client.close()
