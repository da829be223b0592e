"""Questions to indexes and stores, each answer compared with that of ``orders_oracle``."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule
from orders_oracle import FloatArray, Mask, listed, same_hits, unit
from orders_world import (
    ASKS,
    AT,
    EXPONENTS,
    FILTERS,
    HOWS,
    POOL,
    SEEDS,
    SOME_FILTERS,
    Ask,
    Call,
    How,
    Only,
    Ready,
    Subject,
    World,
    call,
    named,
)

import interlace as il
from interlace.engine.hits import SearchStats
from interlace.index.matches import Matches
from raising import raises

#: Rows beyond k that are compared with their originals; None: a search by code alone; "default": nothing is asked for.
MORE = st.sampled_from([None, 20, None, 0, 400, "recall", "default"])
SEARCH = call("search", ask=ASKS, how=HOWS, only=FILTERS, more=MORE)
QUESTIONS = st.one_of(
    SEARCH,
    SEARCH,
    call("search_by_id", how=HOWS, only=FILTERS, seed=SEEDS, n=st.integers(0, 3), exclude=st.booleans(), more=MORE),
    call(
        "range_search",
        ask=ASKS,
        only=FILTERS,
        rank=st.sampled_from([5, 0, 60]),
        every=st.booleans(),
        margin=st.sampled_from(["exact", 0.99, math.inf]),
    ),
    call("distance_error", ask=ASKS),
    call("explain", ask=ASKS, how=HOWS, only=FILTERS, number=st.integers(0, 40), near=st.booleans()),
    call("allow", only=SOME_FILTERS),
    call("search_allowed", ask=ASKS, how=HOWS),
    call("evaluate", ask=ASKS, how=HOWS, known=st.booleans()),
    call("search_small", n=st.integers(1, 2), exponent=EXPONENTS, seed=SEEDS),
    call("facts"),
)


class Questions(World):
    """Calls that change nothing."""

    @rule(at=AT, questions=st.lists(QUESTIONS, min_size=1, max_size=5))
    def ask(self, at: int, questions: list[Call]) -> None:
        self.run(self.subjects[at % len(self.subjects)], questions)

    def _search(self, subject: Subject, ask: Ask, how: How, only: Only, more: int | str | None) -> None:
        """``more`` counts for stores with originals."""
        if more is None or subject.rows.originals is None:
            self._search_codes(subject, ask, how, only)
        else:
            self._rerank(subject, ask, how, only, more)

    def _search_codes(self, subject: Subject, ask: Ask, how: How, only: Only) -> None:
        q, vectors, embedded = self.queries(subject, ask)
        given, allowed = self.filter(subject, only)

        def found(q: FloatArray, **other: Any) -> Matches:
            options = dataclasses.asdict(how) | {"filter": given, "embedded": embedded} | other
            return subject.thing.search(q, options.pop("k"), **options)

        first = found(q)
        self.check_stats(subject, first.stats, len(vectors), how.margin, allowed)
        subject.rows.check_hits(first, vectors, how.k, offset=how.offset, allowed=allowed)
        assert first.ids.ndim == (1 if q.ndim == 1 else 2)
        self.check_split(first, found, q, how.threads)
        if first.stats.rule == "exact":
            assert same_hits(found(q, margin=math.inf), first)

    def check_split(self, first: Matches, found: Callable[..., Matches], q: FloatArray, threads: int | None) -> None:
        """The same answer by other threads, and for each query alone."""
        assert same_hits(found(q, threads=2 if threads == 1 else 1), first)
        if q.ndim == 2:
            alone = found(q[-1])
            assert alone.ids.tolist() == first.ids[-1].tolist()
            assert alone.distances.tolist() == first.distances[-1].tolist()

    def check_stats(
        self, subject: Subject, stats: SearchStats, n: int, margin: float | str, allowed: Mask | None
    ) -> None:
        assert (stats.queries, stats.rows) == (n, len(subject.rows))
        held = len(subject.rows)
        if subject.kind in ("writer", "reader"):
            held += subject.thing.health().removed
        if subject.kind != "snapshot":
            assert stats.survivors <= stats.scanned <= 2 * n * held  # twice where removed rows leave too few hits
        if margin == math.inf:
            assert (stats.rule, stats.margin) == ("exhaustive", "inf")
        elif margin == "exact" or subject.rows.exact:
            assert stats.rule == "exact"
        elif isinstance(margin, str):
            assert stats.rule == margin
        else:
            assert stats.rule == "exact" or (allowed is None and stats.rule == "calibrated")
        if stats.rule == "exact":  # the margin that was asked for, or why it is not
            assert (stats.fallback is None) == (margin == "exact")
        else:
            assert stats.fallback is None

    def _rerank(self, subject: Subject, ask: Ask, how: How, only: Only, more: int | str) -> None:
        q, vectors, embedded = self.queries(subject, ask)
        given, allowed = self.filter(subject, only)
        options: dict[str, Any] = {"offset": how.offset, "filter": given, "embedded": embedded, "threads": how.threads}
        depth = None
        if isinstance(more, str):
            options |= {"recall": 0.8} if more == "recall" else {}
        else:
            depth = how.k + how.offset + more
            options |= {"rerank": depth, "margin": how.margin}

        def found(q: FloatArray, **other: Any) -> Matches:
            return subject.thing.search(q, how.k, **options | other)

        if more == "recall" and not self.recalls(subject, lambda: found(q)):
            return
        first = found(q)
        assert (first.stats.chosen is None) == (depth is not None or subject.rows.exact)
        if depth is not None:
            self.check_stats(subject, first.stats, len(vectors), how.margin, allowed)
            assert first.stats.reranked <= len(vectors) * max(depth, how.k)
        subject.rows.check_reranked(first, vectors, how.k, depth=depth, offset=how.offset, allowed=allowed)
        self.check_split(first, found, q, how.threads)

    def recalls(self, subject: Subject, call: Callable[[], Any]) -> bool:
        """Whether a call with ``recall`` can answer: it must have been measured, and reached."""
        if not subject.rows.calibrated:
            with pytest.raises(il.InputError, match="calibrate"):
                call()
            return False
        try:
            call()
        except il.InputError as error:
            assert "recall" in str(error)  # noqa: PT017  it was not reached, which depends on the rows
            return False
        return True

    def _search_by_id(
        self, subject: Subject, how: How, only: Only, seed: int, n: int, exclude: bool, more: int | str | None
    ) -> None:
        rows, rng = subject.rows, np.random.default_rng(seed)
        with pytest.raises(il.UnknownIdError):
            subject.thing.search_by_id("none" if subject.ids == "string" else 10**9)
        if not len(rows):
            return
        own = rng.integers(len(rows), size=max(1, n)).tolist()
        ids: Any = [rows.ids[i] for i in own] if n else rows.ids[own[0]]
        given, allowed = self.filter(subject, only)
        second = more is not None and rows.kept is not None
        vectors = (rows.kept if second else rows.vectors.astype(np.float32))[own]
        if not vectors.any(1).all():
            return
        if rows.books.metric == "cosine":
            vectors = unit(vectors)
        depth = how.k + how.offset + more if second and isinstance(more, int) else None
        recall = second and depth is None
        options: dict[str, Any] = {"offset": how.offset, "filter": given, "exclude_self": exclude}
        if more != "default" or not second:
            options |= {"recall": 0.8} if recall else {"margin": how.margin}
        if depth is not None:
            options["rerank"] = depth

        def found(ids: Any, **other: Any) -> Matches:
            return subject.thing.search_by_id(ids, how.k, **options | other)

        if more == "recall" and recall and not self.recalls(subject, lambda: found(ids)):
            return
        first = found(ids)
        left_out = own if exclude else None
        if second:
            rows.check_reranked(first, vectors, how.k, depth=depth, offset=how.offset, allowed=allowed, own=left_out)
        else:
            rows.check_hits(first, vectors, how.k, offset=how.offset, allowed=allowed, own=left_out)
        assert same_hits(found(ids, threads=2), first)
        if n:
            assert found(ids[-1]).ids.tolist() == first.ids[-1].tolist()
            assert found(ids[-1]).distances.tolist() == first.distances[-1].tolist()

    def _range_search(
        self, subject: Subject, ask: Ask, only: Only, rank: int, every: bool, margin: float | str
    ) -> None:
        rows = subject.rows
        q, vectors, embedded = self.queries(subject, ask)
        given, allowed = self.filter(subject, only)
        distances = np.sort(rows.away(vectors, rows.vectors), axis=1)
        radii = distances[:, min(rank, len(rows) - 1)] if len(rows) else np.zeros(len(vectors))
        if rows.books.metric != "ip":  # from its own reconstruction a row is found at a radius of the rounding error
            radii = radii + rows.tolerance(vectors)[:, 0]
        radius = radii if every else float(radii[0])
        options: dict[str, Any] = {"filter": given, "embedded": embedded}
        found = subject.thing.range_search(q, radius, margin=margin, threads=1, **options)
        rows.check_range(found, vectors, radii if every else np.full(len(vectors), radii[0]), allowed)
        assert found.stats.queries == len(vectors)
        whole = subject.thing.search(q, max(1, len(rows)), margin="exact", **options)
        for i, within in enumerate(np.broadcast_to(radius, len(vectors))):
            near = np.atleast_2d(whole.distances)[i] <= within
            assert found[i][0].tolist() == np.atleast_2d(whole.ids)[i][near].tolist()
            assert found[i][1].tolist() == np.atleast_2d(whole.distances)[i][near].tolist()
        again = subject.thing.range_search(q, radius, margin="exact", threads=2, **options)
        assert found.ids.tolist() == again.ids.tolist()

    def _distance_error(self, subject: Subject, ask: Ask) -> None:
        """No distance is farther from the exact one, and at that radius a row is found from its reconstruction."""
        rows = subject.rows
        q, vectors, embedded = self.queries(subject, ask)
        bounds = np.atleast_1d(subject.thing.distance_error(q, embedded=embedded))
        found = subject.thing.search(q, max(1, len(rows)), margin="exact", embedded=embedded)
        distances = rows.away(vectors, rows.vectors)
        for i, (ids, reported, count) in enumerate(listed(found)):
            exact = distances[i][[rows.row_of[value] for value in ids[:count]]]
            assert (np.abs(exact - reported[:count]) <= bounds[i]).all(), (i, ids, reported)
        some = list(rows.ids)[ask.seed % 7 :: 97]
        if some and rows.books.metric == "l2":
            own = subject.thing.reconstruct(some) if subject.kind == "index" else subject.thing.get(some)
            near = subject.thing.range_search(own, subject.thing.distance_error(own, embedded=True), embedded=True)
            assert all(value in near[i][0].tolist() for i, value in enumerate(some))

    def _explain(self, subject: Subject, ask: Ask, how: How, only: Only, number: int, near: bool) -> None:
        """``number``: which row, by its distance or by its id, which may be that of a removed one."""
        rows = subject.rows
        q, vectors, embedded = self.queries(subject, dataclasses.replace(ask, n=0))
        given, allowed = self.filter(subject, only)
        options: dict[str, Any] = {"margin": how.margin, "filter": given, "embedded": embedded}
        value = named(subject.ids, [number])[0]
        if near and len(rows):
            value = rows.ids[int(np.argsort(rows.away(vectors, rows.vectors)[0])[min(number, len(rows) - 1)])]
        if value not in rows.row_of:
            with contextlib.suppress(il.UnknownIdError):  # after it was compacted away, or if it never was
                assert subject.thing.explain(q, value, how.k, **options).lost == "removed"
            return
        told, row = subject.thing.explain(q, value, how.k, **options), rows.row_of[value]
        found = subject.thing.search(q, how.k, **options)
        slack = float(rows.tolerance(vectors)[0, 0])
        assert (told.lost == "found") == (value in found.ids.tolist()), told
        assert (told.lost == "filter") == (allowed is not None and not allowed[row]), told
        assert told.margin == found.stats.margin
        away = float(rows.away(vectors, rows.vectors)[0, row])
        assert abs(told.distance - away) <= slack, (told, away, slack)
        least, most = rows.ranks(vectors[0], row, allowed)
        assert least <= told.rank <= most, told
        if told.margin.startswith(("exact", "inf")):
            assert told.lost in ("found", "beyond k", "filter"), told
            expected = found.distances[how.k - 1] if found.counts == how.k else np.inf
            assert told.kth_distance == expected
        assert told.id == value
        assert str(told)

    def _allow(self, subject: Subject, only: Only) -> None:
        given, allowed = self.filter(subject, only)
        filter = subject.thing.allow(given)
        assert len(filter) == allowed.sum()
        self.ready.append(Ready(subject, filter, allowed, subject.rows, subject.touched))

    def _search_allowed(self, subject: Subject, ask: Ask, how: How) -> None:
        """A filter made before serves as long as rows neither came nor went, and is refused afterwards."""
        ready = next((ready for ready in reversed(self.ready) if ready.subject is subject), None)
        if ready is None:
            return
        q, vectors, embedded = self.queries(subject, ask)
        try:
            found = subject.thing.search(q, how.k, margin=how.margin, filter=ready.filter, embedded=embedded)
        except il.InputError as error:
            assert ready.touched != subject.touched, error  # noqa: PT017
            return
        assert ready.rows.ids == subject.rows.ids
        subject.rows.check_hits(found, vectors, how.k, allowed=ready.allowed)

    def _evaluate(self, subject: Subject, ask: Ask, how: How, known: bool) -> None:
        if subject.kind == "snapshot":
            return
        rows, k = subject.rows, min(how.k, 20)
        q, vectors, embedded = self.queries(subject, ask)
        options: dict[str, Any] = {"margin": how.margin, "threads": 1, "embedded": embedded}
        if not len(rows):
            with pytest.raises(il.InputError, match="empty"):
                subject.thing.evaluate(q, k, **options)
            return
        truth = None
        if known and len(rows) >= k:
            order = np.argsort(rows.away(vectors, rows.given), axis=1)[:, :k]
            truth = [[rows.ids[i] for i in line] for line in order]
        told = subject.thing.evaluate(q, k, truth=truth, **options)
        assert (told.rows, told.queries, told.k) == (len(rows), len(vectors), k)
        assert 0 <= told.agreement <= 1
        assert str(told)
        if told.margin.startswith(("exact", "inf")):
            assert told.agreement == 1
            if truth is not None:
                found = np.atleast_2d(subject.thing.search(q, k, **options).ids)
                shares = [len(set(a.tolist()) & set(b)) / k for a, b in zip(found, truth, strict=True)]
                assert told.recall[k] == pytest.approx(np.mean(shares))

    def _search_small(self, subject: Subject, n: int, exponent: float, seed: int) -> None:
        """Queries too small for float32 are refused; by cosine only their directions count."""
        q, rows = self.small(n, exponent, seed), subject.rows
        if rows.books.metric == "cosine":
            rows.check_hits(subject.thing.search(q, 3, margin="exact", embedded=True), unit(q), 3)
            return
        for search in (subject.thing.search, subject.thing.range_search):
            with raises(il.InputError, "too small", "queries[0]"):
                search(q, 3, embedded=True)

    def _facts(self, subject: Subject) -> None:
        """All that can be asked besides: ids, vectors, columns, bytes, health, soundness."""
        thing, rows = subject.thing, subject.rows
        ids = list(rows.ids)
        assert thing.ids.tolist() == ids
        some = ids[:: max(1, len(ids) // 50)][::-1]
        numbers = [rows.row_of[value] for value in some]
        assert all(value in thing for value in some)
        assert "none" not in thing
        if some:
            vectors = thing.reconstruct(some) if subject.kind == "index" else thing.get(some)
            assert np.allclose(vectors, rows.vectors[numbers], rtol=1e-5, atol=1e-5)
        if subject.kind != "snapshot":
            assert thing.codebooks == rows.books
            told = thing.report()
            assert told.rows == len(rows)
            assert told.codes >= len(rows) * (rows.codes.shape[1] - 1)
            assert str(told)
            assert str(len(rows)) in repr(thing)
            thing.verify()
        if subject.kind == "index":
            return
        assert list(thing) == ids
        if subject.columns:
            assert thing.payload().to_pylist() == list(rows.payload)
            assert thing.payload(some, "tag").to_pylist() == [{"tag": rows.payload[i]["tag"]} for i in numbers]
        if rows.kept is not None and some:
            assert np.array_equal(thing.get(some, originals=True), rows.kept[numbers])
        if subject.kind == "snapshot":
            return
        health = thing.health()
        assert health.rows == len(rows)
        assert health.removed >= 0
        assert health.log_rows <= health.rows + health.removed
        assert str(health)
        with pytest.raises(TypeError, match="Store"):
            pickle.dumps(thing)
        if subject.kind == "reader":
            for write in (lambda: thing.add(POOL[:1]), lambda: thing.remove([]), thing.compact, thing.calibrate):
                with pytest.raises(il.StoreError, match="reading"):
                    write()
