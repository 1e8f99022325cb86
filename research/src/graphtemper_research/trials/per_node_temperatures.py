"""One temperature per node under the known shifts: what it saves, and where.

The protocol of `known_shifts`: half of the labelled nodes train, a quarter makes the card, a
quarter is scored under the same sixteen shifts, with and without their family in the card. Next to
the atlas's temperatures stand the same model on logits alone (the paper's ablation), STAC's
per-node stage, the source's temperature and the oracle's. Each (graph, model, seed) is one cell on
disk.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from graphtemper import metrics, recalibrate
from graphtemper import temperature as temperatures
from graphtemper._core.arrays import FloatArray
from graphtemper.calibrators.stac import method as stac
from graphtemper.calibrators.stac import per_node as stac_per_node
from graphtemper.card import atlas
from graphtemper.card.card import SourceCard
from graphtemper.errors import InputError, NotIdentifiableError
from graphtemper.graph.graph import Graph
from graphtemper.recalibration import node_temperatures
from graphtemper.signals.node_signals import LOGIT_SIGNALS
from graphtemper.signals.observation import Observation
from graphtemper_research.harness import cells
from graphtemper_research.harness.cells import Cell, Progress, Rows
from graphtemper_research.harness.outcome import Outcome
from graphtemper_research.trials import graph_names as features
from graphtemper_research.trials import per_node_summary
from graphtemper_research.trials.known_shifts import FEWEST_NODES, SHIFTS, graphs_here, title
from graphtemper_research.trials.per_node_summary import (
    GLOBAL,
    LOGITS_ONLY,
    METHODS,
    PER_NODE,
    STAC_FULL,
    named,
)
from graphtemper_research.trials.trial import (
    MODELS,
    ORACLE,
    QUICK_COMPOSITIONS,
    SCORES,
    SOURCE,
    TARGET_SEED,
    Indices,
    Source,
    check_request,
    hide_labels,
    split,
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


def run(
    out: Path,
    graphs: Sequence[str] | None = None,
    models: Sequence[str] = ("SIGN",),
    seeds: int = 1,
    *,
    quick: bool = False,
    progress: Progress | None = None,
) -> Outcome:
    """Measure every cell that is not in ``out/cells`` yet and summarise those that were asked for.

    ``graphs`` are names of the catalogue or paths (default those of `GRAPHS` that are here),
    ``models`` names from `MODELS`; ``quick`` takes one small graph and a small atlas.
    """
    check_request(models, seeds)
    here = graphs_here()
    wanted = QUICK_GRAPHS if quick else GRAPHS
    names = [name for name in wanted if name in here] if graphs is None else list(graphs)
    if not names:
        raise InputError("no graph to measure; `graphtemper data list` shows what is here.")
    compositions = QUICK_COMPOSITIONS if quick else atlas.COMPOSITIONS
    found = [
        _cell(out / "cells", name, model, seed, compositions, progress)
        for name in names
        for model in models
        for seed in range(1, (1 if quick else seeds) + 1)
    ]
    return per_node_summary.outcome(found)


def _cell(
    folder: Path, name: str, model: str, seed: int, compositions: int, progress: Progress | None
) -> Cell:
    graph = features.short(name)
    head = {
        "schema": SCHEMA,
        "graph": graph,
        "model": model,
        "seed": seed,
        "compositions": compositions,
    }
    expected = [{"shift": title(s), "method": method} for s in SHIFTS for method in METHODS]

    def measured(show: atlas.Progress | None) -> Rows:
        return measure(features.load(name), model, seed, compositions, progress=show)

    return cells.finish(folder, f"{graph}-{model}-{seed}", head, expected, measured, progress)


@dataclass(frozen=True)
class Pair:
    """A card, and the same one with node responses that read the logits alone."""

    card: SourceCard
    logits_only: SourceCard

    @classmethod
    def of(cls, card: SourceCard) -> Pair:
        """Fit the ablation to the nodes that the card has in memory."""
        assert card.atlas_nodes is not None
        ablated = card.atlas_nodes.fit_to(card.environments, card.reference.accuracy, LOGIT_SIGNALS)
        return cls(card, replace(card, node_responses={"model": ablated, "logits": ablated}))


def measure(
    graph: Graph,
    model: str,
    seed: int,
    compositions: int = atlas.COMPOSITIONS,
    *,
    progress: atlas.Progress | None = None,
) -> Rows:
    """Return one row per shift and method for one split of one graph."""
    if graph.labelled.size < FEWEST_NODES:
        raise InputError(
            f"the graph {graph.name!r} has {graph.labelled.size} labelled nodes; the evaluation "
            f"needs at least {FEWEST_NODES}."
        )
    assert graph.labels is not None
    train, val, test = split(graph, seed)
    source = Source.prepare(
        MODELS[model](seed),
        hide_labels(graph, test),
        train,
        val,
        seed,
        compositions,
        progress=progress,
    )
    whole = Pair.of(source.card)
    families = dict.fromkeys(shift.family for shift in SHIFTS if shift is not None)
    thinner = {family: Pair.of(source.card.without(family)) for family in families}
    unlabelled = graph.replace(labels=None)
    rows = []
    for index, shift in enumerate(SHIFTS):
        draw = TARGET_SEED + 100 * seed + index
        target = unlabelled if shift is None else shift(unlabelled, draw)
        seen = Observation(source.predictor, target, test, seed=draw)
        answers: dict[str, float | FloatArray] = {SOURCE: source.card.probe.temperature}
        answers[STAC_FULL] = _stac(seen, source.peers.threshold)
        known = _ask(source, target, test, draw, whole)
        unknown = known
        if shift is not None:
            unknown = _ask(source, target, test, draw, thinner[shift.family])
        answers |= {named(method, "known"): value for method, value in known.items()}
        answers |= {named(method, "unknown"): value for method, value in unknown.items()}
        what = {"shift": title(shift), "family": "none" if shift is None else shift.family}
        rows += [what | row for row in score(seen.logits, graph.labels[test], answers)]
    return rows


def _ask(
    source: Source, target: Graph, nodes: Indices, seed: int, pair: Pair
) -> dict[str, float | FloatArray]:
    """Return the temperatures that a card gives: one, one a node, and one a node by logits."""
    result = recalibrate(source.predictor, target, pair.card, nodes, seed=seed, per_node=True)
    assert result.node_temperatures is not None
    unit = pair.card.probe.temperature
    seen = Observation(source.predictor, target, nodes, temperature=unit, seed=seed)
    relative = 1.0 / result.slope
    kept = result.verdict == "abstain"
    ablated, _ = node_temperatures.spread(
        seen, pair.logits_only, relative, result.accuracy.value, kept
    )
    return {
        GLOBAL: relative * unit,
        PER_NODE: result.node_temperatures,
        LOGITS_ONLY: ablated * unit,
    }


def _stac(seen: Observation, threshold: float) -> FloatArray:
    level = stac.REAL_FEATURE_LEVEL
    start = stac.from_observation(seen, threshold, perturbation="both", level=level)
    return stac_per_node.node_temperatures(
        seen, threshold, global_stage=start, level=level
    ).temperature


def score(
    logits: FloatArray, labels: Indices, answers: dict[str, float | FloatArray]
) -> list[dict[str, Any]]:
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
            "auroc": _auroc(probabilities, labels),
        }
        rows.append(row)
    return rows


def _auroc(probabilities: FloatArray, labels: Indices) -> float | None:
    try:
        return metrics.error_auroc(probabilities, labels)
    except NotIdentifiableError:  # every node right, or every node wrong
        return None
