"""Servers for tests: one per module for those that only need their own collections, others where settings differ."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

for name in ("fastapi", "uvicorn", "prometheus_client", "pyarrow", "msgspec", "httpx"):
    pytest.importorskip(name, reason=f"{name} of the serve extra is not installed")

from serve_helpers import Running, running  # noqa: E402


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server without keys."""
    with running(tmp_path_factory.mktemp("served")) as found:
        yield found
