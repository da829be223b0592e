"""Changes of points that are there: their payloads, or their vectors; and several changes in one request.

A store replaces whole rows, so what does not change is written again. Originals are stored exactly again: a float16 or
int8 vector that was read has the same bytes when it is written.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from ...errors import InputError, InterlaceError
from ...store import Snapshot
from ..problems import ProblemDetails, of_error, unsupported
from ..requests import ids as point_ids
from ..requests import paths
from ..requests.fields import PAYLOAD, payload_texts
from ..requests.models import DeletePayload, Operations, Selector, SetPayload, UpdateVectors
from .collection import Collection, given_vectors, name_of_vector
from .searching import as_vectors, has_originals

Json = dict[str, Any]
Change = Callable[[Json], Json]
BLOCK = 10_000  # points that are read and written at once


def set_payload(collection: Collection, given: SetPayload) -> None:
    """Set some keys of payloads, or of the objects at a path inside of them; null removes a key."""
    path = [] if given.key is None else paths.parsed(given.key)
    _change_payloads(collection, given, lambda payload: paths.merged_at(payload, path, given.payload))


def overwrite_payload(collection: Collection, given: SetPayload) -> None:
    """Replace payloads."""
    if given.key is not None:
        raise unsupported("key, where payloads are replaced as a whole,")
    _change_payloads(collection, given, lambda payload: given.payload)


def delete_payload(collection: Collection, given: DeletePayload) -> None:
    """Remove keys of payloads, or what is at a path inside of them."""

    def change(payload: Json) -> Json:
        for key in given.keys:
            payload = paths.without(payload, [key] if key in payload else paths.parsed(key))
        return payload

    _change_payloads(collection, given, change)


def clear_payload(collection: Collection, given: Selector) -> None:
    """Remove payloads."""
    _change_payloads(collection, given, lambda payload: {})


def update_vectors(collection: Collection, given: UpdateVectors) -> None:
    """Replace vectors; the payloads stay."""
    snapshot = collection.snapshot()
    wanted = point_ids.all_to_store([point.id for point in given.points])
    collection.check_batch(len(wanted), "points")
    vectors = as_vectors(given_vectors(given.points), collection.dim, name_of_vector)
    rows = [row for row, i in enumerate(wanted) if i in snapshot]
    if rows:
        ids = point_ids.as_array([wanted[row] for row in rows])
        payload = None if snapshot.columns is None else snapshot.payload(ids)
        collection.store.upsert(vectors[rows], ids, payload=payload)
    _check_found(wanted, snapshot)


def _change_payloads(collection: Collection, given: Selector, change: Change) -> None:
    snapshot = collection.snapshot()
    chosen = list(dict.fromkeys(collection.chosen(given).tolist()))
    wanted = [i for i in chosen if i in snapshot]
    if wanted and not has_originals(snapshot):
        raise InputError("payloads of this collection cannot be changed: it does not keep vectors; upsert the points")
    names = [PAYLOAD] if snapshot.columns is not None and PAYLOAD in snapshot.columns.names else None
    blocks = [point_ids.as_array(wanted[first : first + BLOCK]) for first in range(0, len(wanted), BLOCK)]
    changed: list[list[Json]] = []
    for ids in blocks:  # before anything is written: a payload that is refused changes nothing
        texts = ["{}"] * len(ids) if snapshot.columns is None else payload_texts(snapshot.payload(ids, names))
        changed.append([change(json.loads(text)) for text in texts])
        if names is not None and len(blocks) > 1:
            collection.columns_of(changed[-1], ids.tolist())
    with collection.store.batch():  # all of them or none after a crash
        for ids, payloads in zip(blocks, changed, strict=True):
            collection.put(snapshot.get(ids, originals=True), ids.tolist(), payloads)
    _check_found(chosen, snapshot)


def _check_found(wanted: Sequence[Any], snapshot: Snapshot) -> None:
    """As Qdrant does: the points that are there are changed, then the first that is not is named."""
    missing = [i for i in wanted if i not in snapshot]
    if missing:
        (first,) = point_ids.from_store(missing[:1])
        text = f"there is no point {first!r:.140}"
        if len(missing) < len(wanted):
            text += f" ({len(missing)} of {len(wanted)} points are missing; the others were changed)"
        raise ProblemDetails(404, "unknown_id", text)


#: What a field of :class:`..requests.models.Operation` does.
_DONE_BY: dict[str, Callable[[Collection, Any], Any]] = {
    "upsert": Collection.upsert,
    "delete": Collection.delete,
    "set_payload": set_payload,
    "overwrite_payload": overwrite_payload,
    "delete_payload": delete_payload,
    "clear_payload": clear_payload,
    "update_vectors": update_vectors,
}


def apply(collection: Collection, given: Operations) -> int:
    """Make the changes, each durable before the next; returns how many. The first that fails ends them and is named."""
    collection.check_batch(len(given.operations), "operations")
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
