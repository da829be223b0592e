"""The snippets of the tutorial about serving run in order, against a server."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from serve_helpers import Running

PAGE = (Path(__file__).parents[2] / "docs" / "tutorials" / "serving.md").read_text()
SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_the_tutorial_runs(served: Running, capsys: pytest.CaptureFixture[str]) -> None:
    ours, qdrant = (code.replace("http://127.0.0.1:6333", served.url) for code in SNIPPETS)
    exec(compile(ours, "serving.md:0", "exec"), {"__name__": "snippet"})
    assert "ops per vector" in capsys.readouterr().out
    pytest.importorskip("qdrant_client", reason="qdrant-client is not installed")
    # Without the thread of the client that asks for the version of the server, which may be gone when it runs.
    qdrant = qdrant.replace("QdrantClient(", "QdrantClient(check_compatibility=False, ")
    exec(compile(qdrant + "\nclient.close()\n", "serving.md:1", "exec"), {"__name__": "snippet"})
    hits = capsys.readouterr().out
    years = [int(year) for year in re.findall(r", (\d{4})\)", hits)]
    assert len(years) == 3
    assert min(years) >= 2020
