"""The log of a watch: rows in order, one card per log, several processes, other files."""

import json
import sqlite3
from dataclasses import asdict, replace

import pytest
from tests.helpers import raises

from graphtemper.errors import FileError, VersionError
from graphtemper.monitor import Entry
from graphtemper.monitor.log import Labelled, Log, Missed

ENTRY = Entry(
    "monday", "00", 10, 0.8, 0.7, 0.9, 0.9, 1.5, 0.7, "trust", ("near",), {"confidence": 0.2}
)


SETTINGS = {"card": "one", "kind": "graphs", "seed": 7}


@pytest.fixture
def log(tmp_path):
    return Log(tmp_path / "watch.sqlite", SETTINGS)


def edit(path, statement, *values):
    with sqlite3.connect(path) as base:
        base.execute(statement, values)
    base.close()


def names(entries):
    return [entry.name for entry in entries]


def test_rows_come_back_in_order(log):
    for name in ("b", "a", "c"):
        assert log.append(replace(ENTRY, name=name, when="2026-05", stamp="s"))
    again = Log(log.path, SETTINGS).read().first
    assert list(again) == ["b", "a", "c"]
    assert again["b"] == replace(ENTRY, name="b", when="2026-05", stamp="s")


@pytest.mark.parametrize("other", [{"card": "two"}, {"kind": "logits"}, {"seed": 8}])
def test_the_first_row_settles_card_kind_and_seed(log, other):
    late = Log(log.path, SETTINGS | other)  # nothing is settled without a row
    assert late.read().rows == []
    assert log.append(ENTRY)
    with raises("other-log"):
        late.read()
    with raises("other-log"):
        late.append(replace(ENTRY, name="tuesday"))
    assert list(log.read().first) == ["monday"]


def test_a_missed_snapshot_has_its_place_until_it_is_measured(log):
    damaged = Missed("sunday", "it is damaged.")
    log.append(ENTRY, [damaged])
    log.append(replace(ENTRY, name="tuesday"), [Missed("monday", "measured by another process")])
    assert log.read().missed == [damaged]
    assert list(log.read().first) == ["monday", "tuesday"]
    assert log.append(replace(ENTRY, name="sunday"))
    assert log.read().missed == []
    assert list(log.read().first) == ["sunday", "monday", "tuesday"]
    assert names(log.read().history) == ["monday", "tuesday", "sunday"]


def test_the_newest_that_was_missed_is_stored_once(log):
    log.append(ENTRY)
    late = Missed("wednesday", "it is damaged.")
    for _ in range(2):
        log.append(None, [late])
    assert log.read().missed == [late]


def test_answers_given_again_stand_beside_the_first(log):
    for name in ("a", "b", "c"):
        log.append(replace(ENTRY, name=name))
    labelled = Labelled("a", 1, 10, 0.8, 0.0, 0.1, 0.1)
    log.add_labels(labelled, "{}", [replace(ENTRY, name="b", accuracy=0.75, revision=1)])
    content = log.read()
    assert [entry.accuracy for entry in content.first.values()] == [0.8, 0.8, 0.8]
    assert [entry.accuracy for entry in content.answers.values()] == [0.8, 0.75, 0.8]
    assert names(content.history) == ["a", "b", "c", "b"]
    assert (content.labelled, content.cards) == ([labelled], ["{}"])
    with raises("other-log"):  # of the card before it learned
        log.append(replace(ENTRY, name="d"))
    assert log.append(replace(ENTRY, name="d", revision=1))


@pytest.mark.parametrize("content", [b"no database", b"SQLite format 3\0" + b"\xff" * 4000])
def test_other_files_are_refused(log, content):
    log.path.write_bytes(content)
    with pytest.raises(FileError):
        log.read()
    assert log.path.read_bytes() == content


@pytest.mark.parametrize(
    ("statement", "refusal"),
    [
        ("CREATE TABLE mine (x)", "damaged"),
        ("PRAGMA user_version = 4", VersionError),
        ("DROP TABLE log", "damaged"),
        ("DELETE FROM log WHERE kind = 'settings'", "damaged"),
    ],
)
def test_other_databases_and_versions_are_refused(log, statement, refusal):
    if "mine" not in statement:
        log.append(ENTRY)
    edit(log.path, statement)
    before = log.path.read_bytes()
    with raises(refusal):
        log.read()
    with raises(refusal):
        log.append(replace(ENTRY, name="tuesday"))
    assert log.path.read_bytes() == before


@pytest.mark.parametrize(
    "content",
    [
        *("{", "[]", '{"name": "monday"}', "[" * 100_000),
        *(json.dumps(asdict(ENTRY) | wrong) for wrong in ({"other": 9.5}, {"reasons": None})),
    ],
)
def test_damaged_rows_are_refused(log, content):
    log.append(ENTRY)
    edit(log.path, "UPDATE log SET content = ? WHERE kind = 'answer'", content)
    with raises("damaged"):
        _ = log.read().history


def test_what_was_acknowledged_never_decreases(log):
    assert log.read().reported("drop") == (0, 0)
    log.report(["drop"], 3, 1)
    log.report(["drop"], 2, 1)
    assert log.read().reported("drop") == (3, 1)
    assert log.read().reported("change") == (0, 0)


def test_a_log_is_created_with_its_first_row(log, tmp_path):
    assert log.read().rows == []
    assert list(tmp_path.iterdir()) == []
    assert Log(log.path, SETTINGS).append(ENTRY)  # another process is faster
    assert log.read().first == {ENTRY.name: ENTRY}
    assert not log.append(ENTRY)
