"""Serve a cluster over HTTP: as a deployment of Ray Serve, or by one process with uvicorn."""

from __future__ import annotations

import contextlib
from os import PathLike
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from .cluster import Cluster
from .manifest import ShardManifest
from .opening import open
from .scaling import Scaling
from .web import cluster_app


class Front:
    """One replica of the deployment: it takes requests and asks the actors that hold the shards."""

    def __init__(self, cluster: Cluster, name: str, options: dict[str, Any]) -> None:
        self._app = cluster_app(cluster, name, **options)

    async def __call__(self, request: Request) -> Response:
        """Serve one request by the ASGI application."""
        status, headers, parts = 500, [], []

        async def send(message: Any) -> None:
            nonlocal status, headers
            if message["type"] == "http.response.start":
                status, headers = message["status"], message.get("headers", [])
            elif message["type"] == "http.response.body":
                parts.append(message.get("body", b""))

        await self._app(request.scope, request.receive, send)
        response = Response(b"".join(parts), status)
        response.raw_headers = [pair for pair in headers if pair[0].lower() != b"content-length"] + [
            (b"content-length", str(sum(map(len, parts))).encode())
        ]
        return response


def deployment(
    manifest: str | PathLike[str] | ShardManifest | Cluster,
    *,
    name: str = "shards",
    min_replicas: int = 1,
    max_replicas: int = 4,
    target_ongoing_requests: float = 8.0,
    max_ongoing_requests: int = 64,
    autoscaling: dict[str, Any] | None = None,
    cpus: float = 0.5,
    app: dict[str, Any] | None = None,
    replicas: int = 1,
    groups: int | None = None,
    threads: int | None = None,
    timeout: float = 30.0,
    address: str | None = None,
    cache: str | None = None,
    scaling: Scaling | int | None = None,
) -> Any:
    """An application for ``ray.serve.run``: the query routes of ``interlace serve`` over the shards of a manifest.

    ``name`` is the collection that it serves. Ray adds a replica of the HTTP part when more than
    ``target_ongoing_requests`` wait for each, and removes it when they are idle; ``autoscaling`` has further fields of
    Ray's ``AutoscalingConfig``. ``app`` has ``keys`` and ``limits`` of the server. The arguments from
    ``replicas`` on are those of :func:`interlace.ray.open`, for the actors that hold the shards: ``scaling`` adds
    replicas of these by the calls that all HTTP replicas together have waiting. They end with this process, or with
    ``close()`` of a cluster that is passed in place of a manifest.
    """
    from ray import serve

    if isinstance(manifest, Cluster):
        cluster = manifest
    else:
        cluster = open(
            manifest,
            replicas=replicas,
            groups=groups,
            threads=threads,
            timeout=timeout,
            address=address,
            cache=cache,
            scaling=scaling,
        )
    config = {
        "min_replicas": min_replicas,
        "max_replicas": max_replicas,
        "target_ongoing_requests": target_ongoing_requests,
    }
    made = serve.deployment(
        name=f"interlace-{name}",
        autoscaling_config=config | (autoscaling or {}),
        max_ongoing_requests=max_ongoing_requests,
        ray_actor_options={"num_cpus": cpus},
    )(Front)
    return made.bind(cluster, name, {"insecure": True} | (app or {}))


def run_server(cluster: Cluster, name: str, *, host: str, port: int, grace: float, **options: Any) -> bool:
    """Serve a cluster by this process until SIGINT or SIGTERM; whether it could start."""
    import uvicorn

    config = uvicorn.Config(
        cluster_app(cluster, name, host=host, **options),
        host=host,
        port=port,
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        timeout_graceful_shutdown=int(grace),
    )
    server = uvicorn.Server(config)
    with contextlib.suppress(
        SystemExit, KeyboardInterrupt
    ):  # uvicorn has ended, then Ray's handler sees the signal too
        server.run()
    return bool(server.started)
