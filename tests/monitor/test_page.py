"""The page of a watch."""

import json
import re
from dataclasses import replace

import pytest

from graphtemper.monitor import Entry, Missed
from graphtemper.monitor.change import Change
from graphtemper.monitor.page import line_chart, render

ENTRY = Entry("d", "0", 10, 0.8, 0.7, 0.9, 0.9, 1.5, 0.7, "caution", ("why",), {})
ABSTAINED = replace(ENTRY, verdict="abstain", temperature=1.2345, slope=1.0)


def test_an_abstention_has_neither_temperature_nor_slope():
    page = render([ENTRY, ABSTAINED], [], "m", 0.01)
    assert "1.23" not in re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    log = json.loads(re.search(r'id="graphtemper-log">(.*?)</script>', page)[1])
    assert [row["slope"] for row in log["snapshots"]] == [0.7, None]
    assert [row["temperature"] for row in log["snapshots"]] == [1.5, None]
    (newest,) = re.findall(r"<tr>.*abstain.*</tr>", page)
    assert newest.count("–") == 2


def test_missing_values_leave_gaps():
    vl_convert = pytest.importorskip("vl_convert")

    def pieces(slopes):
        rows = [{"position": k + 1, "name": f"{k}", "slope": s} for k, s in enumerate(slopes)]
        drawn = vl_convert.vegalite_to_svg(line_chart(rows, [], "slope", "slope") | {"width": 300})
        (path,) = re.findall(r'aria-roledescription="line mark"[^>]* d="([^"]*)"', drawn) or (
            re.findall(r'class="mark-line[^>]*>\s*<path[^>]* d="([^"]*)"', drawn)
        )
        return path.count("M")

    assert pieces([0.5, 0.6, 0.7, 0.6, 0.5]) == 1
    assert pieces([0.5, 0.6, None, 0.6, 0.5]) == 2


def test_snapshots_are_named_under_the_lines():
    def named(names):
        rows = [{"position": k + 1, "name": name, "slope": 0.5} for k, name in enumerate(names)]
        (words,) = [
            layer
            for layer in line_chart(rows, [], "slope", "slope")["layer"]
            if layer["mark"]["type"] == "text"
        ]
        return [(row["position"], row["name"]) for row in words["data"]["values"]]

    short = named([f"d{k}" for k in range(40)])
    assert short[0] == (1, "d0")
    assert short[-1] == (40, "d39")
    assert len(short) > 4
    assert named([f"graph-2024-{k:02}.npz" for k in range(40)]) == [
        (1, "graph-2024-00.npz"),
        (40, "graph-2024-39.npz"),
    ]
    assert named(["alone"]) == [(1, "alone")]


def test_verdicts_are_counted():
    page = render([ENTRY] * 3 + [ABSTAINED], [], "m", 0.01)
    plain = " ".join(re.sub(r"<[^>]*>", "", page).split())
    assert "0 trust, 3 caution, 1 abstain" in plain


def test_names_from_files_are_escaped():
    bad = "<script>alert(1)</script>"
    entry = Entry(bad, "0", 10, 0.8, 0.7, 0.9, 0.9, 1.5, 0.7, "trust", (bad,), {bad: 1.0})
    page = render([entry], [Change(0, bad, 200.0)], bad, 0.01, [Missed(bad, bad)])
    assert bad not in page
    assert "&lt;script&gt;alert" in page


def test_a_long_log_stays_a_small_page():
    entries = [
        Entry(f"day {k}", "0", 10, 0.8, 0.7, 0.9, 0.9, 1.5, 0.7, "trust", (), {})
        for k in range(9000)
    ]
    page = render(entries, [Change(4321, "accuracy", 200.0)], "m", 0.01)
    assert len(page) < 2_500_000
    assert "day 4321" in page
    assert "of 9000 snapshots" in page
