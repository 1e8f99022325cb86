"""The documentation site in a real browser: start page, phone, dark mode, explorer, search."""

from pathlib import Path

import pytest

pytestmark = pytest.mark.nightly

SITE = Path(__file__).parents[2] / "docs" / "_build" / "html"
DESKTOP = {"viewport": {"width": 1280, "height": 900}}
PHONE = {"viewport": {"width": 390, "height": 844}}
PHONE_WIDTH, LONGEST = 400, 5000
# Pages that are programs or made by Sphinx.
OTHERS = {"explore", "leaderboard", "search", "404"}


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


@pytest.mark.cpu(120)
def test_every_page_fits_a_phone_and_is_short(visit):
    desktop = visit("index", viewport={"width": 1200, "height": 900})
    phone = visit("index", viewport={"width": PHONE_WIDTH, "height": 844})
    wide, long = {}, {}
    names = [str(path.relative_to(SITE).with_suffix("")) for path in sorted(SITE.rglob("*.html"))]
    names = [name for name in names if name not in OTHERS and not name.startswith("_")]
    assert len(names) > 60
    for name in names:
        address = (SITE / f"{name}.html").as_uri()
        for sheet in (phone, desktop):
            sheet.goto(address, wait_until="load")
        width = phone.evaluate("document.documentElement.scrollWidth")
        height = desktop.evaluate("document.documentElement.scrollHeight")
        wide |= {name: width} if width > PHONE_WIDTH else {}
        long |= {name: height} if height > LONGEST else {}
    assert wide == {}
    assert long == {}


def test_a_link_opens_what_is_folded(visit):
    sheet = visit("index", **DESKTOP)
    sheet.goto((SITE / "api/generated/graphtemper.metrics.html").as_uri())
    parts = sheet.locator("article details")
    assert parts.count() > 3
    assert parts.first.evaluate("part => !part.open")
    parts.first.locator("summary").click()
    assert parts.first.evaluate("part => part.open && part.scrollHeight > 150")


def test_start_page(visit, screens):
    sheet = visit("index", **DESKTOP)
    assert sheet.title().startswith("graphtemper")
    for words in ("I have a PyG model", "I have logits on disk", "I am reading the paper"):
        assert sheet.get_by_role("link", name=words).first.is_visible()
    width = sheet.locator("article img").first.evaluate("image => image.naturalWidth")
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
