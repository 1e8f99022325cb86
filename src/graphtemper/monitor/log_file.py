"""The file of a log: its tables to the letter, and bounds on what reading it may take.

A log may come from anywhere. SQLite runs what a file's views and triggers say, so before anything
else is asked of a file its schema must be exactly the one that is written here. Pages of a file
made by hand can still stand for rows many times over: statements are stopped after a number of
steps, and rows are read only as long as they could fit into the file.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from graphtemper.errors import FileError

# "gtmp": SQLite's place for saying whose file it is.
_APPLICATION = 0x67746D70
_VERSION = 3
# How long a process waits for another that is writing, in seconds.
_PATIENCE = 30.0
# Bytes of a value or a row; names, reasons and signals of a snapshot are a few thousand.
_LONGEST = 1_000_000
# Steps of SQLite's machine for each use of a file, besides one a byte: a second or so, and more
# than an honest file needs, whose rows take some fifty steps and hundreds of bytes.
_STEPS = 2_000_000
_STEPS_AT_ONCE = 10_000
_SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_schema"
_TABLES = f"""
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {_VERSION};
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


def begin(path: Path) -> None:
    """Make the tables where there is no file, or an empty one; leave any other as it is."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"the log {path} cannot be made: {error.strerror or error}.") from error
    with _connected(path) as base:
        if _is_new(base):
            with transaction(base):
                if _is_new(base):  # another process may have been faster
                    for statement in _statements():
                        base.execute(statement)


def check_place(path: Path) -> None:
    """Refuse a place where no log can be made, without making anything."""
    folder = next(parent for parent in path.absolute().parents if os.path.lexists(parent))
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise FileError(
            f"the log {path} cannot be made: {folder} is no folder that can be written to."
        )


@contextmanager
def unwritten() -> Iterator[sqlite3.Connection]:
    """Open the tables of a log that has no rows, and no file yet."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as base:
        base.executescript(_TABLES)
        yield base


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the file of a log after checking that it is one; errors are one sentence."""
    with _connected(path) as base:
        _check(base, path)
        yield base


@contextmanager
def transaction(base: sqlite3.Connection) -> Iterator[None]:
    """Do all or nothing, alone."""
    base.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if base.in_transaction:  # a full disk has rolled back already
            base.execute("ROLLBACK")
        raise
    base.execute("COMMIT")


def rows(base: sqlite3.Connection, path: Path, query: str) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a query, as long as the file is large enough to hold them.

    Every row takes a byte for each of its columns, and those of its texts.
    """
    left = _number(base, "page_count") * _number(base, "page_size")
    for row in base.execute(query):
        left -= len(row) + sum(len(value) for value in row if isinstance(value, str | bytes))
        if left < 0:
            raise FileError(f"{path} shows more rows than fit into it; it is damaged.")
        yield row


@contextmanager
def _connected(path: Path) -> Iterator[sqlite3.Connection]:
    spent, most = 0, _STEPS + _size(path)

    def too_much() -> bool:
        nonlocal spent
        spent += _STEPS_AT_ONCE
        return spent > most

    try:
        with closing(sqlite3.connect(path, _PATIENCE, isolation_level=None)) as base:
            base.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST)
            base.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
            base.set_progress_handler(too_much, _STEPS_AT_ONCE)
            base.execute("PRAGMA trusted_schema = OFF")
            base.execute("PRAGMA cell_size_check = ON")
            yield base
    except sqlite3.OperationalError as error:
        if spent > most:
            raise FileError(f"{path} takes more steps to read than a log of its size.") from error
        raise FileError(
            f"the log {path} cannot be used: {error}; check the folder, the disk, and whether "
            "another process holds it."
        ) from error
    except (sqlite3.Error, OverflowError, UnicodeDecodeError) as error:
        raise FileError(f"{path} is not a log of graphtemper monitor: {error}.") from error


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0  # there is none yet, or SQLite will say what is wrong with it


def _check(base: sqlite3.Connection, path: Path) -> None:
    # Whose file it is stands in its header; the schema is read without running any of it.
    if _number(base, "application_id") != _APPLICATION:
        raise FileError(f"{path} is not a log of graphtemper monitor; choose another --log.")
    version = _number(base, "user_version")
    if version != _VERSION:
        raise FileError(
            f"{path} has version {version}, but this graphtemper reads {_VERSION}; begin a new log."
        )
    known = _schema()
    found = base.execute(f"{_SCHEMA} LIMIT {len(known) + 1}").fetchall()
    if _sorted(found) != known:
        raise FileError(
            f"{path} has other tables, views or triggers than a log; it is not used, so begin a "
            "new one."
        )


def _is_new(base: sqlite3.Connection) -> bool:
    if _number(base, "schema_version"):
        return False
    return base.execute(f"{_SCHEMA} LIMIT 1").fetchone() is None


def _number(base: sqlite3.Connection, pragma: str) -> int:
    return int(base.execute(f"PRAGMA {pragma}").fetchone()[0])


@cache
def _schema() -> list[tuple[str, ...]]:
    """Return what SQLite keeps of `_TABLES`, with the tables and indices that it adds."""
    with unwritten() as base:
        return _sorted(base.execute(_SCHEMA))


def _sorted(found: Iterable[tuple[Any, ...]]) -> list[tuple[str, ...]]:
    return sorted(tuple(repr(value) for value in row) for row in found)


def _statements() -> Iterator[str]:
    statement = ""
    for line in _TABLES.splitlines():
        statement += line + "\n"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
