"""The page with a collection of a million rows: every view answers, at desktop and phone width."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from page_helpers import VIEWS, build_million, tab
from serve_helpers import Running, running

pytestmark = pytest.mark.slow
ROWS = 1_000_000


@pytest.fixture(scope="module")
def million(chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server with the collection; not built where there is no browser."""
    folder = tmp_path_factory.mktemp("million")
    build_million(folder / "million", ROWS)
    with running(folder) as found:
        yield found


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (360, "dark")])
def test_every_view_answers(chromium: Any, million: Running, width: int, scheme: str) -> None:
    with tab(chromium, million.url, width=width, scheme=scheme) as found:  # no console errors, no other host
        for view in VIEWS:
            page = found.open(f"#/million/{view}?id=999999&row=5")
            assert page.locator(".notice.bad, .problem:visible").count() == 0, view
            assert page.locator("h1").count() == 1
            assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, view


def test_numbers_are_those_of_all_rows(chromium: Any, million: Running) -> None:
    with tab(chromium, million.url) as found:
        page = found.open("#/million/overview")
        assert "1,000,000" in page.inner_text(".tiles")
        page = found.open("#/million/search?id=999999&k=20")
        label = page.locator(".funnel svg").get_attribute("aria-label")
        numbers = [int(n.replace(",", "")) for n in re.findall(r"[\d,]*\d", label)]
        assert numbers[0] == ROWS
        assert numbers[-1] == 20
        assert numbers == sorted(numbers, reverse=True)
        assert numbers[1] < ROWS / 4  # cells: most rows are not read
        assert page.locator(".hit").count() == 20
        assert "999999" not in page.locator(".hit .name strong").all_inner_texts()
        page = found.open("#/million/map?id=999999")
        legend = page.inner_text(".legend")
        assert "hits (10)" in legend
        assert (
            sum(int(n.replace(",", "")) for n in re.findall(r"(?:scanned|visited|step) \(([\d,]+)\)", legend)) == 2_000
        )


def test_a_filter_and_a_row_that_is_not_found(chromium: Any, million: Running) -> None:
    with tab(chromium, million.url) as found:
        page = found.open("#/million/search?id=999999")
        page.click("text=Add a condition")
        page.select_option("[aria-label=Field]", "label")
        page.fill("[aria-label=Value]", "3")
        page.press("[aria-label=Value]", "Enter")
        page.wait_for_function("() => document.querySelector('.funnel')?.innerText.includes('Filter')")
        found.wait()
        assert all("label\n3" in text for text in page.locator(".hit .payload").all_inner_texts())
        assert page.locator(".hit").count() == 10
        page = found.open("#/million/why?id=999999&row=12345")
        assert re.search(r"Row 12345 (was lost|is found|is not among)", page.inner_text("#explained"))
        assert page.locator(".trail li").count() >= 2
