"""How much of everything a run does. Few queries for slow methods: a table takes minutes, not hours."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Plan:
    """Sizes of one case; written into its JSON."""

    seed: int = 0
    rounds: int = 5
    answered: int = 2000  # queries behind recall and agreement
    timed: int = 500  # queries of a round
    timed_slow: int = 100  # of a round of 8-bit exhaustive peers
    timed_decode: int = 4  # of a round of a peer that decodes every row for every query
    timed_scalar: int = 100  # of a round at a level without SIMD
    nprobe_queries: int = 500  # the smallest nprobe is looked for on these
    opq_rows: int = 16_384  # training rows the rotation of OPQ is learned from; its books take all of them
    opq_iterations: int = 50  # the default of faiss
    opq_out: int = 128  # dimensions OPQ keeps of more than twice as many
    rq_rows: int = 16_384  # training rows of the residual quantizer
    rq: bool = True
    rq_table: bool = False  # also the residual quantizer with a norm byte, searched by tables: trains for minutes more

    def as_json(self) -> dict[str, Any]:
        """What the JSON tells beside the results."""
        return asdict(self) | {
            "threads": 1,
            "ks": [10, 100],
            "order": "all methods in one process, every task once per round, every other round backwards",
            "warm_up": "a tenth of the queries before the first round of each task",
            "ratios": "of medians over the rounds of the same run",
            "training": "the same rows for all, except where a method's notes say fewer",
        }


def plan_for(name: str, n_rows: int, *, seed: int, quick: bool, everything: bool) -> Plan:
    """A million rows take fewer queries; --quick only proves that the benchmark runs."""
    if quick:
        return Plan(
            seed=seed, rounds=2, answered=100, timed=50, timed_slow=20, timed_decode=2, timed_scalar=20,
            nprobe_queries=100, opq_rows=10_240, opq_iterations=3, rq_rows=2048, rq_table=everything,
        )
    if n_rows > 500_000:
        return Plan(seed=seed, answered=1000, timed=250, timed_slow=50, timed_decode=2, timed_scalar=50, rq=everything, rq_table=everything)
    if name.endswith("784"):  # the residual quantizer trains in time proportional to the dimensions
        return Plan(seed=seed, answered=1000, rq_rows=10_240, rq_table=everything)
    return Plan(seed=seed, rq_table=everything)
