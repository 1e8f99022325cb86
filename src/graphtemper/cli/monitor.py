"""`graphtemper monitor`: a deployed model over time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cyclopts import App, Parameter

from graphtemper import errors
from graphtemper.cli import monitor_output, result_file
from graphtemper.cli.ends import CLOSED, UNUSABLE, end
from graphtemper.cli.metric_options import Asked
from graphtemper.cli.options import (
    CardPath,
    Earlier,
    FailOn,
    Flag,
    Json,
    NodesFile,
    PassSeed,
    Predict,
    Repeated,
)
from graphtemper.cli.output import print_closed, progress
from graphtemper.errors import FileError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from graphtemper.models.predictor import Predictor
    from graphtemper.monitor import Snapshot, Watch

clock = time.time
"""Seconds since 1970."""

monitor = App(
    name="monitor",
    help="Follow a model over snapshots of its graph or its logits: a log, a page, alarms, gates.",
)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Watched:
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
        low(precision), by <, <=, > or >=; may be repeated. One that cannot be checked is closed.
    only_last
        Gates look at the newest snapshot only, not at every one that is new.
    forget
        Leave out, for good, a snapshot that cannot be used; may be repeated.
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
    only_last: Flag = False
    forget: Repeated | None = None
    false_drops: float = 0.05
    false_alarms: float = 0.01
    alarm_every: int = 1
    seed: PassSeed = 0
    nodes: NodesFile = None
    as_json: Json = False

    def begin(
        self,
        names: Sequence[str],
        decisions: Asked,
        labels: Path | None = None,
        out: Path | None = None,
    ) -> tuple[Watch, Predictor | None, list[Snapshot], NDArray[np.int64] | None]:
        """Refuse options that cannot be used, before anything is read; then read what is named."""
        from graphtemper import SourceCard
        from graphtemper.cli.arguments import read_nodes, resolve
        from graphtemper.monitor import Watch
        from graphtemper.monitor.snapshots import snapshots_of
        from graphtemper.recalibration.labels.given import read_earlier_file

        asked = decisions.asked
        written = {"--log": self.log, "--page": self.page, "--prometheus": self.prometheus}
        # SQLite's own file next to the log must not be written either.
        read = (self.card, self.predict, labels, self.earlier, *names, f"{self.log}-journal")
        result_file.check_outputs(written | {"--out": out}, read)
        source = SourceCard.load(self.card)
        watch = Watch(
            self.log,
            source,
            gates=self.fail_on or (),
            decisions=asked,
            seed=self.seed,
            false_drops=self.false_drops,
            false_alarms=self.false_alarms,
            every=self.alarm_every,
        )
        found = snapshots_of(names, source.num_classes, logits=self.predict is None)
        if self.predict is None and (self.nodes or self.earlier):
            raise errors.conflict("--nodes and --earlier are about graphs; give --predict.")
        if self.nodes is not None:
            nodes = read_nodes(self.nodes)
            found = [replace(snapshot, nodes=nodes) for snapshot in found]
        classes = source.num_classes
        old = None if self.earlier is None else read_earlier_file(self.earlier, None, classes)
        return watch, resolve(self.predict) if self.predict else None, found, old


NOTHING = Asked()


@monitor.default
def follow_snapshots(*snapshots: str, watched: Watched, decisions: Asked = NOTHING) -> None:
    """Follow a model over snapshots of its graph or its logits: a log, a page, alarms, and gates.

    Snapshots that are in the log are not measured again. The exit code is 3 if a gate is closed on
    a snapshot that no finished run has seen, or on the newest one, and otherwise 4 as long as a
    snapshot could not be measured and is not forgotten; the others are still followed. The gates
    drop and change close on any alarm that no run with this gate has reported, also on a drop at an
    earlier snapshot that late labels show. A log is continued with the seed that it was started
    with. Labels that arrive later are added with `graphtemper monitor labels`.

    Parameters
    ----------
    snapshots
        Graphs (.npz) or folders of them, in the order of the dates in their names, or else of their
        names. Without --predict, logits: Parquet, .npy, .npz with the key
        `logits`, folders of Parquet files (each one snapshot), or folders of those.
    """
    watch, model, found, old = watched.begin(snapshots, decisions)
    before = len(watch.names)
    try:
        with progress(watched.as_json) as show:
            shown = partial(show, "snapshots")
            added, missed = watch.follow(model, found, earlier=old, progress=shown)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"interrupted; {len(watch.names) - before} snapshots were added to {watched.log}: run "
            "the same command again to resume."
        ) from None
    if missed and not watch.names:
        raise FileError(f"no snapshot could be measured; {missed[0].name}: {missed[0].reason}")
    _finish(watch, watched, monitor_output.Run(added, missed))


@monitor.command(name="labels")
def add_late_labels(
    *snapshots: str,
    of: str,
    labels: Path | None = None,
    out: Path | None = None,
    watched: Watched,
    decisions: Asked = NOTHING,
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
    from graphtemper.recalibration.labels.given import read_label_file

    watch, model, found, old = watched.begin(snapshots, decisions, labels, out)
    given: dict[int, int | None] | None = None
    if labels is not None:
        # Whether the snapshot has these nodes is checked with its content.
        given = read_label_file(labels, 10**18, watch.card.num_classes)
    with progress(watched.as_json) as show:
        again = partial(show, "answered again")
        late = watch.labels(model, found, of, given, earlier=old, progress=again)
    if out is not None:
        late.card.save(out)
    _finish(watch, watched, monitor_output.Run([], [], late))


def _finish(watch: Watch, watched: Watched, run: monitor_output.Run) -> None:
    """Write page and metrics, print, mark what was seen, and exit with the code of the run."""
    gone = set(watched.forget or ())
    for name in gone:
        watch.forget(name)
    standing = watch.standing
    # A snapshot that could not be measured is named until it is measured or forgotten.
    missed = {one.name: one for one in (*standing.missed, *run.missed) if one.name not in gone}
    run = run._replace(missed=list(missed.values()))
    closed = watch.closed(only_last=watched.only_last)
    if watched.page is not None:
        watch.page(watched.page)
    if watched.prometheus is not None:
        name = watched.name or watched.log.stem
        watch.prometheus(watched.prometheus, clock(), len(run.missed), name)

    def show() -> None:
        if watched.as_json:
            kind = "logits" if watched.predict is None else "graphs"
            monitor_output.print_facts(standing, run, closed, kind)
        else:
            written = (watched.log, watched.page, watched.prometheus)
            monitor_output.print_outcome(standing, run, written)
        print(end="", flush=True)
        watch.acknowledge()  # only after it was printed

    print_closed(closed)
    end(CLOSED if closed else UNUSABLE if run.missed else 0, show)
