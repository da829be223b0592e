"""The files of the page, with headers that keep a browser from running or loading anything else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles

PAGE = Path(__file__).parents[1] / "page"
#: Scripts, styles and requests of this server alone; images also as data, as payloads have them.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",  # files are compared by their ETag, so that a new version shows at once
}


class PageFiles(StaticFiles):
    """Everything below ``/page``."""

    def __init__(self) -> None:
        super().__init__(directory=PAGE)

    def file_response(self, *args: Any, **keywords: Any) -> Response:
        """As StaticFiles has it, with the headers."""
        found = super().file_response(*args, **keywords)
        found.headers.update(HEADERS)
        return found


def front() -> Response:
    """The page itself."""
    return FileResponse(PAGE / "index.html", headers=HEADERS)


def icon() -> Response:
    """The icon, where browsers look for one by themselves."""
    return FileResponse(PAGE / "icon.svg", headers=HEADERS)
