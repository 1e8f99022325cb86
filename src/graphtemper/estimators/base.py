"""The protocol of accuracy estimators, and the interval around a mean of n nodes."""

from __future__ import annotations

import math
from typing import Protocol, Self

import numpy as np
from numpy.typing import ArrayLike

from graphtemper import errors
from graphtemper._core.checks import FloatArray, check_labels
from graphtemper._core.estimate import DEVIATIONS, Estimate
from graphtemper.errors import InputError
from graphtemper.signals.observation import Observation

Carried = dict[str, float | list[float]]


class Estimator(Protocol):
    """Learn scalars at the labelled source, then estimate accuracy at an unlabelled target.

    Source and target must be observed with the same predictor and the same source temperature.
    """

    @property
    def carries(self) -> Carried:
        """Everything that travels from source to target."""
        ...

    def fit(self, source: Observation, labels: ArrayLike) -> Self:
        """Learn from the labels of the source observation's nodes, in its order."""
        ...

    def estimate(self, target: Observation) -> Estimate:
        """Estimate the accuracy on the target observation's nodes."""
        ...


def share_estimate(value: float, num_nodes: int, method: str) -> Estimate:
    r"""Return a mean over n nodes of numbers in [0, 1] as an accuracy, with Wilson's interval.

    .. math:: \frac{a + \frac{z^2}{2n} \pm z\sqrt{\frac{a(1-a)}{n} + \frac{z^2}{4n^2}}}{1 + z^2/n}

    No distribution on [0, 1] has more variance than the binomial, so for means of probabilities
    the interval is wide rather than narrow. Values outside [0, 1], which difference and ratio
    estimators can produce, become the nearest accuracy.

    Examples
    --------
    >>> e = share_estimate(0.8, 100, "example")
    >>> round(e.low, 3), round(e.high, 3)
    (0.727, 0.857)
    """
    a = min(max(value, 0.0), 1.0)
    square = DEVIATIONS**2 / num_nodes
    centre = a + square / 2
    radius = math.sqrt(square * (a * (1 - a) + square / 4))
    low, high = (centre - radius) / (1 + square), (centre + radius) / (1 + square)
    # At a = 0 and a = 1 the interval ends there; rounding must not move it past the value.
    return Estimate(a, max(min(low, a), 0.0), min(max(high, a), 1.0), method)


def correct(source: Observation, labels: ArrayLike) -> FloatArray:
    """Return 1 where the source prediction is correct and 0 where it is wrong, (n,)."""
    truth = check_labels(labels, source.num_nodes, source.num_classes)
    return np.asarray(source.predictions == truth, dtype=np.float64)


def fitted(estimator: object, name: str) -> float:
    """Return a number that `fit` learned, or raise if the estimator is not fitted yet.

    Examples
    --------
    >>> fitted(object(), "threshold_")
    Traceback (most recent call last):
    graphtemper.errors.InputError: this object is not fitted; call fit(source, labels) first.
    """
    if not hasattr(estimator, name):
        raise not_fitted(estimator)
    return float(getattr(estimator, name))


def not_fitted(estimator: object) -> InputError:
    """Return the error of an estimator that is used before it is fitted."""
    name = type(estimator).__name__
    return errors.not_fitted(f"this {name} is not fitted; call fit(source, labels) first.")
