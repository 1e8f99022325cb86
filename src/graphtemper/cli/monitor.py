"""`graphtemper monitor`: a deployed model over time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from cyclopts import App, Parameter

from graphtemper import errors
from graphtemper.cli import monitor_output, result_file
from graphtemper.cli.decisions import Asked
from graphtemper.cli.ends import CLOSED, UNUSABLE, end
from graphtemper.cli.options import (
    CardPath,
    Earlier,
    FailOn,
    Json,
    NodesFile,
    PassSeed,
    Predict,
)
from graphtemper.cli.output import print_closed, progress
from graphtemper.errors import FileError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from graphtemper import SourceCard
    from graphtemper.models.predictor import Predictor
    from graphtemper.monitor import Log, Missed, Snapshot
    from graphtemper.recalibration.gates import Gate

clock = time.time
"""Seconds since 1970."""

monitor = App(
    name="monitor",
    help="Follow a model over snapshots of its graph or its logits: a log, a page, alarms, gates.",
)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Watch:
    """What is watched, what a run writes, and when it fails.

    Parameters
    ----------
    log
        Append-only SQLite file; created with its first row.
    page
        An .html page with the time series, redrawn by every run; needs the extra [report].
    prometheus
        A text file with the newest numbers for Prometheus.
    name
        The label `watch` of the Prometheus metrics, which distinguishes several models. Default:
        the name of the log.
    fail_on
        A gate: abstain, caution, drop, change, or a comparison such as "accuracy<0.8" of accuracy,
        low, high, temperature, slope, confidence or a metric of decisions, such as precision or
        low(precision), by <, <=, > or >=; may be repeated.
    windows
        Cut one graph whose nodes have times into this number of spans, each of them a snapshot.
        The graph grows from span to span, which alone can raise a change.
    false_drops
        Upper bound on the probability that the log ever reports a drop below the source's accuracy
        or a gate where there is none. Snapshots may depend on each other.
    false_alarms
        Upper bound on the probability that an unchanging series ever raises a change. It holds if
        snapshots are exchangeable while nothing changes; if each resembles the one before, changes
        are more frequent: see --alarm-every.
    alarm_every
        Test every N-th snapshot for changes, with N large enough that tested snapshots have little
        in common.
    nodes
        File with one node index per line: those to evaluate in every graph. Default: all nodes.
    """

    card: CardPath
    predict: Predict | None = None
    earlier: Earlier = None
    log: Path = Path("monitor.sqlite")
    page: Path | None = None
    prometheus: Path | None = None
    name: str | None = None
    fail_on: FailOn = None
    windows: int | None = None
    false_drops: float = 0.05
    false_alarms: float = 0.01
    alarm_every: int = 1
    seed: PassSeed = 0
    nodes: NodesFile = None
    as_json: Json = False

    @property
    def label(self) -> str:
        """The label of the Prometheus metrics."""
        return self.log.stem if self.name is None else self.name

    def open(
        self, names: Sequence[str], labels: Path | None = None, out: Path | None = None
    ) -> Opened:
        """Refuse options that cannot be used, before anything is read; then read what is named."""
        from graphtemper import SourceCard
        from graphtemper._core.checks import check_integer
        from graphtemper.cli.arguments import read_nodes, resolve
        from graphtemper.graph.graph import Graph
        from graphtemper.monitor import Log, find_logits, find_snapshots, fingerprint, windows
        from graphtemper.monitor.change import check_rate
        from graphtemper.recalibration.gates import Gate
        from graphtemper.recalibration.labelling import read_earlier_file

        gates = [Gate.parse(text) for text in self.fail_on or ()]
        check_integer(self.alarm_every, "--alarm-every", 1)
        check_rate(self.false_drops, "--false-drops")
        check_rate(self.false_alarms, "--false-alarms")
        if not self.label.strip():
            raise errors.empty("--name must not be empty; it distinguishes this watch from others.")
        written = {"--log": self.log, "--page": self.page, "--prometheus": self.prometheus}
        # SQLite's own files next to the log must not be written either.
        beside = (f"{self.log}-{kind}" for kind in ("journal", "wal", "shm"))
        read = (self.card, self.predict, labels, self.earlier, *names, *beside)
        result_file.check_outputs(written | {"--out": out}, read)
        if self.page is not None:
            result_file.check_report(self.page)
        source = SourceCard.load(self.card)
        if self.windows is not None:
            if self.predict is None or len(names) != 1:
                raise errors.conflict(
                    "--windows cuts one graph and needs its model; give --predict."
                )
            found = list(windows(Graph.load(names[0]), self.windows))
        else:
            found = (
                find_snapshots(names) if self.predict else find_logits(names, source.num_classes)
            )
        for option, path in (("--nodes", self.nodes), ("--earlier", self.earlier)):
            if path is not None and (self.predict is None or self.windows is not None):
                raise errors.conflict(
                    f"{option} is about nodes of graphs; leave it out with --windows and without "
                    "--predict."
                )
        if self.nodes is not None:
            nodes = read_nodes(self.nodes)
            found = [replace(snapshot, nodes=nodes) for snapshot in found]
        kind: Literal["graphs", "logits"] = "graphs" if self.predict else "logits"
        log = Log(self.log, fingerprint(source), kind=kind, seed=self.seed)
        model = resolve(self.predict) if self.predict else None
        classes = source.num_classes
        old = None if self.earlier is None else read_earlier_file(self.earlier, None, classes)
        return Opened(gates, source, model, found, log, old)


class Opened(NamedTuple):
    """What a run reads."""

    gates: list[Gate]
    card: SourceCard
    model: Predictor | None
    snapshots: list[Snapshot]
    log: Log
    earlier: NDArray[np.int64] | None


NOTHING = Asked()


@monitor.default
def follow_snapshots(*snapshots: str, watch: Watch, decisions: Asked = NOTHING) -> None:
    """Follow a model over snapshots of its graph or its logits: a log, a page, alarms, and gates.

    Snapshots that are in the log are not measured again. The exit code is 3 if a gate closes on the
    newest snapshot (drop and change close on any alarm that no run with this gate has reported,
    also on a drop at an earlier snapshot that late labels show), and otherwise 4 if a snapshot
    could not be measured; the others are still followed. A log is continued with the seed that it
    was started with. Labels that arrive later are added with `graphtemper monitor labels`.

    Parameters
    ----------
    snapshots
        Graphs (.npz) or folders of them, in the order of the dates in their names, or else of their
        names; with --windows one graph. Without --predict, logits: Parquet, .npy, .npz with the key
        `logits`, folders of Parquet files (each one snapshot), or folders of those.
    """
    from graphtemper.monitor import follow

    asked = decisions.asked
    gates, source, model, found, book, old = watch.open(snapshots)
    known = {entry.name for entry in book.entries()}
    if watch.windows is not None and known - {snapshot.name for snapshot in found}:
        raise errors.content(
            "the log holds other spans than this graph's; begin a new log for these."
        )
    missed: list[Missed] = []
    run = monitor_output.Run([], missed)
    try:
        with progress(watch.as_json) as show:
            shown = partial(show, "snapshots"), missed.append
            new = follow(model, found, source, book, *shown, asked, earlier=old)
            run.added.extend(new)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"interrupted; {len(run.added)} snapshots were added to {watch.log}: run the same "
            "command again to resume."
        ) from None
    if missed and not book.entries():
        raise FileError(f"no snapshot could be measured; {missed[0].name}: {missed[0].reason}")
    _finish(book, source, gates, watch, run)


@monitor.command(name="labels")
def add_late_labels(
    *snapshots: str,
    of: str,
    labels: Path | None = None,
    out: Path | None = None,
    watch: Watch,
) -> None:
    """Add labels of an earlier snapshot: score its answer, learn, and answer later ones again.

    The log keeps the first answers next to the new ones, and the card that has learned: later runs
    of `graphtemper monitor` with the same card use it. Logits are scored, but teach nothing. Gates
    and exit codes are those of `graphtemper monitor`.

    Parameters
    ----------
    snapshots
        The files or folders that were followed: the labelled snapshot, and the later ones.
    of
        Name of the snapshot that the labels belong to, as in the log.
    labels
        CSV with the columns node and class: all evaluated nodes, or a random sample of at least
        ten. Default: the labels in the snapshot's graph.
    out
        Also write the card that has learned to this file.
    """
    from graphtemper.monitor import add_labels
    from graphtemper.recalibration.labelling import read_label_file

    gates, source, model, found, book, old = watch.open(snapshots, labels, out)
    given: dict[int, int | None] | None = None
    if labels is not None:
        if watch.windows is not None:
            raise errors.conflict(
                "with --windows, the labels are those in the graph; leave --labels."
            )
        # Whether the snapshot has these nodes is checked with its content.
        given = read_label_file(labels, 10**18, source.num_classes)
    with progress(watch.as_json) as show:
        again = partial(show, "answered again")
        late = add_labels(model, found, source, book, of, given, earlier=old, progress=again)
    if out is not None:
        late.card.save(out)
    _finish(book, source, gates, watch, monitor_output.Run([], [], late))


def _finish(
    book: Log,
    card: SourceCard,
    gates: list[Gate],
    watch: Watch,
    run: monitor_output.Run,
) -> None:
    """Write page and metrics, print, mark alarms as reported, and exit with the code of the run."""
    from graphtemper._core.files import atomic_write
    from graphtemper.monitor import drops, exposition, read_log, write_page
    from graphtemper.recalibration.gates import ALARMS

    history, labelled = book.history(), book.labelled()
    standing = read_log(
        book,
        card,
        gates,
        false_alarms=watch.false_alarms,
        false_drops=watch.false_drops,
        every=watch.alarm_every,
        # The log holds missed snapshots that a later one has followed; this run knows the others.
        missed=run.missed,
    )
    newest = len(standing.answers) - 1
    # Several snapshots may be new since the gate was last evaluated, and late labels may show drops
    # at earlier ones; an alarm at any counts.
    old = {entry.name for entry in history[: book.reported("change")[0]]}
    changed = any(change.position >= min(len(old), newest) for change in standing.changes)
    answers, labels = book.reported("drop")
    earlier = history[:answers], standing.limits, watch.false_drops, labelled[:labels]
    known = {drop[:2] for drop in drops(*earlier)}
    dropped = any(drop.position == newest or drop[:2] not in known for drop in standing.drops)
    recent = {entry.name for entry in run.added} | {standing.newest.name}
    closed: dict[str, str] = {}
    for gate in gates:
        for entry in standing.answers:
            if gate.field not in ALARMS and entry.name in recent:
                reason = gate.why_closed(entry.verdict, vars(entry), entry.metrics, entry.undefined)
                if reason:
                    closed[gate.text] = f"on {entry.name} {reason}"
        if dropped and gate.field == "drop":
            closed[gate.text] = "the accuracy has dropped"
        if changed and gate.field == "change":
            closed[gate.text] = "a signal has changed"
    if watch.page is not None:
        write_page(watch.page, standing)
    if watch.prometheus is not None:
        metrics = exposition(standing, clock(), len(run.missed), watch.label)
        with atomic_write(watch.prometheus) as stream:
            stream.write(metrics.encode())

    def show() -> None:
        if watch.as_json:
            monitor_output.print_facts(standing, run, closed, book.kind)
        else:
            written = (watch.log, watch.page, watch.prometheus)
            monitor_output.print_outcome(standing, run, closed, written)
        for field in {gate.field for gate in gates} & set(ALARMS):
            book.report(field, len(history), len(labelled))  # only after alarms were printed

    print_closed(closed)
    end(CLOSED if closed else UNUSABLE if run.missed else 0, show)
