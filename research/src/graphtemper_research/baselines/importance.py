"""Source accuracy, weighted to look like the target: histograms, slices, and a domain classifier.

All of them assume covariate shift: P(correct | what is weighted) does not change.
"""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize

from graphtemper import Estimate, Observation, errors, signals, temperature
from graphtemper.estimators import Carried, HasParameters, correct, share_estimate
from graphtemper.graph import operator
from graphtemper_research.harness.numeric import FloatArray, bin_index

# A domain classifier that is sure makes weights without a bound.
LARGEST_LOG_WEIGHT = 4.0


class ImportanceWeighted(HasParameters):
    r"""Source accuracy in bins of confidence, weighted by the target's share of every bin.

    .. math:: \hat a = \sum_b \frac{n^t_b}{n^t}\, a^s_b

    A bin that the source never visits has the accuracy of the nearest bin it does.

    References
    ----------
    The baseline *IM* of Garg et al., "Leveraging Unlabeled Data to Predict Out-of-Distribution
    Performance", ICLR 2022, after Chen et al., "Mandoline", ICML 2021.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> from graphtemper.models import SIGN
    >>> g = csbm.sample(600, degree=8, homophily=0.8, snr=1.0)
    >>> source = Observation(SIGN().fit(g), g)
    >>> found = ImportanceWeighted().fit(source, g.labels).estimate(source).value
    >>> bool(abs(found - (source.predictions == g.labels).mean()) < 1e-12)
    True
    """

    accuracies_: FloatArray

    def __init__(self, bins: int = 10) -> None:
        self.bins = bins

    @property
    def carries(self) -> Carried:
        """Accuracy in every bin."""
        return {"accuracies": learned(self, "accuracies_").tolist()}

    def fit(self, source: Observation, labels: ArrayLike) -> Self:
        """Measure the accuracy in every bin of confidence."""
        right, index = correct(source, labels), self._index(source)
        counts = np.bincount(index, minlength=self.bins)
        known = np.flatnonzero(counts)
        nearest = known[np.abs(np.arange(self.bins)[:, None] - known).argmin(axis=1)]
        means = np.bincount(index, right, self.bins) / np.maximum(counts, 1)
        self.accuracies_ = means[nearest]
        return self

    def estimate(self, target: Observation) -> Estimate:
        """Return the bins' accuracies, weighted by the target."""
        value = float(learned(self, "accuracies_")[self._index(target)].mean())
        return share_estimate(value, target.num_nodes, "importance-weighted")

    def _index(self, observation: Observation) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
        confidence = signals.confidence(observation.probabilities)
        return np.asarray(bin_index(confidence, np.arange(self.bins + 1) / self.bins, "left"))


class Mandoline(HasParameters):
    r"""Source accuracy under weights that give every slice the share it has in the target.

    .. math:: \hat a = \sum_i w_i c_i, \quad w_i \propto e^{\theta^\top g_i}, \quad
       \theta = \arg\min\; \log \tfrac1{n}\sum_i e^{\theta^\top g_i} - \theta^\top \bar g^t
       + \tfrac{\lambda}{2}\|\theta\|^2

    The slices g say in {-1, 1}: which class is predicted, which third of the source's confidence a
    node lies in, which third of its degrees, and which third of the support by its neighbours.

    References
    ----------
    Chen et al., "Mandoline: Model Evaluation under Distribution Shift", ICML 2021. The slices are
    a choice of this implementation; slices are not paired.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> from graphtemper.models import SIGN
    >>> g = csbm.sample(600, degree=8, homophily=0.8, snr=1.0)
    >>> source = Observation(SIGN().fit(g), g)
    >>> found = Mandoline().fit(source, g.labels).estimate(source).value
    >>> bool(abs(found - (source.predictions == g.labels).mean()) < 1e-6)
    True
    """

    right_: FloatArray
    slices_: FloatArray
    edges_: list[FloatArray]

    def __init__(self, ridge: float = 1e-3) -> None:
        self.ridge = ridge

    @property
    def carries(self) -> Carried:
        """A row per source node: its slices, and whether it was right."""
        return {"right": learned(self, "right_").tolist(), "slices": self.slices_.ravel().tolist()}

    def fit(self, source: Observation, labels: ArrayLike) -> Self:
        """Keep every source node's slices, and whether it was right."""
        self.right_ = correct(source, labels)
        self.edges_ = [np.quantile(values, [1 / 3, 2 / 3]) for values in _sliced(source)]
        self.slices_ = self._slices(source)
        return self

    def estimate(self, target: Observation) -> Estimate:
        """Return the weighted source accuracy."""
        right = learned(self, "right_")
        weights = matching_weights(self.slices_, self._slices(target).mean(axis=0), self.ridge)
        return share_estimate(float(weights @ right), target.num_nodes, "Mandoline")

    def _slices(self, observation: Observation) -> FloatArray:
        classes = observation.num_classes
        parts = [np.eye(classes)[observation.predictions]]
        for values, edges in zip(_sliced(observation), self.edges_, strict=True):
            parts.append(np.eye(3)[np.searchsorted(edges, values)])
        return np.asarray(2.0 * np.concatenate(parts, axis=1) - 1.0)


