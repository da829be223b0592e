"""An HTTP server for the stores of a directory, with the routes of Qdrant's REST API (docs/serve.md).

Each of these imports only what stands above it:

settings.py, problems.py    what an operator sets: keys, limits, address; errors as clients see them
requests/       what a request says: bodies, ids, paths, payload fields, filters
collections/    what a collection is and does: stores of a directory, searches, listings, changes, answers as JSON
insight/        what the page shows of a collection
work/           how requests are run: threads, batches, metrics, what the routes share
gate/           how requests get in: keys, limits, log, how a route is called, the express path
routes/         routes by subject
app.py, run.py  the application; uvicorn around it, in one process
processes/      several processes for one directory
page/           the page for browsers: HTML, styles and scripts
"""

from .settings import Keys, RequestLimits, ServerSettings

__all__ = ["Keys", "RequestLimits", "ServerSettings"]
