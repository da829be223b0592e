"""Calls to groups of replicas: a replica that is lost costs time, never an answer."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import ray

from ..errors import ClusterError, ShardUnavailableError
from .runtime import Failed, reason

#: Seconds until a call is sent to another replica too, and between two tries where none is left.
PATIENCE, PAUSE = 1.0, 0.1


@dataclass(eq=False)
class ShardGroup:
    """Consecutive shards, and the actors that each hold all of them."""

    numbers: tuple[int, ...]
    first: int  #: row
    rows: int
    actors: list[Any]
    turn: int = 0  #: of the replica that the next call goes to

    def alone(self) -> list[ShardGroup]:
        """A group for each replica, to ask it and no other."""
        return [ShardGroup(self.numbers, self.first, self.rows, [actor]) for actor in self.actors]

    def __str__(self) -> str:
        low, high = self.numbers[0], self.numbers[-1]
        which = f"shard {low}" if low == high else f"shards {low} to {high}"
        return f"{which} (rows {self.first:,} to {self.first + self.rows - 1:,})" if self.rows else which


@dataclass(eq=False)
class _Call:
    """What one group is asked, and to which replicas it was sent."""

    group: ShardGroup
    arguments: tuple[Any, ...]
    sent: float = 0.0  #: when it was sent for the last time
    again: float | None = 0.0  #: when to send it, if nobody works on it
    tried: int = 0
    problem: Exception | None = None
    running: set[Any] = field(default_factory=set)

    def send(self, now: float) -> Any:
        group = self.group
        actor = group.actors[group.turn % len(group.actors)]
        group.turn += 1
        self.sent, self.again = now, None
        self.tried += 1
        call = actor.ask.remote(*self.arguments)
        self.running.add(call)
        return call


def ask(
    groups: Sequence[ShardGroup],
    arguments: Sequence[tuple[Any, ...]],
    *,
    timeout: float,
    partial: bool = False,
    patience: float = PATIENCE,
) -> list[Any]:
    """The answer of each group to its arguments; None, with ``partial``, of groups that gave none in time.

    A call whose actor or node is lost goes to the next replica at once. One that takes longer than ``patience`` is
    sent to another replica as well, and the first answer counts: calls can be repeated. What a call raises is raised
    here. ShardUnavailableError names the groups without an answer.
    """
    calls = [_Call(group, given) for group, given in zip(groups, arguments, strict=True)]
    answers: list[Any] = [None] * len(calls)
    waiting: dict[Any, int] = {}
    left = set(range(len(calls)))
    now = time.monotonic()
    end = now + timeout
    while left and now < end:
        for number in left:
            call = calls[number]
            several = call.tried < len(call.group.actors) and now - call.sent > patience
            if (call.again is not None and call.again <= now) or (call.again is None and several):
                waiting[call.send(now)] = number
        ready, _ = ray.wait(list(waiting), timeout=_pause(calls, left, now, end, patience)) if waiting else ([], [])
        if not waiting:
            time.sleep(min(PAUSE, max(0.0, end - now)))
        now = time.monotonic()
        for reference in ready:
            number = waiting.pop(reference)
            call = calls[number]
            call.running.discard(reference)
            if number not in left:
                continue  # another replica was quicker
            try:
                found = ray.get(reference)
            except ray.exceptions.RayError as error:
                call.problem = error
                if not call.running:
                    call.again = now if call.tried < len(call.group.actors) else now + PAUSE
                continue
            if isinstance(found, Failed):
                raise found.error
            answers[number] = found
            left.discard(number)
    if left and not partial:
        raise _unavailable([calls[number] for number in sorted(left)], timeout)
    return answers


def _pause(calls: list[_Call], left: set[int], now: float, end: float, patience: float) -> float:
    """Seconds until something is to be sent, or the time is over."""
    times = [end]
    for number in left:
        call = calls[number]
        if call.again is not None:
            times.append(call.again)
        elif call.tried < len(call.group.actors):
            times.append(call.sent + patience)
    return max(0.001, min(times) - now)


def _unavailable(calls: list[_Call], timeout: float) -> ClusterError:
    shards = tuple(number for call in calls for number in call.group.numbers)
    problem = next((call.problem for call in calls if call.problem is not None), None)
    why = "" if problem is None else f"; the last problem was {reason(problem)}"
    which = ", ".join(str(call.group) for call in calls)
    return ShardUnavailableError(f"no replica of {which} answered within {timeout:g} s{why}", shards)
