"""The log of a watch: an append-only SQLite file with one row per snapshot.

SQLite writes a row completely or not at all when a process or the machine stops, and lets several
processes take turns. Triggers refuse changes of existing rows. The first row settles the card, the
kind of snapshot and the seed, so that numbers which cannot be compared are never in one log. Stamps
of files and the number of reported rows are not part of the record and may change. The checksum of
each row of the record is a setting under the row's name; rows of earlier versions have none.

Late labels of a snapshot add a row of their own, the card that has learned from them, and new
answers to later snapshots. The first answers stay. Each time the card learns, the log's *revision*
grows by one, and answers carry the revision of the card that gave them.
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
from graphtemper.monitor.entry import (
    Entry,
    Labelled,
    Missed,
    check_entry,
    check_labelled,
    check_strings,
)
from graphtemper.monitor.log_file import (
    check_location,
    check_seals,
    create_tables,
    empty_log,
    open_log,
    rows,
    seal,
    transaction,
)

Kind = Literal["graphs", "logits"]
"""What the snapshots of a log are."""


# Columns of the tables of answers; the other fields of an entry are in the table of details.
_COLUMNS = [field.name for field in fields(Entry) if field.name not in ("when", "revision")]


class LoggedSnapshot(NamedTuple):
    """The checksum of a logged snapshot, the stamp of its files, and its place in time."""

    digest: str
    stamp: str | None
    when: str | None


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
        missed, or if its last row is not the expected one. An answer of a card that has not learned
        all labels of the log is refused.

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
        values = _values(entry)
        names, marks = ", ".join(_COLUMNS), ", ".join("?" * len(values))
        with self._writing() as base:
            self._check_settings(base)
            if after is not None and _last(base) != after:
                return False
            self._check_revision(base, entry.revision)
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
            if inserted.rowcount == 1:
                details = (entry.name, entry.when, entry.revision)
                base.execute("INSERT INTO details VALUES (?, ?, ?)", details)
                seal(base, "snapshots", [(entry.name, [*values, entry.when, entry.revision])])
            seal(base, "missed", [(item.name, [*item]) for item in missed])
            if inserted.rowcount == 1 and stamp is not None:
                base.execute("INSERT OR REPLACE INTO stamps VALUES (?, ?)", (entry.name, stamp))
            return inserted.rowcount == 1

    def add_labels(
        self, labelled: Labelled, card: str | None, answers: Sequence[Entry], *, after: str
    ) -> None:
        """Add what labels of a snapshot showed, the card that learned from them, and new answers.

        Parameters
        ----------
        labelled
            The score of the snapshot; its revision is that of the log afterwards.
        card
            The text of the card that has learned from the labels; None if none has.
        answers
            Later snapshots, answered with that card.
        after
            Name of the expected last row.
        """
        check_labelled(labelled, "the labels")
        for answer in answers:
            check_entry(answer, "the new answer")
        names, marks = ", ".join(_COLUMNS), ", ".join("?" * len(_COLUMNS))
        with self._writing() as base:
            self._check_settings(base)
            if _last(base) != after:
                raise InputError(
                    "another process has added a snapshot meanwhile; add the labels again."
                )
            self._check_revision(base, labelled.revision - (card is not None))
            if base.execute("SELECT 1 FROM labels WHERE name = ?", [labelled.name]).fetchone():
                raise InputError(f"the log already has labels of {labelled.name}.")
            base.execute("INSERT INTO labels VALUES (?, ?, ?, ?, ?, ?, ?)", labelled)
            seal(base, "labels", [(labelled.name, [*labelled])])
            if card is None:
                return
            base.execute("INSERT OR REPLACE INTO learned VALUES (1, ?)", [card])
            base.executemany(
                f"INSERT INTO answers (revision, {names}) VALUES ({labelled.revision}, {marks})",
                [_values(answer) for answer in answers],
            )
            dates = dict(base.execute("SELECT name, date FROM details").fetchall())
            sealed = (
                (answer.name, [*_values(answer), dates.get(answer.name), labelled.revision])
                for answer in answers
            )
            seal(base, f"answers {labelled.revision}", sealed)

    def entries(self) -> list[Entry]:
        """Return the first answer to every snapshot, oldest snapshot first."""
        query = (
            f"SELECT {', '.join(_COLUMNS)}, date, coalesce(revision, 0) "
            "FROM snapshots LEFT JOIN details USING (name) ORDER BY position"
        )
        with self._reading() as base:
            found = list(rows(base, self.path, query))
            entries = [_entry(row, self.path) for row in found]
            check_seals(base, self.path, "snapshots", found)
        return entries

    def later_answers(self) -> list[Entry]:
        """Return the answers that were given again after labels came, in that order."""
        query = (
            f"SELECT {', '.join(_COLUMNS)}, date, answers.revision "
            "FROM answers LEFT JOIN details USING (name) ORDER BY number"
        )
        with self._reading() as base:
            found = list(rows(base, self.path, query))
            entries = [_entry(row, self.path) for row in found]
            for revision in sorted({entry.revision for entry in entries}):
                group = [row for row in found if row[-1] == revision]
                check_seals(base, self.path, f"answers {revision}", group)
        return entries

    def answers(self) -> list[Entry]:
        """Return the newest answer to every snapshot, oldest snapshot first."""
        newest = {entry.name: entry for entry in self.later_answers()}
        return [newest.get(entry.name, entry) for entry in self.entries()]

    def history(self) -> list[Entry]:
        """Return all answers in the order in which they were given."""
        later, first = self.later_answers(), self.entries()
        # A card that has learned first answers the logged snapshots again, then the new ones.
        return sorted([*later, *first], key=lambda entry: entry.revision)  # the sort is stable

    def labelled(self) -> list[Labelled]:
        """Return what late labels showed, in the order in which they came."""
        query = f"SELECT {', '.join(Labelled._fields)} FROM labels ORDER BY rowid"
        with self._reading() as base:
            found = [Labelled(*row) for row in rows(base, self.path, query)]
            for row in found:
                try:
                    check_labelled(row, f"a row of {self.path}")
                except InputError as error:
                    message = f"{self.path} holds labels that are not valid: {error}"
                    raise FileError(message) from error
            check_seals(base, self.path, "labels", found)
        return found

    def learned(self) -> tuple[str | None, int]:
        """Return the text of the card that has learned from labels, if any, and the revision."""
        with self._reading() as base:
            texts = [row[0] for row in rows(base, self.path, "SELECT card FROM learned")]
            text, revision = texts[0] if texts else None, _revision(base)
        if not isinstance(text, str | None):
            raise FileError(f"{self.path} holds a card that is not text; it is damaged.")
        return text, revision

    def missed(self) -> list[Missed]:
        """Return the snapshots that could not be measured before a later one was."""
        query = "SELECT name, reason FROM missed ORDER BY rowid"
        with self._reading() as base:
            missed = [Missed(*row) for row in rows(base, self.path, query)]
            for snapshot in missed:
                check_strings(snapshot, f"a row of {self.path}")
            check_seals(base, self.path, "missed", missed)
        return missed

    def snapshots(self) -> dict[str, LoggedSnapshot]:
        """Return checksums and stamps of the logged snapshots by name, oldest first."""
        query = (
            "SELECT name, digest, stamp, date FROM snapshots LEFT JOIN stamps USING (name) "
            "LEFT JOIN details USING (name) ORDER BY position"
        )
        with self._reading() as base:
            logged = {row[0]: LoggedSnapshot(*row[1:]) for row in rows(base, self.path, query)}
        for name, (digest, stamp, when) in logged.items():
            check_strings((name, digest, stamp or "", when or ""), f"a row of {self.path}")
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
        query = "SELECT key, value FROM about WHERE key IN ('card', 'kind', 'seed')"
        stored = dict(rows(base, self.path, query))
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

    def _check_revision(self, base: sqlite3.Connection, revision: int) -> None:
        if revision != _revision(base):
            raise InputError(
                f"labels were added to the log {self.path} after this run began; run it again."
            )


def _revision(base: sqlite3.Connection) -> int:
    value = base.execute("SELECT coalesce(max(revision), 0) FROM labels").fetchone()[0]
    if not isinstance(value, int):
        raise FileError("the labels of the log have no revision; it is damaged.")
    return value


def _values(entry: Entry) -> list[Any]:
    values = [getattr(entry, name) for name in _COLUMNS]
    return [*values[:-2], json.dumps(list(entry.reasons)), json.dumps(entry.signals)]


def _last(base: sqlite3.Connection) -> str:
    row = base.execute("SELECT name FROM snapshots ORDER BY position DESC LIMIT 1").fetchone()
    return "" if row is None else str(row[0])


def _entry(row: tuple[Any, ...], path: Path) -> Entry:
    named = dict(zip((*_COLUMNS, "when", "revision"), row, strict=True))
    try:
        named["reasons"] = tuple(parse_json(named["reasons"]))
        entry = Entry(**named | {"signals": parse_json(named["signals"])})
        check_entry(entry, f"a row of {path}")
    except (TypeError, ValueError, RecursionError) as error:
        message = str(error).rstrip(".")
        raise FileError(f"{path} holds a row that is not valid: {message}.") from error
    return entry
