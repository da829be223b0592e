"""The files of the page without a browser: types, headers, syntax, links, nothing from elsewhere."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from itertools import product
from pathlib import Path

import httpx
import pytest
from serve_helpers import Running, running

from interlace.engine.margins import DEFAULT
from interlace.engine.recall import DEFAULT_RECALL
from interlace.serve.routes.page import PAGE, POLICY

FILES = sorted(path for path in PAGE.rglob("*") if path.is_file())
NAMES = [path.relative_to(PAGE).as_posix() for path in FILES]
SCRIPTS = [name for name in NAMES if name.endswith(".js")]
TYPES = {".js": "javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}


def test_the_page_is_installed() -> None:
    assert {"index.html", "app.js", "style.css", "icon.svg", "views/map.js"} <= set(NAMES)
    assert {Path(name).suffix for name in NAMES} <= TYPES.keys()


@pytest.mark.parametrize("name", NAMES)
def test_file_is_served_with_its_type_and_headers(served: Running, name: str) -> None:
    answer = httpx.get(f"{served.url}/page/{name}")
    assert answer.status_code == 200
    assert answer.content == (PAGE / name).read_bytes()
    assert TYPES[Path(name).suffix] in answer.headers["content-type"]
    assert answer.headers["content-security-policy"] == POLICY
    assert answer.headers["x-content-type-options"] == "nosniff"
    again = httpx.get(f"{served.url}/page/{name}", headers={"if-none-match": answer.headers["etag"]})
    assert again.status_code == 304


def test_browsers_get_the_page_and_programs_the_version(served: Running) -> None:
    page = httpx.get(served.url, headers={"accept": "text/html,*/*"})
    assert page.text == (PAGE / "index.html").read_text()
    assert page.headers["content-security-policy"] == POLICY
    assert "frame-ancestors 'none'" in POLICY
    assert "unsafe" not in POLICY
    assert httpx.get(served.url).json()["title"] == "interlace"


@pytest.mark.parametrize("keys", [{}, {"full": "full-key-1"}])
def test_every_file_that_a_browser_asks_for_is_there(tmp_path: Path, keys: dict[str, str]) -> None:
    """Those of the page and of the description of the API, and the icon that browsers look for by themselves."""
    with running(tmp_path, keys=keys) as found, httpx.Client(base_url=found.url) as client:
        asked, allowed = {"/favicon.ico"}, {"api-key": keys["full"]} if keys else {}
        for path in ("/", "/docs"):
            text = client.get(path, headers={"accept": "text/html", **allowed}).text
            linked = re.findall(r"<(?:link|script|img)[^>]* (?:src|href)=\"([^\"]+)\"", text)
            assert any(name.endswith("icon.svg") for name in linked), path  # or browsers look for another one
            asked.update(f"/{name}" for name in linked)
        assert len(asked) >= 5
        for path in asked:
            answer = client.get(path)
            assert answer.status_code == 200, path
            assert answer.headers["content-security-policy"] == POLICY
        assert client.get("/favicon.ico").headers["content-type"] == "image/svg+xml"


def test_only_files_of_the_page_are_served(served: Running) -> None:
    for name in ("../app.py", "%2e%2e/app.py", "views", "nothing.js", "views/../../app.py"):
        assert httpx.get(f"{served.url}/page/{name}").status_code in (400, 404)


def test_the_files_need_no_key_and_the_data_do(tmp_path: Path) -> None:
    with running(tmp_path, keys={"full": "full-key-1"}) as found:
        assert httpx.get(found.url, headers={"accept": "text/html"}).status_code == 200
        assert httpx.get(f"{found.url}/page/app.js").status_code == 200
        assert httpx.get(f"{found.url}/collections").status_code == 401


@pytest.mark.parametrize("name", SCRIPTS)
def test_script_parses(name: str) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    ran = subprocess.run(
        [node, "--input-type=module", "--check"], input=(PAGE / name).read_bytes(), capture_output=True, check=False
    )
    assert ran.returncode == 0, ran.stderr.decode()


def test_the_form_says_what_runs_by_default() -> None:
    """A margin alone is by code; without one, and without a re-rank, vectors that are kept decide."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    asked = [(None, "", ""), (None, "0.9", ""), *product(["float16"], ["", "0.9"], ["", "50"])]
    calls = f"console.log(JSON.stringify({json.dumps(asked)}.map((asked) => defaults(...asked))));"
    script = (PAGE / "query.js").read_text() + calls
    ran = subprocess.run([node, "--input-type=module"], input=script.encode(), capture_output=True, check=True)
    assert [(found["margin"], found["rerank"]) for found in json.loads(ran.stdout)] == [
        *[(f"{DEFAULT:g}", "no originals")] * 2,
        (f"recall {DEFAULT_RECALL:g}", "default"),
        (f"{DEFAULT:g}", "default"),
        (f"recall {DEFAULT_RECALL:g}", "none"),
        (f"{DEFAULT:g}", "none"),
    ]


