"""The log of a watch: one row a snapshot, only ever added to, in one SQLite file.

SQLite keeps a row whole or not at all when a process or a machine dies, and lets several processes
take turns. Triggers refuse changes of rows that are there. With its first row the file says what
its rows are made with (card, kind of snapshot, seed), so that numbers which do not compare are not
mixed up. The stamps of files are no record, only a means to not read them again; nor is the number
of rows that were reported, a means to report each once.
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

from graphtemper.errors import FileError, InputError
from graphtemper.monitor.entry import Entry, Missed, check_entry, check_texts
from graphtemper.monitor.log_file import begin, check_place, opened, rows, transaction, unwritten

Kind = Literal["graphs", "logits"]
"""What the snapshots of a log are."""


class Known(NamedTuple):
    """How a snapshot of the log is recognised: its checksum, and the stamp of its files."""

    digest: str
    stamp: str | None


class Log:
    """An append-only log in one SQLite file; made with the first row where there is none.

    Parameters
    ----------
    path
        The file; folders that are missing are made with it.
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
        # A watch that ends before its first row leaves nothing behind.
        self._begun = os.path.exists(self.path)
        if self._begun:
            begin(self.path)  # it may be empty
        else:
            check_place(self.path)
        with self._reading() as base:
            self._agree(base)

    def append(
        self,
        entry: Entry,
        missed: Sequence[Missed] = (),
        stamp: str | None = None,
        *,
        after: str | None = None,
    ) -> bool:
        """Add a row, and with it the snapshots before it that could not be measured.

        Returns False, and adds nothing, where a snapshot of that name is there already or was
        passed over, or where the last row is another than expected.

        Parameters
        ----------
        entry, missed
            What to add.
        stamp
            That of the files, if it can be relied on.
        after
            The name of the row that must be the last, or "" where there must be none; None where
            it may be any.
        """
        check_entry(entry, "the new entry")
        check_texts(tuple(text for one in missed for text in one), "the new entry")
        values = [getattr(entry, field.name) for field in fields(entry)]
        values[-2:] = [json.dumps(list(entry.reasons)), json.dumps(entry.signals)]
        names = ", ".join(field.name for field in fields(entry))
        marks = ", ".join("?" * len(values))
        with self._writing() as base:
            self._agree(base)
            if after is not None and _last(base) != after:
                return False
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
        query = f"SELECT {', '.join(names)} FROM snapshots ORDER BY position"
        with self._reading() as base:
            return [_entry(row, self.path) for row in rows(base, self.path, query)]

    def missed(self) -> list[Missed]:
        """Return the snapshots that were passed over because they could not be measured."""
        query = "SELECT name, reason FROM missed ORDER BY rowid"
        with self._reading() as base:
            found = [Missed(*row) for row in rows(base, self.path, query)]
        for one in found:
            check_texts(one, f"a row of {self.path}")
        return found

    def known(self) -> dict[str, Known]:
        """Return how the snapshots of the log are recognised, by their names, oldest first."""
        query = (
            "SELECT name, digest, stamp FROM snapshots LEFT JOIN stamps USING (name) "
            "ORDER BY position"
        )
        with self._reading() as base:
            found = {row[0]: Known(*row[1:]) for row in rows(base, self.path, query)}
        for name, (digest, stamp) in found.items():
            check_texts((name, digest, stamp or ""), f"a row of {self.path}")
        return found

    def remember(self, stamps: Mapping[str, str]) -> None:
        """Keep the stamps of snapshots whose content was found unchanged."""
        if stamps:
            with self._writing() as base:
                base.executemany("INSERT OR REPLACE INTO stamps VALUES (?, ?)", stamps.items())

    def reported(self) -> int:
        """Return how many rows, from the first on, have been reported."""
        with self._reading() as base:
            found = base.execute("SELECT number FROM reported WHERE one = 1").fetchone()
        if found is not None and not isinstance(found[0], int):
            raise FileError(
                f"{self.path} does not say how many rows were reported; begin a new log."
            )
        return 0 if found is None else int(found[0])

    def report(self, number: int) -> None:
        """Keep that so many rows have been reported; never fewer than before."""
        with self._writing() as base:
            base.execute(
                "INSERT INTO reported VALUES (1, ?) "
                "ON CONFLICT (one) DO UPDATE SET number = max(number, excluded.number)",
                (number,),
            )

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        # Another process may have begun it; a log that was there and is gone is an error.
        self._begun = self._begun or os.path.exists(self.path)
        with opened(self.path) if self._begun else unwritten() as base:
            yield base

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        if not self._begun:
            begin(self.path)
            self._begun = True
        with opened(self.path) as base, transaction(base):
            yield base

    def _agree(self, base: sqlite3.Connection) -> None:
        """Refuse a log that was begun with something else; one without rows is anybody's."""
        if base.execute("SELECT 1 FROM snapshots LIMIT 1").fetchone() is None:
            return
        begun = dict(rows(base, self.path, "SELECT key, value FROM about"))
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


def _last(base: sqlite3.Connection) -> str:
    found = base.execute("SELECT name FROM snapshots ORDER BY position DESC LIMIT 1").fetchone()
    return "" if found is None else str(found[0])


def _entry(row: tuple[Any, ...], path: Path) -> Entry:
    *values, reasons, signals = row
    try:
        plain = dict(zip((field.name for field in fields(Entry)), values, strict=False))
        entry = Entry(**plain, reasons=tuple(json.loads(reasons)), signals=json.loads(signals))
        check_entry(entry, f"a row of {path}")
    except (TypeError, ValueError, RecursionError) as error:
        raise FileError(f"{path} holds a row that is no snapshot: {error}.") from error
    return entry
