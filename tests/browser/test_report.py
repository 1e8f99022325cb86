"""The report in a real browser: charts, keyboard use, screen readers, printing."""

from contextlib import contextmanager
from itertools import pairwise

import pytest

pytestmark = pytest.mark.nightly

pytest.importorskip("vl_convert")
pytest.importorskip("jinja2")
VIEWS = {
    "desktop": {"viewport": {"width": 1200, "height": 900}},
    "dark": {"viewport": {"width": 1200, "height": 900}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 360, "height": 740}, "device_scale_factor": 2},
}


FOCUSED = "(e => e.id || e.getAttribute('aria-label') || e.tagName)(document.activeElement)"


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
def visit(chromium, folder):
    @contextmanager
    def inner(name, **options):
        context = chromium.new_context(**options)
        sheet = context.new_page()
        messages, requests = [], []
        sheet.on("console", lambda message: messages.append(message.text))
        sheet.on("pageerror", lambda error: messages.append(str(error)))
        sheet.on("request", lambda request: requests.append(request.url))
        address = (folder / f"{name}.html").as_uri()
        sheet.goto(address)
        if options.get("java_script_enabled", True):
            sheet.wait_for_selector("html[data-charts]", timeout=20_000)
            assert sheet.get_attribute("html", "data-charts") == "ready"
            unfold(sheet)
        yield sheet
        # Whatever the test did: no message on the console, no request.
        assert messages == []
        assert {url.split("#")[0] for url in requests} == {address}
        context.close()

    return inner


@pytest.mark.parametrize(
    ("name", "view"),
    [
        ("plain", "desktop"),
        ("labels", "desktop"),
        ("labels", "dark"),
        ("labels", "phone"),
        ("odd", "phone"),
    ],
)
def test_every_view_shows_every_chart(visit, screens, name, view):
    with visit(name, **VIEWS[view]) as sheet:
        charts = sheet.locator("[data-chart]")
        assert charts.count() == (7 if name == "labels" else 5)
        width = VIEWS[view]["viewport"]["width"]
        for box in (charts.nth(k).locator("svg").bounding_box() for k in range(charts.count())):
            assert box["width"] > 200
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= width
        # Nothing has to be scrolled sideways.
        assert sheet.evaluate("document.documentElement.scrollWidth") <= width
        sheet.screenshot(path=screens / f"report-{name}-{view}.png", full_page=True)


def test_dark_is_dark_and_its_charts_too(visit):
    brightness = """selector => {
        const style = getComputedStyle(document.querySelector(selector));
        const value = selector === "body" ? style.backgroundColor : style.fill;
        return Math.max(...value.match(/\\d+/g).slice(0, 3).map(Number));
    }"""
    with visit("plain", color_scheme="light") as sheet:
        assert sheet.evaluate(brightness, "body") > 240
        assert sheet.evaluate(brightness, "[data-chart=overview] .role-axis-label text") < 100
    with visit("plain", color_scheme="dark") as sheet:
        assert sheet.evaluate(brightness, "body") < 60
        assert sheet.evaluate(brightness, "[data-chart=overview] .role-axis-label text") > 200
        # Paper is white, whatever the screen was.
        sheet.emulate_media(media="print", color_scheme="dark")
        assert sheet.evaluate(brightness, "body") > 240
        assert sheet.evaluate(brightness, "[data-chart=overview] .role-axis-label text") < 100
        assert not sheet.locator("nav").is_visible()


def test_it_prints(visit, screens):
    with visit("labels", color_scheme="dark") as sheet:
        paper = sheet.pdf(format="A4", print_background=True)
        (screens / "report-labels.pdf").write_bytes(paper)
        assert paper.startswith(b"%PDF")
        sheet.set_viewport_size({"width": 700, "height": 900})
        sheet.emulate_media(media="print")
        assert sheet.evaluate("document.documentElement.scrollWidth") <= 700
        sheet.screenshot(path=screens / "report-labels-print.png", full_page=True)


