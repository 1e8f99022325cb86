"""The synthetic study with the authors' own seeds: the random numbers of their script, in order.

The released script draws class means, a source graph, a split, weights and a target from one
generator per seed. Drawing the same numbers in the same order makes its results comparable digit by
digit; `synthetic` has the same study on seeds of our own. The network is theirs too: two layers
without bias, trained on all training nodes by Adam with the penalty's gradient 2 x 5e-4 W.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from graphtemper import Graph, stac, temperature
from graphtemper.graph import operator
from graphtemper_research.harness.numeric import FloatArray

SEEDS = (0, 1, 2, 3)
NUM_NODES, CLASSES, FEATURES, HIDDEN, NOISE = 1000, 3, 16, 32, 2.5
SAME, DIFFERENT = 0.020, 0.002
EPOCHS, RATE, PENALTY = 120, 0.01, 5e-4


@dataclass(frozen=True, eq=False)
class Network:
    """Two graph convolutions without bias; a predictor."""

    first: FloatArray
    second: FloatArray

    def __call__(self, graph: Graph) -> FloatArray:
        """Return logits (N, K)."""
        matrix = operator(graph, "self-loop").astype(np.float64)
        hidden = np.maximum((matrix @ np.asarray(graph.features)) @ self.first, 0.0)
        return np.asarray((matrix @ hidden) @ self.second)


@dataclass(frozen=True, eq=False)
class ReleasedSource:
    """A trained network with what is carried to the target; ``state`` continues its generator."""

    model: Network
    means: FloatArray
    temperature: float
    threshold: float
    accuracy: float
    state: dict[str, object]


@cache
def trained(seed: int) -> ReleasedSource:
    """Draw the source of a seed and train on half of it."""
    rng = np.random.default_rng(seed)
    means = rng.standard_normal((CLASSES, FEATURES))
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    graph = _draw(means, rng, SAME, DIFFERENT)
    order = rng.permutation(NUM_NODES)
    train, val = order[: NUM_NODES // 2], order[NUM_NODES // 2 : 3 * NUM_NODES // 4]
    model = _fit(graph, train, _glorot((FEATURES, HIDDEN), rng), _glorot((HIDDEN, CLASSES), rng))
    assert graph.labels is not None
    logits = model(graph)[val]
    return ReleasedSource(
        model,
        means,
        temperature.solve(logits, graph.labels[val]).temperature,
        stac.threshold(model, graph, val),
        float((logits.argmax(axis=1) == graph.labels[val]).mean()),
        dict(rng.bit_generator.state),
    )


def shifted(source: ReleasedSource, kind: str, level: float) -> Graph:
    """Draw the target that follows a source in its generator's stream."""
    rng = np.random.default_rng()
    rng.bit_generator.state = source.state
    same, different = SAME, DIFFERENT
    if kind == "homophily":
        same, different = SAME - 0.012 * level, DIFFERENT + 0.010 * level
    graph = _draw(source.means, rng, same, different)
    features = np.array(graph.features)
    if kind == "feature":
        features += level * rng.standard_normal(features.shape)
    elif kind == "mixed":
        chosen = rng.random(NUM_NODES) < 0.5
        features[chosen] += level * rng.standard_normal((int(chosen.sum()), FEATURES))
    return graph.replace(features=features)


def _draw(means: FloatArray, rng: np.random.Generator, same: float, different: float) -> Graph:
    labels = rng.integers(0, CLASSES, size=NUM_NODES)
    features = means[labels] + NOISE * rng.standard_normal((NUM_NODES, FEATURES))
    chance = np.where(labels[:, None] == labels[None, :], same, different)
    # The script draws the whole square and keeps what lies above the diagonal.
    pairs = np.triu(rng.random((NUM_NODES, NUM_NODES)) < chance, k=1)
    return Graph(
        features=features.astype(np.float32),
        edges=np.argwhere(pairs).astype(np.int32),
        labels=labels,
    )


def _glorot(shape: tuple[int, int], rng: np.random.Generator) -> FloatArray:
    limit = np.sqrt(6.0 / sum(shape))
    return rng.uniform(-limit, limit, size=shape)


def _fit(graph: Graph, train: NDArray[np.int64], first: FloatArray, second: FloatArray) -> Network:
    """Full-batch Adam on the cross-entropy of the training nodes."""
    assert graph.labels is not None
    matrix = operator(graph, "self-loop").astype(np.float64)
    once = matrix @ np.asarray(graph.features)
    truth = np.eye(CLASSES)[graph.labels]
    weights = [first, second]
    means, squares = ([np.zeros_like(weight) for weight in weights] for _ in range(2))
    for epoch in range(1, EPOCHS + 1):
        before = once @ weights[0]
        twice = matrix @ np.maximum(before, 0.0)
        error = np.zeros_like(truth)
        error[train] = temperature.apply(twice @ weights[1])[train] - truth[train]
        error /= len(train)
        back = (matrix @ (error @ weights[1].T)) * (before > 0.0)
        gradients = [
            once.T @ back + 2.0 * PENALTY * weights[0],
            twice.T @ error + 2.0 * PENALTY * weights[1],
        ]
        for k, gradient in enumerate(gradients):
            means[k] = 0.9 * means[k] + 0.1 * gradient
            squares[k] = 0.999 * squares[k] + 0.001 * gradient**2
            step = means[k] / (1.0 - 0.9**epoch)
            size = np.sqrt(squares[k] / (1.0 - 0.999**epoch)) + 1e-8
            weights[k] = weights[k] - RATE * step / size
    return Network(*weights)
