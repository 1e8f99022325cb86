"""Snapshots that cannot be measured: the others are followed, and the log says what was missed."""

from dataclasses import replace

import pytest

from graphtemper.errors import FileError, MissingExtraError
from graphtemper.monitor import Log, Missed, Snapshot, alarms, find_snapshots, fingerprint, follow


@pytest.fixture
def log(watched, tmp_path):
    return Log(tmp_path / "watch.sqlite", fingerprint(watched[1]))


def broken(name, error=FileError):
    def load():
        raise error("it is damaged.")

    return Snapshot(name, "0", load)


def names(entries):
    return [entry.name for entry in entries]


def test_the_watch_goes_on(watched, log, shots):
    model, card = watched
    first, second, third = shots(3)
    found = []
    days = [first, broken("day1"), third]
    assert names(follow(model, card, days, log, missed=found.append)) == ["day0", "day2"]
    assert found == log.missed() == [Missed("day1", "it is damaged.")]
    # Passed over: neither tried again nor refused for being late, even if it is whole by now.
    assert names(follow(model, card, [first, second, third], log, missed=found.append)) == []
    assert len(found) == 1
    assert names(log.entries()) == ["day0", "day2"]


def test_the_newest_is_tried_again(watched, log, shots):
    model, card = watched
    first, second, third = shots(3)
    found = []
    assert names(follow(model, card, [first, broken("day1")], log, missed=found.append)) == ["day0"]
    assert names(follow(model, card, [first, broken("day1")], log, missed=found.append)) == []
    assert [one.name for one in found] == ["day1", "day1"]
    assert log.missed() == []
    assert names(follow(model, card, [first, second, third], log)) == ["day1", "day2"]


def test_a_missing_library_is_no_fault_of_the_snapshot(watched, log, shots):
    model, card = watched
    days = [*shots(1), broken("day1", MissingExtraError)]
    with pytest.raises(MissingExtraError, match="damaged"):
        list(follow(model, card, days, log, missed=print))


def test_a_file_that_changes_while_it_is_read(watched, log, day, tmp_path):
    model, card = watched
    path = tmp_path / "day1.npz"
    day(1).save(path)
    (plain,) = find_snapshots([path])

    def load():
        graph = plain.load()
        day(2).save(path)
        return graph

    hasty = replace(plain, load=load)
    with pytest.raises(FileError, match=r"snapshot day1\.npz: it changed while it was read"):
        list(follow(model, card, [hasty], log))
    assert log.entries() == []
    assert names(follow(model, card, find_snapshots([path]), log)) == ["day1.npz"]


def test_the_first_row_settles_what_is_watched(watched, log, shots):
    model, card = watched
    (first,) = follow(model, card, shots(1), log)
    assert "homophily" in first.signals

    def rows(signals):
        return [replace(first, signals=first.signals | signals(k)) for k in range(120)]

    trend = rows(lambda k: {"homophily": 0.01 * k})
    assert alarms(trend)[0].series == "homophily"
    # A signal that comes later is not watched, so that the threshold stays what it was.
    later = rows(lambda k: {"later": float(k)} if k else {})
    assert alarms(later) == []
    both = [replace(a, signals=b.signals | a.signals) for a, b in zip(trend, later, strict=True)]
    assert alarms(both) == alarms(trend)
    # One that is missing now and then still is.
    gaps = [replace(entry, signals=dict(entry.signals)) for entry in trend]
    for entry in gaps[2::3]:
        del entry.signals["homophily"]
    assert alarms(gaps)[0].series == "homophily"
    assert alarms(gaps)[0].position > alarms(trend)[0].position
