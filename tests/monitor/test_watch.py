"""The watch over snapshots."""

from dataclasses import replace

import pytest
from tests.helpers import raises

from graphtemper import Graph, csbm, recalibrate
from graphtemper.errors import FileError, InputError, MissingExtraError
from graphtemper.models import SIGN
from graphtemper.monitor import (
    Log,
    Missed,
    Snapshot,
    alarms,
    find_snapshots,
    fingerprint,
    follow,
    read_log,
    watch,
)


@pytest.fixture
def log(watched, tmp_path):
    return Log(tmp_path / "watch.sqlite", fingerprint(watched[1]))


def test_an_entry_holds_the_answer_of_recalibrate(watched, log, shots, day):
    model, card = watched
    (entry,) = follow(model, shots(1), card, log)
    result = recalibrate(model, day(0).replace(labels=None), card)
    known = result.accuracy
    assert (entry.accuracy, entry.low, entry.high) == (known.value, known.low, known.high)
    assert entry.temperature == result.temperature
    assert entry.verdict == result.verdict
    assert log.entries() == [entry]


def test_another_model_is_refused_before_any_snapshot(watched, log, shots):
    model, card = watched
    other = SIGN(hops=2).fit(csbm.sample(800, 6, 0.85, 1.5, num_features=4, seed=1), range(400))
    wide = SIGN(hops=1).fit(csbm.sample(800, 6, 0.85, 1.5, num_features=5, seed=1), range(400))
    for wrong in (other, wide):
        with pytest.raises(InputError):
            follow(wrong, shots(1), card, log, missed=print)
        with pytest.raises(InputError):
            follow(wrong, [], card, log)
    assert list(follow(model, [], card, log)) == []


def test_labels_change_nothing(watched, tmp_path, day):
    model, card = watched
    found = []
    for number, labels in enumerate((None, "kept")):
        graph = day(0) if labels else day(0).replace(labels=None)
        log = Log(tmp_path / f"{number}.sqlite", fingerprint(card))
        found += follow(model, [Snapshot("day", "0", lambda graph=graph: graph)], card, log)
    assert found[0] == found[1]


def test_an_interrupted_watch_resumes(watched, log, tmp_path, shots):
    model, card = watched
    watch = follow(model, shots(3), card, log)
    next(watch)
    watch.close()
    assert [entry.name for entry in follow(model, shots(3), card, log)] == ["day1", "day2"]
    whole = Log(tmp_path / "whole.sqlite", fingerprint(card))
    list(follow(model, shots(3), card, whole))
    assert log.entries() == whole.entries()


def test_a_snapshot_that_changed_is_refused(watched, log, shots, day):
    model, card = watched
    list(follow(model, shots(1), card, log))
    with pytest.raises(InputError):
        list(follow(model, [Snapshot("day0", "other", lambda: day(0))], card, log))


def test_a_late_snapshot_is_refused(watched, log, shots):
    model, card = watched
    first, second, third = shots(3)
    list(follow(model, [first, third], card, log))
    with pytest.raises(InputError):
        list(follow(model, [first, second, third], card, log))
    assert len(log.entries()) == 2


def meanwhile(shot, other):
    """Return a snapshot; another watch runs while it is measured."""

    def load():
        list(other)
        return shot.load()

    return replace(shot, load=load)


def test_two_processes_over_the_same_snapshots_take_turns(watched, log, shots):
    model, card = watched
    first, second, third, fourth = shots(4)
    other = follow(model, [first, second, third], card, log)
    snapshots = [first, meanwhile(second, other), third, fourth]
    assert [entry.name for entry in follow(model, snapshots, card, log)] == ["day0", "day3"]
    assert [entry.name for entry in log.entries()] == ["day0", "day1", "day2", "day3"]


def test_errors_name_the_snapshot(watched, log):
    model, card = watched
    narrow = Graph(features=[[1.0]] * 3, edges=[[0, 1]])
    with pytest.raises(InputError):
        list(follow(model, [Snapshot("bad", "0", lambda: narrow)], card, log))
    assert log.entries() == []


