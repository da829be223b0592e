"""Replicas that are added while calls wait, and removed when they are idle: by an actor that all callers report to."""

from __future__ import annotations

import logging
import math
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import ray

from ..errors import InputError
from ..inputs.arrays import positive
from . import runtime
from .calls import ShardGroup

LOG = logging.getLogger(__name__)
REPORT = 0.25  # seconds between two reports of one process
FRESH = 3.0  # seconds for which a report counts: a process that has ended sends no more
STEP = 0.2  # seconds between two decisions
DRAIN = 10.0  # seconds that a removed replica has for the calls it has


@dataclass(frozen=True)
class Scaling:
    """When replicas of a group of shards are added and removed.

    There are as many as keep the calls that a replica works on, or has waiting, at ``target_calls``: at least the
    ``replicas`` of the cluster, at most ``max_replicas``. More are needed for ``add_after`` seconds before one is
    added, and fewer for ``remove_after`` seconds before one is removed.
    """

    max_replicas: int
    target_calls: float = 2.0
    add_after: float = 2.0
    remove_after: float = 60.0

    def checked(self, replicas: int) -> Scaling:
        """Itself; InputError if it cannot be."""
        if positive(self.max_replicas, "max_replicas") < replicas:
            raise InputError(f"max_replicas must be at least replicas={replicas}, got {self.max_replicas}")
        for name in ("target_calls", "add_after", "remove_after"):
            value = getattr(self, name)
            least = 0 if name != "target_calls" else math.ulp(0)
            if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < math.inf:
                raise InputError(f"{name} must be a number {'above' if least else 'of at least'} 0, got {value!r}")
        return self


def as_scaling(given: Scaling | int | None, replicas: int) -> Scaling | None:
    """What a user passes; an integer is the largest number of replicas."""
    if given is None:
        return None
    return (given if isinstance(given, Scaling) else Scaling(given)).checked(replicas)


@dataclass(frozen=True)
class GroupActor:
    """How another actor of a group is started."""

    kind: type
    arguments: tuple[Any, ...]

    def start(self, node: str) -> Any:
        """On this node, if it is alive."""
        return runtime.actor(self.kind, *self.arguments, node=node)


@dataclass(eq=False)
class _Extra:
    """Replicas of one group beyond those that it always has."""

    ready: list[Any] = field(default_factory=list)
    starting: list[tuple[Any, Any]] = field(default_factory=list)  #: actors, and their answers that they are ready
    leaving: list[tuple[Any, float]] = field(default_factory=list)  #: actors, and when they end
    since: float | None = None  #: when another number was needed for the first time
    upwards: bool = False  #: whether that was a larger one

    @property
    def n(self) -> int:
        return len(self.ready) + len(self.starting)


