"""The page of a watch in a real browser, wide and on a phone."""

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
    return folder


@pytest.mark.parametrize("width", [390, 1200])
def test_every_chart_names_snapshots_inside_the_page(address, visit, screens, width):
    sheet = visit(address / "watch.html", viewport={"width": width, "height": 800})
    sheet.wait_for_selector("html[data-charts=ready]", timeout=20_000)
    assert sheet.evaluate("document.documentElement.scrollWidth") <= width
    for name in ("accuracy", "temperature", "slope"):
        labels = sheet.locator(f"[data-chart={name}]").get_by_text("graph-2024-")
        shown = [labels.nth(k) for k in range(labels.count())]
        shown = [label for label in shown if label.get_attribute("opacity") != "0"]
        boxes = [box for box in (label.bounding_box() for label in shown) if box and box["width"]]
        assert boxes
        assert all(box["x"] >= 0 and box["x"] + box["width"] <= width for box in boxes)
    sheet.screenshot(path=screens / f"monitor-{width}.png", full_page=True)
