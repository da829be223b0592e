"""Snapshots: a copy of the files of a collection in one tar file, taken between two writes."""

from __future__ import annotations

import contextlib
import datetime
import functools
import hashlib
import json
import os
import re
import secrets
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import FileResponse, Response

from ..collections.catalog import SNAPSHOTS
from ..collections.collection import Collection
from ..gate.endpoint import Routes, accepted, ok
from ..problems import ProblemDetails
from ..requests.parameters import Parameters
from ..work.service import Service

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,200}\.tar")


def add(routes: Routes, service: Service) -> None:
    """Add the routes."""
    root = service.catalog.root / SNAPSHOTS

    async def carried_out(request: Request, function: Callable[..., Any], *args: Any) -> Response:
        """The result of a write; with ``wait=false`` the answer does not wait for it."""
        wait = Parameters.of(request.query_params).wait
        writing = service.write(service.collection(request), function, *args, limited=False)
        if wait:
            return ok(request, json.dumps(await writing))
        service.work.begin(writing)
        return accepted(request)

    async def create_snapshot(request: Request) -> Response:
        """Copy a collection; the answer comes when the copy is on disk, with wait=false at once."""
        found = service.collection(request)
        return await carried_out(request, _taken, found, root / found.name)

    async def list_snapshots(request: Request) -> Response:
        """Snapshots of a collection."""
        found = service.collection(request)
        return ok(request, json.dumps(await service.read(found, _listed, root / found.name)))

    async def get_snapshot(request: Request) -> Response:
        """Download a snapshot."""
        path = _path(request)
        return FileResponse(path, media_type="application/x-tar", stat_result=path.stat())

    async def delete_snapshot(request: Request) -> Response:
        """Delete a snapshot."""
        return await carried_out(request, _deleted, _path(request))

    def _path(request: Request) -> Path:
        name = request.path_params["snapshot"]
        path: Path = root / service.collection(request).name / name
        if not _NAME.fullmatch(name) or not path.is_file():
            raise _unknown(name)
        return path

    of = "/collections/{name}/snapshots"
    routes.add("POST", of, create_snapshot, query=["wait"])
    routes.add("GET", of, list_snapshots, reads=True)
    routes.add("GET", of + "/{snapshot}", get_snapshot, reads=True, produces="application/x-tar")
    routes.add("DELETE", of + "/{snapshot}", delete_snapshot, query=["wait"])


def _taken(found: Collection, folder: Path) -> dict[str, Any]:
    """Write the tar file under another name, sync it, rename it."""
    folder.mkdir(parents=True, exist_ok=True)
    now = datetime.datetime.now(datetime.timezone.utc)
    path = folder / f"{found.name}-{now:%Y-%m-%d-%H-%M-%S}-{secrets.token_hex(3)}.tar"
    unfinished = path.with_suffix(".tmp")
    source = Path(found.store.path)
    try:
        with found.store.batch(), open(unfinished, "wb") as file:  # nothing is written to the store meanwhile
            with tarfile.open(fileobj=file, mode="w") as tar:
                for each in sorted(source.iterdir()):
                    if each.is_file() and each.name != "LOCK":
                        tar.add(each, f"{found.name}/{each.name}", recursive=False)
            file.flush()
            os.fsync(file.fileno())
        os.rename(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
    return _described(path)


def _deleted(path: Path) -> bool:
    try:
        path.unlink()
    except FileNotFoundError:  # another request was faster
        raise _unknown(path.name) from None
    return True


def _unknown(name: str) -> ProblemDetails:
    return ProblemDetails(404, "unknown_snapshot", f"there is no snapshot {name!r:.140}")


def _listed(folder: Path) -> list[dict[str, Any]]:
    found = []
    for path in sorted(folder.glob("*.tar")):
        with contextlib.suppress(FileNotFoundError):  # it was deleted meanwhile
            found.append(_described(path))
    return found


def _described(path: Path) -> dict[str, Any]:
    status = path.stat()
    made = datetime.datetime.fromtimestamp(status.st_mtime, datetime.timezone.utc)
    return {
        "name": path.name,
        "creation_time": f"{made:%Y-%m-%dT%H:%M:%S}",
        "size": status.st_size,
        "checksum": _digest(path, status.st_mtime_ns),
    }


@functools.lru_cache(1024)
def _digest(path: Path, changed: int) -> str | None:
    """Of the whole file, which is not written to after it has its name."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() if hasattr(hashlib, "file_digest") else None
