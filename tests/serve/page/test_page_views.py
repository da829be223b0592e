"""Every view of the page in a real browser: what it shows, with mouse and keyboard, at phone and desktop width."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest
from page_helpers import HOSTILE, VIEWS, build_shapes, build_words, tab
from serve_helpers import Running, running, vectors

import interlace as il

#: Controls and pictures that a screen reader cannot name.
NAMELESS = """
() => [...document.querySelectorAll('button, input, select, textarea, canvas, svg[role=img], img, meter')]
  .filter((e) => !(e.textContent.trim() || e.getAttribute('aria-label') || e.labels?.length || e.hasAttribute('alt')))
  .map((e) => e.outerHTML)
"""


@pytest.fixture(scope="module")
def shown(chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("views")
    build_shapes(folder / "shapes")
    build_words(folder / "words")
    with running(folder) as found:
        yield found


@pytest.fixture
def open_tab(chromium: Any, shown: Running) -> Iterator[Any]:
    with tab(chromium, shown.url) as found:
        yield found


def text_of(page: Any, selector: str) -> str:
    return str(page.locator(selector).first.inner_text())


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("name", ["shapes", "words"])
def test_every_view_fits_and_names_its_controls(
    chromium: Any, shown: Running, name: str, width: int, scheme: str
) -> None:
    first = {"shapes": "100", "words": "word-0"}[name]
    with tab(chromium, shown.url, width=width, scheme=scheme) as found:
        for view in VIEWS:
            page = found.open(f"#/{name}/{view}?id={first}")
            assert page.locator("h1").count() == 1
            assert page.locator("nav [aria-current]").get_attribute("data-view") == view
            assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, view
            nameless = page.evaluate(NAMELESS)
            assert nameless == []
            ids = page.evaluate("[...document.querySelectorAll('[id]')].map((e) => e.id)")
            assert len(ids) == len(set(ids))
            background = page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (int(re.findall(r"\d+", background)[0]) < 60) == (scheme == "dark")


def test_overview(open_tab: Any) -> None:
    page = open_tab.open("#/shapes/overview")
    tiles = text_of(page, ".tiles")
    assert "3,000" in tiles
    assert "Euclidean" in tiles
    assert "smaller than float32 with the original vectors" in tiles
    assert "label" in tiles
    assert "Codes" in text_of(page, "section:has(h2:text('Bytes by part'))")
    assert page.locator("section:has(h2:text('Bytes by part')) svg rect").count() >= 4
    assert "Calibration" in text_of(page, "section:has(h2:text('Health'))")
    assert page.locator("section:has(h2:text('Recall by bytes')) circle").count() == 4
    page.select_option("#collections", "words")
    page.wait_for_function("() => document.querySelector('h1').textContent === 'words'")
    assert "cosine" in text_of(page, ".tiles")


def test_search_by_id_with_a_filter(open_tab: Any, shown: Running) -> None:
    page = open_tab.open("#/shapes/search")
    page.fill("#query-id", "100")
    page.fill("#query-k", "6")
    page.click("text=Add a condition")
    page.select_option("[aria-label=Field]", "label")
    page.fill("[aria-label=Value]", "3")
    page.press("[aria-label=Value]", "Enter")
    page.wait_for_selector(".hit")
    open_tab.wait()
    wanted = httpx.post(
        f"{shown.url}/collections/shapes/points/query",
        json={"query": 100, "limit": 6, "filter": {"must": [{"key": "label", "match": {"value": 3}}]}},
    ).json()["result"]["points"]
    assert page.locator(".hit .name strong").all_inner_texts() == [str(hit["id"]) for hit in wanted]
    assert all("label\n3" in text for text in page.locator(".hit .payload").all_inner_texts())
    assert page.locator(".hit img").count() == 6
    assert page.evaluate("[...document.querySelectorAll('.hit img')].every((i) => i.naturalWidth === 6)")
    assert "score" in text_of(page, ".hit")
    assert "id=100" in page.url
    assert "filter" in page.url
    page.click(".hit >> nth=0 >> text=Search from here")
    page.wait_for_function(f"() => location.hash.includes('id={wanted[0]['id']}')")
    open_tab.wait()
    assert page.input_value("#query-id") == str(wanted[0]["id"])


def test_payload_stays_text(open_tab: Any) -> None:
    page = open_tab.open("#/shapes/search?id=101&k=20")
    shown = page.locator(".payload").all_inner_texts()
    assert any(HOSTILE in text for text in shown)
    assert page.locator(".payload b, .payload img").count() == 0
    assert "broken in" not in page.title()


def test_search_by_a_random_row_and_by_a_pasted_vector(open_tab: Any, shown: Running) -> None:
    page = open_tab.open("#/shapes/search")
    page.click("#random")
    page.wait_for_selector(".hit")
    open_tab.wait()
    assert page.locator(".hit").count() == 10
    page.click("text=Paste a vector")
    page.fill("#query-vector", "1 2 3")
    page.click("#go")
    assert "must have 16 numbers" in text_of(page, ".problem")
    page.fill("#query-vector", "1, two")
    page.click("#go")
    assert "not a number: two" in text_of(page, ".problem")
    vector = vectors(3_000, 16)[7]
    page.fill("#query-vector", "[" + ", ".join(map(str, vector.tolist())) + "]")
    page.click("#go")
    page.wait_for_function("() => document.querySelector('.hit strong')?.textContent === '107'")
    assert page.locator(".problem").is_hidden()


def test_an_unknown_row_and_a_bad_filter_are_named(chromium: Any, shown: Running) -> None:
    with tab(chromium, shown.url, "status of 404", "status of 400") as found:
        page = found.open("#/shapes/search?id=99999999")
        assert "99999999" in text_of(page, ".notice.bad")
        page.fill("#query-id", "100")
        page.click("text=As JSON")
        page.fill("[aria-label='Filter as JSON']", "{")
        page.click("#go")
        assert "not valid JSON" in text_of(page, ".problem")
        page.fill("[aria-label='Filter as JSON']", '{"must": [{"key": "colour", "match": {"value": 1}}]}')
        page.click("#go")
        page.wait_for_selector(".notice.bad:has-text('colour')")


def test_the_funnel_narrows_and_has_times(open_tab: Any, shown: Running) -> None:
    page = open_tab.open("#/shapes/search?id=100&rerank=50")
    wanted = httpx.post(
        f"{shown.url}/collections/shapes/insight/funnel", json={"query": 100, "limit": 10, "params": {"rerank": 50}}
    ).json()["result"]["steps"]
    label = page.locator(".funnel svg").get_attribute("aria-label")
    numbers = [int(n.replace(",", "")) for n in re.findall(r"[\d,]*\d", label)]
    assert numbers == [wanted[key] for key in ("rows", "scanned", "survivors", "reranked", "hits")]
    assert numbers == sorted(numbers, reverse=True)
    steps = page.locator(".funnel tbody tr").all_inner_texts()
    assert f"{wanted['cells_visited']} of {wanted['cells']}" in steps[1]
    assert sum("µs" in step or "ms" in step for step in steps) == 2
    widths = page.eval_on_selector_all(".funnel rect", "all => all.map((e) => Number(e.getAttribute('width')))")
    assert widths == sorted(widths, reverse=True)


def test_the_margin_moves_along_the_curve_with_the_keyboard(open_tab: Any, shown: Running) -> None:
    page = open_tab.open("#/shapes/margin")
    curve = httpx.get(f"{shown.url}/collections/shapes/insight/margins", timeout=60).json()["result"]["margins"]
    page.focus("#margin-slider")
    page.keyboard.press("End")
    assert text_of(page, "output") == "all rows"
    assert text_of(page, "section:has(h2:text('Agreement')) .figure") == "100.0 %"
    most = text_of(page, "section:has(h2:text('Operations')) .figure")
    page.keyboard.press("Home")
    assert text_of(page, "output") == "0.5"
    least = text_of(page, "section:has(h2:text('Operations')) .figure")
    assert float(least) == pytest.approx(curve[0]["ops_per_vector"], rel=0.01)
    assert float(least) < float(most)
    assert page.locator("section:has(h2:text('Recall')) circle").count() == len(curve)
    page.keyboard.press("ArrowRight")
    assert page.get_attribute("#margin-slider", "aria-valuetext") == "0.8"
    page.click("text=Search with this margin")
    page.wait_for_selector("#query-margin")
    assert page.input_value("#query-margin") == "0.8"


def inked(page: Any, box: str = "") -> int:
    """Different colours on the map."""
    found: int = page.evaluate(
        """() => { const c = document.querySelector('canvas'); const d = c.getContext('2d')
          .getImageData(0, 0, c.width, c.height).data; const s = new Set();
          for (let i = 0; i < d.length; i += 4) if (d[i + 3] > 250) s.add(d[i] * 65536 + d[i + 1] * 256 + d[i + 2]);
          return s.size; }"""
    )
    return found


def test_the_map_is_drawn_and_can_be_walked(open_tab: Any) -> None:
    page = open_tab.open("#/shapes/map")
    page.wait_for_timeout(100)
    before = inked(page)
    legend = text_of(page, ".legend")
    assert "rows of the sample (2,000)" in legend
    page.focus("canvas")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowUp")
    page.wait_for_selector(".readout strong")
    row = text_of(page, ".readout strong").removeprefix("Row ")
    page.keyboard.press("Enter")
    page.wait_for_function(f"() => location.hash.includes('id={row}')")
    page.wait_for_selector("text=Hits on the map")
    open_tab.wait()
    page.wait_for_timeout(100)
    assert inked(page) > before
    legend = text_of(page, ".legend")
    for part in ("survivors of the crude step", "in cells that were visited", "hits (10)", "query (1)"):
        assert part in legend
    page.click("[aria-label='Zoom in']")
    page.click("text=Whole map")
    page.click(".short button >> nth=0")
    page.wait_for_function(f"() => !location.hash.includes('id={row}&') && !location.hash.endsWith('id={row}')")


def test_why_not_this_row(open_tab: Any, shown: Running) -> None:
    query = {"query": 100, "limit": 5}
    hits = httpx.post(f"{shown.url}/collections/shapes/points/query", json=query).json()["result"]["points"]
    page = open_tab.open(f"#/shapes/why?id=100&k=5&row={hits[4]['id']}")
    assert f"Row {hits[4]['id']} is found" in text_of(page, "#explained")
    assert "hit 5 of 5" in text_of(page, "#explained")
    snapshot = il.open(shown.folder / "shapes").snapshot
    vector = snapshot.get(100, originals=True)
    far = int(snapshot.ids[((snapshot.get(snapshot.ids, originals=True) - vector) ** 2).sum(1).argmax()])
    page.fill("#row", str(far))
    page.press("#row", "Enter")
    page.wait_for_selector(".stopped")
    assert f"Row {far} is not among the 5 nearest" in text_of(page, "#explained")
    assert page.locator(".trail li").count() == page.locator(".passed").count() + 1
    told = []
    for i in np.random.default_rng(0).choice(snapshot.ids, 12):
        page.fill("#row", str(i))
        page.press("#row", "Enter")
        page.wait_for_function(f"() => document.querySelector('#explained strong')?.textContent.startsWith('Row {i} ')")
        told.append(text_of(page, "#explained strong"))
    assert all(re.search("was lost|is found|is not among the 5 nearest", text) for text in told)
    page.goto(f"{shown.url}/#/shapes/why?id=100&k=5&margin=exact&rerank=0&row={far}")
    page.wait_for_selector(".stopped")


def test_codes(open_tab: Any, shown: Running) -> None:
    page = open_tab.open("#/shapes/learned")
    found = httpx.get(f"{shown.url}/collections/shapes/insight/learned").json()["result"]
    assert page.locator("section:has(h2:text('Variances')) rect").count() == 16
    assert page.locator("section:has(h2:text('Variances')) rect.first").count() == sum(found["psi"])
    assert page.locator("section:has(h2:text('Prior')) path").count() == 2
    assert page.locator("section:has(h2:text('Books')) tbody tr").count() == len(found["books"])
    each = "all of which" if found["n_crude"] == len(found["books"]) else f"of which search reads {found['n_crude']}"
    assert each in text_of(page, ".lead")


def test_the_keyboard_reaches_the_content_and_the_colours(open_tab: Any) -> None:
    page = open_tab.open("#/shapes/overview")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.click("#theme")
    page.click("#theme")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    open_tab.open("#/shapes/search")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.go_back()
    open_tab.wait()


def test_many_rows(chromium: Any, tmp_path: Any) -> None:
    x = vectors(100_000, 32)
    index = il.Index.build(x, n_bytes=4, layout="hybrid", effort="fastest", iterations=2, max_train_rows=5_000)
    il.create(tmp_path / "many", index).close()
    with running(tmp_path) as found, tab(chromium, found.url) as one:
        for view in VIEWS:
            page = one.open(f"#/many/{view}?id=99999&row=5")
            assert page.locator(".notice.bad").count() == 0
        page = one.open("#/many/search?id=99999")
        assert "Rows 100,000," in page.locator(".funnel svg").get_attribute("aria-label")
        assert page.locator(".hit").count() == 10
