"""A watch: every snapshot is answered once, and the answers are kept and looked at together."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphtemper import errors
from graphtemper._core.checks import FloatArray, check_instance, check_integer
from graphtemper._core.files import atomic_write
from graphtemper._core.printable import printable
from graphtemper.card.card import SourceCard
from graphtemper.errors import GraphTemperError, InputError, MissingExtraError
from graphtemper.graph.graph import Graph, select_nodes
from graphtemper.models.predictor import Predictor, predict
from graphtemper.monitor.change import alarms, check_rate
from graphtemper.monitor.drop import drops, limits_of
from graphtemper.monitor.log import Content, Entry, Kind, Log, Missed
from graphtemper.monitor.page import render
from graphtemper.monitor.prometheus import exposition
from graphtemper.monitor.record import Scored, score, track_record
from graphtemper.monitor.snapshots import Given, Kept, Snapshot, snapshots_of
from graphtemper.monitor.standing import Standing
from graphtemper.recalibration.gates import ALARMS, Gate
from graphtemper.recalibration.job import recalibrate
from graphtemper.recalibration.labels.given import MOST, read_labels
from graphtemper.scale.logit_tables import as_numbers, open_logits
from graphtemper.scale.stored_graph import Tables

Progress = Callable[[int, int], None]
"""Called with the number of finished snapshots and their total."""
_MAX_REASON = 1000
_RUN = "run"  # what every run acknowledges
_MOST_CHANGES = 50


class Run(NamedTuple):
    """What a run over snapshots added, and what it could not measure or refused."""

    added: list[Entry]
    missed: list[Missed]


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


class Watch:
    """A deployed model over time: a log of answers, with drops, changes, late labels and gates.

    Parameters
    ----------
    path
        The log, an SQLite file that is created with the first answer. A log is continued by the
        card and the seed that it was begun with.
    card
        The model's source card, without late labels: the log holds what was learned from those.
    gates
        Conditions such as ``"accuracy<0.8"``, see `gate`. Those that compare the accuracy with a
        number are limits below which a drop is reported, next to the accuracy at the source.
    decisions
        Metrics of decisions to measure: arguments of `Recalibration.metrics`, such as
        ``{"positive": 1, "threshold": 0.5}``. They need graphs and a model.
    seed
        Seed of the perturbed passes, and of ties in the test for changes.
    false_drops
        Upper bound on the probability that the log ever reports a drop where there is none.
    false_alarms
        Upper bound on the probability that an unchanging series ever raises a change, if snapshots
        are exchangeable while nothing changes.
    every
        Test only every n-th snapshot for changes, if each resembles the previous one.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from graphtemper import csbm
    >>> from graphtemper.models import SIGN
    >>> days = [csbm.sample(300, 6, 0.8, 1.0, seed=day) for day in range(4)]
    >>> model = SIGN().fit(days[0], range(150))
    >>> card = SourceCard.build(model, days[0], range(150, 300), compositions=0)
    >>> watch = Watch(Path(tempfile.mkdtemp()) / "watch.sqlite", card)
    >>> entry = watch.add(model, days[1], name="2026-05-01")
    >>> entry.low < entry.accuracy < entry.high, entry.when
    (True, '2026-05-01')
    >>> [entry.name for entry in watch.follow(model, {"2026-05-02": days[2]}).added]
    ['2026-05-02']
    >>> print(watch.standing.headline())
    On 2026-05-02 accuracy is estimated at ...
    >>> watch.gate("accuracy<0.99")
    'on 2026-05-01 accuracy is ...; on 2026-05-02 accuracy is ...'
    >>> watch.gate("accuracy<0.1")
    ''
    >>> watch.labels(model, {"2026-05-01": days[1]}, "2026-05-01").scored.labelled.num_labels
    300
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        card: SourceCard,
        *,
        gates: Sequence[str] = (),
        decisions: Mapping[str, Any] | None = None,
        seed: int = 0,
        false_drops: float = 0.05,
        false_alarms: float = 0.01,
        every: int = 1,
    ) -> None:
        check_instance(card, SourceCard, "card", "Watch(path, card)")
        self.card = card
        self.gates = [Gate.parse(text) for text in gates]
        self.decisions = dict(decisions or {})
        self.seed = seed
        self.rates = {
            "false_drops": check_rate(false_drops, "false_drops"),
            "false_alarms": check_rate(false_alarms, "false_alarms"),
        }
        self.every = check_integer(every, "every", 1)
        checksum = hashlib.sha256(card.to_json().encode()).hexdigest()
        self._log = Log(path, {"card": checksum, "seed": seed})
        self._looked: tuple[int, int] | None = None
        self._read()

    def add(
        self,
        model: Predictor | None,
        graph: Any,
        *,
        name: str | None = None,
        when: str | None = None,
        nodes: Any = None,
        earlier: NDArray[np.int64] | None = None,
    ) -> Entry:
        """Answer one snapshot, and return its entry; one that is in the log is not measured again.

        Parameters
        ----------
        model
            The model, or None if the snapshot is one of logits.
        graph
            A `Graph`, a PyG ``Data``, or the path of a graph; without a model logits (N, K), or
            their path. Labels in it are not read.
        name
            Identifies the snapshot in the log. Default: the name of the file.
        when
            Its place in time, such as ``"2026-05"``. Default: the date in its name, if any.
        nodes
            Nodes of the graph to evaluate (default: all).
        earlier
            Labels of the nodes from an earlier period, as in `recalibrate`.
        """
        if isinstance(graph, str | os.PathLike):
            found = snapshots_of(graph, self.card.num_classes, logits=model is None)
            if len(found) != 1:
                raise errors.choice(f"{graph} holds {len(found)} snapshots; use follow.")
            shot = replace(found[0], name=name or found[0].name, when=when or found[0].when)
        elif name is None:
            raise errors.missing("a snapshot in memory needs a name; call add(..., name=...).")
        else:
            shot = Snapshot(name, graph, when=when)
        content = self._check(model)
        new, refused = self._new([replace(shot, nodes=nodes)], content)
        for error in refused.values():
            raise error
        for one in new:
            card, revision = self._learned(content), len(content.cards)
            self._log.append(self._measure(model, one, card, revision, self.decisions, earlier))
        answers = self._read().answers
        if shot.name not in answers:
            raise errors.conflict(f"{shot.name} is to be forgotten; give it another name.")
        return answers[shot.name]

    def follow(
        self,
        model: Predictor | None,
        snapshots: Given,
        *,
        earlier: NDArray[np.int64] | None = None,
        progress: Progress | None = None,
    ) -> Run:
        """Answer every snapshot that is not in the log yet.

        A snapshot is held in memory only while it is measured, and one that cannot be used does not
        end the run. After an interruption the next run resumes. A snapshot that precedes a logged
        one is refused, unless it is one that could not be measured before, and so is a logged name
        with other content. If the log has late labels, the card that has learned from them answers.

        Parameters
        ----------
        model
            The model; one that the card was not built for is refused at once. None if snapshots are
            logits, whose estimate is that of logits alone.
        snapshots
            Files and folders of graphs (``.npz``) or of logits; a mapping from names to graphs,
            logits or functions that return one, oldest first; or `Snapshot` objects.
        earlier
            Labels of the nodes from an earlier period, as in `recalibrate`.
        progress
            Called after each snapshot.
        """
        content = self._check(model)
        shots = snapshots_of(snapshots, self.card.num_classes, logits=model is None)
        new, refused = self._new(shots, content)
        run = Run([], [Missed(name, _reason_of(error)) for name, error in refused.items()])
        card, revision = self._learned(content), len(content.cards)
        missed: list[Missed] = []  # since the last one that was measured
        for number, shot in enumerate(new, start=1):
            try:
                entry = self._measure(model, shot, card, revision, self.decisions, earlier)
            except MissingExtraError:
                raise  # the snapshot is not at fault
            except Exception as error:
                missed.append(Missed(shot.name, _reason_of(error)))
                run.missed.append(missed[-1])
            else:
                if self._log.append(entry, missed):  # or another process was faster
                    run.added.append(entry)
                missed = []
            if progress is not None:
                progress(number, len(new))
        if missed and self._read().history:
            self._log.append(None, missed)
        return run

    def labels(
        self,
        model: Predictor | None,
        snapshots: Given,
        name: str,
        labels: Mapping[int, int | None] | None = None,
        *,
        earlier: NDArray[np.int64] | None = None,
        progress: Progress | None = None,
    ) -> LateLabels:
        """Add labels of a logged snapshot.

        The answer that was given to it is scored, the card learns from it as from any other
        environment (`SourceCard.learn`), and later snapshots without labels are answered again. The
        log keeps the first answers as well, and the card. All of this is written at once, or not at
        all.

        Parameters
        ----------
        model
            The model; None for logits, which are scored but teach a card nothing.
        snapshots
            The labelled snapshot and the later ones to answer again, as in `follow`.
        name
            The snapshot that the labels belong to.
        labels
            Class of each labelled node, by its index in the snapshot: all of the evaluated nodes,
            or a random sample of at least ten. Default: the labels in the snapshot's graph.
        earlier
            Labels from a period before that of the snapshot. The card learns what they were worth,
            and later snapshots are answered with the newest labels of each node.
        progress
            Called with the number of snapshots answered again, and their total.
        """
        content = self._check(model)
        shots = snapshots_of(snapshots, self.card.num_classes, logits=model is None)
        given, known = {shot.name: shot for shot in shots}, {row.name for row in content.labelled}
        if name not in content.first or name not in given:
            raise errors.missing(
                f"labels belong to a snapshot that was measured and is given: {name!r} is not one "
                f"of the log {self._log.path}, or it was not given."
            )
        if name in known:
            raise InputError(f"the log {self._log.path} has labels of {name}; it is labelled once.")
        card, entry = self._learned(content), content.first[name]
        kept = given[name].load(card.num_classes)
        _check_digest(given[name].checksum(kept), entry)
        graph = kept if isinstance(kept, Graph) and model is not None else None
        if graph is None or model is None:
            nodes, logits = _logits_of(kept, card)
            num_nodes = int(nodes.max()) + 1
        else:
            num_nodes = graph.num_nodes
            nodes = select_nodes(given[name].nodes, num_nodes)
            logits = predict(model, graph.replace(labels=None))[nodes]
            if labels is None and graph.labels is not None:
                labels = {int(k): int(graph.labels[k]) for k in nodes if graph.labels[k] >= 0}
        if labels is None:
            raise errors.no_labels(f"{name} holds no labels; give them as a table of node,class.")
        read = read_labels(labels, nodes, num_nodes, card.num_classes)
        revision = len(content.cards) + (graph is not None)
        scored = score(logits[read.rows], read, entry, card.temperature, revision)
        answered: list[Entry] = []
        unanswered: list[Missed] = []
        if graph is not None and model is not None:
            now, old = np.full(num_nodes, -1), _fitted(earlier, num_nodes)
            now[nodes[read.rows]] = read.classes
            facts: dict[str, Any] = {"name": name[:200], "when": entry.when, "earlier": old}
            card = card.learn(model, graph.replace(labels=now), nodes[read.rows], **facts)
            newest = None if old is None else np.where(now >= 0, now, old)
            names = list(content.first)
            later = [other for other in names[names.index(name) + 1 :] if other not in known]
            for number, other in enumerate(later, start=1):
                first = content.first[other]
                try:
                    if other not in given:
                        raise errors.no_file("it is not among the given snapshots.")
                    shot = replace(given[other], when=first.when)
                    answer = self._measure(model, shot, card, revision, first.asked, newest)
                    _check_digest(answer.digest, first)
                    answered.append(replace(answer, question=first.question))
                except Exception as error:  # a file of long ago may be damaged or gone
                    unanswered.append(Missed(other, _reason_of(error)))
                if progress is not None:
                    progress(number, len(later))
        self._log.add_labels(scored, None if graph is None else card.to_json(), answered)
        record = {item.first.name: item for item in track_record(self._read())}
        return LateLabels(record[name], card, answered, unanswered)

    @property
    def standing(self) -> Standing:
        """Where the watch stands: newest answers, drops, changes and the track record."""
        return self._standing(self._read())

    def page(self, path: str | os.PathLike[str]) -> None:
        """Write one HTML page with the series, alarms and the track record, atomically."""
        text = render(self.standing)
        with atomic_write(path) as stream:
            stream.write(text.encode())

    def prometheus(
        self, path: str | os.PathLike[str], ran_at: float, missed: int = 0, name: str = "monitor"
    ) -> None:
        """Write the newest numbers in the text format of Prometheus, atomically."""
        text = exposition(self.standing, ran_at, missed, name)
        with atomic_write(path) as stream:
            stream.write(text.encode())

    def gate(self, condition: str, *, only_last: bool = False) -> str:
        """Return why a gate is closed, as a sentence; empty if it is open.

        A gate looks at all snapshots that were added since the last call of `acknowledge`, and at
        the newest one. It is closed as well where it cannot be checked: a metric that was not
        measured or is not defined, or a number of an abstention.

        Parameters
        ----------
        condition
            ``abstain``, ``caution``, ``drop``, ``change``, or a comparison such as
            ``"accuracy<0.8"``; see `graphtemper.recalibration.gates.Gate`.
        only_last
            Look at the newest snapshot only.
        """
        content, gate = self._read(), Gate.parse(condition)
        self._looked = len(content.history), len(content.labelled)
        standing = self._standing(content)
        newest, names = standing.newest.name, list(content.answers)
        seen, labels = content.reported(gate.field if gate.field in ALARMS else _RUN)
        known = {entry.name for entry in content.history[:seen]}
        recent = {newest} if only_last else set(names) - known | {newest}
        asked = [entry for entry in standing.answers if entry.name in recent]
        if gate.field == "change":
            changed = [names[change.position] for change in standing.changes]
            return _listed(f"a change at {name}" for name in changed if name in recent)
        if gate.field != "drop":
            why = ((entry, self._why(gate, entry)) for entry in asked)
            return _listed(f"on {entry.name} {reason}" for entry, reason in why if reason)
        fallen = [(names[drop.position], drop.below) for drop in standing.drops]
        order = [name for name in names if name in known]
        past = content.history[:seen], standing.limits, standing.false_drops
        before = {
            (order[drop.position], drop.below)
            for drop in drops(*past, content.labelled[:labels], order)
        }
        reasons = [
            f"{name} is below {below}"
            for name, below in fallen
            if name == newest or not (only_last or (name, below) in before)
        ]
        labelled = {row.name for row in content.labelled}
        reasons += [
            f"nothing can be told of {entry.name}, because the verdict is abstain"
            for entry in asked
            if not entry.settled and entry.name not in labelled
        ]
        return _listed(reasons)

    def closed(self, *, only_last: bool = False) -> dict[str, str]:
        """Return those of the watch's gates that are closed, each with the reason; see `gate`."""
        reasons = {gate.text: self.gate(gate.text, only_last=only_last) for gate in self.gates}
        return {text: reason for text, reason in reasons.items() if reason}

    def acknowledge(self) -> None:
        """Store that what gates have looked at was seen: they are about what comes after.

        The gates `drop` and `change` are acknowledged only by a watch that has them.
        """
        content = self._read()
        gated = sorted({gate.field for gate in self.gates} & set(ALARMS))
        counts = self._looked or (len(content.history), len(content.labelled))
        self._log.report([_RUN, *gated], *counts)

    def forget(self, name: str) -> None:
        """Leave out, for good, a snapshot that could not be measured or that was refused."""
        if name in self._read().first:
            raise errors.conflict(f"{name} was measured; what is in a log stays there.")
        self._log.forget(name)

    @property
    def names(self) -> list[str]:
        """Names of the snapshots that were measured, oldest first."""
        return list(self._read().first)

    def _read(self) -> Content:
        return self._log.read()

    def _standing(self, content: Content) -> Standing:
        """Read the rows of a log as a whole; gates on the accuracy are limits of drops."""
        if not content.history:
            raise errors.empty(f"the log {content.path} has no snapshots yet.")
        limits, names = limits_of(self.card.reference.accuracy, self.gates), list(content.first)
        # In the order in which they were given, and as they were: a snapshot that was measured
        # late, or an answer given again, would move or raise alarms of the past.
        tested = [
            content.first[name] for name in dict.fromkeys(entry.name for entry in content.history)
        ]
        changes = alarms(tested, self.rates["false_alarms"], self.seed, self.every)
        return Standing(
            model=self.card.predictor,
            source=self.card.reference.accuracy,
            first=list(content.first.values()),
            answers=list(content.answers.values()),
            record=track_record(content),
            changes=[
                one._replace(position=names.index(tested[one.position].name)) for one in changes
            ],
            drops=drops(
                content.history, limits, self.rates["false_drops"], content.labelled, names
            ),
            limits=limits,
            missed=content.missed,
            every=self.every,
            **self.rates,
        )

    def _check(self, model: Predictor | None) -> Content:
        """Settle the kind of the log; refuse the other one, and another model; return the log."""
        kind: Kind = "logits" if model is None else "graphs"
        self._log.settings["kind"] = kind
        if model is not None:
            self.card.check_model(model)
        elif self.decisions:
            raise errors.conflict(
                "metrics of decisions need graphs and their model; give the model."
            )
        return self._read()

    def _learned(self, content: Content) -> SourceCard:
        """Return the card with what it has learned from the log's late labels."""
        return SourceCard.from_json(content.cards[-1]) if content.cards else self.card

    def _new(
        self, snapshots: Sequence[Snapshot], content: Content
    ) -> tuple[list[Snapshot], dict[str, Exception]]:
        """Return the snapshots that are to be measured, and why others are refused."""
        missed = {one.name for one in content.missed}
        newest = [None, *content.first.values()][-1]
        logged = [k for k, shot in enumerate(snapshots) if shot.name in content.first]
        new: list[Snapshot] = []
        refused: dict[str, Exception] = {}
        for place, shot in enumerate(snapshots):
            try:
                if entry := content.first.get(shot.name):
                    same = entry.stamp is not None and shot.stamp() == entry.stamp
                    if not same and shot.checksum(shot.load(self.card.num_classes)) != entry.digest:
                        raise errors.other_log(
                            "it is in the log with another content; give it a new name."
                        )
                elif shot.name in missed:
                    new.append(shot)
                elif shot.name not in content.forgotten:
                    older = newest and shot.is_older_than(newest.name, newest.when)
                    if older or place < max(logged, default=-1):
                        raise errors.content(
                            "it is older than the newest of the log; a log is filled in order, so "
                            "give it a later name, begin a new log, or forget it."
                        )
                    new.append(shot)
            except Exception as error:
                refused[shot.name] = error
        return new, refused

    def _measure(
        self,
        model: Predictor | None,
        snapshot: Snapshot,
        card: SourceCard,
        revision: int,
        decisions: Mapping[str, Any],
        earlier: NDArray[np.int64] | None,
    ) -> Entry:
        """Return the answer to a snapshot; labels in it are not used."""
        stamp, content = snapshot.stamp(), snapshot.load(card.num_classes)
        if isinstance(content, Graph):
            if model is None:
                raise InputError("it is a graph, and the watch is one of logits; give the model.")
            old = _fitted(earlier, content.num_nodes)
            hidden, nodes = content.replace(labels=None), snapshot.nodes
            result = recalibrate(model, hidden, card, nodes, seed=self.seed, earlier=old)
        elif isinstance(content, Tables):
            graph, logits = content.open(), content.logits
            known = None if model is None else logits
            result = recalibrate(model or logits, graph, card, seed=self.seed, logits=known)
        else:
            result = recalibrate(content, None, card)
        metrics = result.metrics(**decisions) if decisions else None
        if snapshot.stamp() != stamp:
            raise errors.content("it changed while it was read; rename it once it is complete.")
        accuracy = result.accuracy
        return Entry(
            name=snapshot.name,
            digest=snapshot.checksum(content),
            num_nodes=result.num_nodes,
            accuracy=accuracy.value,
            low=accuracy.low,
            high=accuracy.high,
            confidence=result.mean_confidence[0],
            temperature=result.temperature,
            slope=result.slope,
            verdict=result.verdict,
            reasons=tuple(str(reason) for reason in result.reasons),
            signals=result.signals | {f"gain_{key}": value for key, value in result.gains.items()},
            when=snapshot.when,
            revision=revision,
            stamp=stamp,
            asked={} if metrics is None else {**decisions, "positive": metrics.positive},
            question=_plain(decisions),
            metrics={} if metrics is None else metrics.values(),
            undefined={} if metrics is None else metrics.undefined,
            changes=tuple(change.to_dict() for change in result.changes[:_MOST_CHANGES]),
        )

    def _why(self, gate: Gate, entry: Entry) -> str:
        """Return why an answer closes a gate; metrics of another question are not measured ones."""
        if entry.asked and entry.question != _plain(self.decisions) != {}:
            return f"{gate.field} was not measured as asked now, but with {entry.asked}"
        return gate.why_closed(entry.verdict, vars(entry), entry.metrics, entry.undefined)