@pytest.mark.parametrize("name", NAMES)
def test_nothing_comes_from_elsewhere(name: str) -> None:
    text = (PAGE / name).read_text()
    urls = set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"'`)]*", text))
    assert urls <= {"http://www.w3.org/2000/svg"}
    assert "@import" not in text
    assert not re.search(r"url\(", text)


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_script_parses_html_or_runs_text(name: str) -> None:
    text = (PAGE / name).read_text()
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "srcdoc"):
        assert word not in text
    assert 'setAttribute("style"' not in text  # the policy forbids it


def test_every_import_and_link_resolves() -> None:
    found = 0
    for name in SCRIPTS:
        for target in re.findall(r"from \"(\.[^\"]+)\"", (PAGE / name).read_text()):
            assert ((PAGE / name).parent / target).resolve().is_file(), (name, target)
            found += 1
    assert found > 20
    page = (PAGE / "index.html").read_text()
    links = re.findall(r"(?:src|href)=\"(page/[^\"]+)\"", page)
    assert len(links) >= 4
    for link in links:
        assert (PAGE.parent / link).is_file(), link


def test_every_export_is_used() -> None:
    texts = {name: (PAGE / name).read_text() for name in SCRIPTS}
    for name, text in texts.items():
        for export in re.findall(r"export (?:async )?(?:function|const|let|class) (\w+)", text):
            if export in ("title", "waiting", "render", "address"):
                continue  # of views, by name
            others = (other for key, other in texts.items() if key != name)
            uses = sum(len(re.findall(rf"\b{export}\b", other)) for other in others)
            assert uses or len(re.findall(rf"\b{export}\b", text)) > 1, (name, export)


def luminance(colour: str) -> float:
    digits = colour * 2 if len(colour) == 3 else colour
    parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_texts_have_enough_contrast_in_light_and_dark() -> None:
    blocks = re.findall(r"color-scheme: (?:light|dark);(.*?)}", (PAGE / "style.css").read_text(), re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        found = dict(re.findall(r"--([\w-]+): #([0-9a-f]{3,6});", block))
        for over in ("panel", "bg", "soft"):
            for text in ("ink", "muted", "blue"):
                bright, dark = sorted((luminance(found[text]), luminance(found[over])), reverse=True)
                assert (bright + 0.05) / (dark + 0.05) >= 4.5, (text, over)
        for text, over in (("on-main", "blue"), ("bad", "panel"), ("good", "panel"), ("ink", "bad-soft")):
            bright, dark = sorted((luminance(found[text]), luminance(found[over])), reverse=True)
            assert (bright + 0.05) / (dark + 0.05) >= 4.5, (text, over)
    assert blocks[1].split() == blocks[2].split()  # the dark colours, chosen by the system or by the reader


def test_there_are_no_long_files() -> None:
    for path in FILES:
        assert len(path.read_text().splitlines()) <= 400, path.name


def test_the_pictures_of_the_readme_are_there_and_small() -> None:
    root = Path(__file__).parents[3]
    pictures = re.findall(r"!\[[^]]+\]\((docs/images/[^)]+)\)", (root / "README.md").read_text())
    assert len(pictures) == 3
    for picture in pictures:
        assert (root / picture).stat().st_size < 200_000
        assert (root / picture).read_bytes().startswith(b"\x89PNG")
