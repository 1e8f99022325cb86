"""A watch: every snapshot is answered once, and the answers are kept and looked at together."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphtemper import errors
from graphtemper._core.checks import check_instance, check_integer
from graphtemper._core.files import atomic_write
from graphtemper._core.printable import printable
from graphtemper.card.card import SourceCard
from graphtemper.errors import GraphTemperError, InputError, MissingExtraError
from graphtemper.graph.graph import Graph, select_nodes
from graphtemper.models.predictor import Predictor, predict
from graphtemper.monitor.change import check_rate
from graphtemper.monitor.drop import drops
from graphtemper.monitor.log import Content, Entry, Kind, Log, Missed
from graphtemper.monitor.page import render
from graphtemper.monitor.prometheus import exposition
from graphtemper.monitor.record import Scored, chosen_logits, score, track_record
from graphtemper.monitor.snapshots import Given, Kept, Snapshot, snapshots_of
from graphtemper.monitor.standing import Standing, read_log
from graphtemper.recalibration.gates import ALARMS, Gate
from graphtemper.recalibration.job import recalibrate
from graphtemper.recalibration.labels.given import read_labels
from graphtemper.recalibration.result import Recalibration
from graphtemper.scale.logit_tables import LogitParts, open_logits
from graphtemper.scale.stored_graph import Tables

Progress = Callable[[int, int], None]
"""Called with the number of finished snapshots and their total."""
_MAX_REASON = 1000
_RUN = "run"  # what every run acknowledges


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
        self._log = Log(path, {"card": fingerprint(card), "seed": seed})
        self._added: set[str] = set()  # and not acknowledged
        self._refused: set[str] = set()
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
        self._run(model, [replace(shot, nodes=nodes)], earlier, None, None)
        content = self._read()
        if shot.name in content.forgotten:
            raise errors.conflict(f"{shot.name} is to be forgotten; give it another name.")
        return {entry.name: entry for entry in content.answers}[shot.name]

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
        found = snapshots_of(snapshots, self.card.num_classes, logits=model is None)
        run = Run([], [])
        failed = self._run(model, found, earlier, progress, run)
        if failed and self._read().answers:
            self._log.miss(failed)
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
        self._check(model)
        content = self._read()
        shots = snapshots_of(snapshots, self.card.num_classes, logits=model is None)
        by_name, entries = {shot.name: shot for shot in shots}, content.at_first
        known = {row.name for row in content.labelled}
        if name not in entries or name not in by_name:
            raise errors.missing(
                f"labels belong to a snapshot that was measured and is given: {name!r} is not one "
                f"of the log {self._log.path}, or it was not given."
            )
        if name in known:
            raise InputError(f"the log {self._log.path} has labels of {name}; it is labelled once.")
        card, entry, shot = self._learned(content), entries[name], by_name[name]
        kept = shot.load(card.num_classes)
        _check_digest(shot.checksum(kept), entry)
        graph = kept if isinstance(kept, Graph) else None
        if model is None or graph is None:
            found, logits, num_nodes = chosen_logits(_logits_of(kept, card), labels or {})
        else:
            found, num_nodes = select_nodes(shot.nodes, graph.num_nodes), graph.num_nodes
            logits = predict(model, graph.replace(labels=None))[found]
            if labels is None and graph.labels is not None:
                labels = {int(k): int(graph.labels[k]) for k in found if graph.labels[k] >= 0}
        if labels is None:
            raise errors.no_labels(f"{name} holds no labels; give them as a table of node,class.")
        read = read_labels(labels, found, num_nodes, card.num_classes)
        learns = model is not None and graph is not None
        revision = len(content.cards) + learns
        scored = score(logits[read.rows], read, entry, card.temperature, revision)
        answered: list[Entry] = []
        unanswered: list[Missed] = []
        if model is not None and graph is not None:
            whole, nodes = np.full(num_nodes, -1, dtype=np.int64), found[read.rows]
            _check_stored(graph, nodes, read.classes, name)
            whole[nodes] = read.classes
            old = None if earlier is None else _fitted(earlier, num_nodes)
            facts: dict[str, Any] = {"name": name[:200], "when": entry.when, "earlier": old}
            card = card.learn(model, graph.replace(labels=whole), nodes, **facts)
            latest = None if old is None else np.where(whole >= 0, whole, old)
            places = [place for place in content.places if place in entries]
            later = [place for place in places[places.index(name) + 1 :] if place not in known]
            for number, other in enumerate(later, start=1):
                first = entries[other]
                try:
                    if other not in by_name:
                        raise errors.no_file("it is not among the given snapshots.")
                    answer = self._measure(
                        model, by_name[other], card, revision, first.asked, latest
                    )
                    _check_digest(answer.digest, first)
                    facts = {"when": first.when, "question": first.question}
                    answered.append(replace(answer, **facts))
                except Exception as error:  # a file of long ago may be damaged or gone
                    unanswered.append(Missed(other, _reason_of(error)))
                if progress is not None:
                    progress(number, len(later))
        self._log.add_labels(scored, card.to_json() if learns else None, answered)
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
        newest = standing.newest.name
        seen, labels = content.reported(gate.field if gate.field in ALARMS else _RUN)
        known = {entry.name for entry in content.history[:seen]}
        recent = {entry.name for entry in content.history} - known | self._added | {newest}
        if only_last:
            recent = {newest}
        asked = [entry for entry in standing.answers if entry.name in recent]
        if gate.field == "change":
            names = (standing.answers[one.position].name for one in standing.changes)
            return _listed(f"a change at {name}" for name in names if name in recent)
        if gate.field != "drop":
            return _listed(
                f"on {one.name} {reason}" for one in asked if (reason := self._why(gate, one))
            )
        order = [name for name in content.places if name in known]
        past = content.history[:seen], standing.limits, self.rates["false_drops"]
        before = {
            (order[one.position], one.below)
            for one in drops(*past, content.labelled[:labels], order)
        }
        found = [(standing.answers[one.position].name, one.below) for one in standing.drops]
        new = [
            f"{name} is below {below}"
            for name, below in found
            if name == newest or not (only_last or (name, below) in before)
        ]
        labelled = {item.labelled.name for item in standing.record}
        unknown = (
            f"nothing can be told of {one.name}, because the verdict is abstain"
            for one in asked
            if not one.settled and one.name not in labelled
        )
        return _listed([*new, *unknown])

    def closed(self, *, only_last: bool = False) -> dict[str, str]:
        """Return those of the watch's gates that are closed, each with the reason; see `gate`."""
        reasons = {gate.text: self.gate(gate.text, only_last=only_last) for gate in self.gates}
        return {text: reason for text, reason in reasons.items() if reason}

    def acknowledge(self) -> None:
        """Store that what gates have looked at was seen: they are about what comes after.

        The gates `drop` and `change` are acknowledged only by a watch that has them.
        """
        content = self._read()
        alarms = sorted({gate.field for gate in self.gates} & set(ALARMS))
        counts = self._looked or (len(content.history), len(content.labelled))
        self._log.report([_RUN, *alarms], *counts)
        self._added.clear()

    def forget(self, name: str) -> None:
        """Leave out, for good, a snapshot that could not be measured or that was refused."""
        content = self._read()
        if name in content.at_first:
            raise errors.conflict(f"{name} was measured; what is in a log stays there.")
        if name not in self._refused | {one.name for one in content.missed} | content.forgotten:
            raise errors.missing(f"no snapshot {name!r} is missing in the log {self._log.path}.")
        self._log.forget(name)

    @property
    def names(self) -> list[str]:
        """Names of the snapshots that were measured, oldest first."""
        return [entry.name for entry in self._read().first]

    def _standing(self, content: Content) -> Standing:
        return read_log(
            content, self.card, self.gates, seed=self.seed, every=self.every, **self.rates
        )

    def _read(self) -> Content:
        return self._log.read()

    def _check(self, model: Predictor | None) -> None:
        """Settle the kind of the log; refuse the other one, and another model."""
        kind: Kind = "logits" if model is None else "graphs"
        self._log.settings["kind"] = kind
        self._read()
        if model is not None:
            self.card.check_model(model)
        elif self.decisions:
            raise errors.conflict(
                "metrics of decisions need graphs and their model; give the model."
            )

    def _learned(self, content: Content) -> SourceCard:
        """Return the card with what it has learned from the log's late labels."""
        try:
            return SourceCard.from_json(content.cards[-1]) if content.cards else self.card
        except InputError as error:
            raise errors.damaged(f"{self._log.path} holds a damaged card: {error}") from error

    def _run(
        self,
        model: Predictor | None,
        snapshots: Sequence[Snapshot],
        earlier: NDArray[np.int64] | None,
        progress: Progress | None,
        run: Run | None,
    ) -> list[Missed]:
        """Measure what is new; return what was missed since the last snapshot that was measured.

        Without a ``run`` to report to, errors are raised.
        """
        self._check(model)
        content = self._read()

        def report(snapshot: Snapshot, error: Exception) -> Missed:
            if run is not None:
                run.missed.append(missed := Missed(snapshot.name, _reason_of(error)))
                self._refused.add(snapshot.name)
                return missed
            if isinstance(error, GraphTemperError):
                raise error.at(f"snapshot {snapshot.name}") from error
            raise error

        new = self._new(snapshots, content, report)
        card, revision = self._learned(content), len(content.cards)
        failed: list[Missed] = []
        for number, shot in enumerate(new, start=1):
            try:
                entry = self._measure(model, shot, card, revision, self.decisions, earlier)
            except MissingExtraError:
                raise  # the snapshot is not at fault
            except Exception as error:
                failed.append(report(shot, error))
            else:
                if self._log.append(entry, failed):  # or another process was faster
                    self._added.add(entry.name)
                    if run is not None:
                        run.added.append(entry)
                failed = []
            if progress is not None:
                progress(number, len(new))
        return failed

    def _new(
        self,
        snapshots: Sequence[Snapshot],
        content: Content,
        report: Callable[[Snapshot, Exception], Missed],
    ) -> list[Snapshot]:
        """Return the snapshots that are to be measured; report those that do not agree."""
        logged, missed = content.at_first, {one.name for one in content.missed}
        newest = content.first[-1] if content.first else None
        places = [place for place, shot in enumerate(snapshots) if shot.name in logged]
        new: list[Snapshot] = []
        for place, shot in enumerate(snapshots):
            try:
                if entry := logged.get(shot.name):
                    same = entry.stamp is not None and shot.stamp() == entry.stamp
                    if not same and shot.checksum(shot.load(self.card.num_classes)) != entry.digest:
                        raise errors.other_log(
                            "it is in the log with another content; give it a new name."
                        )
                elif shot.name in missed:
                    new.append(shot)
                elif shot.name not in content.forgotten:
                    older = newest and shot.is_older_than(newest.name, newest.when)
                    if older or place < max(places, default=-1):
                        raise errors.content(
                            "it is older than the newest of the log; a log is filled in order, so "
                            "give it a later name, begin a new log, or forget it."
                        )
                    new.append(shot)
            except Exception as error:
                report(shot, error)
        return new

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
        result, num_nodes = self._answer(model, snapshot, content, card, earlier)
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
            signals=result.signals | {f"gain_{key}": value for key, value in result.gains.items()},
            when=snapshot.when,
            revision=revision,
            stamp=stamp,
            asked={} if metrics is None else {**decisions, "positive": metrics.positive},
            question=dict(decisions),
            metrics={} if metrics is None else metrics.values(),
            undefined={} if metrics is None else metrics.undefined,
        )
        if snapshot.stamp() != stamp:
            raise errors.content("it changed while it was read; rename it once it is complete.")
        return entry.check()

    def _answer(
        self,
        model: Predictor | None,
        snapshot: Snapshot,
        content: Kept,
        card: SourceCard,
        earlier: NDArray[np.int64] | None,
    ) -> tuple[Recalibration, int]:
        if isinstance(content, Graph):
            if model is None:
                raise InputError("it is a graph, and the watch is one of logits; give the model.")
            old = None if earlier is None else _fitted(earlier, content.num_nodes)
            hidden, nodes = content.replace(labels=None), snapshot.nodes
            result = recalibrate(model, hidden, card, nodes, seed=self.seed, earlier=old)
            return result, len(result.probabilities)
        if isinstance(content, Tables):
            graph, logits = content.open(), content.logits
            stored = (
                recalibrate(logits, graph, card, seed=self.seed)
                if model is None
                else recalibrate(model, graph, card, seed=self.seed, logits=logits)
            )
        else:
            stored = recalibrate(content, None, card)
        return stored, stored.num_nodes

    def _why(self, gate: Gate, entry: Entry) -> str:
        """Return why an answer closes a gate; metrics of another question are not measured ones."""
        question = _plain(self.decisions)
        if (
            question
            and entry.asked
            and question
            not in (
                _plain(entry.question),
                _plain(entry.asked),
            )
        ):
            return f"{gate.field} was not measured as asked now, but with {entry.asked}"
        return gate.why_closed(entry.verdict, vars(entry), entry.metrics, entry.undefined)


