"""The command `graphtemper monitor`: exit codes, gates, page, Prometheus."""

import importlib
import json
import re

import numpy as np
import pytest
from tests.helpers import raises

from graphtemper import SourceCard, metrics, models, temperature
from graphtemper.cli import app
from graphtemper.errors import FileError
from graphtemper.monitor import Watch
from graphtemper.monitor.change import Change


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


def test_the_command_leaves_log_page_and_metrics(folder, capsys, monkeypatch):
    monkeypatch.setattr(importlib.import_module("graphtemper.cli.monitor"), "clock", lambda: 5.25)
    run("--page", "watch.html", "--prometheus", "watch.prom", "--json")
    output = json.loads(capsys.readouterr().out)
    assert output["added"] == ["day2.npz", "day10.npz"]
    assert output["newest"]["name"] == "day10.npz"
    assert "day10.npz" in (folder / "watch.html").read_text("utf-8")
    exposed = (folder / "watch.prom").read_text()
    assert f'graphtemper_accuracy{{watch="monitor"}} {output["newest"]["accuracy"]!r}\n' in exposed
    assert 'last_run_timestamp_seconds{watch="monitor"} 5.25\n' in exposed
    run("--json")
    again = json.loads(capsys.readouterr().out)
    assert again["added"] == again["missed"] == []
    assert again["kind"] == "graphs"


def test_output_for_people(folder, capsys):
    run("--log", "watch.sqlite", "--prometheus", "watch.prom")
    output = capsys.readouterr().out
    entries = Watch("watch.sqlite", SourceCard.load("model.card.json")).standing.answers
    newest = entries[-1]
    assert newest.reasons
    assert all(f"- {reason}"[:40] in output for reason in newest.reasons)
    assert re.search(r"New +2\n", output)
    assert '{watch="watch"}' in (folder / "watch.prom").read_text()
    run("--log", "watch.sqlite", "--prometheus", "watch.prom", "--name", "fraud")
    assert re.search(r"New +0\n", capsys.readouterr().out)
    assert '{watch="fraud"}' in (folder / "watch.prom").read_text()


def test_the_nodes_of_a_file_are_evaluated(folder, capsys):
    (folder / "held_out.txt").write_text("\n".join(map(str, range(200, 400))))
    run("--nodes", "held_out.txt", "--json")
    assert json.loads(capsys.readouterr().out)["newest"]["num_nodes"] == 200
    words = ["monitor", "days", "--card", "model.card.json", "--nodes", "held_out.txt"]
    with raises("conflict"):
        app(words, exit_on_error=False, result_action="return_value")


def spoil(path):
    path.write_bytes(path.read_bytes()[:300])


def test_a_damaged_snapshot_has_its_own_exit_code(folder, day, capsys):
    run()
    day(11).save(folder / "days" / "day11.npz")
    day(12).save(folder / "days" / "day12.npz")
    spoil(folder / "days" / "day11.npz")
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        run("--page", "watch.html", "--prometheus", "watch.prom", "--json")
    assert stop.value.code == 4
    output = json.loads(capsys.readouterr().out)
    assert output["added"] == ["day12.npz"]
    assert [one["name"] for one in output["missed"]] == ["day11.npz"]
    page = (folder / "watch.html").read_text("utf-8")
    assert "Not measured" in page
    assert "damaged" in page
    assert 'unread_snapshots{watch="monitor"} 1\n' in (folder / "watch.prom").read_text()
    (folder / "days" / "day11.npz").unlink()  # it stays in the exit code also without its file
    assert stopped() == 4
    assert "Not measured: day11" in capsys.readouterr().out
    run("--forget", "day11.npz", "--page", "watch.html", "--prometheus", "watch.prom")
    assert "day11" not in capsys.readouterr().out + (folder / "watch.html").read_text("utf-8")
    assert 'unread_snapshots{watch="monitor"} 0\n' in (folder / "watch.prom").read_text()


def test_without_any_row_there_is_an_error(folder):
    for path in (folder / "days").iterdir():
        spoil(path)
    with pytest.raises(FileError):
        run("--page", "watch.html")
    assert not (folder / "watch.html").exists()
    assert not (folder / "monitor.sqlite").exists()


def stopped(*words):
    """Return the exit code of a run."""
    try:
        run(*words)
    except SystemExit as stop:
        return stop.code
    return 0


def test_an_alarm_is_not_lost_with_the_run_that_found_it(folder, day, monkeypatch):
    watching = importlib.import_module("graphtemper.monitor.watch")
    monkeypatch.setattr(watching, "alarms", lambda *arguments: [Change(1, "accuracy", 120.0)])

    def full(*arguments):
        raise FileError("the disk is full.")

    with monkeypatch.context() as patch:
        patch.setattr(Watch, "page", full)
        with pytest.raises(FileError):
            run("--fail-on", "change", "--page", "watch.html")
    day(11).save(folder / "days" / "day11.npz")
    assert stopped() == 0  # a run without the gate does not count
    assert stopped("--fail-on", "change") == 3
    assert stopped("--fail-on", "change") == 0
    day(12).save(folder / "days" / "day12.npz")
    assert stopped("--fail-on", "change") == 0


LABELS = ["monitor", "labels", "days", "--predict", "model.npz", "--card", "model.card.json"]


def add(*words):
    app([*LABELS, *words], exit_on_error=False, result_action="return_value")