class Scaler:
    """The actor. It owns the additional replicas; should it be lost, they end, and it starts again without any."""

    def __init__(self, actors: Sequence[GroupActor], replicas: int, scaling: Scaling) -> None:
        self._actors, self._replicas, self._scaling = tuple(actors), replicas, scaling
        self._lock = threading.Lock()
        self._reports: dict[str, tuple[float, tuple[int, ...]]] = {}
        self._extra = [_Extra() for _ in actors]
        self._mark = uuid.uuid4().hex  # changes with the lists of actors; that of a lost scaler is another one
        threading.Thread(target=self._run, daemon=True).start()

    def report(self, process: str, waiting: tuple[int, ...], mark: str) -> tuple[str, list[list[Any]] | None]:
        """Calls of one process that each group has not answered; the additional actors of each, if they changed."""
        with self._lock:
            self._reports[process] = time.monotonic(), waiting
            changed = mark != self._mark
            return self._mark, [list(extra.ready) for extra in self._extra] if changed else None

    def _run(self) -> None:
        while True:
            time.sleep(STEP)
            try:
                self.step(time.monotonic())
            except Exception:  # this thread is the only one: replicas would never be added or removed again
                LOG.exception("replicas could not be added or removed")

    def step(self, now: float) -> None:
        """Add what is ready to the lists, start and end actors; a group that fails does not hold up the others."""
        with self._lock:
            self._reports = {name: one for name, one in self._reports.items() if now - one[0] < FRESH}
            waiting = [sum(one[1][i] for one in self._reports.values()) for i in range(len(self._actors))]
        for number in range(len(self._actors)):
            try:
                self._step_group(number, waiting[number], now)
            except Exception:  # a node that is lost, a Ray that ends: the next step sees what is there then
                LOG.exception("replicas of group %d could not be added or removed", number)

    def _step_group(self, number: int, waiting: int, now: float) -> None:
        extra = self._extra[number]
        self._settle(extra, now)
        wanted = math.ceil(waiting / self._scaling.target_calls)
        wanted = min(max(wanted, self._replicas), self._scaling.max_replicas) - self._replicas
        if wanted == extra.n:
            extra.since = None
            return
        if extra.since is None or extra.upwards != (wanted > extra.n):
            extra.since, extra.upwards = now, wanted > extra.n
        delay = self._scaling.add_after if extra.upwards else self._scaling.remove_after
        if now - extra.since >= delay:
            self._change(number, wanted, now)
            extra.since = None

    def _settle(self, extra: _Extra, now: float) -> None:
        """Look at the actors that are starting or leaving."""
        for actor, answer in list(extra.starting):
            if not ray.wait([answer], timeout=0)[0]:
                continue
            extra.starting.remove((actor, answer))
            try:
                found = ray.get(answer)
                why = found.error if isinstance(found, runtime.Failed) else None
            except ray.exceptions.RayError as error:
                why = error
            if why is not None:
                LOG.warning("an additional replica could not open its shards: %s", why)
                ray.kill(actor)
            else:
                self._listed(extra.ready.append, actor)
        for actor, end in list(extra.leaving):
            if now >= end:
                extra.leaving.remove((actor, end))
                ray.kill(actor)

    def _listed(self, change: Callable[[Any], None], actor: Any) -> None:
        with self._lock:
            change(actor)
            self._mark = uuid.uuid4().hex

    def _change(self, number: int, wanted: int, now: float) -> None:
        extra, nodes = self._extra[number], runtime.node_ids()
        while extra.n < wanted:
            actor = self._actors[number].start(nodes[(number + self._replicas + extra.n) % len(nodes)])
            extra.starting.append((actor, actor.ask.remote("ready")))
        while extra.n > wanted and extra.starting:
            ray.kill(extra.starting.pop()[0])
        while extra.n > wanted:
            actor = extra.ready[-1]
            self._listed(extra.ready.remove, actor)
            extra.leaving.append((actor, now + DRAIN))


class Reporter:
    """One process: tells the scaler how many calls wait, and takes over the actors that it has added."""

    def __init__(self, scaler: Any, groups: Sequence[ShardGroup], own: Sequence[Sequence[Any]] | None = None) -> None:
        self.scaler, self._groups = scaler, tuple(groups)
        self._own = [list(group.actors) for group in groups] if own is None else own
        self._process, self._mark, self._sent, self._answer = uuid.uuid4().hex, "", 0.0, None
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.scaler, self._groups, self._own)

    def __call__(self) -> None:
        """Report, unless that was done a moment ago; costs a microsecond then."""
        now = time.monotonic()
        if now - self._sent < REPORT or not self._lock.acquire(blocking=False):
            return
        try:
            self._sent = now
            if self._answer is not None and ray.wait([self._answer], timeout=0)[0]:
                self._take()
            if self._answer is None:
                waiting = tuple(group.waiting for group in self._groups)
                self._answer = self.scaler.report.remote(self._process, waiting, self._mark)
        finally:
            self._lock.release()

    def _take(self) -> None:
        answer, self._answer = self._answer, None
        try:
            self._mark, extra = ray.get(answer)
        except ray.exceptions.RayError:  # it is lost, and so are its actors
            self._mark, extra = "", [[] for _ in self._groups]
        if extra is not None:
            for group, own, more in zip(self._groups, self._own, extra, strict=True):
                group.actors = [*own, *more]


def start_scaler(actors: Sequence[GroupActor], replicas: int, scaling: Scaling) -> Any:
    """The scaler as an actor that Ray starts again."""
    made = ray.remote(Scaler).options(num_cpus=0, max_restarts=-1, max_task_retries=0)
    return made.remote(actors, replicas, scaling)
