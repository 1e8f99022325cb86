"""The documentation site in a real browser: start page, phone, dark mode, explorer, search."""

from pathlib import Path

import pytest

pytestmark = pytest.mark.nightly

SITE = Path(__file__).parents[2] / "docs" / "_build" / "html"
DESKTOP = {"viewport": {"width": 1280, "height": 900}}
PHONE = {"viewport": {"width": 390, "height": 844}}
PAGES = (
    "index",
    "install",
    "how_good",
    "method",
    "gallery/index",
    "gallery/generated/few_labels",
    "start/pyg_model",
    "theory/slope",
    "theory/equations",
    "api/index",
)


@pytest.fixture
def visit(chromium):
    """Open a page, and check that it prints no message and makes no network request."""
    contexts = []
    messages, requests = [], []

    def inner(name, **options):
        if not (SITE / "index.html").is_file():
            pytest.skip("the site is not built; run make docs")
        context = chromium.new_context(**options)
        contexts.append(context)
        sheet = context.new_page()
        sheet.on("console", lambda message: messages.append(message.text))
        sheet.on("pageerror", lambda error: messages.append(str(error)))
        sheet.on("request", lambda request: requests.append(request.url))
        sheet.goto((SITE / f"{name}.html").as_uri())
        return sheet

    yield inner
    for context in contexts:
        context.close()
    assert messages == []
    assert [url for url in requests if not url.startswith(("file:", "data:"))] == []


@pytest.mark.parametrize("name", PAGES)
def test_pages_fit_a_phone(visit, name, screens):
    sheet = visit(name, **PHONE)
    assert sheet.evaluate("document.documentElement.scrollWidth") <= 390
    sheet.screenshot(path=screens / f"docs-{name.replace('/', '-')}-phone.png")


def test_start_page(visit, screens):
    sheet = visit("index", **DESKTOP)
    assert sheet.title().startswith("graphtemper")
    for words in ("I have a PyG model", "I have logits on disk", "I am reading the paper"):
        assert sheet.get_by_role("link", name=words).first.is_visible()
    width = sheet.locator("figure img").evaluate("image => image.naturalWidth")
    assert width > 500
    sheet.screenshot(path=screens / "docs-index.png")


def test_the_explorer_is_one_click_away(visit):
    sheet = visit("index", **DESKTOP)
    sheet.get_by_role("link", name="open the explorer").click()
    sheet.wait_for_selector("[data-reading=slope]")
    assert sheet.url.partition("#")[0].endswith("/explore.html")
    assert float(sheet.get_attribute("[data-reading=slope]", "data-value")) > 0


def test_dark_pages_are_dark(visit, screens):
    sheet = visit("theory/slope", color_scheme="dark", **DESKTOP)
    colour = sheet.evaluate("getComputedStyle(document.body).backgroundColor")
    assert max(int(part) for part in colour[4:-1].split(",")) < 80
    sheet.screenshot(path=screens / "docs-theory-slope-dark.png")


def test_search_finds_a_page(visit):
    sheet = visit("search", **DESKTOP)
    sheet.goto((SITE / "search.html").as_uri() + "?q=homophily")
    sheet.wait_for_selector("ul.search li a")
