"""The page of a watch, and its words on a terminal."""

import json
import re
from dataclasses import replace

from graphtemper.cli.monitor_output import Run, print_outcome
from graphtemper.monitor import Entry
from graphtemper.monitor.change import Change
from graphtemper.monitor.drop import Drop
from graphtemper.monitor.log import Labelled, Missed
from graphtemper.monitor.page import render
from graphtemper.monitor.record import Scored
from graphtemper.monitor.watch import LateLabels

ENTRY = Entry("d", "0", 10, 0.8, 0.7, 0.9, 0.9, 1.5, 0.7, "caution", ("why",), {})
ABSTAINED = replace(ENTRY, verdict="abstain", temperature=1.2345, slope=1.0)


def test_an_abstention_has_neither_temperature_nor_slope(standing):
    page = render(standing([ENTRY, ABSTAINED]))
    assert "1.23" not in re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    log = json.loads(re.search(r'id="graphtemper-log">(.*?)</script>', page)[1])
    assert [row["slope"] for row in log["snapshots"]] == [0.7, None]
    assert [row["temperature"] for row in log["snapshots"]] == [1.5, None]
    (newest,) = re.findall(r"<tr>.*abstain.*</tr>", page)
    assert newest.count("–") == 3  # and no accuracy


def test_an_abstention_claims_no_accuracy(standing):
    abstained = replace(ABSTAINED, name="new", accuracy=0.8731)
    drop = Drop(1, "source", 0.9, 0.8, begins=True)
    for drops in ([], [drop]):  # an alarm does not make the estimate known
        told = standing([ENTRY, replace(abstained, high=0.89)], drops=drops).headline()
        assert told.startswith("On new accuracy is not known: it may be anywhere from 70.0% to")
        assert "it was 90.0% at the source" in told
        assert "87.3" not in told
    scored = Scored(Labelled("new", 1, 10, 0.75, 0.0, 0.1, 0.1), abstained, abstained)
    learned = replace(ENTRY, name="new", revision=1)
    for answers, first in (([ENTRY, abstained], None), ([ENTRY, learned], [ENTRY, abstained])):
        page = render(standing(answers, first=first or answers, record=[scored] * 2))
        assert "87.3%" not in page
        assert "0.8731" not in page
    chart = charts_of(render(standing([ENTRY, abstained])))["accuracy"]
    assert [row["accuracy"] for row in chart["data"]["values"]] == [0.8, None]


def test_an_abstention_claims_no_accuracy_on_a_terminal(standing, capsys):
    entry = replace(ABSTAINED, name="new", accuracy=0.8731)
    scored = Scored(Labelled("new", 1, 10, 0.75, 0.0, 0.1, 0.1), entry, entry)
    run = Run([entry], [], LateLabels(scored, None, [], []))
    print_outcome(standing([entry]), run, written=[])
    printed = " ".join(capsys.readouterr().out.split())
    assert "On new accuracy is not known" in printed
    assert printed.count("not known (90 % interval 70.0% to 90.0%)") == 2
    assert "87.3" not in printed


def test_names_from_files_are_escaped(standing):
    bad = "<script>alert(1)</script>"
    entry = Entry(bad, "0", 10, 0.8, 0.7, 0.9, 0.9, 1.5, 0.7, "trust", (bad,), {bad: 1.0}, when=bad)
    scored = Scored(Labelled(bad, 1, 10, 0.75, 0.0, 0.1, 0.1), entry, entry)
    page = render(
        standing(
            [entry],
            model=bad,
            changes=[Change(0, bad, 200.0)],
            drops=[Drop(0, bad, 0.9, 0.8, begins=True)],
            limits={bad: 0.9},
            record=[scored, scored],
            missed=[Missed(bad, bad)],
        )
    )
    assert bad not in page
    assert "&lt;script&gt;alert" in page


def test_a_long_log_stays_a_small_page(standing):
    entries = [
        Entry(f"day {k}", "0", 10, 0.8, 0.7, 0.9, 0.9, 1.5, 0.7, "trust", (), {})
        for k in range(9000)
    ]
    page = render(standing(entries, changes=[Change(4321, "accuracy", 200.0)]))
    assert len(page) < 2_600_000
    assert "day 4321" in page
    assert "of 9000 snapshots" in page


def charts_of(page):
    return json.loads(re.search(r'id="graphtemper-charts">(.*?)</script>', page)[1])


def test_dates_place_snapshots_on_the_axis(standing):
    months = [replace(ENTRY, name=f"{k}", when=f"2026-0{k}") for k in (1, 2, 6)]
    chart = charts_of(render(standing(months)))["accuracy"]
    x = chart["layer"][0]["encoding"]["x"]
    assert x["type"] == "temporal"
    assert x["axis"]["format"] == "%Y-%m"
    places = [row["x"] for row in chart["data"]["values"]]
    assert json.loads(x["axis"]["values"]["expr"]) == places
    daily = render(standing([replace(months[0], when="2026-01-05"), *months[1:]]))
    axis = charts_of(daily)["accuracy"]["layer"][0]["encoding"]["x"]["axis"]
    assert axis["format"] == "%Y-%m-%d"
    times = [row["x"] / 86_400_000 for row in chart["data"]["values"]]
    assert times[1] - times[0] == 31
    assert times[2] - times[1] == 28 + 31 + 30 + 31
    for other in (ENTRY, replace(ENTRY, when="release 7")):  # one without a date: names instead
        chart = charts_of(render(standing([*months, other])))["accuracy"]
        assert [row["x"] for row in chart["data"]["values"]] == ["1", "2", "6", "d"]


def test_the_headline_compares_with_the_source(standing):
    fallen = replace(ENTRY, name="new", accuracy=0.7, low=0.65, high=0.75)
    drop = Drop(1, "source", 0.9, 0.8, begins=True)
    told = standing([ENTRY, fallen], drops=[drop]).headline()
    assert "estimated at 70.0% (65.0% to 75.0%), down from 90.0% at the source" in told
    assert "up from" in standing([replace(ENTRY, accuracy=0.97, low=0.95, high=0.99)]).headline()
    assert "it was 90.0%" in standing([ENTRY]).headline()
