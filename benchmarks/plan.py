"""Sizes of a benchmark run, with few queries for slow methods."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from interlace.learn.settings import MAX_TRAIN_ROWS


@dataclass(frozen=True)
class Plan:
    """Sizes of one case; written into its JSON."""

    seed: int = 0
    quick: bool = False
    train_rows: int = MAX_TRAIN_ROWS  # the same rows for all methods
    rounds: int = 5
    answered: int = 1000  # queries behind recall and agreement
    timed: int = 200  # queries of a round
    timed_slow: int = 100  # of a round of 8-bit exhaustive peers
    timed_decode: int = 3  # of a round of a peer that decodes every row for every query
    timed_scalar: int = 100  # of a round at a level without SIMD
    nprobe_queries: int = 300  # queries for the choice of nprobe
    opq_rows: int = 10_240  # training rows the rotation of OPQ is learned from; its books take all of them
    opq_iterations: int = 50  # the default of faiss
    opq_out: int = 128  # dimensions OPQ keeps of more than twice as many
    rq: bool = True
    rq_table: bool = False  # also the residual quantizer with a norm byte, searched by tables

    def as_json(self) -> dict[str, Any]:
        """The protocol in the JSON."""
        return asdict(self) | {
            "threads": 1,
            "ks": [10, 100],
            "order": "all methods in one process, every task once per round, every other round backwards",
            "warm_up": "a tenth of the queries before the first round of each task",
            "ratios": "of medians over the rounds of the same run",
            "training": "the same rows for all; a rotation of OPQ takes opq_rows of them",
        }


def plan_for(n_rows: int, dim: int, *, seed: int, quick: bool, everything: bool) -> Plan:
    """Fewer queries for a million rows; --quick only shows that the benchmark runs."""
    common = {"seed": seed, "rq_table": everything}
    if quick:
        return Plan(
            **common,
            quick=True,
            train_rows=10_240,
            rounds=2,
            answered=100,
            timed=50,
            timed_slow=20,
            timed_decode=2,
            timed_scalar=20,
            nprobe_queries=100,
            opq_iterations=3,
        )
    if n_rows > 500_000:
        return Plan(**common, answered=500, timed=100, timed_slow=50, timed_decode=2, timed_scalar=50, rq=everything)
    if dim > 256:  # learning takes time in proportion to the dimensions
        return Plan(**common, train_rows=10_240)
    return Plan(**common)
