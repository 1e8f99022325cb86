"""Block models for the synthetic study: a trained GCN, shifted targets, and every method on them.

Source: 1,000 nodes in three classes, 16 features around unit-norm random class means with noise
2.5, edge probabilities 0.020 within and 0.002 between classes. The target is a fresh draw with the
same class means: with more feature noise, with other edge probabilities, or with more noise on a
random half of the nodes. The GCN has two layers without dropout and 32 hidden units, 120 epochs of
Adam at 0.01 with the penalty 5e-4 |W|^2.

The source's validation nodes are neighbours of its training nodes, and the target's are not. As a
control, source temperature and STAC's threshold are also fitted on as many nodes of another fresh
graph of the source's law. Feature noise of level 0 is a target without any shift.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphtemper import Graph, Observation, csbm, metrics, stac, temperature
from graphtemper.models import Predictor
from graphtemper_research.baselines import stac_per_node, stac_variants
from graphtemper_research.harness import selective
from graphtemper_research.harness.numeric import FloatArray
from graphtemper_research.models import GCN
from graphtemper_research.paper.frozen_binary import summary
from graphtemper_research.paper.released_stream import SEEDS as RELEASED_SEEDS
from graphtemper_research.paper.released_stream import shifted as released_target
from graphtemper_research.paper.released_stream import trained as released_source

NUM_NODES, CLASSES, FEATURES, NOISE = 1000, 3, 16, 2.5
SAME, DIFFERENT = 0.020, 0.002
# Twice the paper's four: class means differ between seeds, and four do not show by how much.
SEEDS, PASSES = 8, 8
LEVELS = {
    "feature": (0.0, 0.2, 0.5, 0.8, 1.1, 1.4),
    "homophily": (0.15, 0.25, 0.35),
    "mixed": (0.8, 1.2, 1.6),
}
FRESH = ", fresh validation graph"
METHODS = (
    "uncalibrated",
    "source-T",
    "STAC-global",
    "STAC (Algorithm 1)",
    "STAC no-structure",
    "STAC-full",
    "oracle",
)


@dataclass(frozen=True, eq=False)
class Carried:
    """What reaches a target: the model, its temperature and ATC's threshold."""

    model: Predictor
    temperature: float
    threshold: float


@dataclass(frozen=True, eq=False)
class Source(Carried):
    """A trained GCN with the class means that its targets share.

    ``accuracy`` is that of its validation nodes, and ``fresh`` what a fresh validation graph gives.
    """

    means: FloatArray
    accuracy: float
    fresh: Carried
    fresh_accuracy: float


