"""Late labels: score an earlier answer, let the card learn, and answer later snapshots again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphtemper import metrics
from graphtemper import temperature as temperatures
from graphtemper._core.arrays import FloatArray
from graphtemper.card.card import SourceCard
from graphtemper.card.environments import FEWEST_NODES
from graphtemper.errors import FileError, InputError
from graphtemper.graph.graph import Graph, select_nodes
from graphtemper.models.predictor import Predictor, predict
from graphtemper.monitor.entry import Entry, Labelled, Missed
from graphtemper.monitor.log import Kind, Log
from graphtemper.monitor.logit_snapshots import HashedParts, LogitSnapshot
from graphtemper.monitor.readers import GraphReader
from graphtemper.monitor.snapshots import Snapshot
from graphtemper.monitor.track_record import Scored, track_record
from graphtemper.monitor.watch import check_arguments, check_model, current_card, reason_of
from graphtemper.recalibration.few_labels import Labels, effective_count
from graphtemper.recalibration.labelling import LabelPlan, read_labels

Progress = Callable[[int, int], None]
# Weights of labels may differ by this factor, as those of `suggest_labels` do by rounding.
_EVEN_WEIGHTS = 2.0


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


class _Content(NamedTuple):
    """Logits and classes of the labelled nodes, and the graph with its labels if there is one."""

    logits: FloatArray
    labels: Labels
    graph: Graph | None
    nodes: NDArray[np.int64]


def add_labels(
    predictor: Predictor | None,
    snapshots: Iterable[Snapshot] | Iterable[LogitSnapshot],
    card: SourceCard,
    log: Log,
    name: str,
    labels: Mapping[int, int] | None = None,
    *,
    plan: LabelPlan | None = None,
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
    plan
        The plan that the nodes come from, if `graphtemper.suggest_labels` chose them.
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
    kind: Kind = "logits" if predictor is None else "graphs"
    check_arguments(card, log, kind, "add_labels(predictor, snapshots, card, log, name, labels)")
    entries = {entry.name: entry for entry in log.entries()}
    by_name: dict[str, Any] = {snapshot.name: snapshot for snapshot in snapshots}
    entry = _find(name, entries, by_name, log)
    known = {row.name: row for row in log.labelled()}
    learned, revision = current_card(card, log)
    if predictor is not None:
        check_model(predictor, card)
        content = _of_graph(predictor, by_name[name], entry, learned, labels, plan)
    else:
        content = _of_logits(by_name[name], entry, learned, labels, plan)
    scored = _score(content, entry, learned, revision + (predictor is not None))
    _refuse_repeated(scored, known.get(name), log)
    last = next(reversed(entries))
    if predictor is None:
        log.add_labels(scored, None, [], after=last)
        return LateLabels(_scored(log, name), card, [], [])
    assert content.graph is not None
    wiser = learned.learn(predictor, content.graph, content.nodes, name=name[:200], when=entry.when)
    reader = GraphReader(predictor, wiser, log.seed, scored.revision)
    place = list(entries).index(name)
    later = [other for other in list(entries)[place + 1 :] if other not in known]
    answered: list[Entry] = []
    unanswered: list[Missed] = []
    for number, other in enumerate(later, start=1):
        try:
            if other not in by_name:
                raise FileError("it is not among the given snapshots.")
            answer = reader.measure(by_name[other])
            _check_digest(answer.digest, entries[other])
            answered.append(replace(answer, when=entries[other].when))
        except Exception as error:  # a file of long ago may be damaged or gone
            unanswered.append(Missed(other, reason_of(error)))
        if progress is not None:
            progress(number, len(later))
    log.add_labels(scored, wiser.to_json(), answered, after=last)
    return LateLabels(_scored(log, name), wiser, answered, unanswered)


def _find(
    name: str, entries: Mapping[str, Entry], snapshots: Mapping[str, object], log: Log
) -> Entry:
    if name not in entries:
        newest = f"; its newest is {list(entries)[-1]}" if entries else ""
        raise InputError(
            f"the log {log.path} has no snapshot {name!r}{newest}. Labels belong to a snapshot "
            "that was measured."
        )
    if name not in snapshots:
        raise InputError(
            f"the snapshot {name} is in the log but was not given; name its file or folder, so "
            "that the labels can be compared with the model's predictions."
        )
    return entries[name]


def _of_graph(
    predictor: Predictor,
    snapshot: Snapshot,
    entry: Entry,
    card: SourceCard,
    labels: Mapping[int, int] | None,
    plan: LabelPlan | None,
) -> _Content:
    graph = snapshot.load()
    digest = snapshot.digest_of(graph) if snapshot.digest is None else snapshot.digest
    _check_digest(digest, entry)
    evaluated = select_nodes(snapshot.nodes, graph.num_nodes)
    stored = graph.labels
    if labels is None:
        if stored is None:
            raise InputError(
                f"the snapshot {entry.name} holds no labels; give them as a table of node,class."
            )
        labels = {int(node): int(stored[node]) for node in evaluated if stored[node] >= 0}
    read = read_labels(labels, plan, evaluated, graph.num_nodes, card.num_classes)
    nodes = np.asarray(evaluated[read.rows], dtype=np.int64)
    if stored is not None:
        other = np.flatnonzero((stored[nodes] >= 0) & (stored[nodes] != read.classes))
        if other.size:
            node = int(nodes[other[0]])
            raise InputError(
                f"the labels contradict those in the snapshot {entry.name}: node {node} has the "
                f"class {read.classes[other[0]]} but the snapshot says {stored[node]}; correct one."
            )
    whole = np.full(graph.num_nodes, -1, dtype=np.int64)
    whole[nodes] = read.classes
    logits = predict(predictor, graph.replace(labels=None))[nodes]
    return _Content(logits, read, graph.replace(labels=whole), nodes)


def _of_logits(
    snapshot: LogitSnapshot,
    entry: Entry,
    card: SourceCard,
    labels: Mapping[int, int] | None,
    plan: LabelPlan | None,
) -> _Content:
    if labels is None:
        raise InputError("logits hold no labels; give them as a table of node,class.")
    parts = HashedParts(snapshot.load())
    names: list[NDArray[np.int64]] = []
    rows: list[FloatArray] = []
    start = 0
    for shard in range(len(parts)):
        for nodes, logits in parts.batches(shard):
            numbers = np.arange(start, start + len(logits)) if nodes is None else nodes
            numbers = np.asarray(numbers, dtype=np.int64)
            chosen = np.isin(numbers, list(labels))
            names.append(numbers[chosen])
            rows.append(np.asarray(logits, dtype=np.float64)[chosen])
            start += len(logits)
    _check_digest(parts.digest() if snapshot.digest is None else snapshot.digest, entry)
    found = np.concatenate([np.empty(0, np.int64), *names])
    logits = np.concatenate([np.empty((0, card.num_classes)), *rows])
    bound = max([start, *(int(node) + 1 for node in found)])
    read = read_labels(labels, plan, found, bound, card.num_classes)
    return _Content(logits[read.rows], read, None, found[read.rows])


def _check_digest(digest: str, entry: Entry) -> None:
    if digest != entry.digest:
        raise InputError(
            f"the snapshot {entry.name} is not the one that was measured: its content differs, or "
            "its logits come from another model; give the original."
        )


def _score(content: _Content, entry: Entry, card: SourceCard, revision: int) -> Labelled:
    logits, labels = content.logits, content.labels
    count = labels.classes.size
    if count < FEWEST_NODES:
        raise InputError(
            f"there are labels of {count} nodes of {entry.name}; at least {FEWEST_NODES} are "
            "needed to score an answer."
        )
    if labels.weights.max() > _EVEN_WEIGHTS * labels.weights.min():
        raise InputError(
            f"the weights of the labels of {entry.name} differ by more than a factor of two; a "
            "card learns from all nodes or from a random sample."
        )
    right = logits.argmax(axis=1) == labels.classes
    accuracy = float(np.average(right, weights=labels.weights))
    effective = effective_count(labels.weights)
    smoothed = (accuracy * effective + 0.5) / (effective + 1.0)
    unlabelled = max(entry.num_nodes - count, 0) / max(entry.num_nodes - 1, 1)
    deviation = float(np.sqrt(smoothed * (1.0 - smoothed) / effective * unlabelled))
    before, after = (
        float(metrics.ece(temperatures.apply(logits, value), labels.classes))
        for value in (card.temperature, entry.temperature)
    )
    return Labelled(entry.name, revision, int(count), accuracy, deviation, before, after)


def _refuse_repeated(new: Labelled, known: Labelled | None, log: Log) -> None:
    if known is None:
        return
    same = (new.num_labels, new.accuracy) == (known.num_labels, known.accuracy)
    which = "these labels" if same else "other labels"
    raise InputError(
        f"the log {log.path} already has {which} of {new.name} ({known.num_labels} nodes, accuracy "
        f"{known.accuracy:.3f}); a snapshot is labelled once."
    )


def _scored(log: Log, name: str) -> Scored:
    return next(item for item in track_record(log) if item.first.name == name)
