"""The documentation site in a real browser: start page, explorer, search, phone."""

from pathlib import Path

import pytest

pytestmark = pytest.mark.nightly

SITE = Path(__file__).parents[2] / "docs" / "_build" / "html"


@pytest.fixture(scope="module")
def site():
    if not (SITE / "index.html").is_file():
        pytest.skip("the site is not built; run make docs")
    return SITE


def test_the_start_page_leads_to_the_explorer(site, visit, screens):
    sheet = visit(site / "index.html")
    assert sheet.title().startswith("graphtemper")
    assert sheet.locator("article img").first.evaluate("image => image.naturalWidth") > 500
    sheet.screenshot(path=screens / "docs-index.png")
    sheet.get_by_role("link", name="open the explorer").click()
    sheet.wait_for_selector("[data-reading=finite]")
    assert 0 < float(sheet.get_attribute("[data-reading=finite]", "data-value")) < 1


def test_search_finds_a_page(site, visit):
    sheet = visit(site / "search.html")
    sheet.goto((site / "search.html").as_uri() + "?q=homophily")
    sheet.wait_for_selector("ul.search li a")


def test_pages_fit_a_phone(site, visit):
    sheet = visit(site / "index.html", viewport={"width": 400, "height": 844})
    for name in ("index", "how_good", "theory/slope", "howto/decisions", "cli"):
        sheet.goto((site / f"{name}.html").as_uri())
        assert sheet.evaluate("document.documentElement.scrollWidth") <= 400, name
