"""The share that a progress function is called with never falls, and ends at 1: of every public call that takes one."""

from __future__ import annotations

import importlib.util
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import interlace as il
from helpers import hand_made
from interlace.learn import layout_rules
from interlace.progress import part
from joint_data import SHORT, labelled

TORCH = importlib.util.find_spec("torch") is not None
X, LABELS = labelled(600, 8)
FEW = {"threads": 1, "n_words": 16}
SUPERVISED = ("DPQ", "DQN", "PQN", "SQ")
UNSUPERVISED = ("CKMeans", "CQ", "LOPQ", "MSQ", "OPQ", "PQ")


class Total:
    """A progress function that is checked as it is called."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, float]] = []

    def __call__(self, what: str, done: float) -> None:
        assert math.isnan(done) or 0 <= done <= 1, (what, done)
        before = [share for _, share in self.seen if not math.isnan(share)]
        assert not before or not done < before[-1], (what, done, self.seen[-1])
        self.seen.append((what, done))

    def ended(self, *, steps: int = 1) -> bool:
        """With one 1, after at least so many other calls."""
        assert [done for _, done in self.seen].count(1.0) == 1
        assert self.seen[-1][1] == 1.0
        assert len(self.seen) > steps
        return True


def built(progress: Total, **more: Any) -> il.Index:
    return il.Index.build(X, **{"n_bytes": 4, "effort": "fastest", **FEW, **more}, progress=progress)


def added(progress: Total) -> None:
    index = built(Total())
    index.add(X[:50], threads=1, progress=progress)


def fitted(kind: Any, **more: Any) -> Callable[[Total], None]:
    def fit(progress: Total) -> None:
        y = LABELS if "recipe" in more or kind is il.quantizers.ClosedFormSQ else None
        kind(n_books=4, **FEW, **more, progress=progress).fit(X, y)

    return fit


def stored(call: Callable[[il.Store, Total], object]) -> Callable[..., None]:
    def write(progress: Total, folder: Path) -> None:
        with il.create(folder / "store", None, dim=8, n_bytes=4, learn_at=10**6, relearn="manual") as store:
            store.add(X[:400])
            call(store, progress)

    return write


def _planned(progress: Total) -> None:
    x = np.random.default_rng(0).normal(size=(2000, 8))
    il.plan_recall(x, n_bytes=(2, 3), effort="fastest", threads=1, progress=progress)


RECIPE = il.Recipe(**SHORT)
CALLS: dict[str, Callable[..., object]] = {
    "Index.build": lambda progress: built(progress),
    "Index.add": added,
    "ICQ": lambda progress: il.ICQ(4, effort="fastest", **FEW, progress=progress).fit(X),
    "UnsupervisedICQ": lambda progress: il.UnsupervisedICQ(4, **FEW, progress=progress).fit(X),
    "SupervisedICQ": fitted(il.SupervisedICQ, recipe=RECIPE),
    "plan_recall": _planned,
    "Store.add": stored(lambda store, progress: store.add(X[400:], progress=progress)),
    "Store.upsert": stored(lambda store, progress: store.upsert(X[:9], list(range(9)), progress=progress)),
    "Store.relearn": stored(lambda store, progress: store.relearn(effort="fastest", threads=1, progress=progress)),
    **{name: fitted(getattr(il.quantizers, name), iterations=3) for name in UNSUPERVISED},
    **{name: fitted(getattr(il.quantizers, name), recipe=RECIPE) for name in SUPERVISED},
    "ClosedFormSQ": fitted(il.quantizers.ClosedFormSQ, rounds=2),
    "gist": lambda progress: il.data.gist(np.zeros((9, 32, 32), np.uint8), progress=progress),
}
#: Steps of other calls, and bases; and those tested elsewhere: in tests/ray, and on data that is not here.
ELSEWHERE = {
    *("Index.of_learned", "Index.of_rows", "FitRun", "SupervisedModel", "VectorModel", "VectorModel.book_learner"),
    *("build", "rebuild", "cifar10"),
}


def test_every_public_call_that_takes_progress_is_here() -> None:
    names = set()
    for module in json.loads((Path(__file__).parent / "data" / "public_api.json").read_text()).values():
        for name, found in module.items():
            members = {name: found} if isinstance(found, str) else {f"{name}.{k}": v for k, v in found.items()}
            names |= {key.removesuffix(".constructor") for key, text in members.items() if "progress:" in str(text)}
    assert names == CALLS.keys() | ELSEWHERE


@pytest.mark.filterwarnings("ignore::interlace.errors.PriorCollapsedWarning")
@pytest.mark.parametrize("name", CALLS)
def test_the_share_never_falls_and_ends_at_1(name: str, tmp_path: Path) -> None:
    if name in (*SUPERVISED, "SupervisedICQ") and not TORCH:
        pytest.skip("the train extra is not installed")
    progress = Total()
    CALLS[name](progress, *([tmp_path] if name.startswith("Store.") else []))
    assert progress.ended()


@settings(max_examples=30, suppress_health_check=list(HealthCheck))
@given(
    rows=st.sampled_from([1, 40, 600]),
    layout=st.sampled_from(["auto", "subspace", "hybrid", "residual"]),
    rotation=st.sampled_from(["auto", "learned", "none"]),
    cross=st.sampled_from(["auto", "exact", "byte"]),
    effort=st.sampled_from(["fastest", "balanced", "best"]),
    cells=st.sampled_from(["auto", 300]),
    iterations=st.sampled_from([0, 3, 150]),
    parallel_weight=st.sampled_from([1.0, 4.0]),
    metric=st.sampled_from(["l2", "ip", "cosine"]),
)
def test_builds_with_any_settings(rows: int, **chosen: Any) -> None:
    progress = Total()
    try:
        il.Index.build(X[:rows], n_bytes=6, **FEW, **chosen, progress=progress)
    except il.InputError:  # settings that exclude each other
        assert not progress.seen
        assume(False)
    assert progress.ended()


def test_comparing_layouts_is_a_part_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout_rules, "COMPARE_FROM", 500)
    progress = Total()
    il.Index.build(X, n_bytes=4, iterations=2, **FEW, progress=progress)
    assert any("trying" in what for what, _ in progress.seen)
    assert progress.ended()


@pytest.mark.parametrize("rows", [0, 1, 50])
def test_rows_that_are_added_to_an_index(rows: int) -> None:
    index, progress = il.Index(hand_made()), Total()
    index.add(np.zeros((rows, index.dim), np.float32), progress=progress)
    assert progress.ended(steps=0)


def test_blocks_of_an_iterator_have_no_share_until_the_end(tmp_path: Path) -> None:
    def blocks() -> Iterator[Any]:
        for start in range(0, 300, 100):
            yield X[start : start + 100]

    with il.create(tmp_path / "store", None, dim=8) as store:
        progress = Total()
        store.add(blocks(), progress=progress)
    assert progress.ended()
    assert [math.isnan(done) for _, done in progress.seen] == [True, True, True, False]


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=4).map(sorted),
    st.lists(st.floats(0, 1), min_size=1, max_size=9).map(sorted),
)
def test_parts_join(bounds: list[float], shares: list[float]) -> None:
    """However they are nested, and however the shares are rounded."""
    progress = Total()
    for begin, end in zip([0.0, *bounds], bounds, strict=False):
        inner = part(part(progress, begin, end), 0.1, 0.7)
        for share in (*shares, 1.0):
            inner("", share)
        part(progress, begin, end)("", 1.0)
        assert progress.seen[-1][1] == pytest.approx(end)