def _plain(asked: Mapping[str, Any]) -> dict[str, str]:
    """Return what was asked in a form in which 1 and "1" are the same class."""
    return {name: str(value) for name, value in asked.items() if value is not None}


def _listed(reasons: Iterable[str]) -> str:
    """Return at most three reasons in one sentence."""
    found = list(reasons)
    more = f"; and {len(found) - 3} more" if len(found) > 3 else ""
    return "; ".join(found[:3]) + more


def _fitted(earlier: NDArray[np.int64] | None, num_nodes: int) -> NDArray[np.int64] | None:
    """Return earlier labels of the nodes of a snapshot, which may have more or fewer of them."""
    if earlier is None:
        return None
    whole = np.full(num_nodes, -1, dtype=np.int64)
    whole[: earlier.size] = earlier[:num_nodes]
    return whole


def _reason_of(error: Exception) -> str:
    """Return an error as one printable line."""
    text = str(error)
    if not isinstance(error, GraphTemperError):
        text = f"{type(error).__name__}: {text}".removesuffix(": ")
    return " ".join(printable(text).split())[:_MAX_REASON]


def _logits_of(content: Kept, card: SourceCard) -> tuple[NDArray[np.int64], FloatArray]:
    """Return the numbers of the nodes of logits, and their rows."""
    if isinstance(content, Graph):
        raise errors.missing("labels of a graph need its model.")
    place = content.logits if isinstance(content, Tables) else content
    parts = open_logits(place, card.num_classes)
    batches = [batch for part in range(len(parts)) for batch in parts.batches(part)]
    names, rows = zip(*batches, strict=True)
    return np.concatenate([as_numbers(some, MOST) for some in names]), np.concatenate(rows)


def _check_digest(digest: str, entry: Entry) -> None:
    if digest != entry.digest:
        raise errors.other_model(
            f"the snapshot {entry.name} is not the one that was measured: its content differs, or "
            "its logits come from another model; give the original."
        )
