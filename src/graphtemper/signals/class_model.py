r"""The class model: the source's class-conditional logits, transferred to a target without labels.

At the source, the centred logits of class k have offset :math:`m_k` from their mean. The mean
:math:`\mu_t` and covariance :math:`V_t` of the target's logits need no labels, and split views give
its signal gain g. If the signal keeps its shape,

.. math:: z \mid y{=}k \;\sim\; N(\mu_t + g\,m_k,\; W_t), \qquad
          W_t = V_t - g^2 \sum_k \pi_k m_k m_k^\top,

which determines the accuracy, the NLL-optimal temperature and the whole reliability curve without
assuming a family of shifts. Negative eigenvalues of :math:`W_t` are clipped.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from graphtemper import temperature as temperatures
from graphtemper._core.arrays import FloatArray
from graphtemper.metrics.binned import BinnedStatistics, bin_probabilities
from graphtemper.signals.split_views import centred

DRAWS = 4096
# Smallest residual variance in any direction, as a fraction of the mean variance.
_FLOOR = 0.03


@dataclass(frozen=True, eq=False)
class ClassMoments:
    """Class shares (K,) and the offsets (K, K) of the classes' centred logits from their mean."""

    shares: FloatArray
    offsets: FloatArray

    @classmethod
    def measure(cls, logits: FloatArray, labels: NDArray[np.int64]) -> ClassMoments:
        """Measure labelled source nodes; a class without nodes has offset and share zero."""
        z = centred(logits)
        classes = z.shape[1]
        counts = np.bincount(labels, minlength=classes).astype(np.float64)
        sums = np.zeros((classes, classes))
        np.add.at(sums, labels, z - z.mean(axis=0))
        return cls(counts / counts.sum(), sums / np.maximum(counts, 1.0)[:, None])

    @property
    def between(self) -> FloatArray:
        """Covariance of the class offsets, sum_k pi_k m_k m_k^T."""
        return np.asarray((self.offsets.T * self.shares) @ self.offsets)


@dataclass(frozen=True, eq=False)
class ClassModel:
    """The class-conditional logits that the source predicts for a target, as a labelled sample."""

    logits: FloatArray
    labels: NDArray[np.int64]

    @property
    def accuracy(self) -> float:
        """Fraction of the sample whose largest logit is that of its class."""
        return float((self.logits.argmax(axis=1) == self.labels).mean())

    @property
    def temperature(self) -> float:
        """NLL-optimal temperature of the sample."""
        return temperatures.solve(self.logits, self.labels).temperature

    def reliability(self, temperature: float = 1.0, bins: int = 15) -> BinnedStatistics:
        """Return the predicted reliability curve at a temperature, as binned statistics."""
        return bin_probabilities(temperatures.apply(self.logits, temperature), self.labels, bins)


def transfer(
    moments: ClassMoments, gain: float, mean: FloatArray, covariance: FloatArray
) -> ClassModel:
    """Transfer the source's classes to a target's mean, covariance and signal gain.

    The normal draws are always the same, so that the result is a smooth function of the arguments.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(2, size=4000)
    >>> g = np.where(y == 1, 2.0, -2.0) + 1.5 * rng.standard_normal(4000)
    >>> z = np.column_stack([np.zeros(4000), g])
    >>> moments = ClassMoments.measure(z, y)
    >>> c = centred(z)
    >>> same = transfer(moments, 1.0, c.mean(axis=0), np.cov(c.T, bias=True))
    >>> bool(abs(same.accuracy - ((g > 0) == (y == 1)).mean()) < 0.01)
    True
    """
    classes = moments.shares.size
    residual = covariance - gain**2 * moments.between
    values, vectors = np.linalg.eigh(residual)
    floor = _FLOOR * float(np.trace(covariance)) / classes
    labels = np.repeat(np.arange(classes), np.round(moments.shares * DRAWS).astype(np.int64))
    noise = np.random.default_rng(0).standard_normal((labels.size, classes))
    spread = noise * np.sqrt(np.maximum(values, floor)) @ vectors.T
    logits = mean + gain * moments.offsets[labels] + spread
    return ClassModel(logits - logits.mean(axis=1, keepdims=True), labels)
