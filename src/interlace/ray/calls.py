"""Calls to groups of replicas: a replica that is lost costs time, never an answer."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import ray

from ..errors import ClusterError, ShardUnavailableError
from .runtime import ALIVE, Failed, reason

#: Seconds until a replica that has not answered is asked whether it is alive, and until that must be answered.
PATIENCE = 0.5
PAUSE = 0.1  # seconds between two tries where no replica is left
DOUBT = 3.0  # seconds for which a replica that was lost or silent gets no call, if there are others
LOOK = 1.0  # seconds between two looks at a call that takes long
_COUNTING = threading.Lock()  # of all groups: a group is sent to other processes, and a lock is not


@dataclass(eq=False)
class ShardGroup:
    """Consecutive shards, and the actors that each hold all of them."""

    numbers: tuple[int, ...]
    first: int  #: row
    rows: int
    actors: list[Any]
    turn: int = 0  #: of the replica that the next call goes to
    waiting: int = 0  #: calls of this process without an answer
    doubts: dict[Any, float] = field(default_factory=dict)  #: until when replicas are passed over

    def __reduce__(self) -> tuple[Any, ...]:
        return ShardGroup, (self.numbers, self.first, self.rows, self.actors)

    def alone(self) -> list[ShardGroup]:
        """A group for each replica, to ask it and no other."""
        return [ShardGroup(self.numbers, self.first, self.rows, [actor]) for actor in self.actors]

    def chosen(self, now: float, asked: Collection[Any] = ()) -> Any:
        """The replica that a call goes to, in turn; one that was ``asked`` or is in doubt only for want of others.

        Ray keeps a call for an actor that it is starting again until the actor is there, and does not say so.
        """
        actors, turn = self.actors, self.turn  # one list: another thread may replace it
        self.turn += 1
        order = [actors[(turn + i) % len(actors)] for i in range(len(actors))]
        doubts = {actor: end for actor in order if (end := self.doubts.get(actor, 0.0)) > now}
        return min(order, key=lambda actor: (actor in asked, doubts.get(actor, 0.0)))

    def __str__(self) -> str:
        low, high = self.numbers[0], self.numbers[-1]
        which = f"shard {low}" if low == high else f"shards {low} to {high}"
        return f"{which} (rows {self.first:,} to {self.first + self.rows - 1:,})" if self.rows else which


@dataclass(eq=False)
class _Call:
    """What one group is asked, and to which replicas it was sent."""

    group: ShardGroup
    arguments: tuple[Any, ...]
    patience: float
    again: float | None = 0.0  #: when to send it, if nobody works on it
    tried: int = 0
    problem: Exception | None = None
    running: dict[Any, Any] = field(default_factory=dict)  #: answers that are awaited, and their actors
    actor: Any = None  #: that it was sent to for the last time
    heard: float = 0.0  #: when that one was known to be alive, or was asked whether it is
    sign: Any = None  #: the answer to that question, which is awaited
    name: str = field(default_factory=lambda: uuid.uuid4().hex)

    def due(self, now: float) -> Any:
        """Something to wait for that was sent now: the call, a question for a sign of life; or None."""
        if self.again is not None:
            return self._send(now) if self.again <= now else None
        if self.tried >= len(self.group.actors) or now - self.heard <= self.patience:
            return None
        if self.sign is not None:  # it has not answered: another replica, as well
            self.group.doubts[self.actor] = now + DOUBT
            return self._send(now)
        self.heard, self.sign = now, self.actor.works_on.options(concurrency_group=ALIVE).remote(self.name)
        return self.sign

    def _send(self, now: float) -> Any:
        self.actor = self.group.chosen(now, self.running.values())
        self.heard, self.again, self.sign = now, None, None
        self.tried += 1
        call = self.actor.ask.remote(*self.arguments, name=self.name)
        self.running[call] = self.actor
        return call

    def signed(self, sign: Any, now: float) -> None:
        """The question for a sign of life has ended: with an answer, or because nobody is there."""
        if sign != self.sign:
            return  # of a replica that was given up already
        try:
            works = ray.get(sign)
        except ray.exceptions.RayError:  # Ray itself may take seconds to give up the call
            works = False
        # A process that is ending still answers, but does not begin calls; one with many calls has not begun this one.
        self.heard, self.sign = (now, None) if works else (-float("inf"), sign)

    def next_time(self) -> float:
        """When :meth:`due` has something again."""
        if self.again is not None:
            return self.again
        return self.heard + self.patience if self.tried < len(self.group.actors) else float("inf")

    def lost(self, actor: Any, error: Exception, now: float) -> None:
        """This replica did not survive the call; those that still have it may be the ones that gave no sign of life."""
        self.problem = error
        self.group.doubts[actor] = now + DOUBT
        self.again = now if not self.running and self.tried < len(self.group.actors) else now + PAUSE


def ask(
    groups: Sequence[ShardGroup],
    arguments: Sequence[tuple[Any, ...]],
    *,
    timeout: float,
    partial: bool = False,
    patience: float = PATIENCE,
    report: Callable[[], None] | None = None,
) -> list[Any]:
    """The answer of each group to its arguments; None, with ``partial``, of groups that gave none in time.

    A call whose actor or node is lost goes to the next replica at once. A replica that has not answered after
    ``patience`` seconds is asked whether it works on the call; if it does not say so in as long, the call is sent to
    another one as well, and the first answer counts: calls can be repeated. What a call raises is raised here.
    ShardUnavailableError names the groups without an answer. ``report`` is called now and then meanwhile.
    """
    calls = [_Call(group, given, patience) for group, given in zip(groups, arguments, strict=True)]
    left = set(range(len(calls)))
    _count(groups, 1)
    try:
        answers = _answers(calls, left, timeout, report)
    finally:
        _count([calls[number].group for number in left], -1)
    if left and not partial:
        raise _unavailable([calls[number] for number in sorted(left)], timeout)
    return answers


def _count(groups: Iterable[ShardGroup], change: int) -> None:
    with _COUNTING:
        for group in groups:
            group.waiting += change


def _answers(calls: list[_Call], left: set[int], timeout: float, report: Callable[[], None] | None) -> list[Any]:
    """What was answered in time; the numbers of the others stay in ``left``."""
    answers: list[Any] = [None] * len(calls)
    waiting: dict[Any, int] = {}
    now = time.monotonic()
    end = now + timeout
    while left and now < end:
        for number in left:
            sent = calls[number].due(now)
            if sent is not None:
                waiting[sent] = number
        if report is not None:
            report()
        times = [end, now + LOOK, *(calls[number].next_time() for number in left)]
        pause = max(0.001, min(times) - now)
        if waiting:
            ready, _ = ray.wait(list(waiting), timeout=pause)
        else:
            ready = []
            time.sleep(pause)
        now = time.monotonic()
        for reference in ready:
            number = waiting.pop(reference)
            call = calls[number]
            if number not in left:
                continue  # another replica was quicker
            if reference not in call.running:
                call.signed(reference, now)
                continue
            actor = call.running.pop(reference)
            try:
                found = ray.get(reference)
            except ray.exceptions.RayError as error:
                call.lost(actor, error, now)
                continue
            call.group.doubts.pop(actor, None)
            if isinstance(found, Failed):
                raise found.error
            answers[number] = found
            left.discard(number)
            _count([call.group], -1)
    return answers


def _unavailable(calls: list[_Call], timeout: float) -> ClusterError:
    shards = tuple(number for call in calls for number in call.group.numbers)
    problem = next((call.problem for call in calls if call.problem is not None), None)
    why = "" if problem is None else f"; the last problem was {reason(problem)}"
    which = ", ".join(str(call.group) for call in calls)
    return ShardUnavailableError(f"no replica of {which} answered within {timeout:g} s{why}", shards)
