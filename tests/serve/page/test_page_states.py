"""What the page shows when there is nothing to show: no collections, no rows, no codes, no key, damage, no server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from page_helpers import VIEWS, build_words, tab
from serve_helpers import running, vectors

import interlace as il


def test_no_collections(chromium: Any, tmp_path: Path) -> None:
    with running(tmp_path) as found, tab(chromium, found.url) as one:
        page = one.open()
        assert page.inner_text("h1") == "No collections yet"
        assert found.url in page.inner_text("pre")
        assert page.locator("#collections").is_disabled()


def test_a_collection_without_rows(chromium: Any, tmp_path: Path) -> None:
    il.create(tmp_path / "empty", dim=3).close()
    with running(tmp_path) as found, tab(chromium, found.url) as one:
        for view in VIEWS:
            page = one.open(f"#/empty/{view}")
            assert "has no rows yet" in page.inner_text("main")


def test_a_collection_without_codes(chromium: Any, tmp_path: Path) -> None:
    with il.create(tmp_path / "young", dim=16) as store:
        store.add(vectors(300))
    with running(tmp_path) as found, tab(chromium, found.url) as one:
        for view in VIEWS:
            page = one.open(f"#/young/{view}?id=5&row=7")
            assert page.locator(".notice.bad").count() == 0, view
        page = one.open("#/young/overview")
        assert "learns codes by itself at 10,240 rows (now 300)" in page.inner_text("main")
        assert "no codes yet" in page.inner_text(".tiles")
        page = one.open("#/young/learned")
        assert "No codes yet" in page.inner_text("main")
        page = one.open("#/young/search?id=5")
        assert page.locator(".hit").count() == 10
        steps = page.locator(".funnel svg").get_attribute("aria-label")
        assert steps == "Funnel: Rows 300, then Compared 300, then Hits 10"  # there is no crude step without codes
        assert "Cells" not in page.inner_text(".funnel")


def test_a_damaged_collection_beside_a_good_one(chromium: Any, tmp_path: Path) -> None:
    build_words(tmp_path / "good", 600)
    build_words(tmp_path / "torn", 600)
    (tmp_path / "torn" / "MANIFEST.json").write_text("{")
    with running(tmp_path) as found, tab(chromium, found.url) as one:
        page = one.open("#/torn/search")
        assert page.inner_text("h1") == "torn cannot be served"
        assert "MANIFEST" in page.inner_text(".notice.bad")
        page.select_option("#collections", "good")
        page.wait_for_selector("#query-id")
        page.click("#random")
        page.wait_for_selector(".hit")


def test_an_unknown_collection(chromium: Any, tmp_path: Path) -> None:
    build_words(tmp_path / "good", 600)
    with running(tmp_path) as found, tab(chromium, found.url, "status of 404") as one:
        page = one.open("#/bad/search")
        assert "there is no collection 'bad'" in page.inner_text(".notice.bad")


def test_a_key_is_asked_for_and_kept_in_the_tab(chromium: Any, tmp_path: Path) -> None:
    build_words(tmp_path / "secret", 600)
    keys = {"full": "full-key-1", "read_only": "read-key-1"}
    with running(tmp_path, keys=keys) as found, tab(chromium, found.url, "status of 401") as one:
        page = one.open()
        assert page.inner_text("h1") == "An API key is needed"
        assert "secret" not in page.inner_text("body")
        assert page.evaluate("document.activeElement.id") == "api-key"
        page.fill("#api-key", "wrong-key-1")
        page.press("#api-key", "Enter")
        page.wait_for_selector("text=does not accept this key")
        page.fill("#api-key", "read-key-1")
        page.press("#api-key", "Enter")
        page.wait_for_selector(".tiles")
        for view in VIEWS:
            one.open(f"#/secret/{view}?id=word-1&row=word-2")
            assert page.locator(".notice.bad").count() == 0
        assert "read-key-1" not in page.url
        assert page.evaluate("JSON.stringify({...localStorage})").find("read-key-1") < 0
        page.click("#key")
        page.wait_for_selector("#api-key")
        assert page.evaluate("sessionStorage.length") == 0


def test_a_server_that_is_gone(chromium: Any, tmp_path: Path) -> None:
    build_words(tmp_path / "brief", 600)
    with running(tmp_path) as found:
        context = chromium.new_context()
        page = context.new_page()
        page.goto(f"{found.url}/#/brief/search")
        page.wait_for_selector("#query-id")
    page.click("#random")
    page.wait_for_selector(".problem:has-text('does not answer')")
    page.click("nav a[data-view=map]")
    page.wait_for_selector(".notice.bad:has-text('does not answer')")
    with running(tmp_path):
        assert page.locator("text=Try again").count() == 1
    context.close()


def test_ids_beyond_the_integers_of_javascript_stay_exact(chromium: Any, tmp_path: Path) -> None:
    with il.create(tmp_path / "large", dim=16) as store:
        store.add(vectors(20), [2**60 + 2 * i + 1 for i in range(20)])
    with running(tmp_path) as found, tab(chromium, found.url) as one:
        page = one.open(f"#/large/search?id={2**60 + 1}")
        assert page.locator(".hit").count() == 10
        assert all(int(text) % 2 for text in page.locator(".hit .name strong").all_inner_texts())
