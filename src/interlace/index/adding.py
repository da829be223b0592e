"""More rows for an index: coded, packed, with ids and, where they are kept, originals."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from ..codec.codebooks import Codes
from ..codec.encode import encode_rows
from ..codec.originals import Bytes, Loss
from ..engine.segments import Segment, merge
from ..inputs.arrays import FloatArray, Rows
from ..progress import Progress
from .searcher import Searcher


def appended(
    searcher: Searcher, rows: Rows, ids: Any, effort: str | None, threads: int, progress: Progress
) -> Searcher:
    """The rows of a searcher and these; the searcher itself stays as it is."""
    new_ids = searcher.ids.extend(ids, len(rows))
    if len(rows) == 0:
        return searcher
    codebooks, engine, kept = searcher.space.codebooks, searcher.engine, searcher.originals
    width = 0 if kept is None else kept.format.width
    originals: Bytes = np.empty((len(rows), width), np.uint8)
    done, loss = 0, Loss()

    def keep(block: FloatArray, codes: Codes) -> None:
        nonlocal done, loss
        if kept is not None:
            converted = originals[done : done + len(block)] = kept.format.to_bytes(block, done)
            loss += kept.format.loss(block, converted)
        done += len(block)

    codes = encode_rows(codebooks, rows, threads, effort, progress, keep)
    segments = [*engine.segments, Segment.pack(codes, codebooks)]
    # Merge while the last segment is not much smaller than the one before: each row is repacked O(log n) times.
    while len(segments) > 1 and segments[-2].n_rows < 2 * segments[-1].n_rows:
        segments[-2:] = [merge(segments[-2:], codebooks)]
    return dataclasses.replace(
        searcher,
        engine=dataclasses.replace(engine, segments=tuple(segments)),
        ids=new_ids,
        originals=None if kept is None else kept.extended(originals, loss),
    )
