"""The command: exit codes, gates, page, Prometheus."""

import json
import re

import numpy as np
import pytest

from graphtemper.cli import app
from graphtemper.cli.monitor import _closed
from graphtemper.errors import InputError
from graphtemper.monitor import Entry, Gate, exposition
from graphtemper.monitor.change import Change
from graphtemper.monitor.page import render


@pytest.fixture
def folder(watched, day, tmp_path, monkeypatch):
    model, card = watched
    monkeypatch.chdir(tmp_path)
    model.save("model.npz")
    card.save("model.card.json")
    (tmp_path / "days").mkdir()
    for number in (2, 10):
        day(number).save(tmp_path / "days" / f"day{number}.npz")
    return tmp_path


def run(*words):
    common = ["--predict", "model.npz", "--card", "model.card.json"]
    app(["monitor", "days", *common, *words], exit_on_error=False, result_action="return_value")


def test_the_command_leaves_log_page_and_metrics(folder, capsys):
    run("--page", "watch.html", "--prometheus", "watch.prom", "--json")
    told = json.loads(capsys.readouterr().out)
    assert told["added"] == ["day2.npz", "day10.npz"]
    assert told["newest"]["name"] == "day10.npz"
    assert "day10.npz" in (folder / "watch.html").read_text("utf-8")
    metrics = (folder / "watch.prom").read_text()
    assert f"graphtemper_accuracy {told['newest']['accuracy']!r}\n" in metrics
    run("--json")
    assert json.loads(capsys.readouterr().out)["added"] == []


@pytest.mark.parametrize(("gate", "code"), [("accuracy<0.01", None), ("accuracy<0.999", 3)])
def test_gates_have_an_exit_code_of_their_own(folder, capsys, gate, code):
    if code is None:
        run("--fail-on", gate)
        return
    with pytest.raises(SystemExit) as stop:
        run("--fail-on", gate)
    assert stop.value.code == code
    assert f"Gate closed: {gate}" in capsys.readouterr().out


def test_an_alarm_at_any_added_snapshot_closes_the_gate():
    entries = [ENTRY] * 10
    gate = [Gate.parse("change")]
    alarm = [Change(7, "accuracy", 120.0)]
    assert _closed(gate, entries, alarm, added=3) == ["change"]
    assert _closed(gate, entries, alarm, added=2) == []
    assert _closed(gate, entries, alarm, added=0) == []
    assert _closed(gate, entries, [Change(9, "accuracy", 120.0)], added=0) == ["change"]


def test_spans_that_moved_are_refused(folder, watched, day):
    graph = day(1).replace(time=np.arange(400) // 10 + 1)
    graph.save(folder / "years.npz")
    common = ["--predict", "model.npz", "--card", "model.card.json", "--log", "spans.sqlite"]
    told = {"exit_on_error": False, "result_action": "return_value"}
    app(["monitor", "years.npz", "--windows", "4", *common], **told)
    with pytest.raises(InputError, match="begin a new log"):
        app(["monitor", "years.npz", "--windows", "5", *common], **told)


ENTRY = Entry("d", "0", 10, 0.8, 0.7, 0.9, 0.9, 1.5, 0.7, "caution", ("why",), {})


@pytest.mark.parametrize(
    ("text", "closed"),
    [
        ("abstain", False),
        ("caution", True),
        ("change", True),
        ("low<0.75", True),
        ("temperature>2", False),
        (" slope > 0.1 ", True),
    ],
)
def test_what_gates_mean(text, closed):
    assert Gate.parse(text).closes(ENTRY, changed=True) is closed
    assert not Gate.parse("change").closes(ENTRY, changed=False)


@pytest.mark.parametrize(
    "text", ["", "accuracy", "accuracy<", "name<1", "accuracy<nan", "low<1e999"]
)
def test_gates_that_cannot_be_read(text):
    with pytest.raises(InputError, match="cannot read the gate"):
        Gate.parse(text)


def test_metrics_are_lines_that_prometheus_reads():
    line = re.compile(
        r"(# (HELP|TYPE) graphtemper_\w+ .+)|(graphtemper_\w+(\{verdict=\"\w+\"\})? \S+)"
    )
    text = exposition(ENTRY, 3, 1)
    assert text.endswith("\n")
    assert all(line.fullmatch(row) for row in text.splitlines())


def test_names_from_files_are_escaped():
    bad = "<script>alert(1)</script>"
    entry = Entry(bad, "0", 10, 0.8, 0.7, 0.9, 0.9, 1.5, 0.7, "trust", (bad,), {bad: 1.0})
    page = render([entry], [Change(0, bad, 200.0)], bad, 0.01)
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
