"""The profile of a source's classes, by which new class shares are recognised."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from graphtemper import temperature as temperatures
from graphtemper._core.checks import FloatArray

THIRDS = 3
"""Parts into which the source's confidences are cut."""
MOST_CLASSES = 40
"""With more classes the counts would fill the card, with few nodes behind each."""
FEWEST = 10
"""A class with fewer labelled nodes is described by the others."""
# A slope outside contradicts the source temperature: the logits say nothing about the classes.
_SLOPES = (0.1, 10.0)
# Logarithms of slopes are clipped here, so that no exponential overflows.
_FARTHEST = 20.0


@dataclass(frozen=True, eq=False)
class ClassProfile:
    r"""Classes of the source as the model sees them, at the source temperature.

    A card needs it to recognise new class shares. The counts refine the confusion table: nodes by
    predicted class and by tercile of the source's confidence, against their true class. Their
    columns are class-conditional distributions :math:`P(\text{cell} \mid y)`. Under label shift a
    target's cells are a mixture of them, and since there are more cells than classes this can be
    tested (`shares_fit`). The column of a class with few nodes is the mean size of such classes
    times the usual column, in which its own cells take the place of those of other classes; their
    bias is the mean of such classes too. Counts below `FEWEST` say too much of single nodes: their
    sum is kept and shared out as the calibrated probabilities of the nodes in the cells expect.

    A temperature makes confidence right on average but not the probabilities of each class, and an
    error of one class grows with its share. So the profile also has a bias per class, and the slope
    that goes with the biases.

    Attributes
    ----------
    counts : (3 K, K) array
        Source nodes by cell (3 x predicted class + third of confidence) and true class.
    edges : (2,) array
        Confidences that separate the thirds.
    slope : float
    biases : (K,) array
        :math:`\mathrm{softmax}(\beta z + b)` is calibrated for each class of the source.
    """

    counts: FloatArray
    edges: FloatArray
    slope: float
    biases: FloatArray

    @classmethod
    def measure(cls, logits: FloatArray, labels: NDArray[np.int64]) -> ClassProfile | None:
        """Measure labelled source nodes; None if the logits do not separate the classes.

        Examples
        --------
        >>> logits = np.array([[2.0, 0.0], [0.5, 0.0], [0.0, 1.0], [0.0, 3.0]] * 50)
        >>> profile = ClassProfile.measure(logits, np.array([0, 1, 1, 1] * 50))
        >>> profile.num_nodes, profile.shares.tolist()
        (200, [0.25, 0.75])
        """
        classes = logits.shape[1]
        if classes > MOST_CLASSES:
            return None
        slope, biases = fit_biases(logits, labels)
        if not _SLOPES[0] < slope < _SLOPES[1]:
            return None
        confidence = temperatures.apply(logits).max(axis=1)
        edges = np.quantile(confidence, [part / THIRDS for part in range(1, THIRDS)])
        counts = np.zeros((THIRDS * classes, classes))
        np.add.at(counts, (_cells(logits, confidence, edges), labels), 1.0)
        small = counts.sum(axis=0) < FEWEST
        if small.any():
            biases[small] = biases[small].mean()
        expected = np.zeros_like(counts)
        p = temperatures.apply(slope * logits + biases)
        np.add.at(expected, _cells(logits, confidence, edges), p)
        if small.any():
            counts = _pooled(counts, small)
        counts = _shared_out(counts, expected, ~small)
        return cls(counts, edges, slope, biases)

    @classmethod
    def of_source(
        cls, logits: FloatArray, labels: NDArray[np.int64], weight: float
    ) -> ClassProfile | None:
        """Measure a labelled source by logits (n, K) in units of the source temperature.

        ``weight`` is the part of a node that a node counts for (`graphtemper.card.privacy`).
        """
        profile = cls.measure(logits, labels)
        if profile is None or weight * labels.size < FEWEST:
            return None
        return replace(profile, counts=weight * profile.counts)

    @property
    def num_nodes(self) -> int:
        """Source nodes behind the counts."""
        return round(float(self.counts.sum()))

    @property
    def shares(self) -> FloatArray:
        """Class shares of the source."""
        return np.asarray(self.counts.sum(axis=0) / self.counts.sum())

    def cells(self, logits: FloatArray) -> NDArray[np.int64]:
        """Return the number of target nodes in each cell, (3 K,)."""
        confidence = temperatures.apply(logits).max(axis=1)
        cells = _cells(logits, confidence, self.edges)
        return np.bincount(cells, minlength=len(self.counts))

    def calibrated(self, logits: FloatArray) -> FloatArray:
        """Return logits whose softmax is calibrated for each class of the source."""
        return np.asarray(self.slope * logits + self.biases)


