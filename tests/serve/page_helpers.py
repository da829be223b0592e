"""Collections for the page, and a browser that notices errors and requests to other hosts."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import numpy as np
import pytest
from serve_helpers import vectors

import interlace as il
from interlace.cli.demo_store import data_url

FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
VIEWS = ("overview", "search", "margin", "map", "why", "learned")
#: Text that would run or load something if the page took it for HTML.
HOSTILE = "<img src=x onerror=\"document.title='broken in'\"><b>bold</b>"


def build_shapes(path: Path, rows: int = 3_000) -> Any:
    """Integer ids from 100 on, kept originals, a label to filter by, images and hostile text; returns the vectors."""
    x = vectors(rows, 16)
    index = il.Index.build(
        x,
        ids=np.arange(rows) + 100,
        n_bytes=4,
        layout="hybrid",
        effort="fastest",
        originals="float16",
        progress=None,
    )
    rng = np.random.default_rng(0)
    images = [data_url(rng.integers(0, 255, (6, 6)).astype(np.uint8)) for _ in range(8)]
    payload = [{"label": i % 5, "image": images[i % 8], "text": HOSTILE if i % 2 else f"row {i}"} for i in range(rows)]
    columns = {"label": "int64", "image": "string", "text": "string"}
    il.create(path, index, columns=columns, payload=payload).close()
    return x


def build_words(path: Path, rows: int = 1_500) -> None:
    """String ids, cosine, no originals, no payload."""
    index = il.Index.build(
        vectors(rows, 24, seed=1),
        ids=[f"word-{i}" for i in range(rows)],
        n_bytes=4,
        metric="cosine",
        layout="residual",
        effort="fastest",
        progress=None,
    )
    il.create(path, index).close()


def build_million(path: Path, rows: int = 1_000_000) -> None:
    """Many rows and many cells, built in about a minute of one core."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(200, 16)).astype(np.float32)
    x = centres[rng.integers(0, 200, rows)] + 0.3 * rng.standard_normal((rows, 16), np.float32)
    index = il.Index.build(
        x,
        n_bytes=4,
        layout="hybrid",
        effort="fastest",
        iterations=2,
        max_train_rows=20_000,
        originals="int8",
        progress=None,
    )
    il.create(path, index, columns={"label": "int64"}, payload={"label": np.arange(rows) % 10}).close()


@contextlib.contextmanager
def browser() -> Iterator[Any]:
    """Chromium, driven by Playwright; the test is skipped where one of them is missing."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        pytest.skip("there is no Chromium on this machine")
    with playwright.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=program, args=list(FLAGS))
        try:
            yield found
        finally:
            found.close()


class Tab:
    """A page of the browser; what it logs as an error, and where it sends requests."""

    def __init__(self, context: Any, url: str) -> None:
        self.url, self.page = url, context.new_page()
        self.errors: list[str] = []
        self.hosts: set[str] = set()
        self.page.set_default_timeout(30_000)
        self.page.on(
            "console", lambda message: message.type in ("error", "warning") and self.errors.append(message.text)
        )
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self.hosts.add(urlparse(request.url).netloc))

    def open(self, hash: str = "#/") -> Any:
        """Go to an address and wait for its view."""
        self.page.goto(f"{self.url}/{hash}")
        if "#" in hash:  # the same document: the address alone does not load it again
            self.page.reload()
        self.wait()
        return self.page

    def wait(self) -> None:
        """Until nothing is being loaded."""
        self.page.wait_for_function(
            "() => !document.querySelector('[aria-busy], .waiting') && document.querySelector('main').children.length"
        )

    def check(self, *expected: str) -> None:
        """No errors but the expected ones, and no other host."""
        assert [error for error in self.errors if not any(part in error for part in expected)] == []
        assert self.hosts <= {urlparse(self.url).netloc, ""}, self.hosts


@contextlib.contextmanager
def tab(browser: Any, url: str, *expected: str, width: int = 1280, scheme: str = "light") -> Iterator[Tab]:
    """A tab of its own session; checked at the end."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    try:
        found = Tab(context, url)
        yield found
        found.check(*expected)
    finally:
        context.close()
