"""Methods of indexes and stores in any order (``orders_machine``): each layout in sequences of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakSet

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from orders_machine import EmptyOrders, HybridOrders, Orders, ResidualOrders, SubspaceOrders

import interlace as il
from interlace.codec.metric import Metric
from interlace.engine import distinct
from interlace.engine.exact import ExactEngine
from interlace.engine.tombstones import JoinedTombstones
from interlace.index.searcher import Searcher
from interlace.store.rows import StoredRows

#: 270 sequences in all, the same ones each time; 6,700 others for `make explore`.
EXAMPLES = 67 if settings().derandomize else 1667
SETTINGS = settings(
    max_examples=EXAMPLES,
    stateful_step_count=15,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    report_multiple_bugs=False,
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],  # to explain a failure takes minutes
)

# What a store says of drift, growth and calibration is no error here.
quiet = pytest.mark.filterwarnings("ignore::UserWarning")

TestSubspaceOrders = quiet(SubspaceOrders.TestCase)
TestSubspaceOrders.settings = SETTINGS
TestHybridOrders = quiet(HybridOrders.TestCase)
TestHybridOrders.settings = SETTINGS
TestResidualOrders = quiet(ResidualOrders.TestCase)
TestResidualOrders.settings = SETTINGS
TestEmptyOrders = quiet(EmptyOrders.TestCase)
TestEmptyOrders.settings = SETTINGS


# ------------------------------------------------- the machine itself: defects that only some orders of calls show


class PlantedError(Exception):
    pass


def rerank_fails_after_a_calibrated_search(patch: pytest.MonkeyPatch) -> None:
    search, searched = Searcher.search, WeakSet[Searcher]()

    def broken(self: Searcher, *given: Any, **how: Any) -> Any:
        if how.get("rerank") and self in searched:
            raise PlantedError
        found = search(self, *given, **how)
        if found.stats.rule == "calibrated":
            searched.add(self)
        return found

    patch.setattr(Searcher, "search", broken)


def filters_are_remembered_across_writes(patch: pytest.MonkeyPatch) -> None:
    allowed, remembered = StoredRows.allowed, dict[str, Any]()

    def broken(self: Any, filter: Any, engine: Any) -> Any:
        if not isinstance(filter, str):
            return allowed(self, filter, engine)
        if filter not in remembered:
            remembered[filter] = allowed(self, filter, engine)
        return remembered[filter]

    patch.setattr(StoredRows, "allowed", broken)


def removed_rows_stay_where_there_are_many_hits(patch: pytest.MonkeyPatch) -> None:
    has = JoinedTombstones.has

    def broken(self: Any, rows: Any) -> Any:
        return np.zeros(rows.shape, np.bool_) if rows.ndim == 1 and len(rows) > 3 else has(self, rows)

    patch.setattr(JoinedTombstones, "has", broken)


def copies_of_queries_are_evidence(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(distinct, "repeated", lambda codebooks, queries, answers: np.arange(len(queries)))


def small_vectors_are_taken(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Metric, "prepare", Metric.directed)


def removed_rows_are_compared(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ExactEngine, "kept_rows", lambda self: np.arange(self.n_rows))


@quiet
@pytest.mark.parametrize(
    ("plant", "errors", "machine"),
    [
        (rerank_fails_after_a_calibrated_search, PlantedError, SubspaceOrders),
        (filters_are_remembered_across_writes, (il.InputError, AssertionError), SubspaceOrders),
        (removed_rows_stay_where_there_are_many_hits, (KeyError, AssertionError), SubspaceOrders),
        (removed_rows_are_compared, (KeyError, AssertionError), EmptyOrders),
        (copies_of_queries_are_evidence, AssertionError, SubspaceOrders),
        (small_vectors_are_taken, pytest.fail.Exception, EmptyOrders),
    ],
    ids=["re-rank", "filters", "removed rows", "removed vectors", "copies", "small vectors"],
)
def test_a_planted_defect_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], errors: Any, machine: type[Orders], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    found_soon = settings(SETTINGS, max_examples=400, phases=[Phase.generate], derandomize=True, database=None)
    with pytest.raises(errors):
        run_state_machine_as_test(machine, settings=found_soon)
