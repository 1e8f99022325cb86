"""The explorer in a real browser: sliders, keys, addresses, charts and simulated points."""

import re
import threading
from contextlib import contextmanager
from dataclasses import replace

import pytest

from graphtemper_research.explorer.presets import PRESETS
from graphtemper_research.explorer.readings import State, readings
from graphtemper_research.explorer.server import ExplorerServer
from graphtemper_research.explorer.simulate import simulate

pytestmark = pytest.mark.nightly

pytest.importorskip("vl_convert")
pytest.importorskip("jinja2")
expect = pytest.importorskip("playwright.sync_api").expect
DESKTOP = {"viewport": {"width": 1280, "height": 900}}
PHONE = {"viewport": {"width": 360, "height": 740}, "device_scale_factor": 2}
ADDRESS = "#h_s=0.8&h_t=0.65&snr=1&degree=20&gamma=0.5&K=3"
STATE = State(h_target=0.65, degree=20, gamma=0.5, num_classes=3)
SHOWN = """() => [...document.querySelectorAll("[data-reading]")]
    .map(place => [place.dataset.reading, place.dataset.value])"""
BRIGHTNESS = """selector => {
    const style = getComputedStyle(document.querySelector(selector));
    const value = selector === "body" ? style.backgroundColor : style.fill;
    return Math.max(...value.match(/\\d+/g).slice(0, 3).map(Number));
}"""


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    from graphtemper_research.explorer.page import write_page

    path = tmp_path_factory.mktemp("explorer") / "explorer.html"
    write_page(path)
    return path.as_uri()


@pytest.fixture(scope="module")
def served():
    from graphtemper_research.explorer.page import render

    with ExplorerServer(render(simulate=True)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.url
        server.shutdown()


@pytest.fixture
def visit(chromium, file):
    @contextmanager
    def inner(address="", at=file, expected=(), **options):
        context = chromium.new_context(**options)
        sheet = context.new_page()
        messages, requests = [], []
        sheet.on("console", lambda message: messages.append(message.text))
        sheet.on("pageerror", lambda error: messages.append(str(error)))
        sheet.on("request", lambda request: requests.append(request.url.split("#")[0]))
        sheet.goto(at + address)
        ready(sheet)
        yield sheet
        # Whatever the test did: no message on the console, no request but the expected ones.
        assert messages == []
        assert set(requests) == {at, *expected}
        context.close()

    return inner


def ready(sheet):
    sheet.wait_for_selector("html[data-numbers=ready]", timeout=30_000)


def assert_shows(sheet, state):
    """Compare every number on the page with Python's, to 1e-9."""
    ready(sheet)
    expected = readings(state) | {"class_zero_crossing": 1 / state.num_classes}
    values = sheet.evaluate(SHOWN)
    assert len({name for name, _ in values}) > 18
    for name, text in values:
        value = expected[name]
        if value is None:
            assert text == "", name
        else:
            assert float(text) == pytest.approx(value, rel=1e-9, abs=1e-9), name


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("desktop", DESKTOP),
        ("dark", DESKTOP | {"color_scheme": "dark"}),
        ("phone", PHONE),
        ("phone-dark", PHONE | {"color_scheme": "dark", "reduced_motion": "reduce"}),
    ],
)
def test_every_view_shows_every_chart(visit, screens, name, options):
    with visit(ADDRESS, **options) as sheet:
        width = options["viewport"]["width"]
        charts = sheet.locator("[data-chart]")
        assert charts.count() == 4
        for k in range(4):
            box = charts.nth(k).locator("svg").bounding_box()
            assert box["width"] > 200
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= width
        # Nothing has to be scrolled sideways.
        assert sheet.evaluate("document.documentElement.scrollWidth") <= width
        assert sheet.locator("#simulate").count() == 0
        dark = options.get("color_scheme") == "dark"
        assert (sheet.evaluate(BRIGHTNESS, "body") < 60) == dark
        label = "[data-chart=curve] .role-axis-label text"
        assert (sheet.evaluate(BRIGHTNESS, label) > 200) == dark
        sheet.screenshot(path=screens / f"explorer-{name}.png", full_page=True)


def test_the_address_restores_the_state_and_follows_it(visit):
    with visit(ADDRESS, **DESKTOP) as sheet:
        assert_shows(sheet, STATE)
        sheet.locator("#h_target").fill("0.55")
        sheet.wait_for_url(re.compile("h_t=0.55"))
        copy = sheet.url
        sheet.evaluate("location.hash = '#h_t=0.7&snr=x&degree=1e9&K=2.5'")
        # Values that no slider allows are left alone.
        expect(sheet.locator("#h_target")).to_have_value("0.7")
        assert_shows(sheet, replace(STATE, h_target=0.7))
    with visit("#" + copy.split("#")[1], **DESKTOP) as sheet:
        assert_shows(sheet, replace(STATE, h_target=0.55))


