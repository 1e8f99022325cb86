r"""STAC's optional per-node stage.

.. math:: T_i = T_{glob} \exp\big(c \tanh(\phi_i^\top w + b)\big), \qquad c = 0.5

w and b minimise the label-free loss of `stac_variants.binned_proxy` plus a ridge on w. With hard
bins that loss jumps whenever a node crosses a bin's edge, which is why the paper's script searches
without derivatives. Here a quadratic B-spline of its confidence divides each node among its bin and
the two adjacent ones: the weights sum to 1, the loss has a continuous gradient, and L-BFGS finds
the minimum in a few dozen evaluations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize

from graphtemper import Observation, stac
from graphtemper import signals as measure
from graphtemper import temperature as temperatures
from graphtemper.calibrators import STAC, Inputs
from graphtemper_research.baselines import stac_variants
from graphtemper_research.harness.numeric import FloatArray

Signals = Literal["all", "logits"]

SIGNALS = (
    "feature instability",
    "edge instability",
    "corrected agreement",
    "entropy",
    "margin",
    "log degree",
)
# The ablation: signals of the logits alone.
LOGIT_SIGNALS = ("entropy", "margin")

REACH = 0.5
"""c: temperatures stay within a factor exp(c) of the global one."""
RIDGE = 1e-2
# Starting values of b: far from zero the tanh is flat and its gradient vanishes.
_STARTS = (0.0, -1.0, 1.0)


class STACPerNode(STAC):
    """STAC with its optional second stage, a temperature for each node around the global one.

    Everything is as in `STAC`; the second stage is
    `node_temperatures`, which uses passes of both kinds.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> from graphtemper.models import SIGN
    >>> g = csbm.sample(300, degree=8, homophily=0.8, snr=1.0, seed=0)
    >>> model = SIGN().fit(g, range(150))
    >>> calibrator = STACPerNode(model).fit(model(g), g.labels, g, range(150, 300))
    >>> calibrator.temperatures(model(g), graph=g).shape
    (300,)
    """

    granularity = "node"
    reference = "the paper of this package, per-node stage"
    differs = "soft bins and gradients; the paper's script searches without derivatives"

    def _temperatures(self, inputs: Inputs) -> FloatArray:
        result = node_temperatures(
            self._observation(inputs),
            self.threshold_,
            passes=self.passes,
            level=self.level,
            share=self.share,
        )
        return result.temperature


@dataclass(frozen=True, eq=False)
class PerNodeResult:
    """Per-node temperatures (n,), the probabilities they give, and the fitted parameters.

    ``weights`` belong to the standardised ``signals``; ``loss`` includes the ridge.
    """

    temperature: FloatArray
    probabilities: FloatArray
    global_stage: stac.StacResult
    signals: tuple[str, ...]
    weights: FloatArray
    bias: float
    loss: float


def node_temperatures(
    observation: Observation,
    threshold: float,
    *,
    signals: Signals = "all",
    global_stage: stac.StacResult | None = None,
    passes: int = 8,
    level: float = stac.FEATURE_LEVEL,
    share: float = stac.EDGE_SHARE,
) -> PerNodeResult:
    """Give each observed node its own temperature around the global one.

    Parameters
    ----------
    observation
        The frozen model on the target.
    threshold
        From `graphtemper.stac.threshold`.
        ``"all"`` six, or ``"logits"`` for the ablation without structure. The proxy accuracies that
        the loss compares with are the same in both.
    global_stage
        A result of `graphtemper.stac.from_observation` (the default) or `binned_proxy`.
    passes, level, share
        Perturbed passes of each kind, and their strengths.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> from graphtemper.models import SIGN
    >>> g = csbm.sample(500, degree=8, homophily=0.8, snr=1.0, num_classes=3)
    >>> model = SIGN().fit(g, range(250))
    >>> result = node_temperatures(Observation(model, g), stac.threshold(model, g, range(250, 500)))
    >>> ratio = result.temperature / result.global_stage.temperature
    >>> bool((np.abs(np.log(ratio)) <= REACH).all())
    True
    """
    start = stac.from_observation(observation, threshold, passes=passes, share=share)
    chosen = start if global_stage is None else global_stage
    proxy = stac_variants.node_proxy(
        observation, chosen.accuracy, passes=passes, level=level, share=share
    )
    names = SIGNALS if signals == "all" else LOGIT_SIGNALS
    columns = node_signals(observation, passes=passes, level=level, share=share)
    loss = PerNodeLoss(
        logits=observation.logits,
        signals=np.column_stack([columns[name] for name in names]),
        proxy=proxy,
        accuracy=chosen.accuracy,
        global_temperature=chosen.temperature,
    )
    parameters, value = loss.minimum()
    temperature = loss.temperatures(parameters)
    return PerNodeResult(
        temperature=temperature,
        probabilities=temperatures.apply(observation.logits, temperature),
        global_stage=chosen,
        signals=names,
        weights=parameters[:-1],
        bias=float(parameters[-1]),
        loss=value,
    )


def corrected_agreement(predictions: ArrayLike, edges: NDArray[np.integer]) -> FloatArray:
    r"""Return the neighbour agreement a, or 1 - a if neighbours are expected to differ, (N,).

    It is 1 - a if the homophily of the predictions is below 1/2, so
    that large values always support the prediction. The rule is that of the paper's per-node stage.
    Limitation: with K > 2 classes chance agreement is below 1/2, so the rule may also apply to a
    mildly homophilous graph.

    Examples
    --------
    >>> corrected_agreement([0, 1, 0], np.array([[0, 1], [1, 2]])).tolist()
    [1.0, 1.0, 1.0]
    """
    agreement = measure.neighbour_agreement(predictions, edges)
    if len(edges) and measure.predicted_homophily(predictions, edges) < 0.5:
        return 1.0 - agreement
    return agreement


def node_signals(
    observation: Observation,
    *,
    passes: int = 8,
    level: float = stac.FEATURE_LEVEL,
    share: float = stac.EDGE_SHARE,
) -> dict[str, FloatArray]:
    """Return the six signals of the observed nodes, each with mean 0 and standard deviation 1.

    A signal that is equal at all nodes becomes zero.
    """
    graph, p = observation.graph, observation.probabilities
    raw = (
        stac_variants.flip_rate(
            observation.votes("feature", passes, level=level), observation.predictions
        ),
        stac_variants.flip_rate(
            observation.votes("edge", passes, share=share), observation.predictions
        ),
        corrected_agreement(observation.all_predictions, graph.links)[observation.nodes],
        measure.entropy(p, normalised=True),
        measure.margin(p),
        measure.log_degree(graph.degrees[observation.nodes]),
    )
    return {name: _standardised(values) for name, values in zip(SIGNALS, raw, strict=True)}


def _standardised(values: FloatArray) -> FloatArray:
    centred = values - values.mean()
    spread = float(centred.std())
    # Rounding of the mean must not be amplified to a signal.
    if spread <= 1e-12 * max(float(np.abs(values).max()), 1.0):
        return np.zeros_like(values)
    return np.asarray(centred / spread)


@dataclass(frozen=True, eq=False)
class PerNodeLoss:
    """The label-free loss as a function of the parameters (w, b), with its gradient."""

    logits: FloatArray
    signals: FloatArray
    proxy: FloatArray
    accuracy: float
    global_temperature: float

    def temperatures(self, parameters: FloatArray) -> FloatArray:
        """Return T_i for (w, b), (n,)."""
        bent = np.tanh(self.signals @ parameters[:-1] + parameters[-1])
        return np.asarray(self.global_temperature * np.exp(REACH * bent))

    def __call__(self, parameters: FloatArray) -> tuple[float, FloatArray]:
        """Return loss and gradient at (w, b)."""
        weights, bias = parameters[:-1], parameters[-1]
        bent = np.tanh(self.signals @ weights + bias)
        inverse = np.exp(-REACH * bent) / self.global_temperature
        gaps = (self.logits - self.logits.max(axis=1, keepdims=True)) * inverse[:, None]
        with np.errstate(under="ignore"):
            odds = np.exp(gaps)
            confidence = 1.0 / odds.sum(axis=1)
            # d confidence / d log T = confidence x mean gap / T, which is never positive.
            by_log_temperature = confidence**2 * (odds * gaps).sum(axis=1)
        value, by_confidence = soft_binned_loss(confidence, self.proxy, self.accuracy)
        by_argument = by_confidence * by_log_temperature * REACH * (1.0 - bent**2)
        gradient = np.append(by_argument @ self.signals + 2.0 * RIDGE * weights, by_argument.sum())
        return value + RIDGE * float(weights @ weights), gradient

    def minimum(self) -> tuple[FloatArray, float]:
        """Return the best (w, b) of L-BFGS from three values of b, and its loss."""
        minima = []
        for bias in _STARTS:
            start = np.append(np.zeros(self.signals.shape[1]), bias)
            # The loss is of order 1e-3 or less: scipy's default tolerances would stop early.
            end = minimize(
                self, start, jac=True, method="L-BFGS-B", options={"ftol": 1e-14, "gtol": 1e-9}
            )
            minima.append((np.asarray(end.x, dtype=np.float64), float(end.fun)))
        return min(minima, key=lambda pair: pair[1])


def soft_binned_loss(
    confidence: FloatArray, proxy: FloatArray, accuracy: float
) -> tuple[float, FloatArray]:
    r"""Return the soft-binned loss and its gradient with respect to each node's confidence.

    With spline weights :math:`\omega_{ib}`, mass :math:`m_b=\sum_i\omega_{ib}` and gap
    :math:`D_b=\sum_i\omega_{ib}(c_i-q_i)`,

    .. math:: L = \frac1n\sum_b \frac{D_b^2}{m_b} + 2\,(\bar c-\hat a)^2.

    Examples
    --------
    >>> value, gradient = soft_binned_loss(np.array([0.7]), np.array([0.6]), 0.7)
    >>> round(value, 6)
    0.01
    """
    n, bins = confidence.size, stac_variants.BINS
    index, weight, slope = _spline(confidence * bins, bins)
    slope *= bins
    difference = confidence - proxy
    mass = np.bincount(index.ravel(), weight.ravel(), minlength=bins)
    gap = np.bincount(index.ravel(), (weight * difference).ravel(), minlength=bins)
    # An empty bin has no gap either; dividing by 1 keeps its ratio at zero.
    ratio = (gap / np.where(mass > 0.0, mass, 1.0))[index]
    value = float((gap * gap / np.where(mass > 0.0, mass, 1.0)).sum()) / n
    by_bin = 2.0 * ratio * (weight + slope * difference) - ratio**2 * slope
    excess = float(confidence.mean()) - accuracy
    gradient = (by_bin.sum(axis=0) + 2.0 * stac_variants.MEAN_WEIGHT * excess) / n
    return value + stac_variants.MEAN_WEIGHT * excess**2, np.asarray(gradient)


def _spline(position: FloatArray, bins: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return bins (3, n), B-spline weights and their slopes; the end bins take the overflow."""
    own = np.minimum(position.astype(np.intp), bins - 1)
    t = position - own - 0.5
    index = np.clip(np.stack([own - 1, own, own + 1]), 0, bins - 1)
    weight = np.stack([0.5 * (0.5 - t) ** 2, 0.75 - t**2, 0.5 * (0.5 + t) ** 2])
    return index, weight, np.stack([t - 0.5, -2.0 * t, t + 0.5])
