"""An HTTP server for the stores of a directory, with the routes of Qdrant's REST API (docs/serve.md).

settings.py     what an operator sets: keys, limits, address
catalog.py      stores of a directory <-> collections
collection.py   what requests do with one collection
searching.py    a query -> a search -> hits
mmr.py          hits that are unlike each other
filters.py      conditions of a request -> expressions over columns
fields.py       payload: JSON in one column, declared fields in typed columns
ids.py          ids of points <-> ids of a store
bodies.py       vectors as .npy or Arrow bodies
rendering.py    points and hits -> JSON
models.py       bodies of requests
problems.py     errors -> problem details
work.py         threads, batches, one write at a time
guard.py        keys, limits, log and metrics of every request
metrics.py      counters for Prometheus
endpoint.py     how a route is called
routes/         routes by subject
service.py      what the routes share
app.py          the application
run.py, patience.py, timing.py    uvicorn, its connections, time limits
"""

from .settings import Keys, RequestLimits, ServerSettings

__all__ = ["Keys", "RequestLimits", "ServerSettings"]
