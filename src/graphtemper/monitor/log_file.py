"""The file of a log: its exact schema, and bounds on the cost of reading it.

A log may come from an untrusted source. SQLite runs the views and triggers of a file, so its schema
must equal the one below before any other query. Pages of a manipulated file can still be read as
rows many times: statements are stopped after a number of steps, and rows are read only as long as
they fit into the file.
"""

from __future__ import annotations

import json
import os
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from graphtemper._core.safe_reading import open_regular
from graphtemper.errors import FileError

# "gtmp", in the field that SQLite reserves for the application.
_APPLICATION = 0x67746D70
_VERSION = 4
# Logs of this version lack the tables of late labels, which are added when they are opened.
_BEFORE_LABELS = 3
# Seconds that a process waits for another that is writing.
_WRITE_TIMEOUT = 30.0
# Bytes of a value or a row; names, reasons and signals of a snapshot take a few thousand.
_MAX_BYTES = 1_000_000
# Steps of SQLite's virtual machine per use of a file, in addition to one per byte: about a second,
# and more than a valid file needs, whose rows take about fifty steps and hundreds of bytes.
_STEPS = 2_000_000
_STEPS_AT_ONCE = 10_000
_SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_schema"
_TABLES = f"""
PRAGMA application_id = {_APPLICATION};
CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE snapshots (
  position INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL UNIQUE,
  digest TEXT NOT NULL,
  num_nodes INTEGER NOT NULL,
  accuracy REAL NOT NULL,
  low REAL NOT NULL,
  high REAL NOT NULL,
  confidence REAL NOT NULL,
  temperature REAL NOT NULL,
  slope REAL NOT NULL,
  verdict TEXT NOT NULL,
  reasons TEXT NOT NULL,
  signals TEXT NOT NULL
) STRICT;
CREATE TABLE missed (name TEXT PRIMARY KEY, reason TEXT NOT NULL) STRICT;
CREATE TABLE stamps (name TEXT PRIMARY KEY, stamp TEXT NOT NULL) STRICT;
CREATE TABLE reported (one INTEGER PRIMARY KEY CHECK (one = 1), number INTEGER NOT NULL) STRICT;
CREATE TRIGGER only_added_to BEFORE UPDATE ON snapshots
  BEGIN SELECT RAISE(ABORT, 'rows of the log are never changed'); END;
CREATE TRIGGER never_removed BEFORE DELETE ON snapshots
  BEGIN SELECT RAISE(ABORT, 'rows of the log are never removed'); END;
CREATE TRIGGER missed_only_added_to BEFORE UPDATE ON missed
  BEGIN SELECT RAISE(ABORT, 'rows of the log are never changed'); END;
CREATE TRIGGER missed_never_removed BEFORE DELETE ON missed
  BEGIN SELECT RAISE(ABORT, 'rows of the log are never removed'); END;
CREATE TRIGGER about_kept BEFORE UPDATE ON about
  BEGIN SELECT RAISE(ABORT, 'what a log is made with is never changed'); END;
CREATE TRIGGER about_never_removed BEFORE DELETE ON about
  BEGIN SELECT RAISE(ABORT, 'what a log is made with is never removed'); END;
"""
# Dates, late labels, the answers given after them, and the card that has learned from them.
_LATE_TABLES = f"""
PRAGMA user_version = {_VERSION};
CREATE TABLE details (name TEXT PRIMARY KEY, date TEXT, revision INTEGER NOT NULL) STRICT;
CREATE TABLE answers (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  revision INTEGER NOT NULL,
  name TEXT NOT NULL,
  digest TEXT NOT NULL,
  num_nodes INTEGER NOT NULL,
  accuracy REAL NOT NULL,
  low REAL NOT NULL,
  high REAL NOT NULL,
  confidence REAL NOT NULL,
  temperature REAL NOT NULL,
  slope REAL NOT NULL,
  verdict TEXT NOT NULL,
  reasons TEXT NOT NULL,
  signals TEXT NOT NULL,
  UNIQUE (name, revision)
) STRICT;
CREATE TABLE labels (
  name TEXT PRIMARY KEY,
  revision INTEGER NOT NULL,
  num_labels INTEGER NOT NULL,
  accuracy REAL NOT NULL,
  deviation REAL NOT NULL,
  ece_before REAL NOT NULL,
  ece_after REAL NOT NULL
) STRICT;
CREATE TABLE learned (one INTEGER PRIMARY KEY CHECK (one = 1), card TEXT NOT NULL) STRICT;
CREATE TRIGGER details_kept BEFORE UPDATE ON details
  BEGIN SELECT RAISE(ABORT, 'rows of the log are never changed'); END;
CREATE TRIGGER details_never_removed BEFORE DELETE ON details
  BEGIN SELECT RAISE(ABORT, 'rows of the log are never removed'); END;
CREATE TRIGGER answers_kept BEFORE UPDATE ON answers
  BEGIN SELECT RAISE(ABORT, 'rows of the log are never changed'); END;
CREATE TRIGGER answers_never_removed BEFORE DELETE ON answers
  BEGIN SELECT RAISE(ABORT, 'rows of the log are never removed'); END;
CREATE TRIGGER labels_kept BEFORE UPDATE ON labels
  BEGIN SELECT RAISE(ABORT, 'rows of the log are never changed'); END;
CREATE TRIGGER labels_never_removed BEFORE DELETE ON labels
  BEGIN SELECT RAISE(ABORT, 'rows of the log are never removed'); END;
"""


