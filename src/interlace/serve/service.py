"""What the routes of an application share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.requests import Request

from .catalog import Catalog
from .collection import Collection
from .metrics import Metrics
from .settings import ServerSettings
from .work import Workers

T = TypeVar("T")


@dataclass(frozen=True)
class Service:
    """One for each application."""

    settings: ServerSettings
    catalog: Catalog
    work: Workers
    metrics: Metrics

    @classmethod
    def of(cls, settings: ServerSettings) -> Service:
        """With threads and the lock of the directory; stores are opened later."""
        catalog = Catalog(settings)
        work, metrics = Workers(settings.n_threads, settings.limits), Metrics()
        metrics.watch(catalog, work)
        return cls(settings, catalog, work, metrics)

    def collection(self, request: Request) -> Collection:
        """The one that the path names."""
        return self.catalog.get(request.path_params["name"])

    async def read(self, collection: Collection, function: Callable[..., T], *args: Any) -> T:
        """Call a function that reads a collection in a thread."""
        try:
            return await self.work.read(function, *args)
        except Exception as error:
            collection.note(error)
            raise

    async def write(self, collection: Collection, function: Callable[..., T], *args: Any, limited: bool = True) -> T:
        """Call a function that writes to a collection, after the writes before it; ``limited=False``: in any time."""
        try:
            return await self.work.write(collection.name, function, *args, limited=limited)
        except Exception as error:
            collection.note(error)
            raise
