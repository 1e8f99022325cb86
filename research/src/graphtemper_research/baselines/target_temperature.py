"""Temperatures that read the target without its labels: CPCS, TransCal and LaSCal.

They keep the protocol of accuracy estimators: what they state is the mean confidence at their
temperature, and the temperature of that mean confidence is again theirs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize, minimize_scalar, nnls

from graphtemper import Estimate, Observation, temperature
from graphtemper.estimators import Carried, HasParameters, share_estimate
from graphtemper_research.baselines.importance import density_ratio, learned, representation
from graphtemper_research.harness.numeric import FloatArray

Classes = NDArray[np.int64] | NDArray[np.intp]
# Temperatures that are tried, as logarithms.
LOWEST, HIGHEST = np.log(0.1), np.log(20.0)
_ALMOST_ZERO = 1e-12


class TargetTemperature(HasParameters, ABC):
    """Chooses a temperature from labelled source rows and unlabelled target rows."""

    logits_: FloatArray
    labels_: Classes
    rows_: FloatArray

    @property
    def carries(self) -> Carried:
        """Logits, labels and representation of the source's nodes: the data itself travels."""
        rows = learned(self, "logits_").ravel().tolist()
        return {
            "logits": rows,
            "labels": self.labels_.tolist(),
            "rows": self.rows_.ravel().tolist(),
        }

    def fit(self, source: Observation, labels: ArrayLike) -> Self:
        """Keep the source's logits, labels and representation."""
        truth = np.asarray(labels)
        self.logits_ = source.logits
        self.labels_, self.rows_ = truth.astype(np.int64), representation(source)
        return self

    def estimate(self, target: Observation) -> Estimate:
        """Return the target's mean confidence at the chosen temperature."""
        value = temperature.mean_confidence(target.logits, self.temperature(target))
        return share_estimate(value, target.num_nodes, type(self).__name__)

    @abstractmethod
    def temperature(self, target: Observation) -> float:
        """Return the temperature of the model's own logits."""


class CPCS(TargetTemperature):
    r"""The temperature with the least Brier score at the source, weighted towards the target.

    .. math:: T = \arg\min_T \sum_i w(x_i)\,\|\mathrm{softmax}(z_i/T) - e_{y_i}\|^2,
       \qquad w = p_t/p_s

    References
    ----------
    Park et al., "Calibrated Prediction with Covariate Shift via Unsupervised Domain Adaptation",
    AISTATS 2020. The domain classifier reads `importance.representation`.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> from graphtemper.models import SIGN
    >>> g = csbm.sample(600, degree=8, homophily=0.8, snr=1.0)
    >>> source = Observation(SIGN().fit(g), g)
    >>> 0.7 < CPCS().fit(source, g.labels).temperature(source) < 1.5
    True
    """

    def temperature(self, target: Observation) -> float:
        """Return the temperature with the least weighted Brier score."""
        logits = learned(self, "logits_")
        weights = density_ratio(self.rows_, representation(target))
        return least_brier(logits, self.labels_, weights)


def least_brier(logits: FloatArray, labels: Classes, weights: FloatArray) -> float:
    """Return the temperature with the least weighted Brier score."""
    truth = np.eye(logits.shape[1])[labels]

    def brier(log_temperature: float) -> float:
        p = temperature.apply(logits, float(np.exp(log_temperature)))
        return float(weights @ ((p - truth) ** 2).sum(axis=1))

    # The score may have two minima: a grid brackets the lower one.
    grid = np.linspace(LOWEST, HIGHEST, 40)
    place = int(np.argmin([brier(value) for value in grid]))
    bounds = (grid[max(place - 1, 0)], grid[min(place + 1, grid.size - 1)])
    found = minimize_scalar(brier, bounds=bounds, method="bounded", options={"xatol": 1e-8})
    return float(np.exp(found.x))


class TransCal(TargetTemperature):
    r"""Mean confidence meets an accuracy from weighted source errors, with control variates.

    .. math:: T, \lambda = \arg\min_{T \ge 1,\, 0 \le \lambda \le 1}
       \big|\overline c_t(T) - (1 - \hat\epsilon(w^\lambda))\big|

    Two serial control variates, the weights (mean 1) and the source's correctness, take variance
    from the weighted error. One temperature per accuracy and one accuracy per lambda: the minimum
    is a curve, and the answer is the point that the search reaches from T = 2, lambda = 1/2, as in
    the released code. T >= 1 means that under-confidence is not mended.

    References
    ----------
    Wang et al., "Transferable Calibration with Lower Bias and Variance in Domain Adaptation",
    NeurIPS 2020. The domain classifier reads `importance.representation`.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> from graphtemper.models import SIGN
    >>> g = csbm.sample(600, degree=8, homophily=0.8, snr=1.0)
    >>> source = Observation(SIGN().fit(g), g)
    >>> 1.0 <= TransCal().fit(source, g.labels).temperature(source) < 1.5
    True
    """

    def temperature(self, target: Observation) -> float:
        """Return the temperature of the estimated accuracy."""
        logits = learned(self, "logits_")
        right = (logits.argmax(axis=1) == self.labels_).astype(np.float64)
        usual = temperature.solve(logits, self.labels_).temperature
        confidence = temperature.mean_confidence(logits, usual)
        weights = density_ratio(self.rows_, representation(target))
        own = target.logits

        def gap(point: FloatArray) -> float:
            accuracy = controlled_accuracy(weights ** point[1], right, confidence)
            return abs(temperature.mean_confidence(own, float(point[0])) - accuracy)

        bounds = ((1.0, float(np.exp(HIGHEST))), (0.0, 1.0))
        found = minimize(gap, np.array([2.0, 0.5]), method="SLSQP", bounds=bounds)
        return float(found.x[0])


