"""Counters and gauges for Prometheus, in a registry of the application's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from ...engine.hits import SearchStats
from ...errors import InterlaceError
from ..collections.catalog import CollectionsByName
from .threads import Workers

SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60)
UNCOUNTED = 1000  # requests of one kind that are counted together
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """What the server has done, and what it holds."""

    def __init__(self, work: Workers) -> None:
        self.registry = CollectorRegistry()
        made: dict[str, Any] = {"registry": self.registry}
        self.active = Gauge("interlace_requests_active", "Requests being served", **made)
        waiting = Gauge("interlace_queue", "Searches that wait or run", **made)
        waiting.set_function(lambda: work.waiting)
        writing = Gauge("interlace_writes", "Writes that wait or run", **made)
        writing.set_function(lambda: work.writing)
        of = ["collection"]
        self._searches = Counter("interlace_queries", "Queries searched", of, **made)
        self._scanned = Counter("interlace_rows_scanned", "Rows whose crude distance was computed", of, **made)
        self._survivors = Counter("interlace_rows_survived", "Rows compared by their whole code", of, **made)
        self._reranked = Counter("interlace_rows_reranked", "Rows compared with kept originals", of, **made)
        self._batches = Histogram(
            "interlace_batch_queries", "Queries in a batch", buckets=(1, 2, 4, 8, 16, 32, 64), **made
        )

        # Children of the metrics by their labels, which are slow to look up.
        self._of_requests: dict[tuple[str, str, int], _Requests] = {}
        self.registry.register(_Observed(self._of_requests))
        self._of_searches: dict[str, list[Counter]] = {}

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        """One request. Call it on one thread."""
        known = self._of_requests.get((method, route, status))
        if known is None:
            known = self._of_requests[method, route, status] = _Requests()
        known.seconds.append(seconds)
        if len(known.seconds) >= UNCOUNTED:
            known.count()

    def settle(self) -> None:
        """Count all requests that were observed; before :meth:`text`, on the thread of :meth:`observe`."""
        for known in self._of_requests.values():
            known.count()

    def searched(self, collection: str, stats: SearchStats) -> None:
        """One search."""
        known = self._of_searches.get(collection)
        if known is None:
            counters = (self._searches, self._scanned, self._survivors, self._reranked)
            known = self._of_searches[collection] = [counter.labels(collection) for counter in counters]
        for counter, n in zip(known, (stats.queries, stats.scanned, stats.survivors, stats.reranked), strict=True):
            counter.inc(n)
        self._batches.observe(stats.queries)

    def watch(self, catalog: CollectionsByName) -> None:
        """Read the state of collections whenever metrics are asked for."""
        self.registry.register(_State(catalog))

    def text(self) -> bytes:
        """The answer of /metrics."""
        return generate_latest(self.registry)


class _Requests:
    """Requests with the same method, route and status."""

    def __init__(self) -> None:
        self.seconds: list[float] = []  #: of requests that are not counted yet
        self.total, self.counts = 0.0, np.zeros(len(SECONDS) + 1, np.int64)  #: seconds; requests in each bucket

    def count(self) -> None:
        self.counts += np.bincount(np.searchsorted(SECONDS, self.seconds), minlength=len(SECONDS) + 1)
        self.total += sum(self.seconds)
        self.seconds.clear()


class _Observed:
    """Counters and histograms of requests; those of prometheus-client cost more than a query does in a batch."""

    def __init__(self, requests: dict[tuple[str, str, int], _Requests]) -> None:
        self._requests = requests

    def collect(self) -> Iterator[Metric]:
        """All of them."""
        counted = CounterMetricFamily("interlace_requests", "Requests", labels=["method", "route", "status"])
        taken = HistogramMetricFamily("interlace_request_seconds", "Time to answer", labels=["route"])
        routes: dict[str, list[_Requests]] = {}
        for (method, route, status), known in sorted(self._requests.items()):
            counted.add_metric([method, route, str(status)], int(known.counts.sum()))
            routes.setdefault(route, []).append(known)
        for route, all_known in routes.items():
            ends = [*map(str, SECONDS), "+Inf"]
            counts = np.cumsum(np.sum([known.counts for known in all_known], axis=0)).tolist()
            taken.add_metric([route], list(zip(ends, counts, strict=True)), sum(known.total for known in all_known))
        yield counted
        yield taken

    def describe(self) -> list[Any]:
        """Nothing: names are known when they are collected."""
        return []


class _State:
    """Gauges that are read, not kept."""

    def __init__(self, catalog: CollectionsByName) -> None:
        self._catalog = catalog

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """All of them."""
        names = {"rows": "Rows", "bytes": "Bytes of all files", "drift": "Error of recent rows over that of learning"}
        families = {
            n: GaugeMetricFamily(f"interlace_collection_{n}", text, labels=["collection"]) for n, text in names.items()
        }
        up = GaugeMetricFamily("interlace_collection_up", "1 if the collection could be opened", labels=["collection"])
        open_ones = {each.name: each for each in self._catalog.collections}
        for name in self._catalog.names:
            up.add_metric([name], float(name in open_ones))
        for name, each in open_ones.items():
            try:
                health = each.store.health()
            except InterlaceError:  # closed meanwhile, or damaged
                continue
            families["rows"].add_metric([name], health.rows)
            families["bytes"].add_metric([name], health.bytes)
            if health.drift is not None:
                families["drift"].add_metric([name], health.drift)
        yield up
        yield from families.values()

    def describe(self) -> list[Any]:
        """Nothing: names are known when they are collected."""
        return []
