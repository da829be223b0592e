"""``il.connect``: a server, and its stores."""

from __future__ import annotations

import ssl
import urllib.parse
from collections.abc import Mapping
from typing import Any

from ..errors import InputError
from ..inputs.literals import Metric, OriginalsKind
from .asynchronous import AsyncRemoteStore
from .store import RemoteStore
from .transport import Transport

_DISTANCES = {"cosine": "Cosine", "l2": "Euclid", "ip": "Dot"}


def connect(
    url: str, api_key: str | None = None, *, timeout: float = 60.0, context: ssl.SSLContext | None = None
) -> Server:
    """Connect to a server of ``interlace serve``.

    ``il.connect("http://127.0.0.1:6333").open("articles")`` has the calls of a :class:`Store`, and ``open_async`` the
    same as coroutines. ``context`` is for certificates that the system does not know.
    """
    return Server(Transport(url, api_key, timeout, context))


class Server:
    """The collections of a server."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.url = transport.url

    def names(self) -> list[str]:
        """Names of all collections."""
        return [each["name"] for each in self._transport.json("GET", "/collections")["collections"]]

    def open(self, name: str) -> RemoteStore:
        """A collection; InputError if there is none of this name."""
        if not isinstance(name, str) or not name:
            raise InputError(f"name must be a non-empty string, got {name!r:.100}")
        store = RemoteStore(self._transport, name)
        _ = store.info
        return store

    def open_async(self, name: str, *, connections: int = 32) -> AsyncRemoteStore:
        """The same with coroutines, of which ``connections`` wait for the server at a time."""
        return AsyncRemoteStore(self.open(name), connections)

    def create(
        self,
        name: str,
        *,
        dim: int,
        metric: Metric = "l2",
        n_bytes: int | None = None,
        originals: OriginalsKind | None = "float16",
        columns: Mapping[str, str] | None = None,
    ) -> RemoteStore:
        """Create an empty collection, which learns its codes by itself.

        ``columns`` are as for :func:`interlace.create`, with the names of types; without them the payload is JSON, and
        fields to filter by are declared later.
        """
        if metric not in _DISTANCES:
            raise InputError(f"metric must be one of {', '.join(_DISTANCES)}, got {metric!r:.60}")
        own = {"n_bytes": n_bytes, "originals": originals, "columns": None if columns is None else dict(columns)}
        body: dict[str, Any] = {"vectors": {"size": dim, "distance": _DISTANCES[metric]}, "interlace": own}
        self._transport.json("PUT", _path(name), body, writes=True)
        return RemoteStore(self._transport, name)

    def delete(self, name: str) -> bool:
        """Delete a collection; whether there was one."""
        return bool(self._transport.json("DELETE", _path(name), writes=True))

    def declare(self, name: str, field: str, kind: str) -> None:
        """Make a field of a JSON payload filterable: keyword, integer, float, bool or datetime."""
        self._transport.json("PUT", f"{_path(name)}/index", {"field_name": field, "field_schema": kind}, writes=True)

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __getitem__(self, name: str) -> RemoteStore:
        return self.open(name)

    def __contains__(self, name: object) -> bool:
        return name in self.names()

    def __repr__(self) -> str:
        return f"Server({self.url!r})"


def _path(name: str) -> str:
    return f"/collections/{urllib.parse.quote(name, safe='')}"
