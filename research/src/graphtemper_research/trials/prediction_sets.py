"""Prediction sets under shift: what the source's thresholds cover, recalibrated or not.

The protocol of `known_shifts`: half of the labelled nodes train, a quarter makes the card and the
thresholds, a quarter is scored under the same sixteen shifts. Two more targets leave the graph
alone and move the class shares of the scored nodes. Thresholds are computed once, at the source,
on probabilities at the source temperature.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.stats import betabinom

from graphtemper import ConformalSets, Graph, Observation, metrics, shifts, temperature
from graphtemper_research.harness import frame
from graphtemper_research.harness.cells import Cell, Show
from graphtemper_research.harness.frame import AVERAGE, Aggregate, Row, Rows
from graphtemper_research.harness.layout import Column, Table
from graphtemper_research.harness.numeric import FloatArray
from graphtemper_research.harness.outcome import Comparison, prefixed, reported
from graphtemper_research.harness.runner import Bench, usual_settings
from graphtemper_research.trials import shifted_targets, trial
from graphtemper_research.trials.cases import graph_cases
from graphtemper_research.trials.shifted_targets import FEWEST_NODES, title
from graphtemper_research.trials.trial import ATLAS, ORACLE, SOURCE, Indices, Source

SCHEMA = "graphtemper.sets_cell/1"
GRAPHS = (
    "cora",
    "citeseer",
    "pubmed",
    "minesweeper",
    "amazon_photo",
    "actor",
    "airport_usa",
    "county_2012",
)
QUICK_GRAPHS = ("county_2012",)
LEVEL = 0.9
SCORES: tuple[Literal["aps", "raps", "daps"], ...] = ("aps", "raps", "daps")
METHODS = (SOURCE, ATLAS, ORACLE)
SHARE_TARGETS = ("equal class shares", "reversed class shares")
# A coverage below this quantile of its law is not chance.
CHANCE = 0.001
# The class shares of the scored nodes, from those they have.
RESAMPLED: dict[str, Callable[[FloatArray], FloatArray]] = {
    SHARE_TARGETS[0]: lambda shares: (shares > 0).astype(np.float64),
    SHARE_TARGETS[1]: lambda shares: np.sort(shares)[::-1][np.argsort(np.argsort(shares))],
}


def measure(
    graph: Graph, model: str, seed: int, compositions: int, *, progress: Show | None = None
) -> Rows:
    """Return one row per target and method for one split of one graph."""
    source, val, test = Source.of_split(
        graph, model, seed, compositions, progress, fewest_nodes=FEWEST_NODES
    )
    assert graph.labels is not None
    sets = SourceSets.of(source, trial.hide_labels(graph, test), val, seed)
    rows: Rows = []
    for shift, target, draw in shifted_targets.shifted(graph, seed):
        rows += sets.score(title(shift), target, graph.labels, test, draw)
    unlabelled = graph.replace(labels=None)
    shares = np.bincount(graph.labels[test], minlength=graph.num_classes) / test.size
    for index, (name, change) in enumerate(RESAMPLED.items(), start=len(shifted_targets.SHIFTS)):
        draw = trial.TARGET_SEED + 100 * seed + index
        chosen = shifts.resample_classes(graph.labels, test, change(shares), draw)
        rows += sets.score(name, unlabelled, graph.labels, chosen, draw)
    return rows


@dataclass(frozen=True)
class SourceSets:
    """A source with the thresholds of its prediction sets."""

    source: Source
    sets: dict[str, ConformalSets]

    @classmethod
    def of(cls, source: Source, graph: Graph, val: Indices, seed: int) -> SourceSets:
        """Compute the thresholds at the source temperature, from the nodes of the card."""
        assert graph.labels is not None
        unit = source.card.temperature
        p = temperature.apply(Observation(source.predictor, graph, temperature=unit).all_logits)
        fitted: dict[str, ConformalSets] = {
            name: ConformalSets(name, LEVEL, seed=seed).fit(p, graph.labels, graph, val)
            for name in SCORES
        }
        return cls(source, fitted)

    def score(self, name: str, target: Graph, labels: Indices, nodes: Indices, draw: int) -> Rows:
        """Score every method's sets of some nodes; labels are read only for that."""
        logits = Observation(self.source.predictor, target).all_logits
        truth = labels[nodes]
        unchanged = trial.Answer(self.source.card.temperature)
        answers = {SOURCE: unchanged, ATLAS: self.source.ask(target, nodes, draw)}
        rows: Rows = []
        for row in trial.score(logits[nodes], truth, answers):
            p = temperature.apply(logits, row["temperature"])
            coverage: dict[str, float] = {}
            for kind, sets in self.sets.items():
                members = sets.predict(p, target, nodes)
                coverage |= {
                    f"{kind} coverage": metrics.coverage(members, truth),
                    f"{kind} size": metrics.mean_set_size(members),
                    f"{kind} singletons": metrics.singleton_share(members),
                }
            facts = {"target": name, "card_nodes": self.source.num_nodes}
            rows.append(facts | row | coverage)
        return rows


