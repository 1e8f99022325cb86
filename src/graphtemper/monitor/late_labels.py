"""Late labels: score an earlier answer, let the card learn, and answer later snapshots again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphtemper import errors, metrics
from graphtemper import temperature as temperatures
from graphtemper._core.checks import FloatArray
from graphtemper.card.card import SourceCard
from graphtemper.card.environments import FEWEST_NODES
from graphtemper.errors import InputError
from graphtemper.graph.graph import Graph, select_nodes
from graphtemper.models.predictor import Predictor, predict
from graphtemper.monitor.log import Entry, Labelled, Log, Missed
from graphtemper.monitor.snapshots import Snapshot
from graphtemper.monitor.track_record import Scored, track_record
from graphtemper.monitor.watch import (
    Progress,
    check_arguments,
    current_card,
    fitted,
    measure,
    reason_of,
)
from graphtemper.recalibration.few_labels import Labels
from graphtemper.recalibration.labelling import read_labels


@dataclass(frozen=True)
class LateLabels:
    """What late labels of a snapshot led to.

    Attributes
    ----------
    scored
        The snapshot's answer against its labels.
    card
        The card that has learned from them; the old one if snapshots are logits.
    answered
        New answers to later snapshots.
    unanswered
        Later snapshots that could not be answered again, with the reason; they keep their answers.
    """

    scored: Scored
    card: SourceCard
    answered: Sequence[Entry]
    unanswered: Sequence[Missed]


def add_labels(
    predictor: Predictor | None,
    snapshots: Iterable[Snapshot],
    card: SourceCard,
    log: Log,
    name: str,
    labels: Mapping[int, int | None] | None = None,
    *,
    earlier: NDArray[np.int64] | None = None,
    progress: Progress | None = None,
) -> LateLabels:
    """Add labels of a logged snapshot to the log.

    The answer that was given to the snapshot is scored, the card learns from it as from any other
    environment (`SourceCard.learn`), and later snapshots without labels are answered again. The log
    keeps the first answers as well, and the card: `follow` uses it from then on. All of this is
    written at once, or not at all.

    Parameters
    ----------
    predictor
        The model; None if the log is one of logits, which are scored but teach a card nothing.
    snapshots
        The labelled snapshot, and the later ones to answer again.
    card
        The card that the log was begun with.
    log
        The log.
    name
        The snapshot that the labels belong to.
    labels
        Class of each labelled node, by its index in the snapshot: all of the evaluated nodes, or a
        random sample of at least ten. Default: the labels in the snapshot's graph.
    earlier
        Labels from a period before that of the snapshot, as in `follow`. The card learns what they
        were worth, and later snapshots are answered with the newest labels of each node.
    progress
        Called with the number of snapshots answered again, and their total.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from graphtemper import csbm
    >>> from graphtemper.models import SIGN
    >>> from graphtemper.monitor import Log, Snapshot, fingerprint, follow
    >>> days = [csbm.sample(300, 6, 0.8, 1.0, seed=day) for day in range(4)]
    >>> model = SIGN().fit(days[0], range(150))
    >>> card = SourceCard.build(model, days[0], range(150, 300), compositions=0)
    >>> snapshots = [Snapshot(f"day {d}", f"{d}", lambda d=d: days[d]) for d in (1, 2, 3)]
    >>> log = Log(Path(tempfile.mkdtemp()) / "watch.sqlite", fingerprint(card))
    >>> _ = list(follow(model, snapshots, card, log))
    >>> late = add_labels(model, snapshots, card, log, "day 1")
    >>> late.scored.labelled.num_labels, [entry.name for entry in late.answered]
    (300, ['day 2', 'day 3'])
    """
    check_arguments(predictor, card, log, "add_labels(predictor, snapshots, card, log, name)")
    entries = {entry.name: entry for entry in log.entries()}
    by_name = {snapshot.name: snapshot for snapshot in snapshots}
    known = {row.name for row in log.labelled()}
    if name not in entries or name not in by_name:
        newest = f"; its newest is {list(entries)[-1]}" if entries else ""
        raise errors.missing(
            f"labels belong to a snapshot that was measured and whose file is given: {name!r} is "
            f"not one of the log {log.path}{newest}, or it was not given."
        )
    if name in known:
        raise InputError(f"the log {log.path} has labels of {name}; a snapshot is labelled once.")
    learned, revision = current_card(card, log)
    entry, content = entries[name], by_name[name].load()
    _check_digest(by_name[name].checksum(content), entry)
    graph = content if isinstance(content, Graph) else None
    if predictor is None or graph is None:
        found, logits, num_nodes = _chosen_logits(content, labels or {}, card.num_classes)
    else:
        found, num_nodes = select_nodes(by_name[name].nodes, graph.num_nodes), graph.num_nodes
        logits = predict(predictor, graph.replace(labels=None))[found]
        if labels is None and graph.labels is not None:
            labels = {int(k): int(graph.labels[k]) for k in found if graph.labels[k] >= 0}
    if labels is None:
        raise errors.no_labels(f"{name} holds no labels; give them as a table of node,class.")
    read = read_labels(labels, found, num_nodes, card.num_classes)
    learns = predictor is not None
    scored = _score(logits[read.rows], read, entry, card.temperature, revision + learns)
    answered: list[Entry] = []
    unanswered: list[Missed] = []
    if predictor is not None and graph is not None:
        whole, nodes = np.full(num_nodes, -1, dtype=np.int64), found[read.rows]
        _check_stored(graph, nodes, read.classes, name)
        whole[nodes] = read.classes
        environment = graph.replace(labels=whole)
        old = None if earlier is None else fitted(earlier, num_nodes)
        facts: dict[str, Any] = {"name": name[:200], "when": entry.when, "earlier": old}
        learned = learned.learn(predictor, environment, nodes, **facts)
        latest = None if old is None else np.where(whole >= 0, whole, old)
        names = list(entries)
        later = [other for other in names[names.index(name) + 1 :] if other not in known]
        for number, other in enumerate(later, start=1):
            try:
                if other not in by_name:
                    raise errors.no_file("it is not among the given snapshots.")
                given = learned, log.seed, scored.revision, entries[other].asked, latest
                answer = measure(predictor, by_name[other], *given)
                _check_digest(answer.digest, entries[other])
                answered.append(replace(answer, when=entries[other].when))
            except Exception as error:  # a file of long ago may be damaged or gone
                unanswered.append(Missed(other, reason_of(error)))
            if progress is not None:
                progress(number, len(later))
    log.add_labels(scored, learned.to_json() if learns else None, answered)
    score = next(item for item in track_record(log) if item.first.name == name)
    return LateLabels(score, learned, answered, unanswered)


def _chosen_logits(
    parts: Any, labels: Mapping[int, int | None], num_classes: int
) -> tuple[NDArray[np.int64], FloatArray, int]:
    """Return the labelled nodes of logits, their rows, and the number of nodes."""
    names, rows, start = [np.empty(0, np.int64)], [np.empty((0, num_classes))], 0
    for part in range(len(parts)):
        for nodes, logits in parts.batches(part):
            numbers = np.arange(start, start + len(logits)) if nodes is None else nodes
            numbers = np.asarray(numbers, dtype=np.int64)
            chosen = np.isin(numbers, list(labels))
            names.append(numbers[chosen])
            rows.append(np.asarray(logits, dtype=np.float64)[chosen])
            start += len(logits)
    found = np.concatenate(names)
    return found, np.concatenate(rows), max([start, *(found + 1)])


def _check_digest(digest: str, entry: Entry) -> None:
    if digest != entry.digest:
        raise errors.other_model(
            f"the snapshot {entry.name} is not the one that was measured: its content differs, or "
            "its logits come from another model; give the original."
        )


def _check_stored(
    graph: Graph, nodes: NDArray[np.int64], classes: NDArray[np.int64], name: str
) -> None:
    """Refuse labels that contradict those in the snapshot's own graph."""
    stored = classes if graph.labels is None else graph.labels[nodes]
    for node in nodes[(stored >= 0) & (stored != classes)]:
        raise errors.conflict(f"the label of node {node} contradicts that in {name}; correct one.")


