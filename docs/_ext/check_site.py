"""Checks a built site: every link and anchor leads somewhere, and nothing is loaded from another host.

python docs/_ext/check_site.py build/docs
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """Ids, links and loaded files of one page."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attrs if value is not None}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag in ("script", "img", "iframe", "source") and "src" in given:
            self.loaded.append(given["src"])
        elif tag == "link" and "href" in given and given.get("rel") not in ("canonical", "search", "next", "prev"):
            self.loaded.append(given["href"])


def problems(folder: Path) -> list[str]:
    """One line for each broken link, anchor or file, and for each file of another host."""
    folder = folder.resolve()
    pages: dict[Path, Page] = {}
    for path in sorted(set(folder.rglob("*.html")) - set(folder.glob("_static/**/*"))):
        pages[path] = Page()
        pages[path].feed(path.read_text())
    found = [] if pages else [f"{folder}: no pages"]
    for path, page in pages.items():
        where = path.relative_to(folder)
        for target in (*page.links, *page.loaded):
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                if target in page.loaded and parts.scheme != "data":
                    found.append(f"{where}: loads {target}")
                continue
            to = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not to.exists():
                found.append(f"{where}: {target} does not exist")
            elif parts.fragment and to in pages and unquote(parts.fragment) not in pages[to].ids:
                found.append(f"{where}: {target} has no such anchor")
    return found


def main(folder: str) -> int:
    found = problems(Path(folder))
    print("\n".join(found) or f"{folder}: all links lead somewhere, and nothing is loaded from another host")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
