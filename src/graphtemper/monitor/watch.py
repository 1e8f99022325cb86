"""A watch: every snapshot is measured once and added to the log."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphtemper import errors
from graphtemper._core.checks import check_instance
from graphtemper._core.printable import printable
from graphtemper.card.card import SourceCard
from graphtemper.errors import GraphTemperError, InputError, MissingExtraError
from graphtemper.graph.graph import Graph
from graphtemper.models.predictor import Predictor
from graphtemper.monitor.log import Entry, Log, Missed
from graphtemper.monitor.snapshots import Snapshot
from graphtemper.recalibration.job import recalibrate
from graphtemper.recalibration.result import Recalibration
from graphtemper.scale.recalibration import Tables, of_logits

Progress = Callable[[int, int], None]
"""Called with the number of finished snapshots and their total."""
OnMissed = Callable[[Missed], None]
_MAX_REASON = 1000


def follow(
    predictor: Predictor | None,
    snapshots: Iterable[Snapshot],
    card: SourceCard,
    log: Log,
    progress: Progress | None = None,
    missed: OnMissed | None = None,
    decisions: Mapping[str, Any] | None = None,
    *,
    earlier: NDArray[np.int64] | None = None,
) -> Iterator[Entry]:
    """Recalibrate every snapshot that is not in the log yet, and yield the new entries.

    A snapshot is held in memory only while it is measured. The log is a record: a new snapshot that
    precedes a logged one is refused, and so is a logged name with other content. After an
    interruption the watch resumes where it stopped. If the log has late labels (`add_labels`), the
    card that has learned from them answers.

    Parameters
    ----------
    predictor
        The model; one that the card was not built for is refused at once. None if snapshots are
        logits, whose estimate is that of `graphtemper.scale.recalibrate`.
    snapshots
        Graphs or logits, oldest first.
    card
        The model's source card, without late labels.
    log
        A log for this card; its seed is that of the perturbed passes.
    progress
        Called after each snapshot.
    missed
        Called with each snapshot that cannot be measured or is refused, and the watch continues;
        by default the error is raised. A snapshot that could not be measured is tried again by the
        next watch, until a later one is in the log, which then records it as missed.
    decisions
        Metrics of decisions to log with each answer: arguments of `Recalibration.metrics`, such as
        ``{"positive": 1, "threshold": 0.5}``. They need graphs and a model.
    earlier
        Labels of the nodes of graphs from a period before the snapshots, -1 where unknown, as in
        `recalibrate`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from graphtemper import csbm
    >>> from graphtemper.models import SIGN
    >>> from graphtemper.monitor import Log, LogitArray, Snapshot
    >>> days = [csbm.sample(300, 6, 0.8, 1.0, seed=day) for day in range(3)]
    >>> model = SIGN().fit(days[0], range(150))
    >>> card = SourceCard.build(model, days[0], range(150, 300), compositions=0)
    >>> snapshots = [Snapshot(f"day {d}", f"{d}", lambda d=d: days[d]) for d in (1, 2)]
    >>> folder = Path(tempfile.mkdtemp())
    >>> log = Log(folder / "watch.sqlite", fingerprint(card))
    >>> [entry.name for entry in follow(model, snapshots, card, log)]
    ['day 1', 'day 2']
    >>> list(follow(model, snapshots, card, log))
    []
    >>> logits = Snapshot("day 1", "1", lambda: LogitArray(model(days[1]), 2))
    >>> other = Log(folder / "logits.sqlite", fingerprint(card), kind="logits")
    >>> [entry.name for entry in follow(None, [logits], card, other)]
    ['day 1']
    """
    check_arguments(predictor, card, log, "follow(predictor, snapshots, card, log)")
    if decisions and predictor is None:
        raise errors.conflict("metrics of decisions need graphs and their model; give the model.")
    return _follow(
        predictor, list(snapshots), card, log, progress, missed, decisions or {}, earlier
    )


def _follow(
    predictor: Predictor | None,
    snapshots: Sequence[Snapshot],
    card: SourceCard,
    log: Log,
    progress: Progress | None,
    missed: OnMissed | None,
    decisions: Mapping[str, Any],
    earlier: NDArray[np.int64] | None,
) -> Iterator[Entry]:
    def report(snapshot: Snapshot, error: Exception) -> Missed:
        """Report a snapshot that is not measured, or raise its error."""
        if missed is not None:
            found = Missed(snapshot.name, reason_of(error))
            missed(found)
            return found
        if isinstance(error, GraphTemperError):
            raise error.at(f"snapshot {snapshot.name}") from error
        raise error

    learned, revision = current_card(card, log)
    new = _new(snapshots, log, report)
    failed: list[Missed] = []  # since the last snapshot that was measured
    for number, snapshot in enumerate(new, start=1):
        try:
            entry = measure(predictor, snapshot, learned, log.seed, revision, decisions, earlier)
        except MissingExtraError:
            raise  # the snapshot is not at fault
        except Exception as error:
            failed.append(report(snapshot, error))
        else:
            if log.append(entry, failed):  # or another process was faster
                yield entry
            failed = []
        if progress is not None:
            progress(number, len(new))


def _new(
    snapshots: Sequence[Snapshot], log: Log, report: Callable[[Snapshot, Exception], Missed]
) -> list[Snapshot]:
    """Return the snapshots that come after the logged ones; report those that do not agree."""
    logged = {entry.name: entry for entry in log.entries()}
    missed = {item.name for item in log.missed()}
    newest = list(logged.values())[-1] if logged else None
    after = max((k for k, snapshot in enumerate(snapshots) if snapshot.name in logged), default=-1)
    new: list[Snapshot] = []
    for place, snapshot in enumerate(snapshots):
        try:
            if entry := logged.get(snapshot.name):
                same = entry.stamp is not None and snapshot.stamp() == entry.stamp
                if not same and snapshot.checksum() != entry.digest:
                    raise errors.other_log(
                        "it is in the log with another content; give it a new name."
                    )
            elif snapshot.name not in missed:
                if place < after or (newest and snapshot.is_older_than(newest.name, newest.when)):
                    raise errors.content(
                        "it is older than the newest of the log; a log is filled in order, so "
                        "give it a later name, or begin a new log."
                    )
                new.append(snapshot)
        except Exception as error:
            report(snapshot, error)
    return new


def measure(
    predictor: Predictor | None,
    snapshot: Snapshot,
    card: SourceCard,
    seed: int,
    revision: int,
    decisions: Mapping[str, Any],
    earlier: NDArray[np.int64] | None = None,
) -> Entry:
    """Return the answer to a snapshot; labels in it are not used."""
    stamp, content = snapshot.stamp(), snapshot.load()
    result: Recalibration
    if isinstance(content, Graph):
        if predictor is None:
            raise InputError("it is a graph, and the watch is one of logits; give the model.")
        hidden = content.replace(labels=None)
        old = None if earlier is None else fitted(earlier, content.num_nodes)
        result = recalibrate(predictor, hidden, card, snapshot.nodes, seed=seed, earlier=old)
        num_nodes = len(result.probabilities)
    elif isinstance(content, Tables):
        result = content.answer(card, predictor, seed)
        num_nodes = result.num_nodes
    else:
        result = of_logits(content, card)
        num_nodes = result.num_nodes
    metrics = result.metrics(**decisions) if decisions else None
    entry = Entry(
        name=snapshot.name,
        digest=snapshot.checksum(content),
        num_nodes=num_nodes,
        accuracy=float(result.accuracy.value),
        low=float(result.accuracy.low),
        high=float(result.accuracy.high),
        confidence=float(result.mean_confidence[0]),
        temperature=float(result.temperature),
        slope=float(result.slope),
        verdict=result.verdict,
        reasons=tuple(str(reason) for reason in result.reasons),
        signals=result.signals | {f"gain_{name}": value for name, value in result.gains.items()},
        when=snapshot.when,
        revision=revision,
        stamp=stamp,
        asked={} if metrics is None else {**decisions, "positive": metrics.positive},
        metrics={} if metrics is None else metrics.values(),
        undefined={} if metrics is None else metrics.undefined,
    )
    numbers = [value for value in vars(entry).values() if isinstance(value, float)]
    if not all(map(math.isfinite, [*numbers, *entry.signals.values()])):
        raise errors.not_finite("a number that was measured on it is not finite.")
    if snapshot.stamp() != stamp:
        raise errors.content("it changed while it was read; rename it once it is complete.")
    return entry


def fitted(earlier: NDArray[np.int64], num_nodes: int) -> NDArray[np.int64]:
    """Return earlier labels of the nodes of a snapshot, which may have more or fewer of them.

    Examples
    --------
    >>> fitted(np.array([1, 0]), 3).tolist(), fitted(np.array([1, 0]), 1).tolist()
    ([1, 0, -1], [1])
    """
    whole = np.full(num_nodes, -1, dtype=np.int64)
    whole[: earlier.size] = earlier[:num_nodes]
    return whole


def check_arguments(predictor: Predictor | None, card: SourceCard, log: Log, call: str) -> None:
    """Refuse swapped arguments, a log of the other kind of snapshots, and another model."""
    check_instance(card, SourceCard, "card", call)
    check_instance(log, Log, "log", call)
    kind = "logits" if predictor is None else "graphs"
    if log.kind != kind:
        raise errors.conflict(
            f"the log {log.path} is opened for {log.kind}; open it with kind={kind!r}."
        )
    if predictor is not None:
        card.check_model(predictor)


def reason_of(error: Exception) -> str:
    """Return an error as one printable line."""
    text = str(error)
    if not isinstance(error, GraphTemperError):
        text = f"{type(error).__name__}: {text}".removesuffix(": ")
    return " ".join(printable(text).split())[:_MAX_REASON]


def current_card(card: SourceCard, log: Log) -> tuple[SourceCard, int]:
    """Return the card with what it has learned from the log's late labels, and its revision."""
    text, revision = log.learned()
    try:
        return card if text is None else SourceCard.from_json(text), revision
    except InputError as error:
        raise errors.damaged(f"{log.path} holds a damaged card: {error}") from error


def fingerprint(card: SourceCard) -> str:
    """Return the checksum by which a log identifies its card."""
    return hashlib.sha256(card.to_json().encode()).hexdigest()
