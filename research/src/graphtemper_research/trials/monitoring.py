"""A model watched over time: a block model that drifts, one that does not, graphs in time order.

The models are trained and their cards made before the first snapshot. Labels of the snapshots only
score: the error of the estimated accuracy, and how soon after the true change alarms came. Each
series has a log on disk, from which an interrupted run resumes.

Graphs in time order are watched a second time with late labels: those of a snapshot come when
`LAG` more have been measured, the card learns from them, and the snapshots since then are answered
again. What is scored is the first answer to each snapshot, which knows labels up to `LAG`
snapshots before it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from graphtemper import Graph, SourceCard, csbm, errors
from graphtemper.models import SIGN, LinearGNN
from graphtemper.monitor import Entry, Snapshot, Watch, windows
from graphtemper_research.graphs import datasets
from graphtemper_research.harness import frame
from graphtemper_research.harness.cells import Case, Cell, Show
from graphtemper_research.harness.frame import Row, Rows
from graphtemper_research.harness.layout import Column, Table, interval
from graphtemper_research.harness.memory import peak_gigabytes
from graphtemper_research.harness.numeric import stream
from graphtemper_research.harness.outcome import Comparison, at_most, prefixed, reported
from graphtemper_research.harness.runner import Bench, Request, Selection
from graphtemper_research.trials import graph_names
from graphtemper_research.trials.pairs import early

SCHEMA = "graphtemper.monitoring_cell/2"
# Articles by date, and accounts from the oldest to the newest.
IN_TIME = ("pubmed", "twitch_de")
DRAWN = ("drift", "steady")
SERIES = (*DRAWN, *IN_TIME)
FALSE_ALARMS, FALSE_DROPS = 0.01, 0.05
# Snapshots from one to its labels.
LAG = 2
# The drifting model's homophily: constant, then falling at a constant rate.
START, END, CONSTANT = 0.85, 0.65, 0.3
NODES, DEGREE, SNR, FEATURES = 500, 8.0, 1.0, 6
WINDOWS = 24
_SECONDS, _GIGABYTES = 120.0, 0.2


@dataclass(frozen=True, eq=False)
class Course:
    """A model with its card, and the snapshots on which it is watched."""

    model: LinearGNN
    card: SourceCard
    snapshots: Sequence[Snapshot]


def cases(request: Request) -> Selection:
    """Return one case per series; the default is all whose graphs are on this machine."""
    here, missing = ([], []) if request.quick else graph_names.present(IN_TIME)
    names = [*DRAWN, *here] if request.names is None else list(request.names)
    unknown = sorted(set(names) - set(SERIES))
    if unknown:
        raise errors.choice(f"there is no series {unknown[0]!r}; choose from {', '.join(SERIES)}.")
    found = []
    for name in names:
        head = {"schema": SCHEMA, "series": name, "quick": request.quick}
        head |= {"compositions": request.compositions}
        head |= {"content": graph_names.content(*([] if name in DRAWN else [name]))}
        work = partial(measure, request.out, name, request.quick, request.compositions)
        found.append(Case(name, head, work))
    return found, missing if request.names is None else []


def measure(
    out: Path, name: str, quick: bool, compositions: int, progress: Show | None = None
) -> Rows:
    """Follow one series to its end; return one row per snapshot.

    The log, from which an interrupted run resumes, and a page are written to ``out``. CPU seconds
    and memory of a snapshot are None where an earlier run followed it.
    """
    course = _course(name, quick, compositions)
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{name}.sqlite"
    watch = Watch(path, course.card, false_alarms=FALSE_ALARMS, false_drops=FALSE_DROPS)
    costs: Rows = []
    begun, memory = [time.process_time()], peak_gigabytes()

    def measured(done: int, total: int) -> None:
        begun.append(time.process_time())
        costs.append({"seconds": begun[-1] - begun[-2], "growth": peak_gigabytes() - memory})
        if progress is not None:
            progress(done, total)

    watch.follow(course.model, course.snapshots, progress=measured)
    watch.page(out / f"{name}.html")
    standing = watch.standing
    entries, late = standing.first, _late(out, name, course)
    costs = [{"seconds": None, "growth": None}] * (len(entries) - len(costs)) + costs
    changed = {change.position for change in standing.changes}
    dropped = {drop.position for drop in standing.drops}
    return [
        {
            "series": name,
            "snapshot": entry.name,
            "true": _truth(course.model, snapshot),
            "said": entry.accuracy,
            "low": entry.low,
            "high": entry.high,
            "verdict": entry.verdict,
            "alarm": "alarm" if position in changed else "",
            "drop": "drop" if position in dropped else "",
            "source": standing.source,
            "late": answer.accuracy,
            "late_low": answer.low,
            "late_high": answer.high,
            **cost,
        }
        for position, (snapshot, entry, answer, cost) in enumerate(
            zip(course.snapshots, entries, late, costs, strict=True)
        )
    ]


def _late(out: Path, name: str, course: Course) -> Sequence[Entry]:
    """Watch a graph in time order with late labels; return the first answers to its snapshots."""
    if name in DRAWN:
        return Watch(out / f"{name}.sqlite", course.card).standing.first
    watch = Watch(out / f"{name}_labels.sqlite", course.card)
    for position in range(len(course.snapshots)):
        until = course.snapshots[: position + 1]
        watch.follow(course.model, until)
        known = {item.labelled.name for item in watch.standing.record}
        if position >= LAG and until[position - LAG].name not in known:
            watch.labels(course.model, until, until[position - LAG].name)
    return watch.standing.first


def summarise(cells: Sequence[Cell]) -> Rows:
    """Return one row per series and snapshot."""
    costs = ("seconds", "growth")
    return [{key: row[key] for key in row if key not in costs} for row in frame.flat(cells)]


def bars(rows: Sequence[Row], cells: Sequence[Cell]) -> list[Comparison]:
    """State errors, false alarms, how late the alarm came, and what a long series cost."""
    return [bar for cell in cells for bar in prefixed(f"{cell['series']}: ", _compare(cell))]


def _compare(cell: Cell) -> list[Comparison]:
    name, rows = cell["series"], cell["rows"]
    change = change_at(name, len(rows))
    alarmed = [position for position, row in enumerate(rows) if row["alarm"]]
    comparisons = [
        reported(
            "error of the accuracy",
            float(np.mean([abs(row["said"] - row["true"]) for row in rows])),
        ),
        reported(
            "share of intervals that hold the truth",
            float(np.mean([row["low"] <= row["true"] <= row["high"] for row in rows])),
            f"{len(rows)} snapshots",
        ),
    ]
    dropped = [position for position, row in enumerate(rows) if row["drop"]]
    false = [k for k in dropped if rows[k]["true"] >= rows[k]["source"]]
    comparisons.append(at_most("drops that were none", len(false), 0))
    if name in IN_TIME:
        gaps = [abs(row["late"] - row["true"]) for row in rows]
        held = [row["late_low"] <= row["true"] <= row["late_high"] for row in rows]
        return [
            *comparisons,
            reported("alarms of slow changes", len(alarmed)),
            reported("snapshots that are drops", len(dropped)),
            reported(f"labels {LAG} snapshots late: error", float(np.mean(gaps))),
            reported(f"labels {LAG} snapshots late: coverage", float(np.mean(held))),
        ]
    early_alarms = [position for position in alarmed if change is None or position < change]
    comparisons.append(at_most("false alarms", len(early_alarms), 0))
    if change is not None:
        late = next((position - change for position in alarmed if position >= change), None)
        comparisons.append(
            Comparison(
                "snapshots from the change to the alarm",
                float("nan") if late is None else late,
                "an alarm",
                late is not None,
                note=f"the change begins at {change} of {len(rows)} and takes the rest of them",
            )
        )
        first = next((position for position in dropped if position >= change), None)
        truth = float("nan") if first is None else rows[first]["true"]
        comparisons.append(
            Comparison(
                "snapshots from the change to the drop",
                float("nan") if first is None else first - change,
                "a drop",
                first is not None,
                note=f"the true accuracy was {truth:.3f} there, {rows[0]['source']:.3f} at the "
                "source",
            )
        )
    if name == "drift" and not cell["quick"] and rows[0]["seconds"] is not None:
        seconds = sum(row["seconds"] for row in rows)
        comparisons += [
            at_most("CPU seconds in all", seconds, _SECONDS),
            at_most("growth of memory, GB", rows[-1]["growth"], _GIGABYTES),
        ]
    return comparisons


def change_at(name: str, count: int) -> int | None:
    """Return the snapshot at which the change of a series begins, or None.

    Examples
    --------
    >>> change_at("drift", 1000), change_at("steady", 300)
    (300, None)
    """
    return int(CONSTANT * count) if name == "drift" else None


def _course(name: str, quick: bool, compositions: int) -> Course:
    if name in IN_TIME:
        return _in_time(datasets.load(name), compositions)
    count = (1000 if name == "drift" else 300) // (10 if quick else 1)
    change = change_at(name, count)
    source = csbm.sample(2000, DEGREE, START, SNR, num_features=FEATURES, seed=1)
    model = SIGN(hops=2).fit(source, np.arange(1000))
    card = SourceCard.build(model, source, np.arange(1000, 2000), compositions=compositions)

    def load(position: int) -> Callable[[], Graph]:
        fallen = 0.0 if change is None else max(position - change, 0) / (count - change)
        homophily = START + (END - START) * fallen
        seed = int(stream(2, name, position).integers(2**31))
        return lambda: csbm.sample(NODES, DEGREE, homophily, SNR, num_features=FEATURES, seed=seed)

    snapshots = [Snapshot(f"{name} {k + 1}", load(k), digest=f"{name} {k}") for k in range(count)]
    return Course(model, card, snapshots)


def _in_time(graph: Graph, compositions: int) -> Course:
    """Train on the earlier half of a graph with times, and watch the spans that follow."""
    past = early(graph)
    labelled = stream(1, "monitoring").permutation(past.labelled)
    half = labelled.size // 2
    model = SIGN(hops=2).fit(past, np.sort(labelled[:half]))
    card = SourceCard.build(model, past, np.sort(labelled[half:]), compositions=compositions)
    if past.time is None:
        raise errors.empty(f"the graph {graph.name!r} has no order in time.")
    # The first half of the spans ends where the model's past does.
    last = int(past.time.max())
    snapshots = [window for window in windows(graph, WINDOWS) if _is_later(window, last)]
    return Course(model, card, snapshots)


def _is_later(snapshot: Snapshot, last: int) -> bool:
    graph = snapshot.load(2)
    if not isinstance(graph, Graph) or graph.time is None or snapshot.nodes is None:
        return False
    return int(graph.time[snapshot.nodes].min()) > last


def _truth(model: LinearGNN, snapshot: Snapshot) -> float:
    graph = snapshot.load(2)
    if not isinstance(graph, Graph) or graph.labels is None:
        raise errors.no_labels("the snapshots of a trial need labels to score it with.")
    nodes = np.arange(graph.num_nodes) if snapshot.nodes is None else snapshot.nodes
    nodes = nodes[graph.labels[nodes] >= 0]
    return float((model(graph)[nodes].argmax(axis=1) == graph.labels[nodes]).mean())


def _some(rows: Sequence[Row]) -> list[Row]:
    """Return a dozen snapshots, every alarm, and the first drop."""
    step = max(len(rows) // 12, 1)
    first = next((position for position, row in enumerate(rows) if row["drop"]), None)
    return [
        row
        for position, row in enumerate(rows)
        if position % step == 0 or row["alarm"] or position == first
    ]


_TABLE = Table(
    "{series}",
    (
        Column("snapshot"),
        Column("true", spec=".3f"),
        Column("said", "estimate", ".3f"),
        Column(interval, "interval"),
        Column("verdict"),
        Column("alarm"),
        Column("drop"),
        Column("late", "with late labels", ".3f"),
    ),
    _some,
)


def _settings(cells: Sequence[Cell], rows: Sequence[Row]) -> dict[str, Any]:
    return {
        "series": frame.distinct(cells, "series"),
        "nodes": NODES,
        "false alarms": FALSE_ALARMS,
        "false drops": FALSE_DROPS,
        "quick": cells[0]["quick"],
    }


BENCH = Bench(
    name="monitoring",
    title="A model watched over time",
    command="bench monitoring",
    introduction="""\
*drift*: a block model whose homophily is constant for three tenths of the snapshots and then
falls at a constant rate; *steady*: one that does not change; *pubmed*, *twitch_de*: a model of
the earlier half of articles or accounts, watched over the later ones. The *estimate* of the
accuracy has a 90 % interval; the true accuracy only scores. An *alarm* is a slow change of any
signal, a *drop* an accuracy that is certainly below the source's. *With late labels*: the labels
of a snapshot came when two more had been measured, and the card learned from them; the first
answers are shown. Of each series some snapshots, every alarm and the first drop are listed.""",
    cases=cases,
    rows=summarise,
    bars=bars,
    sections=("series",),
    tables=(_TABLE,),
    terminal=(_TABLE,),
    settings=_settings,
)
