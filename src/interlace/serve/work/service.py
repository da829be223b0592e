"""What the routes of an application share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.requests import Request

from ...errors import StoreError
from ..collections.catalog import CollectionsByName
from ..collections.collection import Collection
from ..problems import ProblemDetails
from ..settings import ServerSettings
from .metrics import Metrics
from .threads import Workers

T = TypeVar("T")


@dataclass(frozen=True)
class Service:
    """One for each application."""

    settings: ServerSettings
    catalog: CollectionsByName
    work: Workers
    metrics: Metrics
    #: Metrics of all processes of a group, for a request with these headers; None: there is one process.
    gathered: Callable[[Any], Awaitable[bytes]] | None = None

    @classmethod
    def of(cls, settings: ServerSettings, catalog: CollectionsByName) -> Service:
        """With threads; stores are opened later."""
        work = Workers(settings.n_threads, settings.limits)
        return cls(settings, catalog, work, Metrics(work))

    def collection(self, request: Request) -> Collection:
        """The one that the path names."""
        return self.catalog.get(request.path_params["name"])

    async def read(self, collection: Collection, function: Callable[..., T], *args: Any) -> T:
        """Call a function that reads a collection in a thread."""
        try:
            return await self.work.read(function, *args)
        except Exception as error:
            self._note(collection, error)
            raise

    async def write(self, collection: Collection, function: Callable[..., T], *args: Any, limited: bool = True) -> T:
        """Call a function that writes to a collection, after the writes before it; ``limited=False``: in any time."""
        try:
            return await self.work.write(collection.name, function, *args, limited=limited)
        except Exception as error:
            self._note(collection, error)
            raise

    def _note(self, collection: Collection, error: Exception) -> None:
        """Remember damage; raise a problem if the collection was deleted while the request waited."""
        collection.note(error)
        if isinstance(error, StoreError) and collection not in self.catalog.collections:
            text = f"the collection {collection.name!r} was deleted before the request was carried out"
            raise ProblemDetails(404, "unknown_collection", text) from error