def _score(
    logits: FloatArray, labels: Labels, entry: Entry, source_temperature: float, revision: int
) -> Labelled:
    count = labels.classes.size
    if count < FEWEST_NODES:
        raise errors.too_few(
            f"there are labels of {count} nodes of {entry.name}; at least {FEWEST_NODES} are "
            "needed to score an answer."
        )
    right = logits.argmax(axis=1) == labels.classes
    accuracy = float(right.mean())
    smoothed = (accuracy * count + 0.5) / (count + 1.0)
    unlabelled = max(entry.num_nodes - count, 0) / max(entry.num_nodes - 1, 1)
    deviation = float(np.sqrt(smoothed * (1.0 - smoothed) / count * unlabelled))
    before, after = (
        float(metrics.ece(temperatures.apply(logits, value), labels.classes))
        for value in (source_temperature, entry.temperature)
    )
    realised = _realised(temperatures.apply(logits, entry.temperature), labels, entry)
    return Labelled(entry.name, revision, int(count), accuracy, deviation, before, after, realised)


def _realised(p: FloatArray, labels: Labels, entry: Entry) -> dict[str, float] | None:
    """Return the metrics that were estimated, as the labelled nodes have them.

    A review and costs of all nodes are left out unless all nodes are labelled.
    """
    if not entry.asked:
        return None
    whole = labels.classes.size == entry.num_nodes
    asked = {
        name: value
        for name, value in entry.asked.items()
        if whole or name in ("positive", "threshold")
    }
    found = metrics.decisions(p, labels.classes, **asked)
    return {name: value for name, value in found.items() if value is not None}
