"""The notebooks run; what they store is the output of their cells; the site shows text, code and outputs."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).parents[2]
PICTURE = "picture"
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
SPEC = importlib.util.spec_from_file_location("run_notebooks", ROOT / "scripts" / "notebooks.py")
assert SPEC is not None
run_notebooks = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(run_notebooks)
sys.path.insert(0, str(ROOT / "docs" / "_ext"))

from notebooks import as_markdown  # noqa: E402


def outputs(cell: Any) -> list[str]:
    """The kind of each output; for text, the text without its numbers, which may differ on other machines.

    A busy kernel sends what a cell prints in several parts, which may end within a number: they are joined first.
    """
    found: list[str] = []
    for kind, parts in groupby(cell.get("outputs", []), key=lambda output: output["output_type"]):
        if kind == "stream":
            text = "".join("".join(part["text"]) for part in parts)
            found.append(re.sub(r"[\d.,]+(?:e[+-]?\d+)?%?|\s+|-", "", text))
        else:
            found += [PICTURE for _ in parts]
    return found


def as_streams(text: str, places: list[int]) -> list[dict[str, Any]]:
    """Standard output in the parts that end at these places."""
    ends = sorted({*(place for place in places if 0 < place < len(text)), len(text)})
    return [
        {"output_type": "stream", "name": "stdout", "text": [text[start:end]]}
        for start, end in zip([0, *ends], ends, strict=False)
    ]


@given(
    texts=st.lists(st.text("recall 0.95e-7\n", min_size=1, max_size=30), max_size=3),
    places=st.lists(st.integers(1, 29), max_size=6),
)
def test_outputs_are_the_same_in_any_number_of_parts(texts: list[str], places: list[int]) -> None:
    picture = {"output_type": "display_data", "data": {"image/png": "AAAA"}}
    cell = {"outputs": [each for text in texts for each in (*as_streams(text, places), picture)]}
    assert outputs(cell) == outputs({"outputs": [each for text in texts for each in (*as_streams(text, []), picture)]})
    assert outputs(cell).count(PICTURE) == len(texts)


def test_there_are_four() -> None:
    assert len(NOTEBOOKS) >= 4


@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_stored_outputs_are_complete_and_small(path: Path) -> None:
    text = path.read_text()
    cells = json.loads(text)["cells"]
    assert len(text) <= run_notebooks.MOST_BYTES
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))  # one run, from top to bottom
    kinds = {output["output_type"] for cell in code for output in cell["outputs"]}
    assert kinds == {"stream", "display_data"}  # no errors
    assert not any(output.get("name") == "stderr" for cell in code for output in cell["outputs"])
    assert sum(PICTURE in outputs(cell) for cell in code) >= 2
    assert not re.search(r"/(?:tmp|home|root|work)/", text)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
@pytest.mark.filterwarnings("ignore")  # of the packages of Jupyter
def test_notebook_runs_and_stores_what_it_prints(path: Path) -> None:
    pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    pytest.importorskip("matplotlib", reason="the plot extra is not installed")
    if ".fit(x, labels)" in path.read_text():
        pytest.importorskip("torch", reason="the train extra is not installed")
    stored = json.loads(path.read_text())["cells"]
    made = run_notebooks.executed(path).cells
    assert [cell["source"] for cell in made] == ["".join(cell["source"]) for cell in stored]
    for now, before in zip(made, stored, strict=True):
        assert outputs(now) == outputs(before), "run make notebooks"


@pytest.mark.filterwarnings("ignore")  # of the packages of Jupyter
def test_a_cell_that_fails_is_an_error(tmp_path: Path) -> None:
    client = pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    path = tmp_path / "wrong.ipynb"
    cell = {"cell_type": "code", "execution_count": None, "id": "a", "metadata": {}, "outputs": [], "source": "1 / 0"}
    path.write_text(json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    with pytest.raises(client.exceptions.CellExecutionError, match="ZeroDivisionError"):
        run_notebooks.executed(path)


def test_links_of_notebooks_lead_to_files() -> None:
    for path in NOTEBOOKS:
        text = as_markdown(path.read_text())
        targets = [t for t in re.findall(r"\]\(([^)\s#]+)\)", text) if not t.startswith("data:")]
        assert targets
        assert [target for target in targets if not (path.parent / target).exists()] == []


def test_notebooks_become_pages() -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "Text."]},
        {
            "cell_type": "code",
            "source": ["print('```')"],
            "outputs": [
                {"output_type": "stream", "name": "stdout", "text": ["```\n"]},
                {"output_type": "display_data", "data": {"image/png": "AAAA\nBBBB\n"}},
            ],
        },
    ]
    page = as_markdown(json.dumps({"cells": cells}))
    assert page == (
        "# Title\nText.\n\n````python\nprint('```')\n````\n\n````text\n```\n````\n\n"
        "![output](data:image/png;base64,AAAABBBB)\n"
    )
