"""The log of a watch: one row a snapshot, only ever added to, in one SQLite file.

SQLite keeps a row whole or not at all when a process or a machine dies, and lets several processes
take turns. Triggers refuse changes of rows that are there. The file says which card it belongs to,
so that two models are not mixed up.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from graphtemper.errors import FileError, InputError

# "gtmp": SQLite's place for saying whose file it is.
_APPLICATION = 0x67746D70
_VERSION = 1
# How long a process waits for another that is writing, in seconds.
_PATIENCE = 30.0
_VERDICTS = ("trust", "caution", "abstain")
_LONGEST = 10_000
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
CREATE TRIGGER only_added_to BEFORE UPDATE ON snapshots
  BEGIN SELECT RAISE(ABORT, 'rows of the log are never changed'); END;
CREATE TRIGGER never_removed BEFORE DELETE ON snapshots
  BEGIN SELECT RAISE(ABORT, 'rows of the log are never removed'); END;
"""


@dataclass(frozen=True)
class Entry:
    """What one snapshot showed.

    Attributes
    ----------
    name, digest
        The snapshot, and a checksum of what was in it.
    accuracy, low, high
        Estimate and 90 % interval.
    confidence
        Mean confidence before recalibration.
    reasons, signals
        Sentences behind the verdict; label-free numbers by name.
    """

    name: str
    digest: str
    num_nodes: int
    accuracy: float
    low: float
    high: float
    confidence: float
    temperature: float
    slope: float
    verdict: str
    reasons: tuple[str, ...]
    signals: dict[str, float]

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values."""
        return {field.name: getattr(self, field.name) for field in fields(self)} | {
            "reasons": list(self.reasons)
        }


class Log:
    """An append-only log in one SQLite file; made where there is none.

    Parameters
    ----------
    path
        The file.
    card
        A checksum of the card that the watch uses; a log of another card is refused.

    Examples
    --------
    >>> import tempfile
    >>> entry = Entry("monday", "00", 10, 0.8, 0.7, 0.9, 0.9, 1.5, 0.7, "trust", ("near",), {})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = Log(Path(folder) / "watch.sqlite", card="c1")
    ...     log.append(entry), log.append(entry), len(log.entries())
    (True, False, 1)
    """

    def __init__(self, path: str | os.PathLike[str], card: str) -> None:
        self.path = Path(path)
        with self._open() as base:
            _prepare(base, self.path, card)

    def append(self, entry: Entry) -> bool:
        """Add a row; False where a snapshot of that name is there already."""
        _check(entry, "the new entry")
        values = [getattr(entry, field.name) for field in fields(entry)]
        values[-2:] = [json.dumps(list(entry.reasons)), json.dumps(entry.signals)]
        names = ", ".join(field.name for field in fields(entry))
        marks = ", ".join("?" * len(values))
        with self._open() as base, base:
            base.execute("BEGIN IMMEDIATE")
            done = base.execute(
                f"INSERT OR IGNORE INTO snapshots ({names}) VALUES ({marks})", values
            )
            return done.rowcount == 1

    def entries(self) -> list[Entry]:
        """Return all rows, oldest first."""
        names = [field.name for field in fields(Entry)]
        with self._open() as base:
            rows = base.execute(f"SELECT {', '.join(names)} FROM snapshots ORDER BY position")
            return [_entry(row, self.path) for row in rows]

    def digest(self, name: str) -> str | None:
        """Return the checksum of a snapshot's content, or None if it is not in the log."""
        with self._open() as base:
            row = base.execute("SELECT digest FROM snapshots WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self.path, _PATIENCE, isolation_level=None)) as base:
                base.execute("PRAGMA trusted_schema = OFF")
                yield base
        except sqlite3.OperationalError as error:
            raise FileError(
                f"the log {self.path} cannot be used: {error}; check the folder, the disk, and "
                "whether another process holds it."
            ) from error
        except (sqlite3.Error, OverflowError) as error:
            raise FileError(f"{self.path} is not a log of graphtemper monitor: {error}.") from error


def _prepare(base: sqlite3.Connection, path: Path, card: str) -> None:
    """Make the tables of a new file, or check those of one that is there."""
    base.execute("BEGIN IMMEDIATE")
    try:
        if base.execute("PRAGMA schema_version").fetchone()[0] == 0:
            for statement in _statements():
                base.execute(statement)
            base.execute("INSERT INTO about VALUES ('card', ?)", (card,))
    except BaseException:
        base.execute("ROLLBACK")
        raise
    base.execute("COMMIT")
    if base.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION:
        raise FileError(f"{path} is not a log of graphtemper monitor; choose another --log.")
    version = base.execute("PRAGMA user_version").fetchone()[0]
    if version != _VERSION:
        raise FileError(f"{path} has version {version}, but this graphtemper reads {_VERSION}.")
    row = base.execute("SELECT value FROM about WHERE key = 'card'").fetchone()
    if row is None or row[0] != card:
        raise InputError(
            f"the log {path} was begun with another card; watch each model in a log of its own."
        )


def _statements() -> Iterator[str]:
    statement = ""
    for line in _TABLES.splitlines():
        statement += line + "\n"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _entry(row: tuple[Any, ...], path: Path) -> Entry:
    *values, reasons, signals = row
    try:
        plain = dict(zip((field.name for field in fields(Entry)), values, strict=False))
        entry = Entry(**plain, reasons=tuple(json.loads(reasons)), signals=json.loads(signals))
        _check(entry, f"a row of {path}")
    except (TypeError, ValueError, RecursionError) as error:
        raise FileError(f"{path} holds a row that is no snapshot: {error}.") from error
    return entry


def _check(entry: Entry, name: str) -> None:
    if not isinstance(entry.signals, dict):
        raise InputError(f"{name} holds signals that have no names.")
    texts = (entry.name, entry.digest, entry.verdict, *entry.reasons, *entry.signals)
    if not all(isinstance(text, str) and len(text) <= _LONGEST for text in texts):
        raise InputError(f"{name} holds a text that is none, or one that is too long.")
    if entry.verdict not in _VERDICTS:
        raise InputError(f"{name} has the verdict {entry.verdict!r}; there is none of that name.")
    numbers = (entry.accuracy, entry.low, entry.high, entry.confidence, entry.temperature)
    for value in (*numbers, entry.slope, *entry.signals.values()):
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not math.isfinite(value)
        ):
            raise InputError(f"{name} holds {value!r} where a finite number is due.")
