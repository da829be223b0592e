"""The table of Qdrant's REST calls in docs/qdrant.md is that of the server, and has every call of Qdrant's client."""

from __future__ import annotations

import inspect
import pkgutil
import re
from importlib import import_module, metadata
from pathlib import Path

import httpx
import pytest
from serve_helpers import Running

from interlace.serve.routes.service import QDRANT_API

PAGE = (Path(__file__).parents[2] / "docs" / "qdrant.md").read_text()
ROWS = re.findall(r"^\| `(GET|POST|PUT|PATCH|DELETE) (/[^`]*)` \| (\w+) \|.*\|$", PAGE, re.MULTILINE)
#: What the server has beside Qdrant's calls.
OWN = re.compile(r"/collections/{}/(insight/.*|store/{}|points/explain)|/openapi.json|/docs")


def unnamed(path: str) -> str:
    """A path without the names of its parameters."""
    return re.sub(r"{[^}]*}", "{}", path)


CALLS = {(method, unnamed(path)): answer for method, path, answer in ROWS}


def test_every_row_is_a_call_with_an_answer() -> None:
    assert len(ROWS) == len(CALLS) == PAGE.count("\n| `")
    assert set(CALLS.values()) == {"yes", "partly", "no"}


def test_calls_that_are_supported_are_the_routes_of_the_server(served: Running) -> None:
    paths = httpx.get(f"{served.url}/openapi.json").json()["paths"]
    routes = {(method.upper(), unnamed(path)) for path, item in paths.items() for method in item}
    qdrant = {(method, path) for method, path in routes if not OWN.fullmatch(path)}
    assert qdrant == {call for call, answer in CALLS.items() if answer != "no"}
    assert len(routes) > len(qdrant)


@pytest.mark.parametrize("call", [call for call, answer in CALLS.items() if answer == "no"], ids=" ".join)
def test_calls_that_are_not_supported_are_named(served: Running, call: tuple[str, str]) -> None:
    method, path = call
    answer = httpx.request(method, served.url + path.replace("{}", "x"))
    assert (answer.status_code, answer.json()["code"]) == (501, "unsupported")
    assert f"{method} /{path.split('/')[1]}" in answer.json()["status"]["error"]


def test_the_table_has_every_call_of_the_client() -> None:
    api = pytest.importorskip("qdrant_client.http.api", reason="qdrant-client is not installed")
    ours, installed = (
        tuple(map(int, version.split(".")[:2])) for version in (QDRANT_API, metadata.version("qdrant-client"))
    )
    if installed > ours:
        pytest.skip(f"the routes follow {QDRANT_API}, and a newer client is installed")
    found = set[tuple[str, str]]()
    for module in pkgutil.iter_modules(api.__path__):
        source = inspect.getsource(import_module(f"{api.__name__}.{module.name}"))
        found |= set(re.findall(r'method="(\w+)",\s+url="([^"]+)"', source))
    calls = {(method, unnamed(path)) for method, path in found}
    assert len(calls) > 50
    assert calls - CALLS.keys() == set()
