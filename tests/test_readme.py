"""Every Python snippet of the documentation runs."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

import interlace as il

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
#: Pages that go on from one snippet to the next: they run as one. So do those of sections (folders).
CONTINUED = {"joint.md", "store.md"}


def snippets(page: Path) -> list[str]:
    found = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    return ["".join(found)] if found and (page.name in CONTINUED or page.parent.parent == DOCS) else found


#: Pages whose snippets need a server or a cluster: tests/serve and tests/ray run them.
SERVED = {"serve.md", "tutorials/serving.md", "tutorials/ray.md", "distributed.md"}
#: And those that need a framework: tests/integrations/test_frameworks_page.py.
FRAMEWORKS = {"frameworks.md"}
SNIPPETS = [
    (str(page.relative_to(DOCS if page.is_relative_to(DOCS) else ROOT)), i, code)
    for page in (ROOT / "README.md", *sorted(DOCS.rglob("*.md")))
    if str(page.relative_to(ROOT)).removeprefix("docs/") not in SERVED | FRAMEWORKS
    for i, code in enumerate(snippets(page))
]


@pytest.mark.parametrize(("page", "number", "code"), SNIPPETS, ids=[f"{page}-{i}" for page, i, _ in SNIPPETS])
def test_snippet_runs(page, number, code, tmp_path, monkeypatch, capsys):
    if "import interlace" not in code:
        pytest.skip("a reader that has its own test")
    if ".labels" in code or "pairs=" in code:
        pytest.importorskip("torch", reason="the train extra is not installed")
        # Threads of torch spin while they wait for each other: on a busy machine two take many times as long as one.
        monkeypatch.setattr("interlace.estimators.supervised.thread_count", lambda threads: 1)
    if "import faiss" in code:
        pytest.importorskip("faiss", reason="faiss is not installed")
    if "il.plot." in code:
        matplotlib = pytest.importorskip("matplotlib", reason="the plot extra is not installed")
        matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    exec(compile(code, f"{page}:{number}", "exec"), {"__name__": "snippet"})
    printed = capsys.readouterr().out
    if page == "README.md":
        assert readme_numbers(printed) <= set(re.findall(r"[\d.]+\d|\d+", (ROOT / page).read_text().split("```")[4]))


def readme_numbers(printed: str) -> set[str]:
    """What the text after the first example says of it."""
    found = {name: re.search(pattern, printed) for name, pattern in PRINTED.items()}
    assert all(found.values()), found
    number = {name: float(match[1]) for name, match in found.items() if match is not None}
    return {
        f"{number['code bytes']:.0f}",
        f"{number['scanned']:.0f}",
        f"{number['depth']:.0f}",
        f"{number['recall']:.2f}",
        f"{number['code recall']:.2f}",
    }


PRINTED = {
    "code bytes": r"n_bytes=(\d+)",
    "scanned": r"scanned ([\d.]+)%",
    "depth": r"after a re-rank of (\d+) rows",
    "recall": r"recall@10 +([\d.]+) after",
    "code recall": r"code recall@10 +([\d.]+)",
}


def test_the_guide_to_joint_learning_names_every_field_of_a_recipe():
    page = (ROOT / "docs" / "joint.md").read_text()
    missing = [f.name for f in dataclasses.fields(il.Recipe) if f.name != "name" and f"`{f.name}`" not in page]
    assert [name for name in missing if f"`Recipe({name}=" not in page] == []


def test_the_readme_has_a_snippet():
    assert any(page == "README.md" for page, _, _ in SNIPPETS)
