"""Aliases of collections, through the official client of Qdrant."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from serve_helpers import Running, running, vectors

import interlace as il

qdrant_client = pytest.importorskip("qdrant_client", reason="qdrant-client is not installed")
from qdrant_client import QdrantClient, models  # noqa: E402
from qdrant_client.http.exceptions import UnexpectedResponse  # noqa: E402

X = vectors(10)


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[QdrantClient, Running]]:
    """A server with the collections blue (points 0 to 4) and green (5 to 9)."""
    with running(tmp_path) as found:
        client = QdrantClient(url=found.url, check_compatibility=False, timeout=60)
        for name, first in (("blue", 0), ("green", 5)):
            config = models.VectorParams(size=16, distance=models.Distance.EUCLID)
            client.create_collection(name, vectors_config=config)
            client.upload_collection(name, X[first : first + 5], ids=list(range(first, first + 5)))
        yield client, found
        client.close()


def create(collection: str, alias: str) -> Any:
    return models.CreateAliasOperation(create_alias=models.CreateAlias(collection_name=collection, alias_name=alias))


def delete(alias: str) -> Any:
    return models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=alias))


def rename(old: str, new: str) -> Any:
    return models.RenameAliasOperation(rename_alias=models.RenameAlias(old_alias_name=old, new_alias_name=new))


def aliases(client: QdrantClient) -> dict[str, str]:
    return {each.alias_name: each.collection_name for each in client.get_aliases().aliases}


def test_an_alias_stands_for_a_collection_and_is_moved_in_one_step(two: tuple[QdrantClient, Running]) -> None:
    client, server = two
    assert not client.collection_exists("live")
    assert client.update_collection_aliases([create("blue", "live")])
    assert client.collection_exists("live")
    assert client.get_collection("live").points_count == 5
    assert {p.id for p in client.query_points("live", X[0].tolist(), limit=9).points} == {0, 1, 2, 3, 4}
    client.upsert("live", [models.PointStruct(id=77, vector=X[0].tolist())])
    assert client.count("blue").count == 6
    with il.connect(server.url) as found:
        assert len(found.open("live")) == 6
    client.update_collection_aliases([rename("live", "old"), create("green", "live")])
    assert aliases(client) == {"live": "green", "old": "blue"}
    assert [each.alias_name for each in client.get_collection_aliases("green").aliases] == ["live"]
    assert {p.id for p in client.scroll("live")[0]} == {5, 6, 7, 8, 9}
    client.update_collection_aliases([create("blue", "live"), delete("old")])
    assert aliases(client) == {"live": "blue"}
    assert [c.name for c in client.get_collections().collections] == ["blue", "green"]


@pytest.mark.parametrize(
    ("actions", "status", "message"),
    [
        ([create("blue", "live"), create("none", "x")], 404, "actions[1]: there is no collection 'none'"),
        ([create("blue", "green")], 409, "there is a collection 'green'"),
        ([create("blue", "live"), rename("live", "green")], 409, "there is a collection 'green'"),
        ([delete("none")], 404, "there is no alias 'none'"),
        ([rename("none", "x")], 404, "there is no alias 'none'"),
        ([create("blue", "a.b")], 422, "alias_name"),
        ([create("blue", "../x")], 422, "alias_name"),
    ],
)
def test_actions_that_are_refused_change_nothing(
    two: tuple[QdrantClient, Running], actions: list[Any], status: int, message: str
) -> None:
    client, _ = two
    with pytest.raises(UnexpectedResponse) as refused:
        client.update_collection_aliases(actions)
    assert refused.value.status_code == status
    assert message in refused.value.structured()["detail"]
    assert aliases(client) == {}
    two_actions = {"actions": [{"delete_alias": {"alias_name": "a"}, "create_alias": None}, {}]}
    answer = httpx.post(f"{two[1].url}/collections/aliases", json=two_actions)
    assert "exactly one of" in answer.json()["detail"]


def test_names_are_either_of_collections_or_aliases(two: tuple[QdrantClient, Running]) -> None:
    client, _ = two
    client.update_collection_aliases([create("blue", "live"), create("green", "other")])
    config = models.VectorParams(size=4, distance=models.Distance.DOT)
    with pytest.raises(UnexpectedResponse, match="is an alias of"):
        client.create_collection("live", vectors_config=config)
    assert not client.delete_collection("live")  # an alias does not delete its collection
    assert client.count("blue").count == 5
    client.delete_collection("blue")
    assert aliases(client) == {"other": "green"}
    assert not client.collection_exists("live")
    client.create_collection("live", vectors_config=config)


def test_aliases_survive_a_restart_and_a_damaged_file_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    il.create(tmp_path / "blue", dim=4).close()
    file = tmp_path / ".aliases.json"
    for first in (True, False):
        with (
            running(tmp_path) as found,
            contextlib.closing(QdrantClient(url=found.url, check_compatibility=False, timeout=60)) as client,
        ):
            if first:
                client.update_collection_aliases([create("blue", "live")])
            assert aliases(client) == {"live": "blue"}
    for text in ("{", '{"live": 3}', "[]"):
        file.write_text(text)
        caplog.clear()
        with (
            running(tmp_path) as found,
            contextlib.closing(QdrantClient(url=found.url, check_compatibility=False, timeout=60)) as client,
        ):
            assert not client.collection_exists("live")
            assert client.collection_exists("blue")
        assert ".aliases.json cannot be read" in caplog.text
        assert file.read_text() == text