def summarise(cells: Sequence[Cell]) -> Rows:
    """Return rows per graph, score and method, their averages, and rows per target and score."""
    targets: Rows = [
        frame.pick(row, "model", "graph", "method", "target")
        | {"score": kind}
        | {key: row[f"{kind} {key}"] for key in ("coverage", "size", "singletons")}
        for row in frame.flat(cells, "model", "graph")
        for kind in SCORES
    ]
    keys = ("model", "graph", "score", "method")
    lowest = {"lowest": frame.extreme_of("lowest", min)}
    graphs, averages = frame.with_averages(targets, keys, _SUMMARY, lowest)
    by_target = [
        facts
        | {
            f"{key} {method}": frame.average(frame.select(own, method=method), key)
            for method in METHODS
            for key in ("coverage", "size")
        }
        for facts, own in _groups(targets, "model", "target", "score")
    ]
    return [*graphs, *averages, *by_target]


def _groups(rows: Rows, *keys: str) -> list[tuple[dict[str, Any], list[Row]]]:
    return [(dict(zip(keys, v, strict=True)), own) for v, own in frame.grouped(rows, *keys).items()]


def _under(kind: str, key: str) -> Aggregate:
    """Return the frame.aggregate that averages a column over one kind of target."""
    return lambda rows: frame.mean_of(key)([row for row in rows if _kind(row["target"]) == kind])


def _kind(target: str) -> str:
    if target == "none":
        return "unshifted"
    return "new shares" if target in SHARE_TARGETS else "shifted"


def _coverages(rows: Sequence[Row]) -> list[float]:
    return [row["coverage"] for row in rows if _kind(row["target"]) == "shifted"]


_SUMMARY: dict[str, Aggregate] = {
    "unshifted": _under("unshifted", "coverage"),
    "unshifted size": _under("unshifted", "size"),
    "coverage": _under("shifted", "coverage"),
    "shortfall": lambda rows: frame.mean([max(LEVEL - value, 0.0) for value in _coverages(rows)]),
    "lowest": lambda rows: min(_coverages(rows)),
    "size": _under("shifted", "size"),
    "singletons": _under("shifted", "singletons"),
    "moved": _under("new shares", "coverage"),
    "moved size": _under("new shares", "size"),
}


def bars(rows: Sequence[Row], cells: Sequence[Cell]) -> list[Comparison]:
    """State where the unshifted graph is covered as promised, and the coverage elsewhere."""
    comparisons = [_within_chance(cells)]
    averages = frame.select(rows, graph=AVERAGE)
    for (model, kind), own in frame.grouped(averages, "model", "score").items():
        methods = {row["method"]: row for row in own}
        stated = [
            reported(
                f"{method}: coverage under shift",
                row["coverage"],
                f"mean shortfall {row['shortfall']:.3f}, lowest {row['lowest']:.3f}, "
                f"mean size {row['size']:.2f}",
            )
            for method, row in methods.items()
        ]
        stated += [
            reported(
                f"{method}: coverage under new class shares",
                row["moved"],
                f"mean size {row['moved size']:.2f}",
            )
            for method, row in methods.items()
            if method != ORACLE
        ]
        comparisons += prefixed(f"{model}, {kind.upper()}, ", stated)
    return comparisons


