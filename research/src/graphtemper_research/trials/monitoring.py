"""A watch on trial: a block model that drifts, one that does not, and graphs in order of time.

The models are trained and their cards made before the first snapshot. Labels of the snapshots only
score: the error of the estimated accuracy, and how soon after the true change the alarm came. Each
series is one log on disk, so that an interrupted run goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from graphtemper._core.random_streams import stream
from graphtemper._core.threads import one_blas_thread
from graphtemper.card import atlas
from graphtemper.card.card import SourceCard
from graphtemper.errors import InputError
from graphtemper.graph import datasets
from graphtemper.graph.graph import Graph
from graphtemper.models import SIGN
from graphtemper.models.linear import LinearGNN
from graphtemper.monitor import Log, Snapshot, alarms, fingerprint, follow, windows
from graphtemper.monitor.page import write_page
from graphtemper.recalibration.report import style
from graphtemper.theory import csbm
from graphtemper_research.harness.cells import Progress
from graphtemper_research.harness.memory import peak_gigabytes
from graphtemper_research.harness.outcome import Comparison, Outcome, Row
from graphtemper_research.harness.tables import Columns, interval, page, texts
from graphtemper_research.trials.natural_shifts import early
from graphtemper_research.trials.trial import QUICK_COMPOSITIONS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Articles by date, and accounts from the oldest to the newest.
IN_TIME = ("pubmed", "twitch_de")
SERIES = ("drift", "steady", *IN_TIME)
FALSE_ALARMS = 0.01
# The drifting model's homophily: constant, then falling at a constant rate.
START, END, CONSTANT = 0.85, 0.65, 0.3
NODES, DEGREE, SNR, FEATURES = 500, 8.0, 1.0, 6
WINDOWS = 24
_SECONDS, _GIGABYTES = 120.0, 0.2


@dataclass(frozen=True, eq=False)
class Course:
    """A model with its card, snapshots to watch it on, and when the change begins, if any."""

    model: LinearGNN
    card: SourceCard
    snapshots: Sequence[Snapshot]
    change: int | None


def run(
    out: Path,
    series: Sequence[str] | None = None,
    *,
    quick: bool = False,
    progress: Progress | None = None,
) -> Outcome:
    """Watch each series to its end and score the watch.

    Parameters
    ----------
    out
        Folder for the logs and pages; the caller writes the outcome.
    series
        drift, steady, pubmed, twitch_de; all that can be had unless given.
    quick
        A tenth of the snapshots and a small atlas: a smoke test, not a result.
    progress
        Called with the series, snapshots done and snapshots in all.
    """
    wanted = [name for name in SERIES if name not in IN_TIME or _at_hand(name, quick)]
    names = wanted if series is None else list(series)
    unknown = sorted(set(names) - set(SERIES))
    if unknown:
        raise InputError(f"there is no series {unknown[0]!r}; choose from {', '.join(SERIES)}.")
    out.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    comparisons: list[Comparison] = []
    with one_blas_thread():
        for name in names:
            found, compared = _watch(out, name, quick, progress)
            rows += found
            comparisons += compared
    settings = {"series": names, "nodes": NODES, "false alarms": FALSE_ALARMS, "quick": quick}
    return Outcome(
        "monitoring",
        "A model watched over time",
        settings,
        comparisons,
        rows,
        lambda figure: _draw(figure, rows),
        size=(7.0, 2.4 * len(names)),
    )


def _at_hand(name: str, quick: bool) -> bool:
    return not quick and datasets.find(name) is not None


def _watch(
    out: Path, name: str, quick: bool, progress: Progress | None
) -> tuple[list[dict[str, Any]], list[Comparison]]:
    course = _course(name, quick)
    log = Log(out / f"{name}.sqlite", fingerprint(course.card))
    total = len(course.snapshots)
    begun, held = time.perf_counter(), peak_gigabytes()
    added = 0
    for _ in follow(course.model, course.snapshots, course.card, log):
        added += 1
        if progress is not None:
            progress(name, added, total)
    seconds, grown = time.perf_counter() - begun, peak_gigabytes() - held
    entries = log.entries()
    found = alarms(entries, FALSE_ALARMS)
    write_page(out / f"{name}.html", entries, found, f"SIGN, {name}", FALSE_ALARMS)
    marked = {alarm.position for alarm in found}
    rows = []
    for position, (snapshot, entry) in enumerate(zip(course.snapshots, entries, strict=True)):
        truth = _truth(course.model, snapshot)
        rows.append(
            {
                "series": name,
                "snapshot": entry.name,
                "true": truth,
                "said": entry.accuracy,
                "low": entry.low,
                "high": entry.high,
                "verdict": entry.verdict,
                "alarm": "alarm" if position in marked else "",
            }
        )
    whole = added == total and not quick
    return rows, _compare(name, rows, course.change, seconds if whole else None, grown)


def _compare(
    name: str,
    rows: Sequence[Row],
    change: int | None,
    seconds: float | None,
    grown: float,
) -> list[Comparison]:
    positions = [k for k, row in enumerate(rows) if row["alarm"]]
    before = [k for k in positions if change is None or k < change]
    found = [
        Comparison(
            f"{name}: error of the accuracy",
            float(np.mean([abs(row["said"] - row["true"]) for row in rows])),
            "reported",
            None,
        ),
        Comparison(
            f"{name}: share of intervals that hold the truth",
            float(np.mean([row["low"] <= row["true"] <= row["high"] for row in rows])),
            "reported",
            None,
            note=f"{len(rows)} snapshots",
        ),
    ]
    if name not in IN_TIME:
        found.append(Comparison(f"{name}: false alarms", float(len(before)), "<= 0", not before))
    if change is not None:
        late = next((k - change for k in positions if k >= change), None)
        found.append(
            Comparison(
                f"{name}: snapshots from the change to the alarm",
                float("nan") if late is None else float(late),
                "an alarm",
                late is not None,
                note=f"the change begins at {change} of {len(rows)} and takes the rest of them",
            )
        )
    if name in IN_TIME:
        found.append(Comparison(f"{name}: alarms", float(len(positions)), "reported", None))
    if seconds is not None and name == "drift":
        found += [
            Comparison("drift: seconds in all", seconds, f"<= {_SECONDS:g}", seconds <= _SECONDS),
            Comparison(
                "drift: growth of memory, GB", grown, f"<= {_GIGABYTES:g}", grown <= _GIGABYTES
            ),
        ]
    return found


def _course(name: str, quick: bool) -> Course:
    compositions = QUICK_COMPOSITIONS if quick else atlas.COMPOSITIONS
    if name in IN_TIME:
        return _in_time(datasets.load(name), compositions)
    count = (1000 if name == "drift" else 300) // (10 if quick else 1)
    change = int(CONSTANT * count) if name == "drift" else None
    source = csbm.sample(2000, DEGREE, START, SNR, num_features=FEATURES, seed=1)
    model = SIGN(hops=2).fit(source, np.arange(1000))
    card = SourceCard.build(model, source, np.arange(1000, 2000), compositions=compositions)

    def load(position: int) -> Callable[[], Graph]:
        fallen = 0.0 if change is None else max(position - change, 0) / (count - change)
        homophily = START + (END - START) * fallen
        seed = int(stream(2, name, position).integers(2**31))
        return lambda: csbm.sample(NODES, DEGREE, homophily, SNR, num_features=FEATURES, seed=seed)

    return Course(
        model,
        card,
        [Snapshot(f"{name} {k + 1}", f"{name} {k}", load(k)) for k in range(count)],
        change,
    )


def _in_time(graph: Graph, compositions: int) -> Course:
    """Train on the earlier half of a graph with times, then watch the spans that follow."""
    past = early(graph)
    labelled = stream(1, "monitoring").permutation(past.labelled)
    half = labelled.size // 2
    model = SIGN(hops=2).fit(past, np.sort(labelled[:half]))
    card = SourceCard.build(model, past, np.sort(labelled[half:]), compositions=compositions)
    if past.time is None:
        raise InputError(f"the graph {graph.name!r} has no order in time.")
    # The first half of the spans ends where the model's past does.
    shots = [shot for shot in windows(graph, WINDOWS) if _is_later(shot, int(past.time.max()))]
    return Course(model, card, shots, None)


def _is_later(shot: Snapshot, last: int) -> bool:
    graph = shot.load()
    if graph.time is None or shot.nodes is None:
        return False
    return int(graph.time[shot.nodes].min()) > last


def _truth(model: LinearGNN, snapshot: Snapshot) -> float:
    graph = snapshot.load()
    nodes = np.arange(graph.num_nodes) if snapshot.nodes is None else snapshot.nodes
    if graph.labels is None:
        raise InputError("the snapshots of a trial need labels to score it with.")
    nodes = nodes[graph.labels[nodes] >= 0]
    return float((model(graph)[nodes].argmax(axis=1) == graph.labels[nodes]).mean())


_COLUMNS: Columns = {
    "snapshot": ("snapshot", ""),
    "true": ("true", ".3f"),
    "said": ("said", ".3f"),
    "interval": ("interval", ""),
    "verdict": ("verdict", ""),
    "alarm": ("alarm", ""),
}


def shown(outcome: Outcome) -> dict[str, list[dict[str, str]]]:
    """Return the tables for a terminal: of each series a dozen snapshots and every alarm."""
    found = {}
    for name in dict.fromkeys(row["series"] for row in outcome.rows):
        rows = [row for row in outcome.rows if row["series"] == name]
        step = max(len(rows) // 12, 1)
        some = [row for k, row in enumerate(rows) if k % step == 0 or row["alarm"]]
        found[name] = texts([interval(row) for row in some], _COLUMNS)
    return found


def render(outcome: Outcome) -> str:
    """Return the Markdown page."""
    return page(outcome, "bench monitoring", _PREFACE, shown(outcome))


_PREFACE = (
    "*drift*: a block model whose homophily is constant for three tenths of the snapshots and then",
    "falls at a constant rate; *steady*: one that stays as it is; *pubmed*, *twitch_de*: a model",
    "of the earlier half of articles or accounts, watched over the later ones. *said* is the",
    "estimated accuracy with its 90 % interval; the true accuracy only scores. Of each series some",
    "snapshots and every alarm are listed.",
)


def _draw(figure: Figure, rows: Sequence[Row]) -> None:
    names = list(dict.fromkeys(row["series"] for row in rows))
    for axes, name in zip(np.atleast_1d(figure.subplots(len(names), 1)), names, strict=True):
        some = [row for row in rows if row["series"] == name]
        x = np.arange(1, len(some) + 1)
        low, high, said, true = (
            np.array([row[key] for row in some]) for key in ("low", "high", "said", "true")
        )
        axes.fill_between(x, low, high, color=style.SKY, alpha=0.35, linewidth=0)
        axes.plot(x, true, ".", color=style.GREY, markersize=3, alpha=0.6, label="true")
        axes.plot(x, said, color=style.BLUE, linewidth=1.2, label="estimated, 90 % interval")
        for position, row in enumerate(some):
            if row["alarm"]:
                axes.axvline(position + 1, color=style.RED, linestyle=":", linewidth=1.2)
        axes.set(title=name, ylabel="accuracy", xlim=(1, len(some)))
        axes.legend(loc="lower left", ncols=2)
    axes.set_xlabel("snapshot (red: alarm)")