def controlled_accuracy(weights: FloatArray, right: FloatArray, confidence: float) -> float:
    r"""Return one minus the weighted error, after both control variates.

    With :math:`\eta = -\mathrm{Cov}(a, b)/\mathrm{Var}(b)` the mean of a becomes
    :math:`\bar a + \eta(\bar b - \mathrm{E} b)`: first with b = w and E w = 1, then with b the
    correctness, whose expectation is taken to be the source's mean ``confidence``.

    Examples
    --------
    >>> controlled_accuracy(np.ones(4), np.array([1.0, 1.0, 1.0, 0.0]), 0.75)
    0.75
    """
    errors = weights * (1.0 - right)
    errors = errors + _coefficient(errors, weights) * (weights - 1.0)
    errors = errors + _coefficient(errors, right) * (right - confidence)
    return float(1.0 - errors.mean())


def _coefficient(values: FloatArray, variate: FloatArray) -> float:
    variance = float(np.var(variate, ddof=1))
    if variance < _ALMOST_ZERO:
        return 0.0
    return -float(np.cov(values, variate)[0, 1]) / variance


class LaSCal(TargetTemperature):
    r"""The temperature with the least class-wise calibration error, estimated under label shift.

    .. math:: \widehat{CE}_k = \frac1{n_t}\sum_b \sum_{j \in b}
       \Big(p_{jk} - \frac{w_k\,n_t\,|\{i \in b : y_i = k\}|}{n_s\,|\{j \in b\}|}\Big)^2

    Bins b hold equal numbers of target nodes, i are source nodes, j target nodes and w_k is the
    class's ratio of shares, by inverting the source's confusion table.

    References
    ----------
    Popordanoska et al., "LaSCal: Label-Shift Calibration without Target Labels", NeurIPS 2024.
    The bins are closed and the count in a bin is not reduced by one; weights are those of
    non-negative least squares, pulled towards 1.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> from graphtemper.models import SIGN
    >>> g = csbm.sample(600, degree=8, homophily=0.8, snr=1.0)
    >>> source = Observation(SIGN().fit(g), g)
    >>> 0.5 < LaSCal().fit(source, g.labels).temperature(source) < 1.5
    True
    """

    BINS, STEPS = 15, 100

    def temperature(self, target: Observation) -> float:
        """Return the temperature of a grid with the least estimated error."""
        logits, own = learned(self, "logits_"), target.logits
        labels = self.labels_
        weights = label_weights(logits.argmax(axis=1), labels, own.argmax(axis=1), own.shape[1])
        grid = np.exp(np.linspace(LOWEST, HIGHEST, self.STEPS))
        errors = [
            shifted_error(
                temperature.apply(own, t), temperature.apply(logits, t), labels, weights, self.BINS
            )
            for t in grid.tolist()
        ]
        return float(grid[int(np.argmin(errors))])


def label_weights(predicted: Classes, labels: Classes, target: Classes, classes: int) -> FloatArray:
    """Return each class's share at the target over its share at the source, drawn towards 1.

    Examples
    --------
    >>> y = np.array([0, 0, 1, 1])
    >>> label_weights(y, y, np.array([0, 1, 1, 1]), 2).round(2).tolist()
    [0.6, 1.4]
    """
    joint = np.zeros((classes, classes))
    np.add.at(joint, (predicted, labels), 1.0 / len(labels))
    shares = np.bincount(target, minlength=classes) / len(target)
    pull = 1.0 / np.sqrt(len(labels)) / classes
    rows = np.concatenate([joint, pull * np.eye(classes)])
    return np.asarray(nnls(rows, np.concatenate([shares, pull * np.ones(classes)]))[0])


def shifted_error(
    target: FloatArray, source: FloatArray, labels: Classes, weights: FloatArray, bins: int
) -> float:
    """Return the mean over classes of the estimated squared calibration error."""
    total = 0.0
    for k, weight in enumerate(weights):
        edges = np.quantile(target[:, k], np.linspace(0.0, 1.0, bins + 1)[1:-1])
        own, there = np.searchsorted(edges, target[:, k]), np.searchsorted(edges, source[:, k])
        counts = np.bincount(own, minlength=bins)
        hits = np.bincount(there, labels == k, minlength=bins)
        ratio = len(target) / len(source)
        expected = weight * ratio * hits / np.maximum(counts, 1)
        total += float(((target[:, k] - expected[own]) ** 2).mean())
    return total / len(weights)
