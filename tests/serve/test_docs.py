"""Every Python snippet of the pages about the server runs, against a server; what the pages list is there."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest
from serve_helpers import Running

from interlace.serve import RequestLimits

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "serve.md").read_text()
SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("number", range(len(SNIPPETS)))
def test_snippet_runs(served: Running, number: int, capsys: pytest.CaptureFixture[str]) -> None:
    code = SNIPPETS[number].replace("http://127.0.0.1:6333", served.url)
    if "qdrant_client" in code:
        pytest.importorskip("qdrant_client", reason="qdrant-client is not installed")
        # Without the thread that asks for the version of the server, which may be gone when it runs.
        code = code.replace("QdrantClient(", "QdrantClient(check_compatibility=False, ") + "\nclient.close()\n"
    exec(compile(code, f"serve.md:{number}", "exec"), {"__name__": "snippet"})
    assert ("Rivers" if "qdrant_client" in code else "ops per vector") in capsys.readouterr().out


def test_there_are_snippets() -> None:
    assert len(SNIPPETS) == 2


def test_the_page_lists_every_limit_with_its_default() -> None:
    for field in fields(RequestLimits):
        row = re.search(rf"^\| `{field.name}`.*$", PAGE, re.MULTILINE)
        assert row is not None, field.name
        assert f"{field.default:,g}" in row[0] or f"{field.default:,}" in row[0], row[0]


def test_the_page_lists_every_option_of_the_command() -> None:
    import argparse

    from interlace.cli import serve

    parser = argparse.ArgumentParser()
    serve.add_arguments(parser)
    options = [o for action in parser._actions for o in action.option_strings if o.startswith("--")]
    missing = [o for o in options if f"`{o}" not in PAGE and o not in ("--help", "--log-level")]
    assert missing == []
    assert len(options) > 10


def test_the_page_names_the_routes_that_only_this_server_has() -> None:
    """Those of Qdrant are a page of their own (test_qdrant_calls.py)."""
    for route in ("points/explain", "insight/", "store/{call}", "/metrics", "/readyz"):
        assert route in PAGE
