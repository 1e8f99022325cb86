"""The log of a watch: one append-only SQLite table, in which a row is a kind, a name and JSON.

SQLite writes rows completely or not at all when a process or the machine stops, and lets several
processes take turns. The first row settles the card, the kind of snapshot and the seed, so that
numbers which cannot be compared are never in one log.

Late labels of a snapshot add a row of their own, the card that has learned from them, and new
answers to later snapshots. The first answers stay. Each time the card learns, the log's *revision*
grows by one, and answers carry the revision of the card that gave them.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from graphtemper import errors
from graphtemper._core.files import check_folder
from graphtemper._core.lazy import cached_property
from graphtemper._core.safe_reading import open_regular, parse_json
from graphtemper.errors import VersionError

Kind = Literal["graphs", "logits"]
"""What the snapshots of a log are."""
VERDICTS = ("trust", "caution", "abstain")
Row = TypeVar("Row")
# Kinds of rows that give a snapshot its place in time.
_PLACED = ("answer", "missed")

# "gtmp", in the field that SQLite reserves for the application, and the version of the table.
_MARKS = {"application_id": 0x67746D70, "user_version": 5}
_TABLE = (
    "CREATE TABLE log (number INTEGER PRIMARY KEY, kind TEXT NOT NULL, name TEXT NOT NULL, "
    "content TEXT NOT NULL) STRICT"
)
# Seconds that a process waits for another that is writing.
_WRITE_TIMEOUT = 30.0


@dataclass(frozen=True)
class Entry:
    """The answer to one snapshot.

    Attributes
    ----------
    name, digest
        The snapshot, and a checksum of its content.
    num_nodes
        Number of evaluated nodes.
    accuracy, low, high
        Estimate and 90 % interval; with the verdict ``abstain`` the estimate is a best guess.
    confidence
        Mean confidence before recalibration.
    temperature, slope
        Of the recalibration; with the verdict ``abstain`` that of the source, see `settled`.
    reasons, signals
        Sentences behind the verdict, and label-free signals by name.
    when
        The snapshot's place in time, such as ``"2026-05"``; None if unknown.
    revision
        How many times the card had learned from late labels when it gave this answer.
    stamp
        Stamp of the files that were read; files with the same stamp are not read again.
    asked, metrics
        Which metrics of decisions the watch asks for, as arguments of `Recalibration.metrics`, and
        those by name, each with value, low and high.
    undefined
        Why metrics that were asked for have no value.
    question
        What was asked in the caller's words, such as a class by its name.
    changes
        What differs from the source, largest first, as `Recalibration.to_dict` has it.
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
    when: str | None = None
    revision: int = 0
    stamp: str | None = None
    asked: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, dict[str, float]] = field(default_factory=dict)
    undefined: dict[str, str] = field(default_factory=dict)
    question: dict[str, Any] = field(default_factory=dict)
    changes: tuple[dict[str, Any], ...] = ()

    @property
    def settled(self) -> bool:
        """Whether the numbers can be relied on: not if the verdict is `abstain`.

        An abstention has an interval, but claims no accuracy, temperature or slope.
        """
        return self.verdict != "abstain"

    @property
    def accuracy_in_words(self) -> str:
        """The accuracy with its interval; "not known" if the verdict is `abstain`."""
        value = f"{self.accuracy:.1%}" if self.settled else "not known"
        return f"{value} (90 % interval {self.low:.1%} to {self.high:.1%})"


class Missed(NamedTuple):
    """A snapshot that could not be measured, and the reason."""

    name: str
    reason: str


class Labelled(NamedTuple):
    """What late labels of a snapshot showed.

    Attributes
    ----------
    name, revision
        The snapshot, and the revision of the log with these labels.
    num_labels
        Number of labelled nodes.
    accuracy, deviation
        The accuracy on them, and its sampling error as that of all evaluated nodes: 0 if all of
        them are labelled.
    ece_before, ece_after
        Calibration error at the source temperature, and at the temperature first answered.
    metrics
        What the metrics of decisions that were estimated turned out to be, on the labelled nodes.
    """

    name: str
    revision: int
    num_labels: int
    accuracy: float
    deviation: float
    ece_before: float
    ece_after: float
    metrics: dict[str, float] | None = None