def test_drift_raises_an_alarm(watched, log, shots):
    model, card = watched
    list(follow(model, shots(25), card, log))
    assert alarms(log.entries(), 0.05) == []
    list(follow(model, shots(25, homophily=0.65, first=25), card, log))
    found = alarms(log.entries(), 0.05)
    assert found
    assert 25 < found[0].position < 50


def broken(name, error=FileError):
    def load():
        raise error("it is damaged.")

    return Snapshot(name, "0", load)


def names(entries):
    return [entry.name for entry in entries]


def test_the_watch_continues(watched, log, shots):
    model, card = watched
    first, second, third = shots(3)
    found = []
    days = [first, broken("day1"), third]
    assert names(follow(model, days, card, log, missed=found.append)) == ["day0", "day2"]
    assert found == log.missed() == [Missed("day1", "it is damaged.")]
    # Recorded as missed: neither tried again nor refused as late, even if it is readable now.
    assert names(follow(model, [first, second, third], card, log, missed=found.append)) == []
    assert len(found) == 1
    assert names(log.entries()) == ["day0", "day2"]


def test_the_newest_is_tried_again(watched, log, shots):
    model, card = watched
    first, second, third = shots(3)
    found = []
    assert names(follow(model, [first, broken("day1")], card, log, missed=found.append)) == ["day0"]
    assert names(follow(model, [first, broken("day1")], card, log, missed=found.append)) == []
    assert [one.name for one in found] == ["day1", "day1"]
    assert log.missed() == []
    assert names(follow(model, [first, second, third], card, log)) == ["day1", "day2"]


def test_a_missing_library_ends_the_watch(watched, log, shots):
    model, card = watched
    days = [*shots(1), broken("day1", MissingExtraError)]
    with pytest.raises(MissingExtraError):
        list(follow(model, days, card, log, missed=print))


def test_the_first_row_settles_the_tested_signals(watched, log, shots):
    model, card = watched
    (first,) = follow(model, shots(1), card, log)
    assert "homophily" in first.signals

    def rows(signals):
        return [replace(first, signals=first.signals | signals(k)) for k in range(120)]

    trend = rows(lambda k: {"homophily": 0.01 * k})
    assert alarms(trend)[0].series == "homophily"
    # A later signal is not tested, so that the threshold stays the same.
    later = rows(lambda k: {"later": float(k)} if k else {})
    assert alarms(later) == []
    both = [replace(a, signals=b.signals | a.signals) for a, b in zip(trend, later, strict=True)]
    assert alarms(both) == alarms(trend)
    # One with gaps still is.
    gaps = [replace(entry, signals=dict(entry.signals)) for entry in trend]
    for entry in gaps[2::3]:
        del entry.signals["homophily"]
    assert alarms(gaps)[0].series == "homophily"
    assert alarms(gaps)[0].position > alarms(trend)[0].position


@pytest.mark.parametrize(
    "error", [ValueError("bad\x1b[31m\nheader"), UnicodeDecodeError("utf-8", b"", 0, 1, "x")]
)
def test_any_error_of_a_snapshot_is_survived(watched, log, shots, error):
    model, card = watched
    first, second, third = shots(3)

    def load():
        raise error

    missed = []
    days = [first, replace(second, load=load), third]
    assert names(follow(model, days, card, log, missed=missed.append)) == ["day0", "day2"]
    assert log.missed() == missed
    assert missed[0].reason.startswith(type(error).__name__)
    assert missed[0].reason.isprintable()


def test_a_measurement_that_is_not_finite_is_missed(watched, log, shots, monkeypatch):
    model, card = watched
    calls = []

    def wrong(*given, **options):
        calls.append(given)
        result = recalibrate(*given, **options)
        if len(calls) != 2:
            return result
        return replace(result, mean_confidence=(float("nan"), 0.5))

    monkeypatch.setattr(watch, "recalibrate", wrong)
    missed = []
    assert names(follow(model, shots(3), card, log, missed=missed.append)) == ["day0", "day2"]
    assert [item.name for item in missed] == ["day1"]
    assert log.missed() == missed


