"""The log: append-only, atomic rows, several processes, hostile files."""

import hashlib
import multiprocessing
import sqlite3
import time
from dataclasses import replace

import pytest

from graphtemper.errors import FileError, InputError
from graphtemper.monitor import Entry, Labelled, Log, Missed, log_file
from graphtemper.monitor.log_file import open_log

ENTRY = Entry(
    "monday", "00", 10, 0.8, 0.7, 0.9, 0.9, 1.5, 0.7, "trust", ("near",), {"confidence": 0.2}
)


def tamper(path, statement, *values):
    """Change what the triggers protect, and restore the schema."""
    with sqlite3.connect(path) as base:
        triggers = base.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'")
        schema = dict(triggers.fetchall())
        for name in schema:
            base.execute(f"DROP TRIGGER {name}")
        base.execute(statement, values)
        for text in schema.values():
            base.execute(text)
    base.close()


def test_rows_come_back_in_order(tmp_path):
    log = Log(tmp_path / "watch.sqlite", "card")
    names = ["b", "a", "c"]
    for name in names:
        assert log.append(replace(ENTRY, name=name))
    again = Log(tmp_path / "watch.sqlite", "card")
    assert [entry.name for entry in again.entries()] == names
    assert again.entries()[0] == replace(ENTRY, name="b")
    assert again.snapshots()["a"] == ("00", None, None)
    assert "d" not in again.snapshots()


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"card": "two"}, "another card"),
        ({"kind": "logits"}, "is for graphs, which give other signals than logits"),
        ({"seed": 8}, "begun with the seed 7, not 8"),
    ],
)
def test_the_first_row_settles_card_kind_and_seed(tmp_path, other, words):
    path, settings = tmp_path / "watch.sqlite", {"card": "one", "kind": "graphs", "seed": 7}
    late = Log(path, **(settings | other))  # nothing is settled without a row
    assert Log(path, **settings).append(ENTRY)
    with pytest.raises(InputError, match=words):
        Log(path, **(settings | other))
    with pytest.raises(InputError, match=words):
        late.append(replace(ENTRY, name="tuesday"))
    assert [entry.name for entry in Log(path, **settings).entries()] == ["monday"]


def test_a_log_without_rows_takes_any_settings(tmp_path):
    Log(tmp_path / "watch.sqlite", "one")
    assert Log(tmp_path / "watch.sqlite", "two", kind="logits", seed=3).append(ENTRY)


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


def test_stamps_are_stored_with_the_rows(tmp_path):
    log = Log(tmp_path / "watch.sqlite", "card")
    log.append(ENTRY, stamp="s1")
    log.update_stamps({"monday": "s2"})
    assert log.snapshots() == {"monday": ("00", "s2", None)}


def test_rows_can_neither_be_changed_nor_removed(tmp_path):
    path = tmp_path / "watch.sqlite"
    Log(path, "card").append(ENTRY, [Missed("sunday", "damaged")])
    base = sqlite3.connect(path)
    for statement in (
        "UPDATE snapshots SET accuracy = 1.0",
        "DELETE FROM snapshots",
        "UPDATE missed SET name = 'monday'",
        "DELETE FROM missed",
        "UPDATE about SET value = '1'",
        "DELETE FROM about",
    ):
        with pytest.raises(sqlite3.IntegrityError, match="never"):
            base.execute(statement)


def write_many(path, first):
    log = Log(path, "card")
    for number in range(20):
        log.append(replace(ENTRY, name=f"{number}", digest=first))


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


@pytest.mark.parametrize(
    "change",
    [
        {"accuracy": float("nan")},
        {"accuracy": 5.0},
        {"accuracy": -0.1},
        {"low": 0.95},
        {"high": 1.5},
        {"confidence": 2.0},
        {"temperature": 0.0},
        {"temperature": -1.0},
        {"slope": 0.0},
        {"num_nodes": 0},
        {"num_nodes": -3},
        {"num_nodes": 2.5},
        {"temperature": float("inf")},
        {"verdict": "yes"},
        {"signals": {"x": float("nan")}},
        {"name": "x" * 20_000},
        {"name": "day\udcff"},
        {"name": ""},
    ],
)
def test_bad_entries_are_not_written(tmp_path, change):
    log = Log(tmp_path / "watch.sqlite", "card")
    with pytest.raises(InputError, match="the new entry"):
        log.append(replace(ENTRY, **change))
    assert log.entries() == []


@pytest.mark.parametrize("content", [b"no database", b"SQLite format 3\0" + b"\xff" * 4000])
def test_other_files_are_refused(tmp_path, content):
    path = tmp_path / "watch.sqlite"
    path.write_bytes(content)
    with pytest.raises(FileError, match=r"watch\.sqlite"):
        Log(path, "card")
    assert path.read_bytes() == content


