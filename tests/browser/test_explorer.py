"""The explorer in a real browser: sliders move the numbers, and the address sets them."""

import pytest

from graphtemper_research.explorer import grid
from graphtemper_research.explorer.page import NAMES, PRESETS, write_page

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("explorer") / "explorer.html"
    write_page(path)
    return path


def slope(sheet):
    return float(sheet.get_attribute("[data-reading=finite]", "data-value"))


@pytest.mark.cpu(30)
def test_presets_sliders_and_addresses_set_the_numbers(page, visit, screens):
    sheet = visit(page, viewport={"width": 390, "height": 844})
    title = "Fig. 5: the under-confident end"
    sheet.select_option("#preset", label=title)
    state = dict(zip(NAMES, PRESETS[title], strict=True))
    assert slope(sheet) == pytest.approx(grid.readings(**state)["finite"], abs=0.01)
    assert "under-confident" in sheet.inner_text("#verdict")
    before = slope(sheet)
    sheet.focus("#h_target")
    sheet.keyboard.press("ArrowLeft")
    assert slope(sheet) < before
    assert sheet.locator("svg path").count() > 10
    assert sheet.evaluate("document.documentElement.scrollWidth") <= 390
    sheet.screenshot(path=screens / "explorer-phone.png", full_page=True)
    other = visit(page)
    other.goto(f"{page.as_uri()}#h_target=0.3")
    other.reload()
    assert slope(other) < 0
    assert "zero crossing" in other.inner_text("#verdict")
