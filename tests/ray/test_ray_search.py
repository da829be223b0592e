"""Searches of a cluster: the answers of one index, bit for bit, whatever the shards, groups and replicas."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import interlace as il

pytest.importorskip("ray.exceptions", reason="the ray extra is not installed")
pytestmark = [
    pytest.mark.usefixtures("cluster_of_ray"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray"),
]


@pytest.fixture(scope="module", params=[1, 2, 7], ids=["1 group", "2 groups", "7 groups"])
def cluster(request: pytest.FixtureRequest, built: Path) -> Iterator[il.ray.Cluster]:
    with il.ray.open(built, groups=request.param, threads=1, timeout=300) as opened:
        yield opened


def same(found: il.Matches, expected: il.Matches) -> bool:
    return (
        np.array_equal(found.ids, expected.ids)
        and found.distances.tobytes() == expected.distances.tobytes()
        and np.array_equal(found.counts, expected.counts)
    )


@pytest.mark.parametrize("options", [{}, {"k": 1}, {"k": 100, "offset": 7}, {"k": 3, "rerank": 40}, {"k": 4000}])
@pytest.mark.parametrize("margin", ["exact", float("inf")])
def test_answers_are_those_of_one_index(cluster, one, queries, options, margin) -> None:
    assert same(cluster.search(queries, margin=margin, **options), one.search(queries, margin=margin, **options))
    assert same(cluster.search(queries[3], margin=margin, **options), one.search(queries[3], margin=margin, **options))


def test_filters(cluster, one, queries) -> None:
    rng = np.random.default_rng(1)
    mask, ids = rng.random(3000) < 0.2, rng.choice(3000, 50, replace=False)
    for filter in (mask, ids, ids.tolist(), np.zeros(3000, bool)):
        for rerank in (None, 30):
            found = cluster.search(queries, 20, margin="exact", filter=filter, rerank=rerank)
            assert same(found, one.search(queries, 20, margin="exact", filter=filter, rerank=rerank))
    with pytest.raises(il.UnknownIdError, match="id 3000 is not in the index"):
        cluster.search(queries, filter=[5, 3000])
    with pytest.raises(il.InputError, match="one entry per row: 3000 expected"):
        cluster.search(queries, filter=mask[:-1])


@pytest.mark.parametrize("k", [1, 5, 4000])
def test_where_all_rows_are_compared_each_group_sends_no_more_than_its_best(cluster, one, queries, monkeypatch, k):
    from interlace.ray.merging import merged

    sent: list[Any] = []
    monkeypatch.setattr("interlace.ray.cluster.merged", lambda *given: sent.extend(given[0]) or merged(*given))
    for filter in (None, np.arange(3000) % 7 < 3):
        found = cluster.search(queries, k, offset=2, margin="exact", rerank=5000, filter=filter)
        expected = one.search(queries, k, offset=2, margin="exact", rerank=5000, filter=filter)
        assert same(found, expected)
        assert found.stats.reranked == expected.stats.reranked == sum(group.reranked for group in found.groups)
    for part in sent:
        assert part.matches.ids.shape == (len(queries), k + 2)
        assert part.by_code is None


def test_large_arguments_are_sent_as_objects(cluster, one, queries, monkeypatch) -> None:
    monkeypatch.setattr("interlace.ray.cluster.LARGE", 1)
    for filter in (np.arange(3000) % 2 == 0, np.arange(40)):
        found = cluster.search(queries, 20, margin="exact", filter=filter, rerank=5000)
        assert same(found, one.search(queries, 20, margin="exact", filter=filter, rerank=5000))
        assert len(cluster.range_search(queries, 30.0, filter=filter)) == len(queries)


def test_ranges(cluster, one, queries) -> None:
    radius = np.linspace(1, 60, len(queries))
    for filter in (None, np.arange(3000) % 3 == 0):
        found = cluster.range_search(queries, radius, filter=filter)
        expected = one.range_search(queries, radius, filter=filter)
        assert np.array_equal(found.offsets, expected.offsets)
        assert np.array_equal(found.ids, expected.ids)
        assert found.distances.tobytes() == expected.distances.tobytes()
    assert found.counts.sum() > 0


def test_explanations_rank_rows_among_all(cluster, one, queries) -> None:
    order = one.search(queries[0], 3000, margin="exact").ids
    for place in (0, 4, 9, 10, 300):
        row = int(order[place])
        found = cluster.explain(queries[0], row, 10, margin="exact")
        expected = one.explain(queries[0], row, 10, margin="exact")
        assert (found.rank, found.distance, found.kth_distance) == (place + 1, expected.distance, expected.kth_distance)
        assert (found.lost == "found") == (place < 10)
    with pytest.raises(il.UnknownIdError, match="id -1"):
        cluster.explain(queries[0], -1)


def test_vectors_and_searches_by_id(cluster, one, rows) -> None:
    assert np.array_equal(cluster.vectors([2999, 0]), one.reconstruct([2999, 0]))
    assert np.array_equal(cluster.vectors(17, originals=True), rows[17])
    for options in ({}, {"exclude_self": False}, {"offset": 3}, {"exclude_self": False, "offset": 3}, {"rerank": 40}):
        for ids in ([17, 2000], 17):
            found = cluster.search_by_id(ids, 5, margin="exact", **options)
            wanted = one.search_by_id(ids, 5, margin="exact", **options)
            assert same(found, wanted), options
            assert np.array_equal(found.counts, wanted.counts)
    assert 17 not in cluster.search_by_id(17, 5, margin="exact").ids
    allowed = np.array([3, 2000])  # fewer than k are left, and the row itself is not always one of them
    found = cluster.search_by_id([17, 2000], 5, filter=allowed)
    assert same(found, one.search_by_id([17, 2000], 5, filter=allowed))
    assert found.counts.tolist() == [2, 1]
    with pytest.raises(il.InputError, match="exclude_self"):
        cluster.search_by_id(17, exclude_self=1)
    with pytest.raises(il.UnknownIdError, match="id 9999"):
        cluster.vectors([1, 9999])


def test_stats_are_summed_and_there_for_each_group(cluster, queries) -> None:
    found = cluster.search(queries, margin="exact")
    assert found.stats.rows == 3000 == len(cluster)
    assert found.stats.queries == len(queries)
    assert len(found.groups) == len(cluster.groups)
    assert found.stats.lookups == sum(group.lookups for group in found.groups)
    assert found.missing == ()
    assert "ops per vector" in str(found.stats)
    assert [info["rows"] for info in cluster.nodes()] == [group.rows for group in cluster.groups]


def test_a_calibrated_margin_keeps_its_promise_over_all_groups(cluster, one, rows) -> None:
    queries = rows[::3] + np.random.default_rng(2).normal(size=rows[::3].shape).astype(np.float32) * 0.3
    exact = cluster.search(queries, 10, margin="exact")
    found = cluster.search(queries, 10, margin=0.99)
    agreement = np.mean([np.isin(a, b).mean() for a, b in zip(exact.ids, found.ids, strict=True)])
    assert agreement >= 0.99


def test_a_recall_is_reached_by_re_ranking(cluster, one, rows) -> None:
    queries = rows[::7] + np.random.default_rng(3).normal(size=rows[::7].shape).astype(np.float32) * 0.3
    truth = np.sort(((queries[:, None] - rows[None]) ** 2).sum(2), 1)[:, 9]  # there are ties: distances decide
    found = cluster.search(queries, 10, recall=0.9)
    assert (found.distances <= truth[:, None] * (1 + 1e-3)).mean() >= 0.9
    assert 0 < found.stats.reranked < len(queries) * len(rows)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"q": np.zeros((1, 3))}, "3 dimensions, the index has 16"),
        ({"q": np.full((1, 16), np.nan)}, "not a finite number"),
        ({"k": 0}, "k must be"),
        ({"margin": 2}, "margin"),
        ({"rerank": 3, "k": 10}, "at least k=10"),
        ({"timeout": 0}, "timeout must be"),
        ({"filter": "year < 3"}, "filter must be a boolean mask"),
        ({"recall": 0.9, "rerank": 10}, "not both"),
    ],
)
def test_bad_searches(cluster, queries, arguments, message) -> None:
    given = {"q": queries} | arguments
    with pytest.raises(il.InputError, match=message):
        cluster.search(**given)


def test_bad_openings(built: Path, tmp_path: Path) -> None:
    import shutil

    with pytest.raises(FileNotFoundError, match="il.ray.build"):
        il.ray.open(tmp_path)
    with pytest.raises(il.InputError, match="groups must be 1 to 7"):
        il.ray.open(built, groups=8)
    with pytest.raises(il.InputError, match="replicas must be"):
        il.ray.open(built, replicas=0)
    shutil.copytree(built, tmp_path / "copy")
    (tmp_path / "copy" / "shard-00002.interlace").unlink()
    with pytest.raises(il.FileError, match=r"shard 2 .*missing"):
        il.ray.open(tmp_path / "copy", groups=1)