def test_other_databases_are_refused(tmp_path):
    path = tmp_path / "other.sqlite"
    with sqlite3.connect(path) as base:
        base.execute("CREATE TABLE mine (x)")
    with pytest.raises(FileError, match="is not a log"):
        Log(path, "card")


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("accuracy", 5.0),
        ("low", 0.95),
        ("num_nodes", -1),
        ("temperature", -1.0),
        ("reasons", "[1]"),
        ("signals", '{"a": "b"}'),
        ("signals", "[" * 100_000),
        ("verdict", "?"),
    ],
)
def test_changed_rows_are_refused(tmp_path, column, value):
    path = tmp_path / "watch.sqlite"
    Log(path, "card").append(ENTRY)
    tamper(path, f"UPDATE snapshots SET {column} = ?", value)
    with pytest.raises(FileError, match="a row that is not valid"):
        Log(path, "card").entries()


def test_a_log_of_another_version(tmp_path):
    path = tmp_path / "watch.sqlite"
    Log(path, "card").append(ENTRY)
    with sqlite3.connect(path) as base:
        base.execute("PRAGMA user_version = 1")
    base.close()
    with pytest.raises(FileError, match=r"has version 1, .* begin a new log"):
        Log(path, "card")


# The schema of version 3, as that version wrote it.
VERSION_3 = "f876dde91557dba7903d3d1ca4121f652e91ddb1179de22951f396c92f4b070c"


