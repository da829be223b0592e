"""Links of all Markdown pages lead to files and headings that exist; the checker of the site finds broken ones."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs" / "_ext"))

from check_site import problems  # noqa: E402
from repository import SHOWS, unlisted, with_site_links  # noqa: E402

PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "benchmarks").glob("*.md")),
    *sorted((ROOT / "experiments").glob("*.md")),
]
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def without_code(text: str) -> str:
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE))


def anchors(page: Path) -> set[str]:
    """Anchors of the headings as GitHub and MyST make them; a repeated one gets a number."""
    found: dict[str, int] = {}
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    for title in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        slug = re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")
        found[slug] = found.get(slug, 0) + 1
    return {slug if i == 0 else f"{slug}-{i}" for slug, n in found.items() for i in range(n)}


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for target in LINK.findall(without_code(page.read_text())):
        if "://" in target or target.startswith("mailto:"):
            continue
        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        shown = SHOWS.match(path.read_text()) if path.suffix == ".md" and path.exists() else None
        source = (path.parent / shown[1]).resolve() if shown else path
        if not path.exists() or not path.is_relative_to(ROOT) or (anchor and anchor not in anchors(source)):
            broken.append(target)
    assert broken == []


def test_pages_that_show_a_file_name_one_that_exists() -> None:
    shown = [(page, match[1]) for page in PAGES if (match := SHOWS.match(page.read_text()))]
    assert len(shown) >= 6
    assert [name for page, name in shown if not (page.parent / name).is_file()] == []


def test_links_are_made_for_the_site(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    (docs / "about").mkdir(parents=True)
    for name in ("CHANGES.md", "tool.py", "docs/store.md", "docs/changes.md", "chart.png"):
        (tmp_path / name).touch()
    shown = {tmp_path / "CHANGES.md": docs / "changes.md"}
    text = (
        "[a](docs/store.md#top) [b](CHANGES.md) [c](tool.py) [d](https://example.org/x.md) ![e](chart.png) [f](gone.md)"
    )
    made = with_site_links(text, tmp_path / "README.md", docs / "about" / "page.md", docs, shown)
    assert made == (
        "[a](../store.md#top) [b](../changes.md) `c` [d](https://example.org/x.md) ![e](../../chart.png) [f](gone.md)"
    )
    picture = f"![output](data:image/png;base64,{'A' * 5000})"  # longer than a file name may be
    assert with_site_links(picture, tmp_path / "README.md", docs / "page.md", docs, shown) == picture


def test_new_pages_find_a_section(tmp_path: Path) -> None:
    (tmp_path / "how").mkdir()
    (tmp_path / "index.md").write_text("```{toctree}\n:hidden:\n\nHow <how/index>\nfaq\n```\n")
    (tmp_path / "how" / "index.md").write_text("```{toctree}\n../old\n```\n")
    for name in ("faq", "old", "new"):
        (tmp_path / f"{name}.md").touch()
    assert unlisted(tmp_path) == ["new"]


def test_the_checker_of_the_site_finds_broken_links_and_other_hosts(tmp_path: Path) -> None:
    assert problems(tmp_path) == [f"{tmp_path}: no pages"]
    (tmp_path / "a.html").write_text(
        '<h1 id="top">A</h1><a href="b.html#there">b</a><a href="https://example.org">c</a>'
    )
    (tmp_path / "b.html").write_text('<p id="there"><a href="a.html#top">a</a> <a href="#there">here</a></p>')
    assert problems(tmp_path) == []
    (tmp_path / "b.html").write_text(
        '<a href="gone.html">x</a><a href="a.html#gone">y</a><img src="z.png">'
        '<script src="https://cdn.example/x.js"></script>'
    )
    found = "\n".join(problems(tmp_path))
    assert len(problems(tmp_path)) == 5, found  # and b.html#there of the first page
    assert all(part in found for part in ("gone.html", "a.html#gone", "cdn.example", "z.png", "b.html#there"))
