"""Pages of the site that are files of the repository, and links between the two.

A page with ``shows: ../CHANGELOG.md`` in its front matter gets the text of that file. Links to a file that has a page
lead to the page; links to other files of the repository become their names, because the site does not contain them.
The text of all pages stays readable in the repository, where the same links lead to the files.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^)\s#]+)(#[^)\s]*)?\)")
SHOWS = re.compile(r"\A---\nshows: (\S+)\n---\n")
#: Where root pages that no other section lists are listed.
REST = "<!-- pages of no other section -->"


def shown_files(docs: Path) -> dict[Path, Path]:
    """File of the repository -> the page that shows it."""
    found = ((page, SHOWS.match(page.read_text())) for page in docs.rglob("*.md"))
    return {(page.parent / match[1]).resolve(): page.resolve() for page, match in found if match}


def with_site_links(text: str, source: Path, page: Path, docs: Path, shown: dict[Path, Path]) -> str:
    """Text of the file source, with links that work in page."""

    def replaced(match: re.Match[str]) -> str:
        mark, label, target, anchor = match[1], match[2], match[3], match[4] or ""
        if "://" in target or target.startswith(("mailto:", "data:")):
            return match[0]
        path = (source.parent / target).resolve()
        if not path.exists():
            return match[0]
        if not mark and path.suffix == ".md" and (path in shown or path.is_relative_to(docs)):
            return f"[{label}]({os.path.relpath(shown.get(path, path), page.parent)}{anchor})"
        if mark or path.is_relative_to(docs):
            return f"{mark}[{label}]({os.path.relpath(path, page.parent)}{anchor})"
        return label if "`" in label else f"`{label}`"

    return LINK.sub(replaced, text)


def unlisted(docs: Path) -> list[str]:
    """Pages beside index.md that no toctree names."""
    listed = set()
    for page in docs.rglob("*.md"):
        for tree in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text(), re.DOTALL):
            names = [line.partition("<")[2].rstrip(">") or line for line in tree.splitlines() if line[:1] != ":"]
            listed |= {(page.parent / name.strip()).resolve() for name in names if name.strip()}
    return sorted(page.stem for page in docs.glob("*.md") if page.with_suffix("") not in {*listed, docs / "index"})


def read(app: Any, name: str, source: list[str]) -> None:
    docs = Path(app.srcdir).resolve()
    page, text = docs / f"{name}.md", source[0]
    shows = SHOWS.match(text)
    origin = (page.parent / shows[1]).resolve() if shows else page
    if shows:
        text = origin.read_text()
        app.env.note_dependency(str(origin))
    if REST in text:
        text = text.replace(REST, "\n".join(os.path.relpath(docs / rest, page.parent) for rest in unlisted(docs)))
    source[0] = with_site_links(text, origin, page, docs, shown_files(docs))


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
