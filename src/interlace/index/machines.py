"""What an index in shards on several machines will take: shards, bytes, time to build and to search."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from ..errors import InputError
from ..inputs.arrays import positive
from ..learn.settings import Settings, parse_memory
from .planning import Plan, plan

#: Rows of a shard, at most: a lost worker repeats a shard, and one task packs all of its codes in memory.
SHARD_ROWS = 1 << 27
#: Table additions of a query in a group of n rows at a margin of 0.999: this many times the square root of n. Measured
#: with 8 bytes and 4,096 cells: 233,000 for a million rows of SIFT, 122,000 for each of four groups of a quarter.
LOOKUPS_PER_ROOT = 233
#: Of one core with AVX-512, per second: table additions, and multiplications for the distances to cells.
LOOKUPS, MULTIPLICATIONS = 2.5e9, 8e9
#: Seconds that a call of Ray adds to a query: sending, waiting, merging.
CALL = 0.002
#: Share of a machine's memory that the index may take; the rest is for Ray, the system and queries.
USABLE = 0.7


@dataclass(frozen=True)
class ClusterPlan:
    """The result of :func:`plan_machines`; ``print`` it."""

    one: Plan  #: of one index of all rows, in which times are those of one machine
    machines: int
    memory: int | None  #: bytes of each machine
    replicas: int
    threads: int  #: of each machine
    shards: int
    groups: int  #: actors that hold all rows once

    @property
    def rows_per_shard(self) -> int:
        """Of the largest shard."""
        return -(-self.one.rows // self.shards)

    @property
    def bytes_per_machine(self) -> int:
        """Files that a machine holds in memory when all of them are read, with the tables of its actors."""
        share = -(-self.replicas * self.groups // self.machines)  # groups of one machine
        return share * (-(-self.one.file // self.groups) + self.one.tables // self.one.n_indexes)

    @property
    def fits(self) -> bool:
        """Whether that is within the memory; True where none was given."""
        return self.memory is None or self.bytes_per_machine <= USABLE * self.memory

    @property
    def build_seconds(self) -> float | None:
        """Learning on one machine, then coding on all of them."""
        one = self.one
        if one.learning_seconds is None or one.coding_seconds is None:
            return None
        waves = -(-self.shards // self.machines) * self.machines / self.shards  # machines without a shard wait
        return one.learning_seconds + (one.trying_seconds or 0.0) + one.coding_seconds / self.machines * waves

    @property
    def query_seconds(self) -> float:
        """CPU seconds of one query in one group, at a margin of 0.999."""
        rows = self.one.rows / self.groups
        cells = Settings(n_bytes=max(2, self.one.n_bytes)).checked().for_rows(self.one.rows).n_cells
        lookups = LOOKUPS_PER_ROOT * math.sqrt(rows) * self.one.n_bytes / 8
        return lookups / LOOKUPS + cells * self.one.dim / MULTIPLICATIONS

    @property
    def latency(self) -> float:
        """Seconds of a single query."""
        return self.query_seconds + CALL

    @property
    def queries_per_second(self) -> float:
        """Of large batches, with all threads of all machines: every group works on every query."""
        return self.machines * self.threads / (self.groups * self.query_seconds)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        own = {name: value for name, value in asdict(self).items() if name != "one"}
        names = ("rows_per_shard", "bytes_per_machine", "fits", "build_seconds", "query_seconds", "latency")
        derived = {name: getattr(self, name) for name in (*names, "queries_per_second")}
        return own | derived | {"rows": self.one.rows, "dim": self.one.dim, "file": self.one.file}

    def __str__(self) -> str:
        one = self.one
        memory = "" if self.memory is None else f" of {self.memory / 1e9:,.4g} GB"
        lines = [
            f"{one.rows:,} rows x {one.dim} dimensions, {one.n_bytes} bytes per code, {self.machines} machines{memory}",
            f"  shards             {self.shards} of {self.rows_per_shard:,} rows, {one.file // self.shards:,} bytes",
            f"  files              {one.file:,} bytes ({one.bytes_per_vector:.2f} per vector)",
            f"  actors             {self.groups} groups x {self.replicas} replicas, {self.threads} threads each",
            f"  memory             {self.bytes_per_machine:,} bytes per machine" + self._verdict(),
        ]
        if self.build_seconds is not None:
            lines.append(
                f"  build              about {self.build_seconds / 60:,.3g} minutes, at the speed of this machine"
            )
        lines += [
            f"  one query          about {self.latency * 1e3:.2g} ms, of which {CALL * 1e3:g} ms for Ray",
            f"  batches            about {self.queries_per_second:,.2g} queries per second",
            "  searches at a margin of 0.999: a model of SIFT rows on AVX-512 cores, right within a factor of two; "
            "measure yours",
        ]
        return "\n".join(lines)

    def _verdict(self) -> str:
        if self.memory is None:
            return ""
        return (
            ", fits" if self.fits else f": more than {USABLE:.0%} of what they have; use more machines or fewer bytes"
        )


def plan_machines(
    n: int,
    dim: int,
    *,
    machines: int,
    memory: int | str | None = None,
    replicas: int = 1,
    threads: int | None = None,
    measure: bool = True,
    **settings: Any,
) -> ClusterPlan:
    """Plan an index of n rows on machines of ``threads`` cores; ``settings`` are those of :func:`interlace.plan`."""
    count, copies = positive(machines, "machines"), positive(replicas, "replicas")
    if copies > count:
        raise InputError(f"replicas are on different machines: at most {count}, got {copies}")
    one = plan(n, dim, threads=threads, measure=measure, **settings)
    groups = min(count, one.rows)
    shards = groups * max(1, -(-one.rows // (groups * SHARD_ROWS)))
    bound = None if memory is None else parse_memory(memory)
    return ClusterPlan(one, count, bound, copies, Settings(threads=threads).workers, shards, groups)
