"""`graphtemper monitor`: a deployed model over time."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from graphtemper.cli import monitor_output, result_file
from graphtemper.cli.options import CardPath, Json, PassSeed, Predict, Repeated
from graphtemper.cli.output import discard_output, progress
from graphtemper.errors import FileError, InputError

if TYPE_CHECKING:
    from graphtemper import SourceCard
    from graphtemper.graph.graph import Graph
    from graphtemper.monitor import Change, Drop, Entry, Gate, Log, LogitSnapshot, Missed, Snapshot
    from graphtemper.monitor.log import Kind
    from graphtemper.monitor.watch import OnMissed, Progress
    from graphtemper.recalibration.labelling import LabelPlan

    Watch = Callable[[Log, Progress, OnMissed], Iterator[Entry]]

CLOSED = 3
"""Exit code if a gate is closed; it differs from that of bad input, which is 2."""
UNREAD = 4
"""Exit code if a snapshot could not be measured and no gate is closed."""
clock = time.time
"""Seconds since 1970."""

monitor = App(
    name="monitor",
    help="Follow a model over snapshots of its graph or its logits: a log, a page, alarms, gates.",
)


@Parameter(name="*")
@dataclass(frozen=True)
class Outputs:
    """What a run writes, and when it fails."""

    log: Annotated[Path, Parameter(help="Append-only SQLite file; created with its first row.")] = (
        Path("monitor.sqlite")
    )
    page: Annotated[
        Path | None,
        Parameter(
            help="An .html page with the time series, redrawn by every run; needs the extra "
            "[report]."
        ),
    ] = None
    prometheus: Annotated[
        Path | None, Parameter(help="A text file with the newest numbers for Prometheus.")
    ] = None
    name: Annotated[
        str | None,
        Parameter(
            help="The label `watch` of the Prometheus metrics, which distinguishes several models. "
            "Default: the name of the log."
        ),
    ] = None
    fail_on: Annotated[
        Repeated | None,
        Parameter(
            help="A gate: abstain, caution, drop, change, or a comparison such as "
            '"accuracy<0.8" of accuracy, low, high, temperature, slope or confidence by <, <=, > '
            "or >=; may be repeated."
        ),
    ] = None
    windows: Annotated[
        int | None,
        Parameter(
            help="Cut one graph whose nodes have times into this number of spans, each of them a "
            "snapshot. The graph grows from span to span, which alone can raise a change."
        ),
    ] = None
    false_drops: Annotated[
        float,
        Parameter(
            help="Upper bound on the probability that the log ever reports a drop below the "
            "source's accuracy or a gate where there is none. Snapshots may depend on each other."
        ),
    ] = 0.05
    false_alarms: Annotated[
        float,
        Parameter(
            help="Upper bound on the probability that an unchanging series ever raises a change. "
            "It holds if snapshots are exchangeable while nothing changes; if each resembles the "
            "one before, changes are more frequent: see --alarm-every."
        ),
    ] = 0.01
    alarm_every: Annotated[
        int,
        Parameter(
            help="Test every N-th snapshot for changes, with N large enough that tested snapshots "
            "have little in common."
        ),
    ] = 1
    seed: PassSeed = 0
    as_json: Json = False

    def check(
        self, card: Path, inputs: Sequence[str | os.PathLike[str] | None], out: Path | None = None
    ) -> list[Gate]:
        """Refuse options that cannot be used, before anything is read; return the gates."""
        from graphtemper._core.checks import check_integer
        from graphtemper.monitor import Gate
        from graphtemper.monitor.change import check_rate

        gates = [Gate.parse(text) for text in self.fail_on or ()]
        check_integer(self.alarm_every, "--alarm-every", 1)
        check_rate(self.false_drops, "--false-drops")
        check_rate(self.false_alarms, "--false-alarms")
        if not self.label.strip():
            raise InputError("--name must not be empty; it distinguishes this watch from others.")
        written = {"--log": self.log, "--page": self.page, "--prometheus": self.prometheus}
        written["--out"] = out
        # SQLite's own files next to the log must not be written either.
        beside = (f"{self.log}-{kind}" for kind in ("journal", "wal", "shm"))
        result_file.check_outputs(written, (card, *inputs, *beside))
        if self.page is not None:
            result_file.check_report(self.page)
        return gates

    @property
    def label(self) -> str:
        """The label of the Prometheus metrics."""
        return self.log.stem if self.name is None else self.name


DEFAULTS = Outputs()


@monitor.default
def follow_snapshots(
    *snapshots: str,
    card: CardPath,
    predict: Predict | None = None,
    outputs: Outputs = DEFAULTS,
) -> None:
    """Follow a model over snapshots of its graph or its logits: a log, a page, alarms, and gates.

    Snapshots that are in the log are not measured again. The exit code is 3 if a gate closes on the
    newest snapshot (drop and change close on an alarm at any snapshot since the last run that ended
    with this gate), and otherwise 4 if a snapshot could not be measured; the others are still
    followed. A log is continued with the seed that it was started with. Labels that arrive later
    are added with `graphtemper monitor labels`.

    Parameters
    ----------
    snapshots
        Graphs (.npz) or folders of them, in the order of the dates in their names, or else of their
        names; with --windows one graph. Without --predict, logits: Parquet, .npy, .npz with the key
        `logits`, folders of Parquet shards (each one snapshot), or folders of those.
    """
    from graphtemper import SourceCard
    from graphtemper.monitor import Log, fingerprint

    gates = outputs.check(card, (predict, *snapshots))
    source = SourceCard.load(card)
    watch, spans = _watch(source, predict, snapshots, outputs.windows)
    kind: Kind = "logits" if predict is None else "graphs"
    book = Log(outputs.log, fingerprint(source), kind=kind, seed=outputs.seed)
    if spans is not None:
        _check_spans(spans, book.entries())
    added, missed = _follow(watch, book, outputs.log, outputs.as_json)
    if missed and not book.entries():
        raise FileError(f"no snapshot could be measured; {missed[0].name}: {missed[0].reason}")
    _finish(book, source, gates, outputs, monitor_output.Run(added, missed))


@monitor.command(name="labels")
def add_late_labels(
    *snapshots: str,
    of: str,
    card: CardPath,
    predict: Predict | None = None,
    labels: Path | None = None,
    out: Path | None = None,
    outputs: Outputs = DEFAULTS,
) -> None:
    """Add labels of an earlier snapshot: score its answer, learn, and answer later ones again.

    The log keeps the first answers next to the new ones, and the card that has learned: later runs
    of `graphtemper monitor` with the same card use it. Logits are scored, but teach nothing. Exit
    codes are those of `graphtemper monitor`, and drop closes also on a drop at an earlier snapshot
    that these labels, or the answers given again after them, are the first to show.

    Parameters
    ----------
    snapshots
        The files or folders that were followed: the labelled snapshot, and the later ones.
    of
        Name of the snapshot that the labels belong to, as in the log.
    labels
        CSV with the columns node,class, or node,class,weight as written by `suggest-labels`: all
        evaluated nodes, or a random sample of at least ten. Default: the labels in the snapshot's
        graph.
    out
        Also write the card that has learned to this file.
    """
    from graphtemper import SourceCard
    from graphtemper.monitor import Log, add_labels, find_logits, find_snapshots, fingerprint
    from graphtemper.monitor.drop import drops, limits_of
    from graphtemper.recalibration.labelling import read_label_file

    gates = outputs.check(card, (predict, labels, *snapshots), out)
    source = SourceCard.load(card)
    kind: Kind = "logits" if predict is None else "graphs"
    book = Log(outputs.log, fingerprint(source), kind=kind, seed=outputs.seed)
    given: dict[int, int] | None = None
    plan: LabelPlan | None = None
    found: Sequence[Snapshot] | Sequence[LogitSnapshot]
    if outputs.windows is not None:
        found = _spans(snapshots, outputs.windows, predict, labels, source.num_classes)
    elif predict is None:
        found = find_logits(snapshots, source.num_classes)
    else:
        found = find_snapshots(snapshots)
    if labels is not None and outputs.windows is None:
        # Whether the snapshot has these nodes is checked with its content.
        given, plan = read_label_file(labels, 10**18, source.num_classes)
    predictor = None if predict is None else _resolve(predict, source)
    limits = limits_of(source.reference.accuracy, gates)
    known = drops(book.history(), limits, outputs.false_drops, book.labelled())
    with progress(outputs.as_json) as show:
        late = add_labels(
            predictor,
            found,
            source,
            book,
            of,
            given,
            plan=plan,
            progress=partial(show, "answered again"),
        )
    if out is not None:
        late.card.save(out)
    _finish(book, source, gates, outputs, monitor_output.Run([], [], late), known)


def _finish(
    book: Log,
    card: SourceCard,
    gates: list[Gate],
    outputs: Outputs,
    run: monitor_output.Run,
    known: Sequence[Drop] | None = None,
) -> None:
    """Write page and metrics, print, mark alarms as reported, and exit with the code of the run.

    ``known`` are the drops before late labels were added.
    """
    from graphtemper.monitor.standing import read_log

    standing = read_log(
        book,
        card,
        gates,
        false_alarms=outputs.false_alarms,
        false_drops=outputs.false_drops,
        every=outputs.alarm_every,
        # The log holds missed snapshots that a later one has followed; this run knows the others.
        missed=run.missed,
    )
    answers = standing.answers
    found = [] if known is None else _new(standing.drops, known)
    closed = _closed(gates, answers, standing.changes, standing.drops, book.reported(), found)
    if outputs.page is not None:
        from graphtemper.monitor.page import write_page

        write_page(outputs.page, standing)
    if outputs.prometheus is not None:
        monitor_output.write_metrics(outputs.prometheus, standing, run, outputs.label, clock())
    code = CLOSED if closed else UNREAD if run.missed else 0
    try:
        if outputs.as_json:
            monitor_output.print_facts(standing, run, closed, book.kind)
        else:
            written = (outputs.log, outputs.page, outputs.prometheus)
            monitor_output.print_outcome(standing, run, closed, written)
        print(end="", flush=True)
    except BrokenPipeError:
        # The reader has left, as `head` does; the exit code still says what was found.
        discard_output()
        sys.exit(code)
    if any(gate.field in ("change", "drop") for gate in gates):
        book.report(len(answers))  # mark alarms as reported only after they were printed
    if code:
        sys.exit(code)


def _follow(watch: Watch, book: Log, path: Path, quiet: bool) -> tuple[list[Entry], list[Missed]]:
    """Measure new snapshots into the log; return their entries, and those that failed."""
    added: list[Entry] = []
    missed: list[Missed] = []
    try:
        with progress(quiet) as show:
            added.extend(watch(book, partial(show, "snapshots"), missed.append))
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"interrupted; {len(added)} snapshots were added to {path}: run the same command again "
            "to resume."
        ) from None
    return added, missed


def _watch(
    card: SourceCard, predict: str | None, names: tuple[str, ...], count: int | None
) -> tuple[Watch, list[Snapshot] | None]:
    """Return a function that follows the snapshots, and the spans that a graph was cut into."""
    from graphtemper.monitor import find_logits, find_snapshots, follow, follow_logits

    if count is not None:
        spans = _spans(names, count, predict)
        return partial(follow, _resolve(str(predict), card), spans, card), spans
    if predict is None:
        logits = find_logits(names, card.num_classes)
        return partial(follow_logits, logits, card, isolate=True), None
    predictor = _resolve(predict, card)
    return partial(follow, predictor, find_snapshots(names), card), None


def _resolve(predict: str, card: SourceCard) -> Callable[[Graph], object]:
    from graphtemper.cli.arguments import resolve
    from graphtemper.monitor import check_model

    predictor = resolve(predict)
    check_model(predictor, card)
    return predictor


def _spans(
    names: tuple[str, ...],
    count: int,
    predict: str | None,
    labels: Path | None = None,
    num_classes: int = 0,
) -> list[Snapshot]:
    """Cut one graph into spans; labels of the whole graph are given to all of them."""
    from graphtemper.cli.arguments import load_graph
    from graphtemper.monitor import windows

    if predict is None:
        raise InputError("--windows cuts a graph and needs the model; give it with --predict.")
    if len(names) != 1:
        raise InputError(f"--windows takes one graph with times, not {len(names)}.")
    graph = load_graph(names[0])
    if labels is not None:
        import numpy as np

        from graphtemper.recalibration.labelling import read_label_file

        given, _ = read_label_file(labels, graph.num_nodes, num_classes)
        whole = np.full(graph.num_nodes, -1, dtype=np.int64)
        whole[list(given)] = list(given.values())
        graph = graph.replace(labels=whole)
    return list(windows(graph, count))


def _check_spans(spans: list[Snapshot], entries: Sequence[Entry]) -> None:
    names = {span.name for span in spans}
    other = next((entry.name for entry in entries if entry.name not in names), None)
    if other is not None:
        raise InputError(
            f"the log holds the span {other}, which is not a span of this graph; start a new log "
            "for other spans."
        )


def _new(drops: Sequence[Drop], known: Sequence[Drop]) -> list[Drop]:
    """Return the drops at snapshots that were not below the same limit before."""
    before = {(drop.position, drop.below) for drop in known}
    return [drop for drop in drops if (drop.position, drop.below) not in before]


def _closed(
    gates: list[Gate],
    entries: Sequence[Entry],
    changes: Sequence[Change],
    drops: Sequence[Drop],
    reported: int,
    found: Sequence[Drop] = (),
) -> list[str]:
    # Several snapshots may be new since the gate was last evaluated; an alarm at any counts.
    first_new = min(reported, len(entries) - 1)
    changed = bool(changes) and changes[-1].position >= first_new
    dropped = bool(found) or (bool(drops) and drops[-1].position >= first_new)
    return [gate.text for gate in gates if gate.closes(entries[-1], changed, dropped)]