def test_the_keyboard_reaches_everything(visit):
    with visit("plain", **VIEWS["desktop"]) as sheet:
        sheet.keyboard.press("Tab")
        assert sheet.evaluate("document.activeElement.className") == "skip"
        assert sheet.locator(".skip").bounding_box()["x"] >= 0
        sheet.keyboard.press("Enter")
        assert sheet.evaluate("document.activeElement.id") == "numbers"
        reached = []
        for _ in range(40):
            sheet.keyboard.press("Tab")
            reached.append(sheet.evaluate(FOCUSED))
        assert {"SUMMARY", "Nearest shifts"} <= set(reached)
        summary = sheet.locator("summary", has_text="Numbers of the histograms")
        summary.focus()
        sheet.keyboard.press("Enter")
        assert not sheet.locator("table", has_text="Nodes by confidence").is_visible()
        sheet.keyboard.press("Enter")
        assert sheet.locator("table", has_text="Nodes by confidence").is_visible()


def test_hovering_shows_the_details(visit):
    with visit("plain", **VIEWS["desktop"]) as sheet:
        sheet.locator("[data-chart=overview] .mark-symbol path").first.hover(force=True)
        tooltip = sheet.locator("#vg-tooltip-element")
        tooltip.wait_for(state="visible")
        assert "Value" in tooltip.text_content()


def test_strings_from_files_never_run(visit, screens):
    with visit("hostile", **VIEWS["phone"]) as sheet:
        assert sheet.evaluate("window.hacked === undefined")
        # A point of a class with a hostile name: its tooltip shows the text, not an element.
        tooltip = sheet.locator("#vg-tooltip-element")
        sheet.locator("[data-chart=classes] .mark-symbol path").first.hover(force=True)
        tooltip.wait_for(state="visible")
        assert "onerror" in tooltip.text_content()
        assert tooltip.locator("img, script").count() == 0
        assert sheet.locator("img").count() == 0
        assert sheet.evaluate("window.hacked === undefined")
        assert sheet.evaluate("document.documentElement.scrollWidth") <= 360
        sheet.screenshot(path=screens / "report-hostile-phone.png", full_page=True)


def test_screen_readers_get_an_outline_and_words_for_every_chart(visit):
    with visit("labels", **VIEWS["desktop"]) as sheet:
        outline = sheet.evaluate(
            "[...document.querySelectorAll('h1, h2, h3')].map(e => Number(e.tagName[1]))"
        )
        assert outline[0] == 1
        assert outline.count(1) == 1
        assert all(after - before <= 1 for before, after in pairwise(outline))
        labels = sheet.evaluate(
            "[...document.querySelectorAll('[role=img]')].map(e => e.getAttribute('aria-label'))"
        )
        assert len(labels) == 7
        assert all(len(text) > 30 for text in labels)
        for landmark in ("header", "nav", "main", "footer"):
            assert sheet.locator(landmark).count() == 1
        assert sheet.get_attribute("html", "lang") == "en"
        assert sheet.title().endswith("SIGN on February")
        unnamed = sheet.evaluate(
            "[...document.querySelectorAll('th')].filter(e => !e.hasAttribute('scope')).length"
        )
        assert unnamed == 0


def test_without_scripts_the_numbers_are_still_there(visit):
    with visit("plain", java_script_enabled=False, **VIEWS["desktop"]) as sheet:
        assert sheet.locator("h1").is_visible()
        assert sheet.locator("noscript").is_visible()
        assert sheet.locator("table", has_text="recalibrated confidence").is_visible()


def test_the_news_and_the_next_step_are_above_the_fold(visit):
    for name in ("plain", "odd"):
        with visit(name, viewport={"width": 1280, "height": 800}) as sheet:
            for selector in ("h1", "#next", "ol.steps li"):
                box = sheet.locator(selector).first.bounding_box()
                assert box["y"] + box["height"] < 800