def write_version_3(path):
    """Write a log as version 3 did."""
    base = sqlite3.connect(path)
    base.executescript(log_file._TABLES + "PRAGMA user_version = 3;")
    rows = sorted(map(repr, base.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema")))
    assert hashlib.sha256("\n".join(rows).encode()).hexdigest() == VERSION_3
    about = {"card": "card", "kind": "graphs", "seed": "0"}
    base.executemany("INSERT INTO about VALUES (?, ?)", about.items())
    base.execute(
        "INSERT INTO snapshots VALUES (1, 'monday', '00', 10, 0.8, 0.7, 0.9, 0.9, 1.5, 0.7, "
        "'trust', '[\"near\"]', '{\"confidence\": 0.2}')"
    )
    base.execute("INSERT INTO stamps VALUES ('monday', 's1')")
    base.commit()
    base.close()


def test_a_log_of_version_3_is_continued(tmp_path):
    path = tmp_path / "watch.sqlite"
    write_version_3(path)
    log = Log(path, "card")
    assert log.entries() == log.answers() == log.history() == [ENTRY]
    assert log.snapshots() == {"monday": ("00", "s1", None)}
    assert (log.labelled(), log.learned()) == ([], (None, 0))
    assert log.append(replace(ENTRY, name="tuesday", when="2026-05"))
    assert [entry.when for entry in Log(path, "card").entries()] == [None, "2026-05"]


def test_a_log_of_version_3_with_another_schema_is_not_touched(tmp_path):
    path = tmp_path / "watch.sqlite"
    write_version_3(path)
    with sqlite3.connect(path) as base:
        base.execute("CREATE TABLE more (x)")
    base.close()
    before = path.read_bytes()
    with pytest.raises(FileError, match="other tables"):
        Log(path, "card")
    assert path.read_bytes() == before


def test_a_log_without_settings_is_refused(tmp_path):
    path = tmp_path / "watch.sqlite"
    Log(path, "card").append(ENTRY)
    tamper(path, "DELETE FROM about WHERE key = 'seed'")
    with pytest.raises(FileError, match="does not say how it was made"):
        Log(path, "card")


ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c"


@pytest.mark.parametrize(
    "script",
    [
        f"DROP TABLE missed; CREATE VIEW missed (name, reason) AS {ENDLESS}, 'b'",
        "DROP TABLE missed; CREATE VIEW missed (name, reason) AS SELECT 'a', zeroblob(900000000)",
        "CREATE TRIGGER more AFTER INSERT ON snapshots BEGIN DELETE FROM stamps; END",
        "CREATE TABLE more (x)",
        "CREATE INDEX more ON snapshots (digest)",
        "DROP TRIGGER only_added_to",
        "DROP TABLE stamps; CREATE TABLE stamps (name TEXT, stamp TEXT NOT NULL) STRICT",
    ],
)
@pytest.mark.parametrize("late", [False, True])
def test_another_schema_is_refused(tmp_path, script, late):
    path = tmp_path / "watch.sqlite"
    log = Log(path, "card")
    assert log.append(ENTRY)
    with sqlite3.connect(path) as base:
        base.executescript(script)
    base.close()
    with pytest.raises(FileError, match="other tables, views or triggers than a log"):
        log.append(replace(ENTRY, name="tuesday")) if late else Log(path, "card")


def test_statements_and_values_are_bounded(tmp_path):
    path = tmp_path / "watch.sqlite"
    Log(path, "card").append(ENTRY)
    start = time.process_time()
    with pytest.raises(FileError, match="more steps"), open_log(path) as base:
        base.execute(ENDLESS).fetchall()
    assert time.process_time() - start < 10.0
    with pytest.raises(FileError, match="too big"), open_log(path) as base:
        base.execute("SELECT zeroblob(300000000)").fetchall()


def test_a_long_log_is_within_the_bounds(tmp_path, monkeypatch):
    path = tmp_path / "watch.sqlite"
    log = Log(path, "card")
    log.append(ENTRY)
    with sqlite3.connect(path) as base:
        base.execute(
            "INSERT INTO snapshots SELECT NULL, value, '', 1, 1, 1, 1, 1, 1, 1, 'trust', '[]', '{}'"
            " FROM (WITH RECURSIVE c(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM c"
            " LIMIT 20000) SELECT value FROM c)"
        )
        base.execute("INSERT INTO stamps SELECT name, '' FROM snapshots")
    base.close()
    monkeypatch.setattr(log_file, "_STEPS", 100_000)
    assert len(log.entries()) == len(log.snapshots()) == 20_001


def test_the_number_of_reported_rows_never_decreases(tmp_path):
    log = Log(tmp_path / "watch.sqlite", "card")
    assert log.reported() == 0
    log.report(3)
    log.report(2)
    assert log.reported() == 3
    with pytest.raises(InputError, match="number must be"):
        log.report(-1)
    tamper(log.path, "UPDATE reported SET number = -1")
    with pytest.raises(FileError, match="-1 as its number of reported rows"):
        log.reported()
    tamper(log.path, "DROP TABLE reported")
    with pytest.raises(FileError, match="other tables"):
        log.reported()


def test_a_row_is_added_only_after_the_expected_one(tmp_path):
    log = Log(tmp_path / "watch.sqlite", "card")
    assert not log.append(ENTRY, after="sunday")
    assert log.append(ENTRY, after="")
    assert not log.append(replace(ENTRY, name="tuesday"), [Missed("x", "y")], after="")
    assert log.missed() == []
    assert log.append(replace(ENTRY, name="tuesday"), after="monday")


def test_a_log_is_created_with_its_first_row(tmp_path):
    path = tmp_path / "no" / "such" / "watch.sqlite"
    log = Log(path, "card")
    assert (log.entries(), log.missed(), log.snapshots(), log.reported()) == ([], [], {}, 0)
    with pytest.raises(InputError, match="the new entry"):
        log.append(replace(ENTRY, name=""))
    assert list(tmp_path.iterdir()) == []
    other = Log(path, "card")
    assert other.append(ENTRY, after="")  # another process is faster
    assert log.entries() == [ENTRY]
    assert not log.append(replace(ENTRY, name="tuesday"), after="")


def test_a_log_that_vanishes_is_not_created_again(tmp_path):
    log = Log(tmp_path / "watch.sqlite", "card")
    log.append(ENTRY)
    log.path.unlink()
    with pytest.raises(FileError, match="is not a log"):
        log.append(replace(ENTRY, name="tuesday"))


def test_a_location_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match=r"cannot be created: .*file is not a writable folder"):
        Log(tmp_path / "file" / "deep" / "watch.sqlite", "card")


CHANGED = {
    "snapshots": {
        "digest": "'other'",
        "num_nodes": "num_nodes + 1",
        "accuracy": "accuracy + 0.001",
        "low": "low + 0.001",
        "high": "high + 0.001",
        "confidence": "confidence - 0.001",
        "temperature": "temperature + 1",
        "slope": "slope + 0.1",
        "verdict": "'caution'",
        "reasons": """'["far"]'""",
        "signals": """'{"spread": 2.0}'""",
    },
    "details": {"date": "'2020-01-01'"},
    "missed": {"reason": "'another'"},
    "labels": {"accuracy": "accuracy - 0.01", "num_labels": "num_labels + 1"},
    "answers": {"temperature": "temperature + 1", "low": "low + 0.001"},
}


@pytest.mark.parametrize(
    ("table", "column"), [(table, column) for table in CHANGED for column in CHANGED[table]]
)
def test_a_changed_value_is_named_and_refused(tmp_path, table, column):
    path = tmp_path / "watch.sqlite"
    entry = Entry("a", "00", 10, 0.8, 0.7, 0.9, 0.9, 1.5, 0.7, "trust", ("near",), {"spread": 1.0})
    entry = replace(entry, when="2026-01-01")
    log = Log(path, "card")
    log.append(entry, [Missed("before", "damaged")])
    log.append(replace(entry, name="b"))
    again = replace(entry, name="b", accuracy=0.75, revision=1)
    log.add_labels(Labelled("a", 1, 10, 0.8, 0.0, 0.1, 0.1), "{}", [again], after="b")

    def read_all():
        book = Log(path, "card")
        return book.entries(), book.later_answers(), book.labelled(), book.missed()

    read_all()
    tamper(path, f"UPDATE {table} SET {column} = {CHANGED[table][column]}")
    with pytest.raises(FileError, match="does not match its checksum"):
        read_all()


def test_rows_of_earlier_versions_have_no_checksum(tmp_path):
    path = tmp_path / "watch.sqlite"
    entry = Entry("a", "00", 10, 0.8, 0.7, 0.9, 0.9, 1.5, 0.7, "trust", (), {})
    Log(path, "card").append(entry)
    tamper(path, "DELETE FROM about WHERE key LIKE 'crc32%'")
    assert Log(path, "card").entries() == [entry]
