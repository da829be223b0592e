"""A server in a thread of the test, on a free port of the loopback interface."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from interlace.serve import Keys, RequestLimits, ServerSettings


@dataclass
class Running:
    """A server that answers."""

    port: int
    folder: Path
    server: Any

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextlib.contextmanager
def running(folder: Path, *, ready: bool = True, tls: Any = None, **settings: Any) -> Iterator[Running]:
    """Start a server, wait until its stores are open, and stop it at the end; ``limits`` is a dict."""
    from interlace.serve.run import server

    limits, keys = RequestLimits(**settings.pop("limits", {})), Keys(**settings.pop("keys", {}))
    made = server(ServerSettings(str(folder), port=0, limits=limits, keys=keys, threads=2, **settings), tls, grace=5)
    thread = threading.Thread(target=made.run, daemon=True)
    thread.start()
    while not made.started:
        assert thread.is_alive(), "the server did not start"
        time.sleep(0.01)
    port = made.servers[0].sockets[0].getsockname()[1]
    try:
        while ready and httpx.get(f"http://127.0.0.1:{port}/readyz").status_code != 200:
            time.sleep(0.01)
        yield Running(port, folder, made)
    finally:
        made.should_exit = True
        thread.join()


def vectors(n: int, dim: int = 16, seed: int = 0) -> Any:
    """Clustered rows."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(12, dim))
    return (centres[rng.integers(0, 12, n)] + 0.3 * rng.normal(size=(n, dim))).astype(np.float32)


@contextlib.contextmanager
def filled_server(folder: Path, x: np.ndarray, **settings: Any) -> Iterator[Running]:
    """A server with the collection c: the rows of x, each with its number as payload."""
    with running(folder, **settings) as found:
        with httpx.Client(base_url=found.url) as client:
            client.put("/collections/c", json={"vectors": {"size": x.shape[1], "distance": "Euclid"}})
            points = [{"id": i, "vector": row.tolist(), "payload": {"n": i}} for i, row in enumerate(x)]
            assert client.put("/collections/c/points", json={"points": points}).status_code == 200
        yield found
