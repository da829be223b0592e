"""Several changes in one request, made one after the other; each is durable before the next begins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...errors import InterlaceError
from ..problems import ProblemDetails, of_error, over_limit
from ..requests.models import Operations
from . import changes
from .collection import Collection

#: What a field of :class:`.models.Operation` does.
_DONE_BY: dict[str, Callable[[Collection, Any], Any]] = {
    "upsert": Collection.upsert,
    "delete": Collection.delete,
    "set_payload": changes.set_payload,
    "overwrite_payload": changes.overwrite_payload,
    "delete_payload": changes.delete_payload,
    "clear_payload": changes.clear_payload,
    "update_vectors": changes.update_vectors,
}


def apply(collection: Collection, given: Operations) -> int:
    """Make the changes; returns how many. The first that fails ends them, and the error says which it is."""
    most = collection.settings.limits.batch
    if len(given.operations) > most:
        raise over_limit(422, "batch", most, f"{len(given.operations)} operations")
    for i, operation in enumerate(given.operations):
        name = operation.name
        try:
            _DONE_BY[name](collection, getattr(operation, name))
        except (ProblemDetails, InterlaceError) as error:
            found = of_error(error)
            before = f" (the {i} operations before it are done)" if i else ""
            text = f"operations[{i}].{name}: {found.detail}{before}"
            raise ProblemDetails(found.status, found.code, text, found.headers, **found.more) from error
    return len(given.operations)