@dataclass(frozen=True, eq=False)
class Content:
    """The rows of a log at one moment, as kinds with their contents.

    Attributes
    ----------
    rows
        In the order in which they were written.
    path
        The log.
    """

    rows: Sequence[tuple[str, dict[str, Any]]]
    path: Path

    def _of(self, kind: str, make: Callable[..., Row]) -> list[Row]:
        try:
            return [make(**row) for found, row in self.rows if found == kind]
        except (TypeError, KeyError, ValueError) as error:
            raise errors.damaged(f"{self.path} holds a damaged row; begin a new log.") from error

    @cached_property
    def history(self) -> list[Entry]:
        """All answers in the order in which they were given."""

        def entry(reasons: Any, changes: Any = (), **row: Any) -> Entry:
            return Entry(reasons=tuple(reasons), changes=tuple(changes), **row)

        return self._of("answer", entry)

    @cached_property
    def first(self) -> dict[str, Entry]:
        """The first answer to every snapshot by its name, oldest snapshot first."""
        return self._in_order({entry.name: entry for entry in reversed(self.history)})

    @cached_property
    def answers(self) -> dict[str, Entry]:
        """The newest answer to every snapshot by its name, oldest snapshot first."""
        return self._in_order({entry.name: entry for entry in self.history})

    def _in_order(self, answers: dict[str, Entry]) -> dict[str, Entry]:
        """Sort answers by time: a missed snapshot keeps its place until it is measured."""
        names = dict.fromkeys(row.get("name") for kind, row in self.rows if kind in _PLACED)
        return {name: answers[name] for name in names if name in answers}

    @cached_property
    def missed(self) -> list[Missed]:
        """Snapshots that could not be measured and that nobody has asked to forget."""
        gone = {entry.name for entry in self.history} | self.forgotten
        return [one for one in self._of("missed", Missed) if one.name not in gone]

    @cached_property
    def forgotten(self) -> set[str]:
        """Names of snapshots that are to be left out."""
        return set(self._of("forgotten", lambda name: name))

    @cached_property
    def labelled(self) -> list[Labelled]:
        """What late labels showed, in the order in which they came."""
        return self._of("labels", Labelled)

    @cached_property
    def cards(self) -> list[str]:
        """The card each time that it had learned; as many as the revision."""
        return self._of("card", lambda name, text: text)

    def reported(self, what: str) -> tuple[int, int]:
        """Return how many answers and late labels were acknowledged."""
        rows = self._of("reported", lambda name, answers, labels: (name, int(answers), int(labels)))
        return max(((a, b) for name, a, b in rows if name == what), default=(0, 0))