@cache
def trained(seed: int) -> Source:
    """Train on half of a source graph; temperature and threshold on another quarter."""
    rng = np.random.default_rng([seed, 0])
    means = rng.standard_normal((CLASSES, FEATURES))
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    graph = draw(means, rng, SAME, DIFFERENT)
    order = rng.permutation(NUM_NODES)
    train, val = order[: NUM_NODES // 2], order[NUM_NODES // 2 : 3 * NUM_NODES // 4]
    # Torch's weight decay is the penalty's gradient, 2 x 5e-4.
    model = GCN(hidden=32, epochs=120, lr=0.01, weight_decay=1e-3, dropout=0.0, seed=seed)
    model.fit(graph, train)
    own, accuracy = _validated(model, graph, val)
    other = draw(means, np.random.default_rng([seed, 2]), SAME, DIFFERENT)
    fresh, fresh_accuracy = _validated(model, other, np.arange(val.size))
    return Source(own.model, own.temperature, own.threshold, means, accuracy, fresh, fresh_accuracy)


def _validated(model: Predictor, graph: Graph, nodes: NDArray[np.int64]) -> tuple[Carried, float]:
    """Return what labelled nodes give to carry to a target, and the accuracy on them."""
    assert graph.labels is not None
    logits, labels = model(graph)[nodes], graph.labels[nodes]
    fitted = temperature.solve(logits, labels).temperature
    carried = Carried(model, fitted, stac.threshold(model, graph, nodes))
    return carried, float((logits.argmax(axis=1) == labels).mean())


def draw(means: FloatArray, rng: np.random.Generator, same: float, different: float) -> Graph:
    """Draw a block model with the given class means and edge probabilities."""
    labels = rng.integers(CLASSES, size=NUM_NODES)
    return Graph(
        features=csbm.sample_features(labels, means, NOISE, rng),
        edges=csbm.sample_edges(labels, same, different, rng),
        labels=labels,
    )


def shifted(source: Source, kind: str, level: float, seed: int) -> Graph:
    """Draw a target graph; levels as in the paper's script.

    The levels of a seed share their random numbers, so that a curve shows the shift.
    """
    rng = np.random.default_rng([seed, 1, list(LEVELS).index(kind)])
    same, different = SAME, DIFFERENT
    if kind == "homophily":
        same, different = SAME - 0.012 * level, DIFFERENT + 0.010 * level
    graph = draw(source.means, rng, same, different)
    if kind == "homophily":
        return graph
    chosen = np.ones(NUM_NODES) if kind == "feature" else rng.random(NUM_NODES) < 0.5
    extra = level * rng.standard_normal((NUM_NODES, FEATURES)) * chosen[:, None]
    return graph.replace(features=np.asarray(graph.features) + extra)


@cache
def measured(seeds: int = SEEDS) -> tuple[dict[str, Any], ...]:
    """Return one row per shift, level and method, averaged over seeds."""
    rows = []
    for kind, levels in LEVELS.items():
        for level in levels:
            runs = [one_run(kind, level, seed) for seed in range(seeds)]
            for method in runs[0]:
                row: dict[str, Any] = {"shift": kind, "level": level, "method": method}
                for key in runs[0][method]:
                    row[key], row[f"{key}_spread"], _ = summary([run[method][key] for run in runs])
                rows.append(row)
    return tuple(rows)


def one_run(kind: str, level: float, seed: int) -> dict[str, dict[str, float]]:
    """Return every method's scores on one target graph."""
    source = trained(seed)
    target = shifted(source, kind, level, seed)
    assert target.labels is not None
    estimate, predictions = recalibrated(source, target, seed, source.fresh)
    shared = {
        "estimated_accuracy": estimate,
        "source_accuracy": source.accuracy,
        "fresh_accuracy": source.fresh_accuracy,
        "oracle_temperature": temperature.fit(source.model(target), target.labels),
    }
    return {
        method: scores(probabilities, target.labels) | shared
        for method, probabilities in predictions.items()
    }


def recalibrated(
    source: Carried, target: Graph, seed: int, fresh: Carried | None = None
) -> tuple[float, dict[str, FloatArray]]:
    """Return STAC's accuracy estimate and the probabilities of every method.

    Only the oracle reads the target's labels. With ``fresh`` the controls are added.
    """
    observation = Observation(source.model, target, seed=seed)
    # One observation: the eight passes of each kind are shared by all variants.
    printed = stac.from_observation(observation, source.threshold, passes=PASSES)
    script = stac_variants.binned_proxy(observation, source.threshold, passes=PASSES)
    without, full = (
        stac_per_node.node_temperatures(
            observation, source.threshold, signals=signals, global_stage=script, passes=PASSES
        )
        for signals in ("logits", "all")
    )
    assert target.labels is not None
    oracle = temperature.solve(observation.logits, target.labels).temperature
    controls = {}
    if fresh is not None:
        stage = stac_variants.binned_proxy(observation, fresh.threshold, passes=PASSES)
        controls["source-T"] = temperature.apply(observation.logits, fresh.temperature)
        controls["STAC-global"] = stage.probabilities
    return printed.accuracy, {
        "uncalibrated": observation.probabilities,
        "source-T": temperature.apply(observation.logits, source.temperature),
        "STAC-global": script.probabilities,
        "STAC (Algorithm 1)": printed.probabilities,
        "STAC no-structure": without.probabilities,
        "STAC-full": full.probabilities,
        "oracle": temperature.apply(observation.logits, oracle),
        **{f"{method}{FRESH}": values for method, values in controls.items()},
    }


def scores(probabilities: FloatArray, labels: NDArray[np.int64]) -> dict[str, float]:
    """Return the paper's six metrics and the accuracy."""
    auroc = selective.error_auroc(probabilities, labels)
    assert auroc is not None, "some nodes are right and some are wrong"
    return {
        "accuracy": float((probabilities.argmax(axis=1) == labels).mean()),
        "ece": metrics.ece(probabilities, labels),
        "noise_floor": metrics.noise_floor(probabilities),
        "mce": metrics.mce(probabilities, labels),
        "brier": metrics.brier(probabilities, labels),
        "nll": metrics.nll(probabilities, labels),
        "auroc": auroc,
        "risk80": selective.risk_at_coverage(probabilities, labels, 0.8),
    }


@cache
def measured_as_released(kind: str, level: float) -> dict[str, dict[str, float]]:
    """Return every method's mean scores with the authors' seeds, network and targets."""
    runs = []
    for seed in RELEASED_SEEDS:
        source = released_source(seed)
        target = released_target(source, kind, level)
        assert target.labels is not None
        carried = Carried(source.model, source.temperature, source.threshold)
        _, predictions = recalibrated(carried, target, seed)
        runs.append({m: scores(p, target.labels) for m, p in predictions.items()})
    return {
        method: {key: summary([run[method][key] for run in runs])[0] for key in runs[0][method]}
        for method in METHODS
    }
