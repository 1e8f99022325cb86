"""One temperature per node under the known shifts: what it saves, and where.

The protocol of `known_shifts`: half of the labelled nodes train, a quarter makes the card, a
quarter is scored under the same sixteen shifts, with and without their family in the card. Next to
the atlas's temperatures stand STAC's per-node stage, the plain softmax, the source's temperature
and the oracle's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from graphtemper import Graph, Observation, SourceCard, metrics, recalibrate, stac
from graphtemper import temperature as temperatures
from graphtemper_research.baselines import stac_per_node, stac_variants
from graphtemper_research.harness import frame
from graphtemper_research.harness.cells import Cell, Show
from graphtemper_research.harness.frame import AVERAGE, Row, Rows
from graphtemper_research.harness.layout import Column, Table
from graphtemper_research.harness.numeric import FloatArray
from graphtemper_research.harness.outcome import Comparison, at_least, at_most, reported
from graphtemper_research.harness.runner import Bench, per, usual_settings
from graphtemper_research.harness.selective import error_auroc
from graphtemper_research.trials import shifted_targets
from graphtemper_research.trials.cases import graph_cases
from graphtemper_research.trials.shifted_targets import FEWEST_NODES, title
from graphtemper_research.trials.trial import (
    ORACLE,
    SCORES,
    SOURCE,
    UNCALIBRATED,
    Indices,
    Source,
)

SCHEMA = "graphtemper.per_node_cell/1"
GRAPHS = (
    "cora",
    "citeseer",
    "minesweeper",
    "airport_usa",
    "county_2012",
    "actor",
    "amazon_photo",
    "tolokers",
    "pubmed",
    "squirrel_filtered",
)
QUICK_GRAPHS = ("county_2012",)
GLOBAL, PER_NODE = "atlas", "atlas per node"
STAC_FULL = "STAC-full"
HALF_THE_GRAPH = ("heterogeneous", "shuffle")
"""Families that change some nodes and leave the others alone."""
ALL, PART = "all shifts", "shifts of a part"


def named(method: str, family: str) -> str:
    """Return the name of a method whose card knows the shift's family, or does not.

    Examples
    --------
    >>> named(GLOBAL, "known")
    'atlas, known family'
    """
    return f"{method}, {family} family"


METHODS = (
    UNCALIBRATED,
    SOURCE,
    STAC_FULL,
    *(named(method, "known") for method in (GLOBAL, PER_NODE)),
    *(named(method, "unknown") for method in (GLOBAL, PER_NODE)),
    ORACLE,
)


def measure(
    graph: Graph, model: str, seed: int, compositions: int, *, progress: Show | None = None
) -> Rows:
    """Return one row per shift and method for one split of one graph."""
    source, _, test = Source.of_split(
        graph, model, seed, compositions, progress, fewest_nodes=FEWEST_NODES
    )
    assert graph.labels is not None
    whole = source.card
    thinner = {name: source.card.without(name) for name in shifted_targets.families()}
    rows: Rows = []
    for shift, target, draw in shifted_targets.shifted(graph, seed):
        observation = Observation(source.predictor, target, test, seed=draw)
        answers: dict[str, float | FloatArray] = {UNCALIBRATED: 1.0}
        answers[SOURCE] = source.peers.source_temperature
        answers[STAC_FULL] = _stac(observation, source.peers.threshold)
        known = unknown = _ask(source, target, test, draw, whole)
        if shift is not None:
            unknown = _ask(source, target, test, draw, thinner[shift.family])
        answers |= {named(method, "known"): value for method, value in known.items()}
        answers |= {named(method, "unknown"): value for method, value in unknown.items()}
        facts = {"shift": title(shift), "family": "none" if shift is None else shift.family}
        rows += [facts | row for row in score(observation.logits, graph.labels[test], answers)]
    return rows


def _ask(
    source: Source, target: Graph, nodes: Indices, seed: int, card: SourceCard
) -> dict[str, float | FloatArray]:
    """Return the temperatures that a card gives: global, and per node."""
    result = recalibrate(source.predictor, target, card, nodes, seed=seed, per_node=True)
    assert result.node_temperatures is not None
    return {GLOBAL: result.temperature, PER_NODE: result.node_temperatures}


def _stac(observation: Observation, threshold: float) -> FloatArray:
    level = stac_variants.REAL_FEATURE_LEVEL
    start = stac.from_observation(observation, threshold, perturbation="both", level=level)
    return stac_per_node.node_temperatures(
        observation, threshold, global_stage=start, level=level
    ).temperature


def score(logits: FloatArray, labels: Indices, answers: dict[str, float | FloatArray]) -> Rows:
    """Score every answer, and then the oracle's single temperature, against the target's labels.

    Examples
    --------
    >>> z, y = np.array([[0.0, 1.0], [2.0, 0.0]]), np.array([1, 1])
    >>> [row["auroc"] for row in score(z, y, {"one": 1.0, "two": np.array([1.0, 4.0])})]
    [0.0, 1.0, 0.0]
    """
    oracle = temperatures.solve(logits, labels).temperature
    accuracy = float((logits.argmax(axis=1) == labels).mean())
    rows = []
    for method, value in (answers | {ORACLE: oracle}).items():
        probabilities = temperatures.apply(logits, value)
        nll = metrics.nll(probabilities, labels)
        row = dict.fromkeys(SCORES) | {
            "method": method,
            "temperature": float(np.mean(value)),
            "ece": metrics.ece(probabilities, labels),
            "nll": nll if math.isfinite(nll) else None,
            "accuracy": accuracy,
            "nodes": int(labels.size),
            "brier": metrics.brier(probabilities, labels),
            "auroc": error_auroc(probabilities, labels),
        }
        rows.append(row)
    return rows


_SCORES = ("brier", "nll", "auroc", "ece")


def summarise(cells: Sequence[Cell]) -> Rows:
    """Return one row per model, kind of shift, graph and method, and the averages over graphs."""
    keys = ("model", "shifts", "graph", "method")
    means = {key: frame.mean_of(key) for key in _SCORES}
    targets = [
        row | {"nll": math.inf if row["nll"] is None else row["nll"]}
        for row in frame.flat(cells, "model", "graph")
    ]
    rows: Rows = []
    for model in frame.distinct(targets, "model"):
        for shifts in (ALL, PART):
            own = [
                {**row, "shifts": shifts}
                for row in frame.select(targets, model=model)
                if shifts == ALL or row["family"] in HALF_THE_GRAPH
            ]
            graphs, averages = frame.with_averages(own, keys, means)
            rows += graphs + averages
    return rows


def compare(rows: Sequence[Row]) -> list[Comparison]:
    """State what one temperature per node has to reach, averaged over the graphs."""

    def gap(key: str, family: str, other: str, shifts: str = ALL) -> tuple[float, str]:
        """Return the average difference, and on how many graphs it is negative."""
        own = frame.select(rows, shifts=shifts)
        gaps = {
            graph: frame.average(
                frame.select(own, graph=graph, method=named(PER_NODE, family)), key
            )
            - frame.average(frame.select(own, graph=graph, method=other), key)
            for graph in frame.distinct(own, "graph")
        }
        mean = gaps.pop(AVERAGE)
        below = sum(value < 0 for value in gaps.values())
        return mean, f"below zero on {below} of {len(gaps)} graphs"

    def no_more(what: str, difference: tuple[float, str]) -> Comparison:
        return at_most(what, difference[0], 0, difference[1])

    def no_less(what: str, difference: tuple[float, str]) -> Comparison:
        return at_least(what, difference[0], 0, difference[1])

    known, unknown = (named(GLOBAL, family) for family in ("known", "unknown"))
    part = "unknown family, shifts of a part: AUROC against one temperature"
    return [
        no_more("known family: Brier against the oracle's", gap("brier", "known", ORACLE)),
        no_more("known family: NLL against the oracle's", gap("nll", "known", ORACLE)),
        no_less("known family: AUROC against one temperature", gap("auroc", "known", known)),
        no_more("unknown family: Brier against one temperature", gap("brier", "unknown", unknown)),
        no_less(part, gap("auroc", "unknown", unknown, PART)),
        reported("unknown family: NLL against the oracle's", *gap("nll", "unknown", ORACLE)),
        reported("known family: ECE against one temperature", *gap("ece", "known", known)),
        reported("unknown family: ECE against one temperature", *gap("ece", "unknown", unknown)),
    ]


def _difference(value: float | None, other: float | None) -> float:
    return math.nan if value is None or other is None else value - other


_VALUES = (
    Column("method"),
    Column("brier", "Brier", ".4f"),
    Column("nll", "NLL", ".4f", missing="inf"),
    Column("auroc", "AUROC", ".4f"),
    Column("ece", "ECE", ".4f"),
)


def _settings(cells: Sequence[Cell], rows: Sequence[Row]) -> dict[str, Any]:
    usual = usual_settings(cells, rows)
    graphs = {"models": usual.pop("models"), "graphs": frame.distinct(cells, "graph")}
    return graphs | usual | {"shifts": len(frame.distinct(frame.flat(cells), "shift"))}


BENCH = Bench(
    name="per_node",
    title="One temperature per node",
    command="bench per-node",
    introduction="""\
Means over the shifts, then over the graphs. *Brier* is over all classes (0 to 2); *AUROC* is
how often a correct node is more confident than a wrong one. Lower Brier, NLL and ECE and higher
AUROC are better. *Shifts of a part* are heterogeneous noise and shuffled features,
which change half of the nodes. The oracle has one temperature, fitted to the target's labels.""",
    cases=graph_cases(measure, SCHEMA, GRAPHS, QUICK_GRAPHS),
    rows=summarise,
    bars=per("model", compare, ", "),
    tables=(Table("{model}: {shifts}", (Column("graph"), *_VALUES)),),
    terminal=(
        Table(
            "{model}: {shifts}, average over graphs",
            _VALUES,
            lambda rows: frame.select(rows, graph=AVERAGE),
        ),
    ),
    settings=_settings,
)
