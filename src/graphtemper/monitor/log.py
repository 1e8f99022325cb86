"""The log of a watch: one row a snapshot, only ever added to, in one SQLite file.

SQLite keeps a row whole or not at all when a process or a machine dies, and lets several processes
take turns. Triggers refuse changes of rows that are there. With its first row the file says what
its rows are made with (card, kind of snapshot, seed), so that numbers which do not compare are not
mixed up. The stamps of files are no record, only a means to not read them again.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, NamedTuple

from graphtemper.errors import FileError, InputError
from graphtemper.monitor.entry import Entry, Missed, check_entry, check_texts

Kind = Literal["graphs", "logits"]
"""What the snapshots of a log are."""
# "gtmp": SQLite's place for saying whose file it is.
_APPLICATION = 0x67746D70
_VERSION = 2
# How long a process waits for another that is writing, in seconds.
_PATIENCE = 30.0
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


class Known(NamedTuple):
    """How a snapshot of the log is recognised: its checksum, and the stamp of its files."""

    digest: str
    stamp: str | None


class Log:
    """An append-only log in one SQLite file; made where there is none.

    Parameters
    ----------
    path
        The file.
    card
        A checksum of the card that the watch uses; a log of another card is refused.
    kind
        What snapshots are, ``"graphs"`` or ``"logits"``. Logits alone show other signals than a
        graph and its model, so the two are never in one log.
    seed
        Of the perturbed passes, and of ties in the test for changes.

    Examples
    --------
    >>> import tempfile
    >>> entry = Entry("monday", "00", 10, 0.8, 0.7, 0.9, 0.9, 1.5, 0.7, "trust", ("near",), {})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = Log(Path(folder) / "watch.sqlite", card="c1")
    ...     log.append(entry), log.append(entry), len(log.entries())
    (True, False, 1)
    """

    def __init__(
        self, path: str | os.PathLike[str], card: str, *, kind: Kind = "graphs", seed: int = 0
    ) -> None:
        self.path, self.kind, self.seed = Path(path), kind, seed
        self._about = {"card": card, "kind": kind, "seed": str(seed)}
        with self._open() as base:
            _prepare(base, self.path)
            self._agree(base)

    def append(self, entry: Entry, missed: Sequence[Missed] = (), stamp: str | None = None) -> bool:
        """Add a row, and with it the snapshots before it that could not be measured.

        Returns False where a snapshot of that name is there already, or was passed over.
        ``stamp`` is that of the files, if it can be relied on.
        """
        check_entry(entry, "the new entry")
        check_texts(tuple(text for one in missed for text in one), "the new entry")
        values = [getattr(entry, field.name) for field in fields(entry)]
        values[-2:] = [json.dumps(list(entry.reasons)), json.dumps(entry.signals)]
        names = ", ".join(field.name for field in fields(entry))
        marks = ", ".join("?" * len(values))
        with self._open() as base, _transaction(base):
            self._agree(base)
            base.executemany("INSERT OR IGNORE INTO about VALUES (?, ?)", self._about.items())
            base.executemany(
                "INSERT OR IGNORE INTO missed SELECT ?1, ?2 "
                "WHERE NOT EXISTS (SELECT 1 FROM snapshots WHERE name = ?1)",
                missed,
            )
            done = base.execute(
                f"INSERT OR IGNORE INTO snapshots ({names}) SELECT {marks} "
                "WHERE NOT EXISTS (SELECT 1 FROM missed WHERE name = ?)",
                [*values, entry.name],
            )
            if done.rowcount == 1 and stamp is not None:
                base.execute("INSERT OR REPLACE INTO stamps VALUES (?, ?)", (entry.name, stamp))
            return done.rowcount == 1

    def entries(self) -> list[Entry]:
        """Return all rows, oldest first."""
        names = [field.name for field in fields(Entry)]
        with self._open() as base:
            rows = base.execute(f"SELECT {', '.join(names)} FROM snapshots ORDER BY position")
            return [_entry(row, self.path) for row in rows]

    def missed(self) -> list[Missed]:
        """Return the snapshots that were passed over because they could not be measured."""
        with self._open() as base:
            rows = base.execute("SELECT name, reason FROM missed ORDER BY rowid").fetchall()
        found = [Missed(*row) for row in rows]
        for one in found:
            check_texts(one, f"a row of {self.path}")
        return found

    def known(self) -> dict[str, Known]:
        """Return how the snapshots of the log are recognised, by their names."""
        with self._open() as base:
            rows = base.execute(
                "SELECT name, digest, stamp FROM snapshots LEFT JOIN stamps USING (name)"
            )
            return {name: Known(digest, stamp) for name, digest, stamp in rows}

    def remember(self, stamps: Mapping[str, str]) -> None:
        """Keep the stamps of snapshots whose content was found unchanged."""
        if stamps:
            with self._open() as base, _transaction(base):
                base.executemany("INSERT OR REPLACE INTO stamps VALUES (?, ?)", stamps.items())

    def _agree(self, base: sqlite3.Connection) -> None:
        """Refuse a log that was begun with something else; one without rows is anybody's."""
        if base.execute("SELECT 1 FROM snapshots LIMIT 1").fetchone() is None:
            return
        begun = dict(base.execute("SELECT key, value FROM about"))
        if not self._about.keys() <= begun.keys():
            raise FileError(f"{self.path} does not say what it was made with; begin a new log.")
        if begun["card"] != self._about["card"]:
            raise InputError(
                f"the log {self.path} was begun with another card; watch each model in a log of "
                "its own."
            )
        if begun["kind"] != self._about["kind"]:
            raise InputError(
                f"the log {self.path} is of {begun['kind']}, which show other signals than "
                f"{self.kind}; give each a log of its own."
            )
        if begun["seed"] != self._about["seed"]:
            raise InputError(
                f"the log {self.path} was begun with the seed {begun['seed']}, not {self.seed}; "
                "go on with that one, or begin a new log."
            )

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
        except (sqlite3.Error, OverflowError, UnicodeDecodeError) as error:
            raise FileError(f"{self.path} is not a log of graphtemper monitor: {error}.") from error


@contextmanager
def _transaction(base: sqlite3.Connection) -> Iterator[None]:
    """Do all or nothing, alone."""
    base.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if base.in_transaction:  # a full disk has rolled back already
            base.execute("ROLLBACK")
        raise
    base.execute("COMMIT")


def _prepare(base: sqlite3.Connection, path: Path) -> None:
    """Make the tables of a new file, or check whose the file is that is there."""
    with _transaction(base):
        if base.execute("PRAGMA schema_version").fetchone()[0] == 0:
            for statement in _statements():
                base.execute(statement)
    if base.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION:
        raise FileError(f"{path} is not a log of graphtemper monitor; choose another --log.")
    version = base.execute("PRAGMA user_version").fetchone()[0]
    if version != _VERSION:
        raise FileError(
            f"{path} has version {version}, but this graphtemper reads {_VERSION}; begin a new log."
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
        check_entry(entry, f"a row of {path}")
    except (TypeError, ValueError, RecursionError) as error:
        raise FileError(f"{path} holds a row that is no snapshot: {error}.") from error
    return entry