class Log:
    """An append-only log in one SQLite file, which is created with the first row.

    Parameters
    ----------
    path
        The file; its folder has to exist.
    settings
        What is compared with the first row: the checksum of the card, and the seed.

    Examples
    --------
    >>> import tempfile
    >>> entry = Entry("monday", "00", 10, 0.8, 0.7, 0.9, 0.9, 1.5, 0.7, "trust", ("near",), {})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = Log(Path(folder) / "watch.sqlite", {"card": "c1", "kind": "graphs"})
    ...     log.append(entry), log.append(entry), len(log.read().first)
    (True, False, 1)
    """

    def __init__(self, path: str | os.PathLike[str], settings: dict[str, Any]) -> None:
        self.path, self.settings = Path(path), settings

    def read(self) -> Content:
        """Return all rows; a log that was begun with other settings is refused."""
        if not self.path.exists():
            return Content([], self.path)
        with _opened(self.path) as base:
            texts = base.execute(_ALL).fetchall() if _has_rows(base, self.path) else []
        return self._parsed(texts)

    def append(self, entry: Entry | None, missed: Sequence[Missed] = ()) -> bool:
        """Add an answer, together with the snapshots before it that could not be measured.

        Return False without adding anything if the log has an answer of that name, as after another
        process was faster. An answer of a card that has not learned all labels of the log is
        refused.
        """
        with self._writing(None if entry is None else entry.revision) as (base, known):
            if entry is not None and ("answer", entry.name) in known:
                return False
            for snapshot in missed:
                if not {("answer", snapshot.name), ("missed", snapshot.name)} & known:
                    _insert(base, "missed", snapshot._asdict())
            if entry is not None:
                _insert(base, "answer", asdict(entry))
            return True

    def forget(self, name: str) -> None:
        """Leave a snapshot out that could not be measured."""
        with self._writing() as (base, _):
            _insert(base, "forgotten", {"name": name})

    def add_labels(self, labelled: Labelled, card: str | None, answers: Sequence[Entry]) -> None:
        """Add what labels of a snapshot showed, the card that learned from them, and new answers.

        Parameters
        ----------
        labelled
            The score of the snapshot; its revision is that of the log afterwards.
        card
            The text of the card that has learned from the labels; None if none has.
        answers
            Later snapshots, answered with that card.
        """
        with self._writing(labelled.revision - (card is not None)) as (base, _):
            _insert(base, "labels", labelled._asdict())
            if card is not None:
                _insert(base, "card", {"name": labelled.name, "text": card})
            for answer in answers:
                _insert(base, "answer", asdict(answer))

    def report(self, names: Sequence[str], answers: int, labels: int) -> None:
        """Store that a number of answers and of late labels was acknowledged."""
        seen = self.read().reported
        new = [name for name in names if (answers, labels) > seen(name)]
        for name in new:
            with self._writing() as (base, _):
                _insert(base, "reported", {"name": name, "answers": answers, "labels": labels})

    @contextmanager
    def _writing(
        self, revision: int | None = None
    ) -> Iterator[tuple[sqlite3.Connection, set[tuple[str, str]]]]:
        """Open one transaction in a log of the expected settings and revision, with its names."""
        check_folder(self.path)
        with _opened(self.path) as base:
            base.execute("BEGIN IMMEDIATE")  # closing without a commit undoes it
            if not _has_rows(base, self.path):
                base.execute(_TABLE)
                for mark, value in _MARKS.items():
                    base.execute(f"PRAGMA {mark} = {value}")
                _insert(base, "settings", {"name": ""} | self.settings)
            self._parsed(base.execute(f"{_ALL} LIMIT 1").fetchall())
            names = base.execute("SELECT kind, name FROM log").fetchall()
            if revision not in (None, sum(kind == "card" for kind, _ in names)):
                raise errors.other_log(
                    f"labels were added to the log {self.path} after this run began; run it again."
                )
            yield base, set(names)
            base.execute("COMMIT")

    def _parsed(self, texts: Sequence[tuple[str, str]]) -> Content:
        """Return rows; refuse those of another card, kind or seed."""
        try:
            rows = [(kind, dict(parse_json(text or ""))) for kind, text in texts]
        except (TypeError, ValueError) as error:
            raise errors.damaged(f"{self.path} holds a damaged row; begin a new log.") from error
        if rows and rows[0][0] != "settings":
            raise errors.damaged(f"{self.path} does not say whose log it is; begin a new log.")
        for name, value in self.settings.items():
            if rows and rows[0][1].get(name) != value:
                raise errors.other_log(
                    f"the log {self.path} was begun with another {name} ({rows[0][1].get(name)}, "
                    f"not {value}); use one log for each card, kind of snapshots and seed."
                )
        return Content(rows, self.path)


_ALL = "SELECT kind, content FROM log ORDER BY number"


def _insert(base: sqlite3.Connection, kind: str, content: dict[str, Any]) -> None:
    try:
        text = json.dumps(content, allow_nan=False)
    except ValueError as error:
        raise errors.not_finite(f"{content['name']} has a value that is not finite.") from error
    base.execute(
        "INSERT INTO log (kind, name, content) VALUES (?, ?, ?)", [kind, content["name"], text]
    )


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    if os.path.lexists(path):  # SQLite would wait for a pipe
        open_regular(path, "the log").close()
    try:
        with closing(sqlite3.connect(path, _WRITE_TIMEOUT, isolation_level=None)) as base:
            yield base
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise errors.unreadable(
            f"the log {path} cannot be used: {' '.join(str(error).split())}; check the folder and "
            "the disk, or choose another file."
        ) from error


def _has_rows(base: sqlite3.Connection, path: Path) -> bool:
    """Return whether a file holds a log; False if it is empty, an error if it is anything else."""
    marks = {mark: base.execute(f"PRAGMA {mark}").fetchone()[0] for mark in _MARKS}
    tables = base.execute("SELECT name FROM sqlite_schema").fetchall()
    if not tables and not any(marks.values()):
        return False
    text = f"{path} is not a log of graphtemper monitor, or one of another version; choose another"
    if marks["application_id"] != _MARKS["application_id"] or ("log",) not in tables:
        raise errors.damaged(f"{text} file.")
    if marks["user_version"] != _MARKS["user_version"]:
        raise VersionError(f"{text} file.")
    return True
