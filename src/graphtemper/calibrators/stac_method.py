r"""STAC, the paper's label-free recalibration: exactly as printed, and as its tables used it.

============================  ==================================================================
`stac`                        Algorithm 1: min(ATC, disagreement), then match mean confidence
`as_published`                the paper's real-graph tables: disagreement under feature noise only
`binned_proxy`                the global stage of the paper's synthetic figures
`graphtemper.calibrators.stac.per_node`   the optional per-node stage
============================  ==================================================================

Only the scalar `threshold` is carried from the source. Scores are those of the uncalibrated model.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from graphtemper import temperature as temperatures
from graphtemper._core.arrays import FloatArray
from graphtemper.errors import InputError
from graphtemper.estimators.atc import ATC
from graphtemper.graph.graph import Graph, Nodes
from graphtemper.metrics.binned import bin_index, equal_width_edges, weighted_count
from graphtemper.models.predictor import Predictor
from graphtemper.signals import pointwise as signals
from graphtemper.signals.observation import Observation
from graphtemper.signals.passes import Kind
from graphtemper.temperature.scaling import nearest_temperature

# Strengths of the paper's scripts: synthetic graphs, and real graphs (feature noise only).
FEATURE_LEVEL = 0.15
EDGE_SHARE = 0.3
REAL_FEATURE_LEVEL = 0.3

BINS = 15
# Weights of feature and edge instability in the per-node proxy, and of the mean match.
PROXY_WEIGHTS = (0.7, 0.3)
MEAN_WEIGHT = 2.0
PROXY_RANGE = (1e-3, 1.0 - 1e-3)
# Range of log T in the synthetic script; a grid, then finer ones around its best point.
_LOG_RANGE = (-4.0, 4.0)
_GRID, _ZOOMS = 161, 4


@dataclass(frozen=True, eq=False)
class StacResult:
    """STAC's answer on a target graph.

    Attributes
    ----------
    temperature : float
        T.
    accuracy : float
        The estimate a that T was matched to: the smaller of the next two.
    atc : float or None
        Fraction of nodes with confidence at or above the threshold; None if not used.
    gde : float
        One minus the mean pairwise disagreement.
    probabilities : (n, K) array
        softmax(z / T) of the selected nodes.
    reason : str
        Empty, or why T is a bound instead of a match.
    """

    temperature: float
    accuracy: float
    atc: float | None
    gde: float
    probabilities: FloatArray
    reason: str = ""


def threshold(predictor: Predictor | ArrayLike, graph: Graph, nodes: Nodes = None) -> float:
    """Return the confidence that a fraction of source nodes equal to the accuracy reaches.

    The only number carried from the source. ``nodes`` should be labelled and not used for training
    (default: all labelled nodes).

    Examples
    --------
    >>> from graphtemper import csbm
    >>> from graphtemper.models import SIGN
    >>> g = csbm.sample(500, degree=8, homophily=0.8, snr=1.0)
    >>> 0.5 < threshold(SIGN().fit(g, range(250)), g, range(250, 500)) < 1.0
    True
    """
    if graph.labels is None:
        raise InputError("the graph has no labels; the threshold is set at the labelled source.")
    source = Observation(predictor, graph, graph.labelled if nodes is None else nodes)
    return float(np.asarray(ATC().fit(source, graph.labels[source.nodes]).carries["threshold"]))


def stac(
    predictor: Predictor,
    graph: Graph,
    threshold: float,
    *,
    passes: int = 8,
    perturbation: Kind = "edge",
    level: float = FEATURE_LEVEL,
    share: float = EDGE_SHARE,
    seed: int = 0,
    nodes: Nodes = None,
) -> StacResult:
    r"""Recalibrate on an unlabelled graph: Algorithm 1 as printed.

    1. logits z of the frozen model; :math:`\hat a_{ATC}` = fraction of max softmax(z) >= threshold
    2. M perturbed passes; :math:`\hat a_{GDE}` = 1 - mean pairwise disagreement
    3. :math:`\hat a = \min(\hat a_{ATC}, \hat a_{GDE})`
    4. T such that the mean confidence of softmax(z / T) is :math:`\hat a`

    Step 4 is solved to rounding error. Where no T reaches :math:`\hat a` the squared gap has no
    minimum, only a limit; see `nearest_temperature`.

    Parameters
    ----------
    predictor, graph
        The frozen model and the target; its labels, if any, are removed before the model runs.
    threshold
        From `threshold`, at the source.
    passes
        M; the paper uses 6 to 10.
    perturbation
        The paper says "input/edge perturbations". ``"edge"`` (default) is what its synthetic
        script puts into step 2, ``"feature"`` what its real-graph script does, ``"both"`` half of
        the passes each.
    level, share
        Feature noise in column standard deviations (0.15 in the synthetic script, 0.3 in the real
        one) and share of edges dropped.
    seed, nodes
        Seed of the passes; nodes to recalibrate (default all).

    Examples
    --------
    >>> from graphtemper import csbm, shifts
    >>> from graphtemper.models import SIGN
    >>> g = csbm.sample(2000, degree=8, homophily=0.8, snr=1.0, num_classes=3)
    >>> model = SIGN().fit(g, range(1000))
    >>> tau = threshold(model, g, range(1000, 2000))
    >>> result = stac(model, shifts.noise(1.0)(g), tau)
    >>> result.accuracy == min(result.atc, result.gde)
    True
    >>> bool(abs(result.probabilities.max(axis=1).mean() - result.accuracy) < 1e-9)
    True
    """
    observation = Observation(predictor, graph, nodes, seed=seed)
    return from_observation(
        observation, threshold, passes=passes, perturbation=perturbation, level=level, share=share
    )


def from_observation(
    observation: Observation,
    threshold: float,
    *,
    passes: int = 8,
    perturbation: Kind = "edge",
    level: float = FEATURE_LEVEL,
    share: float = EDGE_SHARE,
) -> StacResult:
    """Return what `stac` returns, for an observation whose passes several variants share."""
    atc = signals.atc_share(signals.confidence(observation.probabilities), threshold)
    votes = observation.votes(perturbation, passes, level=level, share=share)
    gde = 1.0 - signals.pairwise_disagreement(votes)
    return _matched(observation, min(atc, gde), atc, gde)


def as_published(
    predictor: Predictor,
    graph: Graph,
    *,
    passes: int = 6,
    level: float = REAL_FEATURE_LEVEL,
    seed: int = 0,
    nodes: Nodes = None,
) -> StacResult:
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
    return _matched(observation, gde, None, gde)


def binned_proxy(
    observation: Observation,
    threshold: float,
    *,
    passes: int = 8,
    level: float = FEATURE_LEVEL,
    share: float = EDGE_SHARE,
) -> StacResult:
    r"""Return the global stage of the paper's synthetic script, which is not the mean match alone.

    With :math:`\hat a` as in Algorithm 1 (edge dropout) and proxy accuracies q (`node_proxy`), T
    minimises, over 15 equal-width bins of confidence c,

    .. math:: \sum_b \frac{n_b}{n} (\bar c_b - \bar q_b)^2 + 2\,(\bar c - \hat a)^2.

    The loss jumps where nodes change bins, so the minimum over log T in [-4, 4] is searched on a
    grid that is refined around its best point: to 1e-6 in log T, unless a jump hides a better one.
    """
    start = from_observation(
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
    return StacResult(temperature, start.accuracy, start.atc, start.gde, probabilities)


def node_proxy(
    observation: Observation,
    accuracy: float,
    *,
    passes: int = 8,
    level: float = FEATURE_LEVEL,
    share: float = EDGE_SHARE,
) -> FloatArray:
    r"""Return a proxy for each node's probability of being correct, (n,).

    .. math:: q_i = \hat a + \bar u - u_i, \qquad u_i = 0.7\,u^{feature}_i + 0.3\,u^{edge}_i

    One minus the flip rate, shifted so that its mean is the estimated accuracy, then clipped to
    [0.001, 0.999] as in the paper's script.
    """
    feature = signals.flip_rate(
        observation.votes("feature", passes, level=level), observation.predictions
    )
    edge = signals.flip_rate(
        observation.votes("edge", passes, share=share), observation.predictions
    )
    unstable = PROXY_WEIGHTS[0] * feature + PROXY_WEIGHTS[1] * edge
    return np.asarray(np.clip(accuracy + unstable.mean() - unstable, *PROXY_RANGE))


def binned_loss(confidence: FloatArray, proxy: FloatArray, accuracy: float) -> float:
    """Return the squared gap between confidence and proxy in hard bins, plus the mean match.

    Examples
    --------
    >>> round(binned_loss(np.array([0.7, 0.9]), np.array([0.6, 0.9]), 0.75), 6)
    0.01
    """
    index = bin_index(confidence, equal_width_edges(BINS), closed="left")
    count = np.bincount(index, minlength=BINS)
    gap = weighted_count(index, confidence - proxy, BINS)
    used = count > 0
    binned = float((gap[used] ** 2 / count[used]).sum()) / confidence.size
    return binned + MEAN_WEIGHT * (float(confidence.mean()) - accuracy) ** 2


def _matched(
    observation: Observation, accuracy: float, atc: float | None, gde: float
) -> StacResult:
    temperature, reason = nearest_temperature(observation.logits, accuracy)
    probabilities = temperatures.apply(observation.logits, temperature)
    return StacResult(temperature, accuracy, atc, gde, probabilities, reason)
