"""Build an index in shards: learn once, code in parallel, one file per shard, and a manifest at the end."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from os import PathLike
from typing import Any, Literal

import numpy as np
import ray

from .. import _version
from ..errors import BuildError, ClusterError, FileError, InputError
from ..inputs.arrays import positive
from ..learn.settings import Settings
from ..progress import Progress, as_progress, part
from . import places, runtime
from .coding import ShardJob, Watcher, build_shard, calibrate_all, refuse_repeated_ids, rows_that_calibrate
from .manifest import CALIBRATION, MODEL, NAME, Shard, ShardManifest, as_shard
from .models import ModelFile, SharedModel, as_model, check_model, learned
from .sources import ShardSource, source_of

WORK = "building"  # folder of records beside the shards, removed at the end
POLL = 0.5  # seconds between two looks at the progress
LEARNING, CODING = 0.3, 0.9  # shares of the progress when each is done
TOGETHER = 1 << 28  # rows whose codes one task may hold in memory, to calibrate all shards together


def build(
    source: Any,
    model: Any,
    out: str | PathLike[str],
    *,
    shards: int,
    ids: Any = None,
    key: str | None = None,
    originals: Literal["float16", "int8"] | None = None,
    threads: int | None = None,
    calibrate: bool | Literal["auto", "all", "shards"] = "auto",
    address: str | None = None,
    retries: int = 3,
    progress: Any = "auto",
) -> ShardManifest:
    """Build an index in ``shards`` files in the folder or below the URL ``out``; returns its manifest.

    ``source`` is an array, a path or URL of ``.npy`` or ``.parquet`` files, a list of these or a folder, or a
    ``ray.data.Dataset``; ``key`` names the column of vectors where there is more than one. ``ids`` is None (the
    column ``id``, or else row numbers), the name of a column, or an array of integers or strings. ``model`` is a dict
    of settings as ``Index.build`` has them, :class:`interlace.Codebooks`, a fitted model, an :class:`interlace.Index`,
    or the path of one. Settings learn the codebooks of ``Index.build``, from a bounded sample.

    Shards are consecutive rows. Each is coded by a task of ``threads`` CPUs (all CPUs of the cluster divided by the
    shards, at least 1) and repeated up to ``retries`` times when its worker or node is lost. ``calibrate``
    says for which searches margins are calibrated: of ``"all"`` shards together, whose rules hold for any groups of
    them; of single ``"shards"`` by as many groups; of both (True), or none (False: calibrated margins are searched
    exactly). ``"auto"`` is ``"all"``, for which one task holds all codes in memory, up to 268 million rows, and
    ``"shards"`` beyond; see docs/distributed.md.

    The manifest is written when all shards are complete. A build that fails or is killed leaves none; called again with
    the same arguments, it keeps the model and the shards that are done. Same source, settings, seed and number of
    shards: the same bytes.
    """
    n_shards = positive(shards, "shards")
    if calibrate not in (True, False, "auto", "all", "shards"):
        raise InputError(f"calibrate must be True, False, 'auto', 'all' or 'shards', got {calibrate!r:.60}")
    said, wanted = as_progress(progress), as_model(model)
    runtime.connect(address)
    read = source_of(source, key, ids)
    if not 1 <= n_shards <= max(1, read.n_rows):
        raise InputError(f"shards must be 1 to {read.n_rows}, the number of rows, got {n_shards}")
    if calibrate == "auto":
        calibrate = "all" if read.n_rows <= TOGETHER else "shards"
    if isinstance(wanted, SharedModel):
        check_model(wanted, read)
    folder = places.normal(out)
    workers = positive(threads, "threads") if threads is not None else max(1, runtime.cpus() // n_shards)
    mark = _key(read, wanted, n_shards, originals, calibrate)
    order = _Order(read, wanted, folder, mark, n_shards, originals, calibrate, workers, retries, said)
    found = _finished(folder, mark)
    if found is None:
        with places.locked(folder):
            found = _finished(folder, mark) or order.carried_out()  # another process may have been quicker
    said("done", 1.0)
    return found


@dataclass(frozen=True, eq=False)
class _Order:
    """One build, with everything that was asked for checked."""

    source: ShardSource
    wanted: SharedModel | Settings
    folder: str
    mark: str
    shards: int
    originals: Literal["float16", "int8"] | None
    calibrate: bool | Literal["auto", "all", "shards"]
    threads: int
    retries: int
    said: Progress

    @property
    def seed(self) -> int:
        return self.wanted.seed if isinstance(self.wanted, Settings) else 0

    def carried_out(self) -> ShardManifest:
        """All files, the manifest last."""
        work = places.join(self.folder, WORK)
        made = _model(ModelFile(self.folder, work, self.mark), self.wanted, self.source, self.said)
        jobs = self._jobs(work, made)
        done = Shards(self.source, made, jobs, self.retries).build(part(self.said, LEARNING, CODING))
        codebooks, ids = made.codebooks, self.source.ids
        manifest = ShardManifest(
            folder=self.folder,
            rows=self.source.n_rows,
            dim=codebooks.dim,
            metric=codebooks.metric,
            n_bytes=codebooks.n_bytes,
            ids="default" if ids is None else _kind(self.folder, done),
            originals=self.originals,
            model=made.fingerprint,
            calibrated=self.calibrate in (True, "all") and self.shards > 1,
            key=self.mark,
            shards=done,
        )
        self._finished_together(manifest, made)
        self.source.check_unchanged()
        manifest.write()
        _clear(work)
        return manifest

    def _jobs(self, work: str, made: SharedModel) -> list[ShardJob]:
        bounds = [self.source.n_rows * i // self.shards for i in range(self.shards + 1)]
        return [
            ShardJob(
                i,
                bounds[i],
                bounds[i + 1] - bounds[i],
                self.folder,
                places.join(work, f"shard-{i:05d}-{self.mark[:16]}.json"),
                places.join(self.folder, MODEL),
                made.fingerprint[:16],
                self.originals,
                self.seed,
                self.threads,
                self.calibrate in (True, "shards") or (self.shards == 1 and bool(self.calibrate)),
            )
            for i in range(self.shards)
        ]

    def _finished_together(self, manifest: ShardManifest, made: SharedModel) -> None:
        """What takes all shards: ids that must not repeat, and the calibration."""
        self.said("checking", CODING)
        n, retries = self.shards, self.retries
        if self.source.ids is not None and n > 1:
            calls = [runtime.task(refuse_repeated_ids, manifest, i, n, retries=retries) for i in range(n)]
            _finish("the comparison of the ids of all shards", calls, manifest)
        if manifest.calibrated:
            self.said("calibrating", 0.95)
            rows = rows_that_calibrate(manifest.rows, made.sample, self.seed)
            target, vectors = manifest.file(CALIBRATION), ray.put(_vectors(self.source, made, rows))
            cpus = runtime.cpus_of_any_node()
            call = runtime.task(_calibrated, manifest, target, vectors, rows, cpus, cpus=cpus, retries=retries)
            _finish("the calibration of all shards together", [call], manifest)


def _finish(what: str, calls: list[Any], manifest: ShardManifest) -> None:
    """Wait for work on all shards; BuildError says what was lost, if it was lost with its workers."""
    try:
        runtime.values_of(calls)
    except ClusterError as error:
        kept = tuple(shard.number for shard in manifest.shards)
        raise BuildError(f"{what}: {error}. All {len(kept)} shards are done and kept", (), kept) from error


def _vectors(source: ShardSource, model: SharedModel, rows: Any) -> Any:
    found = source.sampled().take(rows)
    return found if model.embedding is None else model.embedding(found)


def _calibrated(manifest: ShardManifest, path: str, vectors: Any, rows: Any, threads: int) -> None:
    calibrate_all(manifest, path, ray.get(vectors), rows, threads)


def _key(
    source: ShardSource, model: SharedModel | Settings, shards: int, originals: str | None, calibrate: bool | str
) -> str:
    """Changes with everything that changes the files."""
    if isinstance(model, Settings):
        settings = {name: value for name, value in asdict(model).items() if name not in ("threads", "max_memory")}
        settings["bounded"] = model.max_memory  # fewer rows may be learned from
    else:
        settings = {"model": model.fingerprint}
    ids = source.ids if source.ids is None or isinstance(source.ids, str) else _ids_digest(source.ids)
    about = [_version.__version__, source.mark, settings, shards, originals, calibrate, ids]
    return hashlib.sha256(json.dumps(about, sort_keys=True, default=str).encode()).hexdigest()


def _ids_digest(ids: Any) -> str:
    data = "\0".join(ids.tolist()).encode() if ids.dtype == object else np.ascontiguousarray(ids).tobytes()
    return hashlib.sha256(data).hexdigest()


def _kind(folder: str, shards: tuple[Shard, ...]) -> str:
    from ..index.index import Index

    return Index.open(places.fetched(places.join(folder, shards[0].file), None, shards[0].sha256[:16])).ids_of_rows.kind


def _finished(folder: str, key: str) -> ShardManifest | None:
    """The manifest of the same build; InputError if there is one of another build."""
    if not places.exists(places.join(folder, NAME)):
        return None
    found = ShardManifest.read(folder)
    if found.key != key:
        raise InputError(
            f"{folder!r} already has an index, of other rows, settings or number of shards; build in another folder"
        )
    return found


def _model(file: ModelFile, wanted: SharedModel | Settings, source: ShardSource, progress: Progress) -> SharedModel:
    """The model of all shards, in its file."""
    found = file.read()
    if found is None:
        if isinstance(wanted, Settings):
            found = learned(source, wanted, part(progress, 0.0, LEARNING, "learning"))
        else:
            found = wanted
        file.write(found)
    return found


def _clear(work: str) -> None:
    for name in places.listed(work):
        places.remove(places.join(work, name))
    if not places.is_url(work):
        os.rmdir(work)


@dataclass(frozen=True, eq=False)
class Shards:
    """The shards of one build: those that are done, and the tasks that build the others."""

    source: ShardSource
    model: SharedModel
    jobs: list[ShardJob]
    retries: int

    def build(self, progress: Progress) -> tuple[Shard, ...]:
        """All shards; after an error, BuildError says which ones are done."""
        done = {shard.number: shard for shard in self._kept()}
        left = [job for job in self.jobs if job.number not in done]
        watcher = ray.remote(Watcher).options(num_cpus=0, max_restarts=-1).remote() if left else None
        running: dict[Any, ShardJob] = {}
        most = max(1, runtime.cpus() // max(1, self.jobs[0].threads)) + 1  # rows of this process are copied for each
        failed: dict[int, Exception] = {}
        reached = 0.0  # a task that is repeated begins again
        try:
            while left or running:
                while left and len(running) < most and not failed:
                    job = left.pop(0)
                    running[self._start(job, watcher)] = job
                if not running:
                    break
                finished, _ = ray.wait(list(running), timeout=POLL)
                for call in finished:
                    job = running.pop(call)
                    try:
                        done[job.number] = runtime.value_of(call)
                    except Exception as error:
                        failed[job.number] = error
                what, share = self._share(done, watcher)
                progress(what, reached := max(reached, share))
        except BaseException:  # Ctrl-C: nobody waits for the tasks any more
            for call in running:
                ray.cancel(call)
            raise
        if failed:
            raise self._error(failed, done)
        return tuple(done[job.number] for job in self.jobs)

    def _kept(self) -> Iterator[Shard]:
        """Shards of an earlier try whose files are still as they were."""
        for job in self.jobs:
            try:
                shard = as_shard(places.read_bytes(job.record))
                target = places.join(job.folder, job.file)
                if shard is None or places.size(target) != shard.n_bytes:
                    continue
                if places.sha256(places.fetched(target, None, shard.sha256[:16])) == shard.sha256:
                    yield shard
            except FileNotFoundError:
                continue

    def _start(self, job: ShardJob, watcher: Any) -> Any:
        portion = self.source.portion(job.first, job.first + job.rows)
        low, high = np.searchsorted(self.model.sample, [job.first, job.first + job.rows])
        sample = self.model.sample[low:high] - job.first
        return runtime.task(build_shard, job, portion, sample, watcher, cpus=job.threads, retries=self.retries)

    def _share(self, done: dict[int, Shard], watcher: Any) -> tuple[str, float]:
        shares = dict.fromkeys(done, 1.0)
        with contextlib.suppress(ray.exceptions.RayError):
            shares |= {n: s for n, s in ray.get(watcher.done.remote(), timeout=POLL).items() if n not in done}
        return f"coding: {len(done)} of {len(self.jobs)} shards", sum(shares.values()) / len(self.jobs)

    def _error(self, failed: dict[int, Exception], done: dict[int, Shard]) -> Exception:
        number, first = min(failed.items())
        kept = tuple(sorted(done))
        text = f"{first}. {len(kept)} of {len(self.jobs)} shards are done and kept"
        if not isinstance(first, InputError | FileError):  # these name the shard already
            text = f"{self.jobs[number]}: {text}"
        error = BuildError(text, tuple(sorted(failed)), kept)
        error.__cause__ = first
        return error
