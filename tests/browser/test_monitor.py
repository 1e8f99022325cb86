"""The page of a watch in a real browser, wide and on a phone."""

import re
from dataclasses import replace

import pytest

from graphtemper.monitor import Entry, Standing
from graphtemper.monitor.change import Change
from graphtemper.monitor.drop import Drop
from graphtemper.monitor.log import Labelled
from graphtemper.monitor.page import render
from graphtemper.monitor.record import Scored

pytestmark = pytest.mark.nightly

pytest.importorskip("vl_convert")
pytest.importorskip("jinja2")


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    words = ["trust"] * 25 + ["abstain", "caution"] * 6 + ["abstain"]
    entries = [
        Entry(f"graph-2024-{k:02}.npz", "0", 400, 0.8, 0.7, 0.9, 0.9, 1.5, 0.7, word, ("why",), {})
        for k, word in enumerate(words)
    ]
    record = [
        Scored(Labelled(entry.name, k + 1, 400, 0.6 + 0.1 * k, 0.0, 0.1, 0.1), entry, entry)
        for k, entry in enumerate(entries[:3])
    ]
    standing = Standing(
        model="m",
        source=0.93,
        first=entries,
        answers=entries,
        record=record,
        changes=[Change(30, "accuracy", 200.0)],
        drops=[Drop(20, "accuracy<0.95", 0.95, 0.92, begins=True)],
        limits={"source": 0.93, "accuracy<0.95": 0.95},
        missed=[],
        false_alarms=0.01,
        false_drops=0.05,
        every=1,
    )
    folder = tmp_path_factory.mktemp("watch")
    (folder / "watch.html").write_text(render(standing), "utf-8")
    months = [f"{2024 + k // 12}-{k % 12 + 1:02}" for k in range(18)]
    dated = [replace(entry, when=when) for entry, when in zip(entries, months, strict=False)]
    record = [replace(one, first=dated[k], latest=dated[k]) for k, one in enumerate(record)]
    marks = {"record": record, "changes": [], "drops": []}
    page = render(replace(standing, first=dated, answers=dated, **marks))
    (folder / "dated.html").write_text(page, "utf-8")
    return folder.as_uri()


@pytest.fixture
def sheet(chromium, address, request):
    name, width = request.param if isinstance(request.param, tuple) else ("watch", request.param)
    page = chromium.new_page(viewport={"width": width, "height": 800})
    messages = []
    page.on("console", lambda message: messages.append(message.text))
    page.goto(f"{address}/{name}.html")
    page.wait_for_selector("html[data-charts=ready]", timeout=20_000)
    yield page
    assert messages == []
    page.close()


@pytest.mark.parametrize("sheet", [390, 700, 1200], indirect=True)
def test_every_chart_names_snapshots_inside_the_page(sheet):
    width = sheet.viewport_size["width"]
    for name in ("accuracy", "temperature", "slope"):
        labels = sheet.locator(f"[data-chart={name}]").get_by_text("graph-2024-")
        shown = [labels.nth(k) for k in range(labels.count())]
        shown = [label for label in shown if label.get_attribute("opacity") != "0"]
        boxes = [box for box in (label.bounding_box() for label in shown) if box and box["width"]]
        assert boxes
        assert all(box["x"] >= 0 and box["x"] + box["width"] <= width for box in boxes)


@pytest.mark.parametrize("sheet", [("dated", 390), ("dated", 1200)], indirect=True)
def test_dates_on_the_axis_are_those_of_snapshots_and_apart(sheet):
    for name in ("accuracy", "temperature", "slope"):
        labels = sheet.locator(f"[data-chart={name}]").get_by_text(re.compile(r"^202\d-\d\d$"))
        shown = [labels.nth(k) for k in range(labels.count())]
        shown = [label for label in shown if label.get_attribute("opacity") != "0"]
        assert len(shown) >= 3
        boxes = sorted((box["x"], box["width"]) for box in (one.bounding_box() for one in shown))
        ends = [left + width for left, width in boxes]
        assert all(end < left for end, (left, _) in zip(ends, boxes[1:], strict=False))


@pytest.mark.parametrize("sheet", [390], indirect=True)
def test_a_phone_shows_all_without_scrolling_sideways(sheet, screens):
    assert sheet.evaluate("document.documentElement.scrollWidth") <= 390
    wide = "[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth)"
    assert sheet.evaluate(f"{wide}.length") == 0
    tiles = [sheet.locator(".tile").nth(k).bounding_box() for k in range(4)]
    assert len({box["x"] for box in tiles}) == len({box["y"] for box in tiles}) == 2
    sheet.screenshot(path=screens / "monitor-phone.png", full_page=True)