def _plain(asked: Mapping[str, Any]) -> dict[str, str]:
    """Return what was asked in a form in which 1 and "1" are the same class."""
    return {name: str(value) for name, value in asked.items() if value is not None}


def fingerprint(card: SourceCard) -> str:
    """Return the checksum by which a log identifies its card."""
    return hashlib.sha256(card.to_json().encode()).hexdigest()


def _listed(reasons: Any) -> str:
    """Return at most three reasons in one sentence."""
    found = list(reasons)
    more = f"; and {len(found) - 3} more" if len(found) > 3 else ""
    return "; ".join(found[:3]) + more


def _fitted(earlier: NDArray[np.int64], num_nodes: int) -> NDArray[np.int64]:
    """Return earlier labels of the nodes of a snapshot, which may have more or fewer of them."""
    whole = np.full(num_nodes, -1, dtype=np.int64)
    whole[: earlier.size] = earlier[:num_nodes]
    return whole


def _reason_of(error: Exception) -> str:
    """Return an error as one printable line."""
    text = str(error)
    if not isinstance(error, GraphTemperError):
        text = f"{type(error).__name__}: {text}".removesuffix(": ")
    return " ".join(printable(text).split())[:_MAX_REASON]


def _logits_of(content: Kept, card: SourceCard) -> LogitParts:
    if isinstance(content, Graph):
        raise errors.missing("labels of a graph need its model.")
    return open_logits(content.logits, card.num_classes) if isinstance(content, Tables) else content


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
