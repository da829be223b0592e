"""Changes of payloads. A store replaces whole rows, so the vectors of the points are written again, from originals.

Originals are stored exactly again: a float16 or int8 vector that was read has the same bytes when it is written.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from ..errors import InputError
from .collection import Collection, id_array
from .fields import PAYLOAD, payload_texts
from .models import Selector
from .searching import has_originals

Json = dict[str, Any]
Change = Callable[[Json], Json]
BLOCK = 10_000  # points that are read and written at once


def change_payloads(collection: Collection, given: Selector, change: Change) -> int:
    """Change the payload of points that are there; returns how many. The others are left out, as Qdrant does."""
    snapshot = collection.snapshot()
    wanted = [i for i in dict.fromkeys(collection.chosen(given).tolist()) if i in snapshot]
    if wanted and not has_originals(snapshot):
        raise InputError("payloads of this collection cannot be changed: it does not keep vectors; upsert the points")
    with collection.store.batch():  # all or nothing
        for first in range(0, len(wanted), BLOCK):
            ids = id_array(wanted[first : first + BLOCK])
            names = [PAYLOAD] if snapshot.columns is not None and PAYLOAD in snapshot.columns.names else None
            texts = ["{}"] * len(ids) if snapshot.columns is None else payload_texts(snapshot.payload(ids, names))
            payloads = [change(json.loads(text)) for text in texts]
            collection.put(snapshot.get(ids, originals=True), ids.tolist(), payloads)
    return len(wanted)


def without(payload: Json, keys: Sequence[str]) -> Json:
    """Without some keys; paths such as ``a.b`` remove what is inside of objects."""
    out = dict(payload)
    for key in keys:
        name, _, rest = key.partition(".")
        if key in out:
            del out[key]
        elif rest and isinstance(out.get(name), dict):
            out[name] = without(out[name], [rest])
    return out
