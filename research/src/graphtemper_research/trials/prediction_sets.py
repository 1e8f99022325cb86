"""Prediction sets under shift: what the source's thresholds cover, recalibrated or not.

The protocol of `known_shifts`: half of the labelled nodes train, a quarter makes the card and the
thresholds, a quarter is scored under the same sixteen shifts. Two more targets leave the graph
alone and move the class shares of the scored nodes. Thresholds are computed once, at the source,
on probabilities at the source temperature. Each (graph, model, seed) is one cell on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from graphtemper import metrics, recalibrate, shifts, temperature
from graphtemper._core.arrays import FloatArray
from graphtemper.calibrators.conformal import ConformalSets
from graphtemper.card import atlas
from graphtemper.errors import InputError
from graphtemper.graph.graph import Graph
from graphtemper.signals.observation import Observation
from graphtemper_research.harness import cells
from graphtemper_research.harness.cells import Cell, Progress, Rows
from graphtemper_research.harness.outcome import Outcome
from graphtemper_research.trials import graph_names as features
from graphtemper_research.trials import sets_summary
from graphtemper_research.trials.cases import over_graphs
from graphtemper_research.trials.known_shifts import FEWEST_NODES, SHIFTS, title
from graphtemper_research.trials.sets_summary import (
    LEVEL,
    METHODS,
    SCORES,
    SHARE_TARGETS,
    TRUE_SHARES,
    WEIGHTED,
)
from graphtemper_research.trials.trial import (
    ATLAS,
    MODELS,
    SOURCE,
    TARGET_SEED,
    Answer,
    Indices,
    Source,
    hide_labels,
    score,
    split,
)

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
# The class shares of the scored nodes, from those they have.
RESAMPLED: dict[str, Callable[[FloatArray], FloatArray]] = {
    SHARE_TARGETS[0]: lambda shares: (shares > 0).astype(np.float64),
    SHARE_TARGETS[1]: lambda shares: np.sort(shares)[::-1][np.argsort(np.argsort(shares))],
}


def run(
    out: Path,
    graphs: Sequence[str] | None = None,
    models: Sequence[str] = ("SIGN",),
    seeds: int = 1,
    *,
    quick: bool = False,
    progress: Progress | None = None,
) -> Outcome:
    """Measure every graph that is not in ``out/cells`` yet and say what the sets cover.

    Parameters
    ----------
    out
        Folder for the cells; the caller writes the outcome.
    graphs
        Names of the catalogue or paths; default `GRAPHS`, of which missing ones are left out.
    models, seeds
        Names from `MODELS`; how many splits: 1, 2, ...
    quick
        One graph and fewer compositions: a smoke test, not a result.
    progress
        Called with the cell's name, environments done and environments in all.
    """
    usual = QUICK_GRAPHS if quick else GRAPHS
    found, missing = over_graphs(
        _cell, out, graphs, usual, models, seeds, quick=quick, progress=progress
    )
    return sets_summary.outcome(found, missing)


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
        "level": LEVEL,
    }
    targets = [*(title(shift) for shift in SHIFTS), *SHARE_TARGETS]
    expected = [{"target": target, "method": method} for target in targets for method in METHODS]

    def measured(show: atlas.Progress | None) -> Rows:
        return measure(features.load(name), model, seed, compositions, progress=show)

    return cells.finish(folder, f"{graph}-{model}-{seed}", head, expected, measured, progress)


def measure(
    graph: Graph,
    model: str,
    seed: int,
    compositions: int = atlas.COMPOSITIONS,
    *,
    progress: atlas.Progress | None = None,
) -> Rows:
    """Return one row per target and method for one split of one graph."""
    if graph.labelled.size < FEWEST_NODES:
        raise InputError(
            f"the graph {graph.name!r} has {graph.labelled.size} labelled nodes; the evaluation "
            f"needs at least {FEWEST_NODES}."
        )
    assert graph.labels is not None
    train, val, test = split(graph, seed)
    known = hide_labels(graph, test)
    source = Source.prepare(
        MODELS[model](seed), known, train, val, seed, compositions, progress=progress
    )
    wrapped = Wrapped.at_source(source, known, val, seed)
    unlabelled = graph.replace(labels=None)
    rows: Rows = []
    for index, shift in enumerate(SHIFTS):
        draw = TARGET_SEED + 100 * seed + index
        target = unlabelled if shift is None else shift(unlabelled, draw)
        rows += wrapped.score(title(shift), target, graph.labels, test, draw)
    shares = np.bincount(graph.labels[test], minlength=graph.num_classes) / test.size
    for index, (name, change) in enumerate(RESAMPLED.items(), start=len(SHIFTS)):
        draw = TARGET_SEED + 100 * seed + index
        chosen = shifts.resample_classes(graph.labels, test, change(shares), draw)
        rows += wrapped.score(name, unlabelled, graph.labels, chosen, draw)
    return rows


@dataclass(frozen=True)
class Wrapped:
    """A source with the thresholds of its prediction sets."""

    source: Source
    sets: dict[str, ConformalSets]

    @classmethod
    def at_source(cls, source: Source, graph: Graph, val: Indices, seed: int) -> Wrapped:
        """Compute the thresholds at the source temperature, from the nodes of the card."""
        assert graph.labels is not None
        seen = Observation(source.predictor, graph, temperature=source.card.probe.temperature)
        p = temperature.apply(seen.all_logits)
        fitted: dict[str, ConformalSets] = {
            name: ConformalSets(name, LEVEL, seed=seed).fit(p, graph.labels, graph, val)
            for name in SCORES
        }
        return cls(source, fitted)

    def score(self, name: str, target: Graph, labels: Indices, nodes: Indices, draw: int) -> Rows:
        """Score every method's sets of some nodes; labels are read only for that."""
        logits = Observation(self.source.predictor, target).all_logits
        truth = labels[nodes]
        result = recalibrate(self.source.predictor, target, self.source.card, nodes, seed=draw)
        asked = Answer.of(result)
        kept = Answer(self.source.card.probe.temperature)
        answers = {SOURCE: kept, ATLAS: asked, WEIGHTED: asked, TRUE_SHARES: kept}
        true_shares = np.bincount(truth, minlength=logits.shape[1]) / nodes.size
        # Where no class shares explain what is seen there are none, and thresholds stay.
        shares = {WEIGHTED: result.class_shares, TRUE_SHARES: true_shares}
        rows = []
        for row in score(logits[nodes], truth, answers):
            p = temperature.apply(logits, row["temperature"])
            weights = shares.get(row["method"])
            covered: dict[str, float] = {}
            for kind, sets in self.sets.items():
                own = sets if weights is None else sets.for_shares(weights)
                found = own.predict(p, target, nodes)
                covered |= {
                    f"{kind} coverage": metrics.coverage(found, truth),
                    f"{kind} size": metrics.mean_set_size(found),
                    f"{kind} singletons": metrics.singleton_share(found),
                }
            named = {
                "target": name,
                "card_nodes": self.source.num_nodes,
                "weighted": weights is not None,
            }
            rows.append(named | row | covered)
        return rows
