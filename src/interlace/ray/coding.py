"""The work of a build that runs on workers: one shard, the ids of all shards, the calibration of all shards."""

from __future__ import annotations

import json
import os
import zlib
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..codec.space import Space
from ..errors import DuplicateIdError, FileError, InputError
from ..index.calibration import calibrated_by
from ..index.id_values import shown_id
from ..index.index import Index
from ..learn.sample import calibration_count, calibration_rows
from . import places
from .joining import joined
from .manifest import Shard, ShardManifest, header_of
from .models import open_model
from .sources import Portion


@dataclass(frozen=True)
class ShardJob:
    """One shard to build; small, so that it can be sent again."""

    number: int
    first: int
    rows: int
    folder: str
    record: str  #: path of the file that says that the shard is done
    model: str  #: path
    mark: str  #: of the model, for caches
    originals: Literal["float16", "int8"] | None
    seed: int
    threads: int
    calibrate: bool

    @property
    def file(self) -> str:
        """Name of the shard's file."""
        return f"shard-{self.number:05d}.interlace"

    def __str__(self) -> str:
        return f"shard {self.number} (rows {self.first:,} to {self.first + self.rows - 1:,})"


def built(job: ShardJob, portion: Portion, sample: NDArray[np.int64], watcher: Any) -> Shard:
    """Encode, calibrate and write one shard, then its record."""
    model = open_model(job.model, None, job.mark)
    report = _Reports(job.number, watcher)
    rows = Space(model.codebooks, model.embedding).rows(portion.rows())
    index = Index.of_rows(
        model.codebooks,
        rows,
        portion.id_values(),
        sample=sample,
        seed=job.seed,
        threads=job.threads,
        progress=report,
        embedding=model.embedding,
        queries=calibration_count(job.rows, len(sample)) if job.rows and job.calibrate else 0,
        originals=job.originals,
    )
    target = places.join(job.folder, job.file)
    with places.written(target) as local:
        index.save(local)
        n_bytes, digest, header = os.path.getsize(local), places.sha256(local), header_of(Index.open(local))
    shard = Shard(job.number, job.file, job.first, job.rows, n_bytes, digest, header)
    places.write_bytes(job.record, json.dumps(asdict(shard), sort_keys=True).encode())
    return shard


def build_shard(job: ShardJob, portion: Portion, sample: NDArray[np.int64], watcher: Any) -> Shard:
    """As :func:`built`; errors name the shard."""
    try:
        return built(job, portion, sample, watcher)
    except InputError as error:
        raise InputError(f"{job}: {error}") from error
    except (FileError, MemoryError) as error:
        raise type(error)(f"{job}: {error}") from error
    except OSError as error:
        raise FileError(f"{job}: {error}") from error


class _Reports:
    """Progress of a shard for the watcher; a watcher that is gone is no reason to stop."""

    def __init__(self, number: int, watcher: Any) -> None:
        self._number, self._watcher, self._last = number, watcher, -1.0

    def __call__(self, what: str, done: float) -> None:
        if self._watcher is not None and done >= self._last + 0.02:
            self._last = done
            self._watcher.report.remote(self._number, done)


class Watcher:
    """How far each shard is."""

    def __init__(self) -> None:
        self._done: dict[int, float] = {}

    def report(self, shard: int, done: float) -> None:
        """Called by the worker of a shard."""
        self._done[shard] = done

    def done(self) -> dict[int, float]:
        """Called by the builder."""
        return dict(self._done)


def refuse_repeated_ids(manifest: ShardManifest, part: int, parts: int) -> None:
    """Raise DuplicateIdError for an id of two shards; looks at one of ``parts`` parts of all ids, by value."""
    found: list[Any] = []
    for shard in manifest.shards:
        ids = manifest.open_shard(shard.number).ids
        keys = np.array([hash_of(value) for value in ids.tolist()], np.int64) if ids.dtype == object else ids
        found.append(ids[keys % parts == part])
    values, counts = np.unique(np.concatenate(found), return_counts=True)
    if (counts > 1).any():
        raise DuplicateIdError(f"id {shown_id(values[int(np.argmax(counts > 1))])} is in more than one shard")


def hash_of(text: str) -> int:
    """The same number in every process."""
    return zlib.crc32(text.encode())


def calibrate_all(
    manifest: ShardManifest, path: str, vectors: NDArray[np.float32], rows: NDArray[np.int64], threads: int
) -> None:
    """Calibrate margins for all shards as one index, by some of their rows, and write them to a file without rows."""
    index = joined([manifest.open_shard(shard.number) for shard in manifest.shards], None)
    searcher = index.searcher
    queries = searcher.space.directed(vectors, "x", rows=rows)
    made = calibrated_by(searcher, queries, rows, threads)
    empty = Index(index.codebooks, index.embedding).searcher
    with places.written(path) as local:
        Index.of(replace(empty, engine=empty.engine.with_calibration(made))).save(local)


def rows_that_calibrate(n: int, sample: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """Rows that calibrate all shards together, ascending, as far as possible not learned from."""
    return calibration_rows(n, sample, calibration_count(n, len(sample)), np.random.default_rng(seed))
