"""STAC as the paper's tables and figures used it, which is not Algorithm 1 as printed.

================  ==============================================================================
`as_published`    the paper's real-graph tables: disagreement under feature noise only
`binned_proxy`    the global stage of the paper's synthetic figures
================  ==============================================================================
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from graphtemper import Observation, signals, stac
from graphtemper import temperature as temperatures
from graphtemper.graph import Graph, Nodes
from graphtemper.models import Predictor
from graphtemper_research.harness.numeric import FloatArray, bin_index

# The strength of the paper's script for real graphs (feature noise only).
REAL_FEATURE_LEVEL = 0.3

BINS = 15
# Weights of feature and edge instability in the per-node proxy, and of the mean match.
PROXY_WEIGHTS = (0.7, 0.3)
MEAN_WEIGHT = 2.0
PROXY_RANGE = (1e-3, 1.0 - 1e-3)
# Range of log T in the synthetic script; a grid, then finer ones around its best point.
_LOG_RANGE = (-4.0, 4.0)
_GRID, _ZOOMS = 161, 4


def as_published(
    predictor: Predictor,
    graph: Graph,
    *,
    passes: int = 6,
    level: float = REAL_FEATURE_LEVEL,
    seed: int = 0,
    nodes: Nodes = None,
) -> stac.StacResult:
    """Return what the paper's real-graph tables call STAC: disagreement alone, without ATC.

    Six passes of feature noise at 0.3 column standard deviations, then the mean match. The tables
    also stack a binary score g as [-g, g], which doubles it; the predictor decides that, and
    since T absorbs the factor it changes T but not these probabilities.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> from graphtemper.models import SIGN
    >>> g = csbm.sample(500, degree=8, homophily=0.8, snr=1.0)
    >>> result = as_published(SIGN().fit(g), g)
    >>> result.atc is None, result.accuracy == result.gde
    (True, True)
    """
    observation = Observation(predictor, graph, nodes, seed=seed)
    gde = 1.0 - signals.pairwise_disagreement(observation.votes("feature", passes, level=level))
    return stac.matched(observation, gde, None, gde)


def binned_proxy(
    observation: Observation,
    threshold: float,
    *,
    passes: int = 8,
    level: float = stac.FEATURE_LEVEL,
    share: float = stac.EDGE_SHARE,
) -> stac.StacResult:
    r"""Return the global stage of the paper's synthetic script, which is not the mean match alone.

    With :math:`\hat a` as in Algorithm 1 (edge dropout) and proxy accuracies q (`node_proxy`), T
    minimises, over 15 equal-width bins of confidence c,

    .. math:: \sum_b \frac{n_b}{n} (\bar c_b - \bar q_b)^2 + 2\,(\bar c - \hat a)^2.

    The loss jumps where nodes change bins, so the minimum over log T in [-4, 4] is searched on a
    grid that is refined around its best point: to 1e-6 in log T, unless a jump hides a better one.
    """
    start = stac.from_observation(
        observation, threshold, passes=passes, perturbation="edge", share=share
    )
    proxy = node_proxy(observation, start.accuracy, passes=passes, level=level, share=share)

    def loss(log_temperature: float) -> float:
        p = temperatures.apply(observation.logits, float(np.exp(log_temperature)))
        return binned_loss(signals.confidence(p), proxy, start.accuracy)

    low, high = _LOG_RANGE
    best = 0.0
    for _ in range(_ZOOMS):
        grid = np.linspace(low, high, _GRID)
        best = float(grid[int(np.argmin([loss(point) for point in grid]))])
        cell = grid[1] - grid[0]
        low, high = best - 2 * cell, best + 2 * cell
    temperature = float(np.exp(best))
    probabilities = temperatures.apply(observation.logits, temperature)
    return stac.StacResult(temperature, start.accuracy, start.atc, start.gde, probabilities)


def node_proxy(
    observation: Observation,
    accuracy: float,
    *,
    passes: int = 8,
    level: float = stac.FEATURE_LEVEL,
    share: float = stac.EDGE_SHARE,
) -> FloatArray:
    r"""Return a proxy for each node's probability of being correct, (n,).

    .. math:: q_i = \hat a + \bar u - u_i, \qquad u_i = 0.7\,u^{feature}_i + 0.3\,u^{edge}_i

    One minus the flip rate, shifted so that its mean is the estimated accuracy, then clipped to
    [0.001, 0.999] as in the paper's script.
    """
    feature = flip_rate(observation.votes("feature", passes, level=level), observation.predictions)
    edge = flip_rate(observation.votes("edge", passes, share=share), observation.predictions)
    unstable = PROXY_WEIGHTS[0] * feature + PROXY_WEIGHTS[1] * edge
    return np.asarray(np.clip(accuracy + unstable.mean() - unstable, *PROXY_RANGE))


def flip_rate(votes: ArrayLike, predictions: ArrayLike) -> FloatArray:
    r"""Return for each node the fraction of passes that change the clean prediction, (n,).

    .. math:: f_i = 1 - v_{i\hat y_i} / M

    with votes v. This is the instability in the script of the paper;
    `graphtemper.signals.instability` compares the passes with each other instead.

    Examples
    --------
    >>> flip_rate([[4, 0], [1, 3]], [0, 0]).tolist()
    [0.0, 0.75]
    """
    counts, classes = np.asarray(votes), np.asarray(predictions)
    return np.asarray(1.0 - counts[np.arange(classes.size), classes] / counts.sum(axis=1))


def binned_loss(confidence: FloatArray, proxy: FloatArray, accuracy: float) -> float:
    """Return the squared gap between confidence and proxy in hard bins, plus the mean match.

    Examples
    --------
    >>> round(binned_loss(np.array([0.7, 0.9]), np.array([0.6, 0.9]), 0.75), 6)
    0.01
    """
    index = bin_index(confidence, np.arange(BINS + 1) / BINS, "left")
    count = np.bincount(index, minlength=BINS)
    gap = np.bincount(index, confidence - proxy, BINS)
    used = count > 0
    binned = float((gap[used] ** 2 / count[used]).sum()) / confidence.size
    return binned + MEAN_WEIGHT * (float(confidence.mean()) - accuracy) ** 2