def test_keys_alone_move_the_sliders(visit):
    with visit(**DESKTOP) as sheet:
        sheet.keyboard.press("Tab")
        assert sheet.evaluate("document.activeElement.className") == "skip"
        reached = []
        for _ in range(16):
            sheet.keyboard.press("Tab")
            reached.append(sheet.evaluate("document.activeElement.id"))
        sliders = [f"{name}-slider" for name in ("h_source", "h_target", "snr", "degree", "gamma")]
        assert [name for name in reached if name in sliders] == sliders
        assert {"preset", "h_target", "num_classes", "copy", "reset"} <= set(reached)
        sheet.locator("#h_target-slider").focus()
        for _ in range(3):
            sheet.keyboard.press("ArrowRight")
        assert sheet.input_value("#h_target") == "0.63"
        sheet.locator("#snr-slider").focus()
        sheet.keyboard.press("PageUp")
        snr = float(sheet.input_value("#snr"))
        assert snr > 1
        assert sheet.get_attribute("#snr-slider", "aria-valuetext") == f"{snr:g}"
        sheet.locator("#gamma").focus()
        sheet.keyboard.press("ArrowUp")
        assert_shows(sheet, State(h_target=0.63, snr=snr, gamma=0.1))
        sheet.locator("#reset").focus()
        sheet.keyboard.press("Enter")
        assert_shows(sheet, State())


def test_presets_go_to_their_figures(visit, screens):
    with visit(**DESKTOP) as sheet:
        for preset in PRESETS:
            sheet.select_option("#preset", preset.name)
            assert sheet.text_content("#preset-note") == preset.note
            assert sheet.input_value("#preset") == preset.name
            assert float(sheet.input_value("#h_target")) == preset.state.h_target
        assert_shows(sheet, PRESETS[-1].state)
        sheet.select_option("#preset", "fig1")
        ready(sheet)
        sheet.screenshot(path=screens / "explorer-fig1.png")
        sheet.locator("#h_target").fill("0.6")
        assert sheet.input_value("#preset") == ""


def test_a_number_outside_is_named_and_not_used(visit):
    with visit(ADDRESS, **DESKTOP) as sheet:
        sheet.locator("#degree").fill("1000")
        assert sheet.get_attribute("#degree", "aria-invalid") == "true"
        assert "between 1 and 100" in sheet.text_content("#problem")
        assert_shows(sheet, STATE)
        sheet.locator("#degree").press("Tab")
        assert sheet.input_value("#degree") == "20"
        assert "1000 is not between 1 and 100; 20 is kept" in sheet.text_content("#problem")
        # One click resets, although the field was left in the same moment.
        sheet.locator("#degree").fill("1000")
        sheet.locator("#reset").click()
        assert sheet.input_value("#degree") == "25"
        assert sheet.text_content("#problem") == ""


def test_the_headline_follows_the_degree(visit):
    with visit(**DESKTOP) as sheet:
        for degree in ("25", "5"):
            sheet.locator("#degree").fill(degree)
            found = readings(State(degree=float(degree)))
            expect(sheet.locator("#verdict-sentence")).to_contain_text(f"At degree {degree} the")
            sentence = sheet.text_content("#verdict-sentence")
            assert f"dividing the logits by {found['finite_temperature']:.4f}" in sentence
            assert f"right {100 * found['finite_accuracy']:.1f} %" in sentence


def test_on_a_phone_the_curves_stay_in_view_of_the_sliders(visit):
    with visit(**PHONE) as sheet:
        slider = sheet.locator("#gamma-slider")
        slider.scroll_into_view_if_needed()
        sheet.evaluate("document.getElementById('gamma-slider').scrollIntoView({block: 'end'})")
        curve = sheet.locator("[data-chart=curve] svg").bounding_box()
        place = slider.bounding_box()
        assert curve["y"] >= 0
        assert curve["y"] + curve["height"] < place["y"]
        assert place["y"] + place["height"] <= PHONE["viewport"]["height"]


def test_the_verdict_is_said_once_the_sliders_rest(visit):
    with visit(**DESKTOP) as sheet:
        assert sheet.get_attribute("#spoken", "role") == "status"
        for h_target, word in (
            ("0.6", "Over-confident."),
            ("0.9", "Under-confident."),
            ("0.8", "Calibrated."),
            ("0.5", "No information left."),
            ("0.3", "Predictions point the wrong way."),
        ):
            sheet.locator("#h_target").fill(h_target)
            expect(sheet.locator("#verdict-word")).to_have_text(word)
            expect(sheet.locator("#spoken")).to_contain_text(word)
        sheet.locator("#h_source").fill("0.5")
        expect(sheet.locator("#verdict-word")).to_have_text("No calibration at the source.")
        assert_shows(sheet, State(h_source=0.5, h_target=0.3))


def test_simulated_points_lie_on_the_curve(visit, served, screens):
    expected = [f"{served}simulate"]
    points = "[data-chart=curve] .mark-symbol path"
    with visit(ADDRESS, at=served, expected=expected, **DESKTOP) as sheet:
        assert sheet.locator(points).count() == 0
        sheet.locator("#num_nodes").fill("2000")
        sheet.locator("#simulate").press("Enter")
        expect(sheet.locator("#simulated")).to_contain_text("Measured", timeout=30_000)
        measured = simulate(STATE, num_nodes=2000)
        assert f"1/T {measured['slope']:.3f}" in sheet.text_content("#simulated")
        assert sheet.locator(points).count() == len(measured["curve"])
        sheet.screenshot(path=screens / "explorer-simulated.png", full_page=True)
        # They belong to these settings.
        sheet.locator("#snr").fill("2")
        ready(sheet)
        assert sheet.locator(points).count() == 0


def test_a_refused_simulation_says_why(chromium, served):
    # Chromium itself notes a refused request on the console, so that is not looked at here.
    sheet = chromium.new_page()
    sheet.goto(f"{served}#degree=100")
    ready(sheet)
    sheet.locator("#num_nodes").fill("20000")
    sheet.locator("#simulate").click()
    expect(sheet.locator("#simulated")).to_contain_text("half edges; lower num_nodes")
    assert sheet.locator("#simulate").is_enabled()
    sheet.close()
