"""Points and hits as JSON text. Payloads are kept as JSON text and are copied into answers as they are."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...engine.hits import SearchStats
from ...index.matches import Matches
from ...store import Snapshot
from ..problems import unsupported
from ..requests import ids as point_ids
from ..requests.fields import PAYLOAD, payload_texts, selected
from ..requests.models import Select, WithPayload, WithVector
from .answer_size import HIT, KEY, NUMBER, POINT, AnswerSize, blocks, payload_bytes
from .searching import QueryHits, shown_scores, vectors_of


def points(
    snapshot: Snapshot,
    ids: NDArray[Any],
    with_payload: WithPayload,
    with_vector: WithVector,
    size: AnswerSize,
    scores: Sequence[float] | None = None,
) -> list[str]:
    """A JSON object for each id; with scores for hits. ``size`` counts their bytes before they are made."""
    if not len(ids):
        return []
    size.add(len(ids) * (POINT if scores is None else HIT), f"{len(ids)} points")
    vectors = _vectors(snapshot, ids, with_vector, size)  # their size is known at once: before payloads are read
    listed = point_ids.from_store(ids.tolist())
    parts = [json.dumps(value) for value in listed] if isinstance(listed[0], str) else [str(value) for value in listed]
    size.add(sum(map(len, parts)), f"{len(ids)} points")
    if scores is not None:
        shown = map(repr, scores) if np.isfinite(scores).all() else map(number, scores)
        parts = [f'{part},"version":0,"score":{score}' for part, score in zip(parts, shown, strict=True)]
    for name, texts in (
        ("payload", payloads(snapshot, ids, with_payload, size)),
        ("vector", vectors),
    ):
        if texts is not None:
            parts = [f'{part},"{name}":{text}' for part, text in zip(parts, texts, strict=True)]
    return [f'{{"id":{part}}}' for part in parts]


def hits(
    snapshot: Snapshot,
    found: Sequence[QueryHits],
    with_payload: WithPayload,
    with_vector: WithVector,
    size: AnswerSize,
) -> list[str]:
    """A JSON list of points for each query; payloads of all of them are read at once."""
    ids = np.concatenate([each.ids for each in found]) if len(found) > 1 else found[0].ids
    scores = [score for each in found for score in each.scores]
    each_point = iter(points(snapshot, ids, with_payload, with_vector, size, scores))
    return ["[" + ",".join(next(each_point) for _ in each.scores) + "]" for each in found]


def plain_hits(matches: Matches) -> list[str] | None:
    """A JSON list of ids and scores for each query; None unless all have k hits with integer ids and finite scores."""
    ids, scores = matches.ids, shown_scores(matches)
    if ids.dtype == object or not np.isfinite(scores).all() or (matches.counts < ids.shape[1]).any():
        return None
    return [
        "[" + ",".join([f'{{"id":{i},"version":0,"score":{score!r}}}' for i, score in zip(*row, strict=True)]) + "]"
        for row in zip(ids.view(np.uint64).tolist(), scores.tolist(), strict=True)
    ]


def number(value: float) -> str:
    """A number as JSON has it; null for what JSON cannot say."""
    return repr(value) if math.isfinite(value) else "null"


def stats(found: SearchStats) -> dict[str, Any]:
    """What a search cost."""
    return {**asdict(found), "ops_per_vector": found.ops_per_vector}


def payloads(snapshot: Snapshot, ids: NDArray[Any], wanted: WithPayload, size: AnswerSize) -> Iterable[str] | None:
    """JSON text of each payload, read and counted block by block; None if it is not wanted."""
    if not wanted and not isinstance(wanted, list | Select):
        return None
    schema = snapshot.columns
    if schema is None:
        size.add(len(ids) * (KEY + 2), f"{len(ids)} payloads")
        return ["{}"] * len(ids)
    names = [PAYLOAD] if PAYLOAD in schema.names else None
    sizes = payload_bytes(snapshot, ids, names)
    if wanted is True and names is not None:  # the texts as they are stored: known before any of them is read
        size.check(int(sizes.sum()), f"{len(ids)} payloads")
    return _payload_texts(snapshot, ids, names, wanted, sizes, size)


def _payload_texts(
    snapshot: Snapshot,
    ids: NDArray[Any],
    names: list[str] | None,
    wanted: Any,
    sizes: NDArray[np.int64],
    size: AnswerSize,
) -> Iterator[str]:
    chosen = Select(include=wanted) if isinstance(wanted, list) else wanted
    what = f"{len(ids)} payloads"
    for rows in blocks(sizes):
        for text in payload_texts(snapshot.payload(ids[rows], names)):
            size.add(KEY, what)
            yield size.add_text(text if chosen is True else selected(text, chosen.include, chosen.exclude), what)


def _vectors(snapshot: Snapshot, ids: NDArray[Any], wanted: WithVector, size: AnswerSize) -> Iterable[str] | None:
    if isinstance(wanted, list) and any(wanted):
        raise unsupported(f"the named vector {wanted[0]!r}")
    if not wanted and wanted != [""]:
        return None
    dim = snapshot.books.codebooks.dim
    size.add(len(ids) * (KEY + 2 + NUMBER * dim), f"{len(ids)} vectors of {dim} numbers")
    return (json.dumps(vector.tolist()) for vector in vectors_of(snapshot, ids))
