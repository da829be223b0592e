"""The HTTP server over a cluster: the routes of ``interlace serve``, in one process and as a deployment that scales."""

from __future__ import annotations

import json
import socket
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import interlace as il

pytest.importorskip("ray.exceptions", reason="the ray extra is not installed")
pytest.importorskip("fastapi", reason="the serve extra is not installed")
pytestmark = [
    pytest.mark.usefixtures("cluster_of_ray"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
KEY = "a key of more than eight characters".replace(" ", "-")


def call(url: str, body: Any = None, key: str | None = None, method: str | None = None) -> tuple[int, Any]:
    data = None if body is None else json.dumps(body).encode()
    headers = {"content-type": "application/json"} | ({} if key is None else {"api-key": key})
    request = urllib.request.Request(url, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=300) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def check_routes(url: str, one: il.Index, queries: np.ndarray) -> dict[str, Any]:
    """Every route of a server of the seven shards; returns the body of a query."""
    assert call(url)[1]["title"] == "interlace"
    assert call(f"{url}/collections")[0] == 401
    about = call(f"{url}/collections/shards", key=KEY)[1]["result"]
    assert about["points_count"] == 3000
    assert about["interlace"]["shards"] == 7
    assert about["config"]["optimizer_config"].keys() >= {"deleted_threshold", "vacuum_min_vector_number"}
    wanted = one.search(queries[0], 5, margin="exact", rerank=3000)
    body = {"query": queries[0].tolist(), "limit": 5, "params": {"exact": True, "rerank": 3000}, "with_stats": True}
    status, answer = call(f"{url}/collections/shards/points/query", body, KEY)
    assert status == 200, answer
    assert [point["id"] for point in answer["result"]["points"]] == wanted.ids.tolist()
    scores = [point["score"] for point in answer["result"]["points"]]
    assert np.allclose(scores, np.sqrt(wanted.distances))
    assert answer["stats"]["rows"] == 3000
    both = call(f"{url}/collections/shards/points/query/batch", {"searches": [body, body]}, KEY)[1]["result"]
    assert both == [answer["result"]] * 2
    why = {"query": queries[0].tolist(), "id": int(wanted.ids[0]), "limit": 5}
    assert call(f"{url}/collections/shards/points/explain", why, KEY)[1]["result"]["lost"] == "found"
    for params, reranked in (
        ({"exact": True}, 3000),
        ({"quantization": {"ignore": True}}, 3000),
        ({"quantization": {"rescore": False}}, 0),
        ({"quantization": {"oversampling": 1.0}}, 10),  # five of each group
        ({"rerank": 5}, 10),
    ):
        found = call(f"{url}/collections/shards/points/query", body | {"params": params}, KEY)[1]
        assert found["stats"]["reranked"] == reranked
        if reranked == 3000:
            assert found["result"] == answer["result"]
    assert (
        call(f"{url}/collections/shards/points/query", body | {"params": {"recall": 0.9, "rerank": 5}}, KEY)[0] == 400
    )
    assert call(f"{url}/collections/shards/points/query", body | {"offset": 9_996}, KEY)[0] == 422
    assert call(f"{url}/collections/other/points/query", body, KEY)[0] == 404
    assert call(f"{url}/collections/shards/points", {"points": []}, KEY, "PUT")[0] == 501
    assert call(f"{url}/collections/shards/points/query", body | {"filter": {}}, KEY)[0] == 422
    assert call(f"{url}/collections/shards/points/query", body | {"query": [1.0]}, KEY)[0] == 400
    return body


def test_routes(built: Path, one: il.Index, queries: np.ndarray) -> None:
    """By uvicorn in this process, as ``interlace serve --ray`` runs it."""
    import uvicorn

    from interlace.ray.web import cluster_app
    from interlace.serve import Keys

    port = free_port()
    with il.ray.open(built, groups=2, threads=1, timeout=300) as cluster:
        app = cluster_app(cluster, keys=Keys(read_only=KEY))
        server = uvicorn.Server(uvicorn.Config(app, port=port, log_config=None, ws="none"))
        thread = threading.Thread(target=server.run)
        thread.start()
        while not server.started:
            thread.join(0.05)
        check_routes(f"http://127.0.0.1:{port}", one, queries)
        server.should_exit = True
        thread.join()


def test_a_deployment_adds_replicas_under_load(built: Path, one: il.Index, queries: np.ndarray) -> None:
    from ray import serve

    from interlace.serve import Keys

    port = free_port()
    url = f"http://127.0.0.1:{port}"
    cluster = il.ray.open(built, groups=2, threads=1, timeout=300)
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    try:
        app = il.ray.deployment(
            cluster,
            max_replicas=2,
            target_ongoing_requests=1,
            autoscaling={"upscale_delay_s": 0.1, "metrics_interval_s": 0.2, "look_back_period_s": 0.5},
            cpus=0.1,
            app={"keys": Keys(read_only=KEY)},
        )
        serve.run(app, name="shards", route_prefix="/")

        def replicas() -> int:
            status = serve.status().applications["shards"].deployments["interlace-shards"]
            return sum(status.replica_states.values())

        assert replicas() == 1
        body = check_routes(url, one, queries)
        going = threading.Event()

        def load() -> None:
            while not going.is_set():
                call(f"{url}/collections/shards/points/query", body, KEY)

        clients = [threading.Thread(target=load) for _ in range(6)]
        for client in clients:
            client.start()
        for _ in range(1500):
            if replicas() == 2:
                break
            going.wait(0.2)
        going.set()
        for client in clients:
            client.join()
        assert replicas() == 2
    finally:
        serve.shutdown()
        cluster.close()