def _within_chance(cells: Sequence[Cell]) -> Comparison:
    """Count where the unshifted graph, whose nodes are exchangeable, is covered as promised.

    Given n labelled nodes, the number covered of m new ones is beta-binomial with parameters
    m, k = ceil((n + 1) level) and n + 1 - k, or larger.
    """
    rows = frame.select(frame.flat(cells), target="none", method=SOURCE)
    covered = 0
    for row in rows:
        k = int(np.ceil((row["card_nodes"] + 1) * LEVEL - 1e-9))
        least = float(betabinom.ppf(CHANCE, row["nodes"], k, row["card_nodes"] + 1 - k))
        covered += sum(row[f"{kind} coverage"] * row["nodes"] >= least - 1e-6 for kind in SCORES)
    total = len(rows) * len(SCORES)
    return Comparison(
        "unshifted graphs and scores covered as promised",
        covered,
        f"{total}",
        covered == total,
        note=f"of {total}; not below the {CHANCE:.1%} quantile of the beta-binomial law",
    )


_NARROW = (
    Column("method"),
    Column("unshifted", "still", ".3f"),
    Column("coverage", "shifted", ".3f"),
    Column("shortfall", "short", ".3f"),
    Column("lowest", spec=".3f"),
    Column("size", spec=".2f"),
)
_BY_GRAPH = Table(
    lambda row: f"{row['model']}, {row['score'].upper()}: by graph",
    (
        Column("graph"),
        *_NARROW,
        Column("unshifted size", "size still", ".2f"),
        Column("singletons", spec=".0%"),
        Column("moved", "new shares", ".3f"),
        Column("moved size", "size, new shares", ".2f"),
    ),
    lambda rows: [row for row in rows if "graph" in row],
)
_BY_TARGET = Table(
    lambda row: f"{row['model']}, {row['score'].upper()}: by target, averaged over graphs",
    (
        Column("target"),
        *(Column(f"coverage {method}", method, ".3f") for method in METHODS),
        *(Column(f"size {m}", f"size {m}", ".2f") for m in (SOURCE, ATLAS, ORACLE)),
    ),
    lambda rows: [row for row in rows if "target" in row],
)


def _settings(cells: Sequence[Cell], rows: Sequence[Row]) -> dict[str, Any]:
    return usual_settings(cells, rows) | {"level": LEVEL}


BENCH = Bench(
    name="sets",
    title="Prediction sets under shift",
    command="bench sets",
    introduction="""\
Sets for a coverage of 0.9. **Coverage is guaranteed only under exchangeability**, that is for
*still* with source-T: the graph as it is. All else is measured, not promised. Thresholds come
from the source, at the source temperature; at the target the probabilities are those of the
source temperature, of the atlas, or of the oracle, which sees the target's labels. *Shifted* is
the mean coverage over fifteen shifts, *short* the mean shortfall below 0.9, *lowest* the worst
shift, *size* the mean number of classes in a set, *singletons* the share of sets with one
class. *New shares* is the mean over two targets whose graph is the source's but whose scored
nodes have equal or reversed class shares. A set is never empty: where a model is right more often
than 0.9, its sets cover more.""",
    cases=graph_cases(measure, SCHEMA, GRAPHS, QUICK_GRAPHS, level=LEVEL),
    rows=summarise,
    bars=bars,
    sections=("model", "score"),
    tables=(_BY_GRAPH, _BY_TARGET),
    terminal=(
        Table(
            lambda row: f"{row['model']}: {row['score'].upper()}",
            _NARROW,
            lambda rows: frame.select(rows, graph=AVERAGE),
        ),
    ),
    settings=_settings,
)
