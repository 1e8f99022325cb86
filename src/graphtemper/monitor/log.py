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
from graphtemper._core.safe_reading import open_regular, parse_json
from graphtemper.errors import VersionError

Kind = Literal["graphs", "logits"]
"""What the snapshots of a log are."""
VERDICTS = ("trust", "caution", "abstain")
Row = TypeVar("Row")

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


class Log:
    """An append-only log in one SQLite file, which is created with the first row.

    Parameters
    ----------
    path
        The file; its folder has to exist.
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
        self._settings = {"card": card, "kind": kind, "seed": seed}
        self._check_settings(self._read("settings", dict))

    def append(self, entry: Entry, missed: Sequence[Missed] = ()) -> bool:
        """Add an answer, together with the snapshots before it that could not be measured.

        Return False without adding anything if the log has a snapshot of that name, measured or
        missed, as after another process was faster. An answer of a card that has not learned all
        labels of the log is refused.
        """
        with self._writing(entry.revision) as base:
            query = "SELECT name FROM log WHERE kind IN ('answer', 'missed')"
            known = {name for (name,) in base.execute(query)}
            if entry.name in known:
                return False
            for snapshot in missed:
                if snapshot.name not in known:
                    _insert(base, "missed", snapshot._asdict())
            _insert(base, "answer", asdict(entry))
            return True

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
        with self._writing(labelled.revision - (card is not None)) as base:
            _insert(base, "labels", labelled._asdict())
            if card is not None:
                _insert(base, "card", {"name": labelled.name, "text": card})
            for answer in answers:
                _insert(base, "answer", asdict(answer))

    def history(self) -> list[Entry]:
        """Return all answers in the order in which they were given."""
        return self._read("answer", lambda row: Entry(**row | {"reasons": tuple(row["reasons"])}))

    def entries(self) -> list[Entry]:
        """Return the first answer to every snapshot, oldest snapshot first."""
        first: dict[str, Entry] = {}
        for entry in self.history():
            first.setdefault(entry.name, entry)
        return list(first.values())

    def answers(self) -> list[Entry]:
        """Return the newest answer to every snapshot, oldest snapshot first."""
        return list({entry.name: entry for entry in self.history()}.values())

    def missed(self) -> list[Missed]:
        """Return the snapshots that could not be measured before a later one was."""
        return self._read("missed", lambda row: Missed(**row))

    def labelled(self) -> list[Labelled]:
        """Return what late labels showed, in the order in which they came."""
        return self._read("labels", lambda row: Labelled(**row))

    def learned(self) -> tuple[str | None, int]:
        """Return the text of the card that has learned from labels, if any, and the revision."""
        texts: list[str] = self._read("card", lambda row: row["text"])
        return texts[-1] if texts else None, len(texts)

    def reported(self, gate: str) -> tuple[int, int]:
        """Return how many answers and late labels the last run with a gate has reported."""
        rows: list[tuple[str, tuple[int, int]]] = self._read(
            "reported", lambda row: (row["name"], (int(row["answers"]), int(row["labels"])))
        )
        return max((counts for name, counts in rows if name == gate), default=(0, 0))

    def report(self, gate: str, answers: int, labels: int) -> None:
        """Store that a run with a gate has reported a number of answers and of late labels."""
        if (answers, labels) > self.reported(gate):
            with self._writing() as base:
                _insert(base, "reported", {"name": gate, "answers": answers, "labels": labels})

    def _read(self, kind: str, make: Callable[[dict[str, Any]], Row]) -> list[Row]:
        if not self.path.exists():
            return []
        query = "SELECT content FROM log WHERE kind = ? ORDER BY number"
        with _opened(self.path) as base:
            texts = base.execute(query, [kind]).fetchall() if _has_rows(base, self.path) else []
        try:
            return [make(parse_json(text)) for (text,) in texts]
        except (TypeError, KeyError, ValueError) as error:
            raise errors.damaged(f"{self.path} holds a damaged row; begin a new log.") from error

    @contextmanager
    def _writing(self, revision: int | None = None) -> Iterator[sqlite3.Connection]:
        """Open one transaction, in a log of the expected settings and revision."""
        check_folder(self.path)
        with _opened(self.path) as base:
            base.execute("BEGIN IMMEDIATE")  # closing without a commit undoes it
            if not _has_rows(base, self.path):
                base.execute(_TABLE)
                for mark, value in _MARKS.items():
                    base.execute(f"PRAGMA {mark} = {value}")
                _insert(base, "settings", {"name": ""} | self._settings)
            query = "SELECT content FROM log WHERE kind = 'settings'"
            self._check_settings([parse_json(text) for (text,) in base.execute(query)])
            cards = base.execute("SELECT count(*) FROM log WHERE kind = 'card'").fetchone()[0]
            if revision not in (None, cards):
                raise errors.other_log(
                    f"labels were added to the log {self.path} after this run began; run it again."
                )
            yield base
            base.execute("COMMIT")

    def _check_settings(self, rows: Sequence[dict[str, Any]]) -> None:
        """Refuse a log that was begun with another card, kind or seed."""
        for row in rows:
            for name, value in self._settings.items():
                if row.get(name) != value:
                    raise errors.other_log(
                        f"the log {self.path} was begun with another {name} ({row.get(name)}, not "
                        f"{value}); use one log for each card, kind of snapshots and seed."
                    )


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
    if not base.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
        return False
    for mark, number in _MARKS.items():
        if base.execute(f"PRAGMA {mark}").fetchone()[0] != number:
            text = f"{path} is not a log of graphtemper monitor, or one of another version; choose "
            error = VersionError if mark == "user_version" else errors.damaged
            raise error(f"{text}another file.")
    return True