def _cells(logits: FloatArray, confidence: FloatArray, edges: FloatArray) -> NDArray[np.intp]:
    return np.asarray(THIRDS * logits.argmax(axis=1) + np.searchsorted(edges, confidence))


def _pooled(counts: FloatArray, small: NDArray[np.bool_]) -> FloatArray:
    """Return counts in which small classes have the usual column, and one size."""
    classes, sizes = counts.shape[1], counts.sum(axis=0)
    table = counts.reshape(classes, THIRDS, classes)
    right = np.einsum("ktk->t", table)
    wrong = (table.sum(axis=(0, 2)) - right) / (classes - 1)
    usual = np.where(np.eye(classes, dtype=bool)[:, None, :], right[:, None], wrong[:, None])
    usual = usual.reshape(counts.shape) / counts.sum()
    return np.where(small, sizes[small].mean() * usual, counts)


def _shared_out(counts: FloatArray, expected: FloatArray, shown: NDArray[np.bool_]) -> FloatArray:
    """Return counts in which those below `FEWEST` of some classes are shared out as expected.

    The thirds of one predicted and one true class share theirs if they have enough together, and
    all others share the rest.
    """
    classes = counts.shape[1]
    table, likely = counts.reshape(classes, THIRDS, classes), expected.reshape(-1, THIRDS, classes)
    few = (table < FEWEST) & shown
    own, usual = (np.where(few, x, 0.0).sum(axis=1, keepdims=True) for x in (table, likely))
    together = few & (own >= FEWEST)
    found = np.where(together, likely * own / np.maximum(usual, 1e-12), table)
    rest = few & ~together
    if (rest & (likely > 0.0)).sum() == 1:  # alone it would stay as it is
        rest.flat[np.where(shown & ~few, table, np.inf).argmin()] = True
    if rest.any():
        found[rest] = likely[rest] * table[rest].sum() / max(likely[rest].sum(), 1e-12)
    return np.asarray(found.reshape(counts.shape))


def fit_biases(
    logits: FloatArray, answers: NDArray[np.int64], kept: float = 1.0
) -> tuple[float, FloatArray]:
    r"""Fit one slope and one bias per class to labelled logits.

    .. math:: \min_{\beta, b} -\sum_i \log P\bigl(r_i \mid \mathrm{softmax}(\beta z_i + b)\bigr)
              + \tfrac12 \bigl((\log\beta)^2 + |b|^2\bigr)

    The answers r are the labels, or are these with probability ``kept`` and otherwise any other
    class. The penalty is that of a standard normal prior: it keeps the biases of classes without
    nodes finite, and is negligible with many nodes.

    References
    ----------
    Alexandari, Kundaje & Shrikumar, ICML 2020 (bias-corrected temperature scaling).

    Examples
    --------
    The biases of uninformative logits reproduce the shares of the labels:

    >>> slope, biases = fit_biases(np.zeros((10_000, 2)), np.array([0, 0, 0, 1] * 2500))
    >>> slope, float(np.exp(biases[0] - biases[1]).round(2))
    (1.0, 3.0)
    """
    z, rows = np.asarray(logits, dtype=np.float64), np.arange(len(logits))
    other = (1.0 - kept) / (z.shape[1] - 1)

    def loss(point: FloatArray) -> tuple[float, FloatArray]:
        slope = math.exp(min(max(point[0], -_FARTHEST), _FARTHEST))
        p = temperatures.apply(slope * z + point[1:])
        own = p[rows, answers]
        seen = np.maximum(other + (kept - other) * own, 1e-300)
        # d log(seen) / d(raw logits) = weight (onehot - p)
        weight = (kept - other) * own / seen
        gradient = weight[:, None] * p
        gradient[rows, answers] -= weight
        by_slope = slope * float((gradient * z).sum())
        value = -float(np.log(seen).sum()) + 0.5 * float(point @ point)
        return value, point + np.concatenate([[by_slope], gradient.sum(axis=0)])

    best = minimize(
        loss, np.zeros(z.shape[1] + 1), jac=True, method="L-BFGS-B", options={"ftol": 1e-12}
    ).x
    return math.exp(min(max(float(best[0]), -_FARTHEST), _FARTHEST)), best[1:]
