"""Targets of a store compared with the measurements of benchmarks/store.py; its section of RESULTS.md."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import tables

#: Results of earlier formats lack some numbers.
FORMAT = 2
WHILE_WRITING, REMOVED, COMPACTED = 0.70, 0.60, 0.95  # of the searches alone, of those before
UPSERTS, OVER_CODING, OPEN_MS = 100.0, 0.20, 50.0

Case = dict[str, Any]


@dataclass(frozen=True)
class StoreBar:
    """A measurement and its target: at least, or with ``most`` at most."""

    what: str
    needed: float
    measured: float
    unit: str = "x"
    most: bool = False

    @property
    def reached(self) -> bool:
        """Whether the target is reached."""
        return self.measured <= self.needed if self.most else self.measured >= self.needed

    def text(self, value: float) -> str:
        """A value with its unit."""
        return {"x": f"{value:.3f}x", "%": f"{value:.1%}", "ms": f"{value:.1f} ms", "/s": f"{value:,.0f}/s"}[self.unit]

    def row(self) -> tuple[str, ...]:
        """Its row of the table."""
        needed = f"{'at most' if self.most else 'at least'} {self.text(self.needed)}"
        return self.what, needed, self.text(self.measured), "reached" if self.reached else "**not reached**"


def bars(found: Case) -> Iterator[StoreBar]:
    """All targets."""
    modes = ("batch", "single")
    for who, text in (("process", "another process"), ("thread", "a thread")):
        for mode in modes:
            what = f"exact, {mode}: searches while {text} adds rows, against the same alone"
            yield StoreBar(what, WHILE_WRITING, found["while_writing"][who][f"{mode}_ratio"])
    for state, needed in (("removed", REMOVED), ("compacted", COMPACTED)):
        when = "after 30 % were removed" if state == "removed" else "after compaction"
        for task, rates in found["search"]["qps"].items():
            yield StoreBar(f"{task}: searches {when}, against those before", needed, rates[f"{state}/before"])
    yield StoreBar("durable upserts of one row", UPSERTS, found["upserts"]["durable_upserts_per_s"], "/s")
    adding = found["adding"]
    what = f"adding {adding['rows']:,} rows in blocks of {adding['block']:,}, over coding alone"
    yield StoreBar(what, OVER_CODING, adding["over_coding"], "%", most=True)
    large = found["opening_large"]
    for name, how in (("first_open_ms", "the first time in a process"), ("open_ms", "again")):
        yield StoreBar(f"opening {large['rows']:,} rows, {how}", OPEN_MS, large[name], "ms", most=True)


def as_json(found: Case) -> list[dict[str, Any]]:
    """Targets and measurements as JSON types."""
    return [asdict(bar) | {"reached": bar.reached} for bar in bars(found)]


def section(found: Case) -> str:
    """The section of RESULTS.md."""
    listed = list(bars(found))
    data, large, coding = found["data"], found["opening_large"], found["while_writing"]["coding"]
    reached = sum(bar.reached for bar in listed)
    intro = (
        f"{data['name']}, {data['rows']:,} rows x {data['dim']}, {found['n_bytes']} bytes, one thread: {reached} of "
        f"{len(listed)} targets reached. Searches of the three states are timed in interleaved rounds in processor "
        "time; searches next to a writer are timed by the clock, interleaved with the same searches alone. A process "
        f"that only encodes, without a store, leaves {coding['batch_ratio']:.3f}x (batch) and "
        f"{coding['single_ratio']:.3f}x (single) of their speed on this machine (load "
        f"{found['environment']['load_at_start']} at the start, {found['load_at_end']} at the end); bare appends with "
        f"a wait for the disk: {found['upserts']['bare_appends_per_s']:,.0f}/s. After opening {large['rows']:,} rows "
        f"({large['file_bytes']:,} bytes) `in` took {large['contains_ms']:.2f} ms and `get` {large['get_ms']:.2f} ms, "
        f"and memory had grown by {large['rss_open_mb']:.1f} MB and {large['rss_get_mb']:.1f} MB."
    )
    return f"## A store\n\n{intro}\n\n{tables.table(('what', 'target', 'measured', ''), [bar.row() for bar in listed])}"
