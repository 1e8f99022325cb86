"""The log of a watch: an append-only SQLite file with one row per snapshot.

SQLite writes a row completely or not at all when a process or the machine stops, and lets several
processes take turns. Triggers refuse changes of existing rows. The first row settles the card, the
kind of snapshot and the seed, so that numbers which cannot be compared are never in one log. Stamps
of files and the number of reported rows are not part of the record and may change.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, NamedTuple

from graphtemper._core.checks import check_integer
from graphtemper._core.safe_reading import parse_json
from graphtemper.errors import FileError, InputError
from graphtemper.monitor.entry import Entry, Missed, check_entry, check_strings
from graphtemper.monitor.log_file import (
    check_location,
    create_tables,
    empty_log,
    open_log,
    rows,
    transaction,
)

Kind = Literal["graphs", "logits"]
"""What the snapshots of a log are."""


class LoggedSnapshot(NamedTuple):
    """The checksum of a logged snapshot, and the stamp of its files."""

    digest: str
    stamp: str | None


class Log:
    """An append-only log in one SQLite file, which is created with the first row.

    Parameters
    ----------
    path
        The file; missing folders are created.
    card
        A checksum of the watch's card (`graphtemper.monitor.fingerprint`); a log of another card
        is refused.
    kind
        ``"graphs"`` or ``"logits"``. Logits alone give other signals than a graph and its model,
        so the two are never in one log.
    seed
        Seed of the perturbed passes, and of ties in the test for changes.

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
        self._settings = {"card": card, "kind": kind, "seed": str(seed)}
        # A watch that ends before its first row leaves no file behind.
        self._exists = os.path.exists(self.path)
        if self._exists:
            create_tables(self.path)  # the file may be empty
        else:
            check_location(self.path)
        with self._reading() as base:
            self._check_settings(base)

    def append(
        self,
        entry: Entry,
        missed: Sequence[Missed] = (),
        stamp: str | None = None,
        *,
        after: str | None = None,
    ) -> bool:
        """Add a row, together with the snapshots before it that could not be measured.

        Return False without adding anything if the log has a snapshot of that name, measured or
        missed, or if its last row is not the expected one.

        Parameters
        ----------
        entry, missed
            The new row, and the missed snapshots before it.
        stamp
            The stamp of the files, if it is reliable.
        after
            Name of the expected last row, "" for a log without rows, or None for any.
        """
        check_entry(entry, "the new entry")
        check_strings(tuple(text for snapshot in missed for text in snapshot), "the new entry")
        values = [getattr(entry, field.name) for field in fields(entry)]
        values[-2:] = [json.dumps(list(entry.reasons)), json.dumps(entry.signals)]
        names = ", ".join(field.name for field in fields(entry))
        marks = ", ".join("?" * len(values))
        with self._writing() as base:
            self._check_settings(base)
            if after is not None and _last(base) != after:
                return False
            base.executemany("INSERT OR IGNORE INTO about VALUES (?, ?)", self._settings.items())
            base.executemany(
                "INSERT OR IGNORE INTO missed SELECT ?1, ?2 "
                "WHERE NOT EXISTS (SELECT 1 FROM snapshots WHERE name = ?1)",
                missed,
            )
            inserted = base.execute(
                f"INSERT OR IGNORE INTO snapshots ({names}) SELECT {marks} "
                "WHERE NOT EXISTS (SELECT 1 FROM missed WHERE name = ?)",
                [*values, entry.name],
            )
            if inserted.rowcount == 1 and stamp is not None:
                base.execute("INSERT OR REPLACE INTO stamps VALUES (?, ?)", (entry.name, stamp))
            return inserted.rowcount == 1

    def entries(self) -> list[Entry]:
        """Return all rows, oldest first."""
        names = [field.name for field in fields(Entry)]
        query = f"SELECT {', '.join(names)} FROM snapshots ORDER BY position"
        with self._reading() as base:
            return [_entry(row, self.path) for row in rows(base, self.path, query)]

    def missed(self) -> list[Missed]:
        """Return the snapshots that could not be measured before a later one was."""
        query = "SELECT name, reason FROM missed ORDER BY rowid"
        with self._reading() as base:
            missed = [Missed(*row) for row in rows(base, self.path, query)]
        for snapshot in missed:
            check_strings(snapshot, f"a row of {self.path}")
        return missed

    def snapshots(self) -> dict[str, LoggedSnapshot]:
        """Return checksums and stamps of the logged snapshots by name, oldest first."""
        query = (
            "SELECT name, digest, stamp FROM snapshots LEFT JOIN stamps USING (name) "
            "ORDER BY position"
        )
        with self._reading() as base:
            logged = {row[0]: LoggedSnapshot(*row[1:]) for row in rows(base, self.path, query)}
        for name, (digest, stamp) in logged.items():
            check_strings((name, digest, stamp or ""), f"a row of {self.path}")
        return logged

    def update_stamps(self, stamps: Mapping[str, str]) -> None:
        """Store new stamps of snapshots whose content is unchanged."""
        if stamps:
            with self._writing() as base:
                base.executemany("INSERT OR REPLACE INTO stamps VALUES (?, ?)", stamps.items())

    def reported(self) -> int:
        """Return the number of rows, from the first on, that have been reported."""
        with self._reading() as base:
            row = base.execute("SELECT number FROM reported WHERE one = 1").fetchone()
        number = 0 if row is None else row[0]
        if not isinstance(number, int) or number < 0:
            raise FileError(
                f"{self.path} holds {number!r} as its number of reported rows; begin a new log."
            )
        return number

    def report(self, number: int) -> None:
        """Store the number of reported rows, which never decreases."""
        check_integer(number, "number", 0)
        with self._writing() as base:
            base.execute(
                "INSERT INTO reported VALUES (1, ?) "
                "ON CONFLICT (one) DO UPDATE SET number = max(number, excluded.number)",
                (number,),
            )

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        # Another process may have created it; a log that has vanished is an error.
        self._exists = self._exists or os.path.exists(self.path)
        with open_log(self.path) if self._exists else empty_log() as base:
            yield base

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        if not self._exists:
            create_tables(self.path)
            self._exists = True
        with open_log(self.path) as base, transaction(base):
            yield base

    def _check_settings(self, base: sqlite3.Connection) -> None:
        """Refuse a log that was begun with other settings, unless it has no rows."""
        if base.execute("SELECT 1 FROM snapshots LIMIT 1").fetchone() is None:
            return
        stored = dict(rows(base, self.path, "SELECT key, value FROM about"))
        if not self._settings.keys() <= stored.keys():
            raise FileError(f"{self.path} does not say how it was made; begin a new log.")
        if stored["card"] != self._settings["card"]:
            raise InputError(
                f"the log {self.path} was begun with another card; use one log per model."
            )
        if stored["kind"] != self._settings["kind"]:
            raise InputError(
                f"the log {self.path} is for {stored['kind']}, which give other signals than "
                f"{self.kind}; use one log for each."
            )
        if stored["seed"] != self._settings["seed"]:
            raise InputError(
                f"the log {self.path} was begun with the seed {stored['seed']}, not {self.seed}; "
                "use that seed, or begin a new log."
            )


def _last(base: sqlite3.Connection) -> str:
    row = base.execute("SELECT name FROM snapshots ORDER BY position DESC LIMIT 1").fetchone()
    return "" if row is None else str(row[0])


def _entry(row: tuple[Any, ...], path: Path) -> Entry:
    *values, reasons, signals = row
    try:
        named = dict(zip((field.name for field in fields(Entry)), values, strict=False))
        entry = Entry(**named, reasons=tuple(parse_json(reasons)), signals=parse_json(signals))
        check_entry(entry, f"a row of {path}")
    except (TypeError, ValueError, RecursionError) as error:
        message = str(error).rstrip(".")
        raise FileError(f"{path} holds a row that is not valid: {message}.") from error
    return entry
