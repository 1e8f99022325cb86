"""The log of a watch: rows in order, one card per log, several processes, other files."""

import multiprocessing
import sqlite3
from dataclasses import replace

import pytest
from tests.helpers import raises

from graphtemper.errors import FileError, InputError, VersionError
from graphtemper.monitor import Entry, Labelled, Log, Missed

ENTRY = Entry(
    "monday", "00", 10, 0.8, 0.7, 0.9, 0.9, 1.5, 0.7, "trust", ("near",), {"confidence": 0.2}
)


def test_rows_come_back_in_order(tmp_path):
    log = Log(tmp_path / "watch.sqlite", "card")
    names = ["b", "a", "c"]
    for name in names:
        assert log.append(replace(ENTRY, name=name, when="2026-05", stamp="s"))
    again = Log(tmp_path / "watch.sqlite", "card")
    assert [entry.name for entry in again.entries()] == names
    assert again.entries()[0] == replace(ENTRY, name="b", when="2026-05", stamp="s")


@pytest.mark.parametrize("other", [{"card": "two"}, {"kind": "logits"}, {"seed": 8}])
def test_the_first_row_settles_card_kind_and_seed(tmp_path, other):
    path, settings = tmp_path / "watch.sqlite", {"card": "one", "kind": "graphs", "seed": 7}
    late = Log(path, **(settings | other))  # nothing is settled without a row
    assert Log(path, **settings).append(ENTRY)
    with pytest.raises(InputError):
        Log(path, **(settings | other))
    with pytest.raises(InputError):
        late.append(replace(ENTRY, name="tuesday"))
    assert [entry.name for entry in Log(path, **settings).entries()] == ["monday"]


def test_a_missed_snapshot_stays_missed(tmp_path):
    log = Log(tmp_path / "watch.sqlite", "card")
    damaged = Missed("sunday", "it is damaged.")
    assert log.append(ENTRY, [damaged])
    assert not log.append(replace(ENTRY, name="sunday"))
    assert log.append(
        replace(ENTRY, name="tuesday"), [Missed("monday", "measured by another process")]
    )
    assert log.missed() == [damaged]
    assert [entry.name for entry in log.entries()] == ["monday", "tuesday"]


def test_answers_given_again_stand_beside_the_first(tmp_path):
    log = Log(tmp_path / "watch.sqlite", "card")
    for name in ("a", "b", "c"):
        log.append(replace(ENTRY, name=name))
    labelled = Labelled("a", 1, 10, 0.8, 0.0, 0.1, 0.1)
    again = replace(ENTRY, name="b", accuracy=0.75, revision=1)
    log.add_labels(labelled, "{}", [again])
    assert [entry.accuracy for entry in log.entries()] == [0.8, 0.8, 0.8]
    assert [entry.accuracy for entry in log.answers()] == [0.8, 0.75, 0.8]
    assert [entry.name for entry in log.history()] == ["a", "b", "c", "b"]
    assert (log.labelled(), log.learned()) == ([labelled], ("{}", 1))
    with pytest.raises(InputError):  # of the card before it learned
        log.append(replace(ENTRY, name="d"))
    assert log.append(replace(ENTRY, name="d", revision=1))


def write_many(path, first):
    log = Log(path, "card")
    for number in range(20):
        log.append(replace(ENTRY, name=f"{number}", digest=first))


@pytest.mark.nightly
def test_two_processes_write_each_snapshot_once(tmp_path):
    path = tmp_path / "watch.sqlite"
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=write_many, args=(path, name)) for name in ("p", "q")]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert sorted(int(entry.name) for entry in Log(path, "card").entries()) == list(range(20))


def test_a_row_that_fails_leaves_nothing(tmp_path):
    log = Log(tmp_path / "watch.sqlite", "card")
    log.append(ENTRY)
    bad = replace(ENTRY, name="tuesday", accuracy=float("nan"))
    with pytest.raises(InputError):
        log.append(bad, [Missed("before", "damaged")])
    assert log.entries() == [ENTRY]
    assert log.missed() == []


@pytest.mark.parametrize("content", [b"no database", b"SQLite format 3\0" + b"\xff" * 4000])
def test_other_files_are_refused(tmp_path, content):
    path = tmp_path / "watch.sqlite"
    path.write_bytes(content)
    with pytest.raises(FileError):
        Log(path, "card")
    assert path.read_bytes() == content


def test_other_databases_and_versions_are_refused(tmp_path):
    other, old = tmp_path / "other.sqlite", tmp_path / "old.sqlite"
    Log(old, "card").append(ENTRY)
    for path, statement, refusal in (
        (other, "CREATE TABLE mine (x)", "damaged"),
        (old, "PRAGMA user_version = 4", VersionError),
    ):
        with sqlite3.connect(path) as base:
            base.execute(statement)
        base.close()
        before = path.read_bytes()
        with raises(refusal):
            Log(path, "card")
        assert path.read_bytes() == before


@pytest.mark.parametrize("content", ["{", "[]", '{"name": "monday"}', "[" * 100_000])
def test_damaged_rows_are_refused(tmp_path, content):
    path = tmp_path / "watch.sqlite"
    Log(path, "card").append(ENTRY)
    with sqlite3.connect(path) as base:
        base.execute("UPDATE log SET content = ? WHERE kind = 'answer'", [content])
    base.close()
    with pytest.raises(FileError):
        Log(path, "card").entries()


def test_the_number_of_reported_rows_never_decreases(tmp_path):
    log = Log(tmp_path / "watch.sqlite", "card")
    assert log.reported("drop") == (0, 0)
    log.report("drop", 3, 1)
    log.report("drop", 2, 1)
    assert log.reported("drop") == (3, 1)
    assert log.reported("change") == (0, 0)


def test_a_log_is_created_with_its_first_row(tmp_path):
    path = tmp_path / "watch.sqlite"
    log = Log(path, "card")
    assert (log.entries(), log.missed(), log.reported("drop")) == ([], [], (0, 0))
    assert list(tmp_path.iterdir()) == []
    assert Log(path, "card").append(ENTRY)  # another process is faster
    assert log.entries() == [ENTRY]
    assert not log.append(ENTRY)


def test_a_location_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError):
        Log(tmp_path / "file" / "deep" / "watch.sqlite", "card").append(ENTRY)