def matching_weights(slices: FloatArray, means: FloatArray, ridge: float) -> FloatArray:
    """Return the weights of rows, with sum 1, whose weighted means are nearest to ``means``.

    Examples
    --------
    >>> rows = np.array([[1.0, -1.0], [1.0, -1.0], [-1.0, 1.0]])
    >>> matching_weights(rows, np.array([-0.5, 0.5]), 1e-9).round(4).tolist()
    [0.125, 0.125, 0.75]
    """

    def objective(theta: FloatArray) -> tuple[float, FloatArray]:
        score = slices @ theta
        top = float(score.max())
        likely = np.exp(score - top)
        weights = likely / likely.sum()
        value = top + float(np.log(likely.mean())) - theta @ means + ridge / 2 * theta @ theta
        return float(value), weights @ slices - means + ridge * theta

    start = np.zeros(slices.shape[1])
    found = minimize(objective, start, jac=True, method="L-BFGS-B", options={"gtol": 1e-9})
    score = slices @ found.x
    weights = np.exp(score - score.max())
    return np.asarray(weights / weights.sum())


def _sliced(observation: Observation) -> list[FloatArray]:
    """Return what slices are thirds of: confidence, degree and support by neighbours."""
    p, nodes = observation.probabilities, observation.nodes
    every = temperature.apply(observation.all_logits, observation.temperature)
    support = (operator(observation.graph, "mean") @ every)[nodes, observation.predictions]
    return [
        signals.confidence(p),
        observation.graph.degrees[nodes].astype(np.float64),
        np.asarray(support),
    ]


def representation(observation: Observation) -> FloatArray:
    """Return what a domain classifier reads of every node, (n, 2K + 1).

    The centred logits, their mean over the neighbours, and log(1 + degree): of a frozen predictor
    nothing else is known in general.
    """
    logits, nodes = observation.all_logits / observation.temperature, observation.nodes
    centred = logits - logits.mean(axis=1, keepdims=True)
    around = (operator(observation.graph, "mean") @ centred)[nodes]
    degree = np.log1p(observation.graph.degrees[nodes])[:, None]
    return np.concatenate([centred[nodes], around, degree], axis=1)


def density_ratio(source: FloatArray, target: FloatArray) -> FloatArray:
    r"""Return p_t/p_s at the source's rows by a logistic domain classifier, with mean 1.

    .. math:: w(x) = \frac{n_s}{n_t}\,\frac{P(t \mid x)}{P(s \mid x)}

    Log-weights are clipped at 4.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(0.0, 1.0, (4000, 1)), rng.normal(0.5, 1.0, (4000, 1))
    >>> exact = np.exp(0.5 * x[:, 0] - 0.125)       # of two Gaussians
    >>> bool(np.abs(density_ratio(x, y) - exact).mean() < 0.05)
    True
    """
    from sklearn.linear_model import LogisticRegression

    rows = np.concatenate([source, target])
    spread = np.maximum(source.std(axis=0), 1e-12)
    rows = np.clip((rows - source.mean(axis=0)) / spread, -20.0, 20.0)
    domain = np.repeat([0, 1], [len(source), len(target)])
    classifier = LogisticRegression(max_iter=300).fit(rows, domain)
    score = classifier.decision_function(rows[: len(source)])
    score += np.log(len(source) / len(target))
    weights = np.exp(np.clip(score, -LARGEST_LOG_WEIGHT, LARGEST_LOG_WEIGHT))
    return np.asarray(weights / weights.mean())


def learned(estimator: object, name: str) -> FloatArray:
    """Return an array that `fit` learned, or raise if the estimator is not fitted yet."""
    if not hasattr(estimator, name):
        kind = type(estimator).__name__
        raise errors.not_fitted(f"this {kind} is not fitted; call fit(source, labels) first.")
    return np.asarray(getattr(estimator, name))
