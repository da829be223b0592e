"""Notebooks as pages of the site: their text, code and stored outputs become Markdown. Nothing is run."""

from __future__ import annotations

import json
import os
import re
from typing import Any


def fenced(text: str, language: str) -> str:
    """A block of code that may contain fences itself."""
    longest = max((len(run) for run in re.findall("`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def shown(output: dict[str, Any]) -> str:
    """One output of a cell: a picture, or text."""
    data = output.get("data", {})
    if "image/png" in data:
        return f"![output](data:image/png;base64,{''.join(data['image/png'].split())})"
    text = output.get("text", data.get("text/plain", ""))
    return fenced("".join(text), "text")


def as_markdown(notebook: str) -> str:
    """The cells of a notebook, in order."""
    parts = []
    for cell in json.loads(notebook)["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        else:
            parts += [fenced(source, "python"), *map(shown, cell["outputs"])]
    return "\n\n".join(parts) + "\n"


def read(app: Any, name: str, source: list[str]) -> None:
    if os.fspath(app.env.doc2path(name)).endswith(".ipynb"):
        source[0] = as_markdown(source[0])


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", read, priority=400)  # before the links are made
    return {"parallel_read_safe": True, "parallel_write_safe": True}
