"""The report in a real browser: its charts, hostile names, and no scripts at all."""

import pytest

pytestmark = pytest.mark.nightly

pytest.importorskip("vl_convert")
pytest.importorskip("jinja2")
VIEWS = {
    "desktop": {"viewport": {"width": 1200, "height": 900}},
    "dark": {"viewport": {"width": 1200, "height": 900}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 360, "height": 740}, "device_scale_factor": 2},
}


@pytest.fixture(scope="module")
def folder(reported, tmp_path_factory):
    place = tmp_path_factory.mktemp("reports")
    for name in ("plain", "labels", "odd", "hostile"):
        reported[name].report(place / f"{name}.html")
    return place


def unfold(sheet):
    """Open every folded part; its charts are drawn then."""
    sheet.evaluate("document.querySelectorAll('details').forEach(part => { part.open = true; })")
    sheet.wait_for_function(
        "[...document.querySelectorAll('[data-chart]')].every(e => e.querySelector('svg'))"
    )


@pytest.fixture
def read(visit, folder):
    """Open a report with all its parts unfolded."""

    def open_report(name, **options):
        sheet = visit(folder / f"{name}.html", **options)
        if options.get("java_script_enabled", True):
            sheet.wait_for_selector("html[data-charts=ready]", timeout=20_000)
            unfold(sheet)
        return sheet

    return open_report


@pytest.mark.parametrize(
    ("name", "view"),
    [
        ("plain", "desktop"),
        ("labels", "dark"),
        ("labels", "phone"),
        ("odd", "phone"),
    ],
)
def test_every_view_shows_every_chart(read, screens, name, view):
    sheet = read(name, **VIEWS[view])
    charts = sheet.locator("[data-chart]")
    assert charts.count() == (5 if name == "labels" else 3)
    width = VIEWS[view]["viewport"]["width"]
    for box in (charts.nth(k).locator("svg").bounding_box() for k in range(charts.count())):
        assert box["width"] > 200
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
    # Nothing has to be scrolled sideways.
    assert sheet.evaluate("document.documentElement.scrollWidth") <= width
    sheet.screenshot(path=screens / f"report-{name}-{view}.png", full_page=True)


def test_strings_from_files_never_run(read, screens):
    sheet = read("hostile", **VIEWS["phone"])
    assert sheet.locator("img").count() == 0
    assert sheet.evaluate("window.hacked === undefined")
    assert sheet.evaluate("document.documentElement.scrollWidth") <= 360
    sheet.screenshot(path=screens / "report-hostile-phone.png", full_page=True)


def test_without_scripts_the_numbers_are_still_there(read):
    sheet = read("plain", java_script_enabled=False, **VIEWS["desktop"])
    assert sheet.locator("h1").is_visible()
    assert sheet.locator("noscript").is_visible()
    assert sheet.locator("table", has_text="recalibrated confidence").is_visible()