def create_tables(path: Path) -> None:
    """Create the tables in a new or empty file, and add those that an older log lacks.

    Any other file is left as it is.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"the log {path} cannot be created: {error.strerror or error}.") from error
    with _connected(path) as base:
        if _is_new(base) or _is_older(base):
            with transaction(base):
                # Another process may have been faster.
                tables = _TABLES + _LATE_TABLES if _is_new(base) else ""
                if _is_older(base):
                    _compare_schema(base, path, _TABLES)
                    tables = _LATE_TABLES
                for statement in _statements(tables):
                    base.execute(statement)


def check_location(path: Path) -> None:
    """Refuse a location where no log can be created, without creating anything."""
    folder = next(parent for parent in path.absolute().parents if os.path.lexists(parent))
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise FileError(f"the log {path} cannot be created: {folder} is not a writable folder.")


@contextmanager
def empty_log(tables: str = _TABLES + _LATE_TABLES) -> Iterator[sqlite3.Connection]:
    """Open the tables of a log without rows, in memory."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as base:
        base.executescript(tables)
        yield base


@contextmanager
def open_log(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the file of a log after checking its schema; errors are one sentence."""
    with _connected(path) as base:
        _check_schema(base, path)
        yield base


@contextmanager
def transaction(base: sqlite3.Connection) -> Iterator[None]:
    """Run statements in one exclusive transaction."""
    base.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if base.in_transaction:  # SQLite has rolled back already if the disk is full
            base.execute("ROLLBACK")
        raise
    base.execute("COMMIT")


def rows(base: sqlite3.Connection, path: Path, query: str) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a query as long as the file is large enough to hold them.

    A row takes at least one byte per column and the bytes of its strings.
    """
    remaining = _number(base, "page_count") * _number(base, "page_size")
    for row in base.execute(query):
        remaining -= len(row) + sum(len(value) for value in row if isinstance(value, str | bytes))
        if remaining < 0:
            raise FileError(f"{path} holds more rows than fit into it; it is damaged.")
        yield row


def seal(base: sqlite3.Connection, table: str, named: Iterable[tuple[str, Sequence[Any]]]) -> None:
    """Store checksums of new rows; a row that is there already keeps its own."""
    sealed = [(_key(table, name), _checksum(row)) for name, row in named]
    base.executemany("INSERT OR IGNORE INTO about VALUES (?, ?)", sealed)


def check_seals(
    base: sqlite3.Connection, path: Path, table: str, found: Sequence[tuple[Any, ...]]
) -> None:
    """Refuse rows that differ from their checksums; the first value of a row is its name."""
    stored = dict(rows(base, path, "SELECT key, value FROM about")) if found else {}
    for row in found:
        if stored.get(_key(table, row[0]), checksum := _checksum(row)) != checksum:
            raise FileError(
                f"{path}: what it holds about {row[0]} does not match its checksum; the log is "
                "damaged or was edited, so restore it or begin a new one."
            )


def _key(table: str, name: str) -> str:
    return f"crc32 of {table}: {name}"


def _checksum(row: Sequence[Any]) -> str:
    return f"{zlib.crc32(json.dumps([*row]).encode()):08x}"


@contextmanager
def _connected(path: Path) -> Iterator[sqlite3.Connection]:
    if os.path.lexists(path):  # SQLite would wait for a pipe
        with open_regular(path, "the log"):
            pass
    steps, max_steps = 0, _STEPS + _size(path)

    def exceeded() -> bool:
        nonlocal steps
        steps += _STEPS_AT_ONCE
        return steps > max_steps

    try:
        with closing(sqlite3.connect(path, _WRITE_TIMEOUT, isolation_level=None)) as base:
            base.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_BYTES)
            base.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
            base.set_progress_handler(exceeded, _STEPS_AT_ONCE)
            base.execute("PRAGMA trusted_schema = OFF")
            base.execute("PRAGMA cell_size_check = ON")
            yield base
    except sqlite3.OperationalError as error:
        if steps > max_steps:
            raise FileError(
                f"{path} takes more steps to read than a log of its size; it is damaged."
            ) from error
        raise FileError(
            f"the log {path} cannot be used: {_one_line(error)}; check the folder, the disk, and "
            "whether another process holds it."
        ) from error
    except (sqlite3.Error, OverflowError, UnicodeDecodeError) as error:
        message = f"{path} is not a log of graphtemper monitor: {_one_line(error)}."
        raise FileError(message) from error