def test_a_file_that_changes_while_it_is_read_is_missed(watched, log, day, tmp_path):
    model, card = watched
    path = tmp_path / "day1.npz"
    day(1).save(path)
    (plain,) = find_snapshots([path])

    def load():
        graph = plain.load()
        day(2).save(path)
        return graph

    changing, missed = replace(plain, load=load), []
    with raises("content"):
        list(follow(model, [changing], card, log))
    assert names(follow(model, [changing], card, log, missed=missed.append)) == []
    assert [item.name for item in missed] == ["day1.npz"]
    assert names(follow(model, find_snapshots([path]), card, log)) == ["day1.npz"]


def test_refused_snapshots_do_not_end_the_watch(watched, log, shots, day):
    """A late one, and a logged one with other content: reported each time, never measured."""
    model, card = watched
    first, second, third, fourth = shots(4)
    list(follow(model, [first, third], card, log))
    changed = replace(first, digest="other")
    for expected in (["day3"], []):
        missed = []
        days = [changed, second, third, fourth]
        assert names(follow(model, days, card, log, missed=missed.append)) == expected
        assert names(missed) == ["day0", "day1"]
    assert log.missed() == []


def test_a_logged_snapshot_that_cannot_be_read_does_not_end_the_watch(watched, log, shots):
    model, card = watched
    first, second = shots(2)
    list(follow(model, [first], card, log))

    def unreadable():
        raise FileError("permission denied.")

    days, missed = [replace(first, digest=None, load=unreadable), second], []
    assert names(follow(model, days, card, log, missed=missed.append)) == ["day1"]
    assert missed == [Missed("day0", "permission denied.")]


def test_swapped_arguments_are_refused(watched, log, shots):
    model, card = watched
    with pytest.raises(InputError):
        follow(model, card, shots(1), log)


def test_an_older_snapshot_is_never_taken_for_the_newest(watched, log, day, tmp_path):
    """Also if it is given alone, as by `monitor days/2023-12.npz`."""
    model, card = watched
    for name, number in (("2024-02", 1), ("2024-10", 2), ("2023-12", 3), ("day2", 4)):
        day(number).save(tmp_path / f"{name}.npz")
    list(follow(model, find_snapshots([tmp_path / "2024-02.npz"]), card, log))
    list(follow(model, find_snapshots([tmp_path / "2024-10.npz"]), card, log))
    refused = []
    for alone in ("2023-12.npz", "2024-02.npz"):
        assert (
            list(
                follow(model, find_snapshots([tmp_path / alone]), card, log, missed=refused.append)
            )
            == []
        )
    assert [missed.name for missed in refused] == ["2023-12.npz"]
    with pytest.raises(InputError):
        list(follow(model, find_snapshots([tmp_path / "2023-12.npz"]), card, log))
    assert [entry.name for entry in log.entries()] == ["2024-02.npz", "2024-10.npz"]
    assert [entry.when for entry in log.entries()] == ["2024-02", "2024-10"]


def test_times_decide_which_snapshot_is_older(watched, log, day):
    model, card = watched

    def shot(name, when):
        return Snapshot(name, name, lambda: day(1), when=when)

    assert len(list(follow(model, [shot("b", "2026-05")], card, log))) == 1
    with pytest.raises(InputError):
        list(follow(model, [shot("c", "2026-04")], card, log))
    # Names of snapshots that a program makes say nothing about time.
    assert len(list(follow(model, [shot("a", None)], card, log))) == 1


def test_a_log_of_the_other_kind_and_an_empty_one_are_refused(watched, log, shots):
    _, card = watched
    with raises("conflict"):
        follow(None, shots(1), card, log)
    with raises("empty"):
        read_log(log, card)


def test_metrics_of_decisions_need_a_model(watched, tmp_path):
    _, card = watched
    log = Log(tmp_path / "logits.sqlite", fingerprint(card), kind="logits")
    with raises("conflict", match="give the model"):
        follow(None, [], card, log, decisions={"positive": 1})