def test_late_labels_on_the_command_line(folder, day, capsys):
    for number in (11, 12):
        day(number).save(folder / "days" / f"day{number}.npz")
    run("--json")
    first = json.loads(capsys.readouterr().out)
    assert first["track_record"] == []
    (folder / "few.csv").write_text(
        "node,class\n" + "".join(f"{k},{day(10).labels[k]}\n" for k in range(100))
    )
    add(
        "--of",
        "day10.npz",
        "--labels",
        "few.csv",
        "--page",
        "w.html",
        "--out",
        "wise.json",
        "--json",
    )
    told = json.loads(capsys.readouterr().out)
    assert (told["labels"]["snapshot"], told["labels"]["num_labels"]) == ("day10.npz", 100)
    assert [one["name"] for one in told["labels"]["answered_again"]] == ["day11.npz", "day12.npz"]
    assert told["newest"] == told["labels"]["answered_again"][-1]
    assert told["newest"]["accuracy"] != first["newest"]["accuracy"]
    assert "Track record" in (folder / "w.html").read_text("utf-8")
    assert [item.name for item in SourceCard.load("wise.json").environments] == ["day10.npz"]
    add("--of", "day2.npz")  # labels in the graph itself, which the cron job never read
    output = capsys.readouterr().out
    assert "Labels of day2.npz" in output
    assert "Of 2 earlier snapshots with labels" in " ".join(output.split())
    run("--json")  # with the same card as before
    assert len(json.loads(capsys.readouterr().out)["track_record"]) == 2


def test_earlier_labels_on_the_command_line(folder, day, capsys):
    """The card learns what labels of the day before are worth, and later days are answered so."""
    day(11).save(folder / "days" / "day11.npz")
    old = "".join(f"{k},{label}\n" for k, label in enumerate(day(10).labels))
    (folder / "old.csv").write_text(f"node,class\n{old}")
    run("--earlier", "old.csv", "--json")
    said = json.loads(capsys.readouterr().out)["newest"]["reasons"]
    assert any("have an earlier label" in str(reason) for reason in said)
    add("--of", "day10.npz", "--earlier", "old.csv", "--out", "wise.json", "--json")
    told = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in told["labels"]["answered_again"]] == ["day11.npz"]
    (learned,) = SourceCard.load("wise.json").environments
    assert learned.earlier is not None


@pytest.fixture
def dropped(folder, watched, day):
    """Follow three days of logits with a gate, and write labels of day 1 that show a drop.

    Logits teach nothing, so that later answers are as they were.
    """
    model, _ = watched
    (folder / "logits").mkdir()
    for number in (1, 2, 3):
        np.save(folder / "logits" / f"day{number}.npy", model(day(number)))
    wrong = (model(day(1)).argmax(axis=1) + 1) % 2
    rows = "".join(f"{node},{label}\n" for node, label in enumerate(wrong))
    (folder / "wrong.csv").write_text(f"node,class\n{rows}")

    def follow(*words):
        words = ["monitor", *words, "logits", "--card", "model.card.json"]
        try:
            app(words, exit_on_error=False, result_action="return_value")
        except SystemExit as stop:
            return stop.code
        return 0

    assert follow("--fail-on", "drop") == 0
    return follow


LATE = ("labels", "--of", "day1.npy", "--labels", "wrong.csv")


def test_a_drop_that_late_labels_show_closes_the_gate_once(dropped, folder, day):
    assert dropped(*LATE, "--fail-on", "drop") == 3
    (folder / "right.csv").write_text(
        "node,class\n" + "".join(f"{k},{day(2).labels[k]}\n" for k in range(100))
    )
    right = ("labels", "--of", "day2.npy", "--labels", "right.csv")
    assert dropped(*right, "--fail-on", "drop") == 0
    assert dropped("--fail-on", "drop") == 0


def test_metrics_of_decisions_are_columns_and_gates(folder, day, capsys):
    asked = ("--positive", "1", "--threshold", "0.5", "--review", "9")
    asked += ("--page", "w.html", "--prometheus", "w.prom")
    with pytest.raises(SystemExit) as stop:
        run(*asked, "--fail-on", "low(precision)<0.999", "--json")
    assert stop.value.code == 3
    newest = json.loads(capsys.readouterr().out)["newest"]
    assert newest["asked"] == {"positive": 1, "threshold": 0.5, "k": 9}
    assert newest["metrics"]["precision"]["low"] < newest["metrics"]["precision"]["high"]
    assert 'graphtemper_recall_low{watch="monitor"}' in (folder / "w.prom").read_text()
    run(*asked, "--fail-on", "high(recall)<0.01")
    assert "Precision at 9 " in capsys.readouterr().out
    add("--of", "day2.npz", "--page", "w.html", "--json")
    scored = json.loads(capsys.readouterr().out)["labels"]["metrics"]
    first = Watch("monitor.sqlite", SourceCard.load("model.card.json")).standing.first[0]
    graph = day(2)
    logits = models.load("model.npz")(graph)
    p = temperature.apply(logits, first.temperature)
    assert scored["precision"] == metrics.precision(p, graph.labels, 1, threshold=0.5)
    page = (folder / "w.html").read_text("utf-8")
    assert f"<b>true {scored['precision']:.2f}</b>" in page
    assert "Recall at 9" in page