def _one_line(error: Exception) -> str:
    # SQLite quotes the schema of a damaged file, which has line breaks.
    return " ".join(str(error).split())


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0  # there is no file yet, or SQLite reports what is wrong with it


def _check_schema(base: sqlite3.Connection, path: Path) -> None:
    # The application is in the header; the schema is read without running any of it.
    if _number(base, "application_id") != _APPLICATION:
        raise FileError(f"{path} is not a log of graphtemper monitor; choose another --log.")
    version = _number(base, "user_version")
    if version != _VERSION:
        raise FileError(
            f"{path} has version {version}, but this graphtemper reads {_VERSION}; begin a new log."
        )
    _compare_schema(base, path, _TABLES + _LATE_TABLES)


def _compare_schema(base: sqlite3.Connection, path: Path, tables: str) -> None:
    expected = _schema(tables)
    rows_of_schema = base.execute(f"{_SCHEMA} LIMIT {len(expected) + 1}").fetchall()
    if _sorted(rows_of_schema) != expected:
        raise FileError(f"{path} has other tables, views or triggers than a log; begin a new log.")


def _is_new(base: sqlite3.Connection) -> bool:
    if _number(base, "schema_version"):
        return False
    return base.execute(f"{_SCHEMA} LIMIT 1").fetchone() is None


def _is_older(base: sqlite3.Connection) -> bool:
    return (
        _number(base, "application_id") == _APPLICATION
        and _number(base, "user_version") == _BEFORE_LABELS
    )


def _number(base: sqlite3.Connection, pragma: str) -> int:
    return int(base.execute(f"PRAGMA {pragma}").fetchone()[0])


@cache
def _schema(tables: str) -> list[tuple[str, ...]]:
    """Return the schema of tables, with the tables and indices that SQLite adds."""
    with empty_log(tables) as base:
        return _sorted(base.execute(_SCHEMA))


def _sorted(schema: Iterable[tuple[Any, ...]]) -> list[tuple[str, ...]]:
    return sorted(tuple(repr(value) for value in row) for row in schema)


def _statements(tables: str) -> Iterator[str]:
    statement = ""
    for line in tables.splitlines():
        statement += line + "\n"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
