"""The content of a source card, with the profile of its classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from graphtemper import temperature as temperatures
from graphtemper._core.arrays import FloatArray
from graphtemper._core.numerics import log_odds
from graphtemper.card.atlas import AtlasNodes
from graphtemper.card.graph_types import NO_TYPES, GraphTypes
from graphtemper.card.environments import LabelledEnvironment
from graphtemper.card.node_response import NodeResponse
from graphtemper.card.private_labels import effective_nodes
from graphtemper.card.response import Kernel
from graphtemper.card.rounding import rounding_variance
from graphtemper.card.source import Environment
from graphtemper.signals.evidence import Probe, Reference
from graphtemper.signals.share_drift import DriftBaseline

THIRDS = 3
"""Parts into which the source's confidences are cut."""
MOST_CLASSES = 40
"""With more classes the counts would fill the card, with few nodes behind each."""
# Prior deviation of the biases from 0 and of the slope from 1.
_PRIOR_DEVIATION = 1.0
# A slope outside contradicts the source temperature: the logits say nothing about the classes.
_SLOPES = (0.1, 10.0)
_STEPS, _HALVINGS, _TOLERANCE = 50, 30, 1e-9


@dataclass(frozen=True, eq=False)
class ClassProfile:
    r"""Classes of the source as the model sees them, at the source temperature.

    A card needs it to recognise new class shares. The counts refine the confusion table: nodes by
    predicted class and by tercile of the source's confidence, against their true class. Their
    columns are class-conditional distributions :math:`P(\text{cell} \mid y)`. Under label shift a
    target's cells are a mixture of them, and since there are more cells than classes this can be
    tested (`shares_fit`).

    A temperature makes confidence right on average but not the probabilities of each class, and an
    error of one class grows with its share. So the profile also has a bias per class, and the slope
    that goes with the biases.

    Attributes
    ----------
    counts : (3 K, K) int array
        Source nodes by cell (3 x predicted class + third of confidence) and true class.
    edges : (2,) array
        Confidences that separate the thirds.
    slope : float
    biases : (K,) array
        :math:`\mathrm{softmax}(\beta z + b)` is calibrated for each class of the source.
    rounded : bool
        Whether the counts were rounded at random, as those of a card are.
    dependence : array or None
        How far predictions depend on each other (`graphtemper.signals.dependence`); None in cards
        of earlier versions.
    design_effect : float
        By how much the source's predictions vary more, given the classes, than if nodes were
        independent.
    """

    counts: NDArray[np.int64]
    edges: FloatArray
    slope: float
    biases: FloatArray
    rounded: bool = False
    dependence: FloatArray | None = None
    design_effect: float = 1.0

    @classmethod
    def measure(
        cls,
        logits: FloatArray,
        labels: NDArray[np.int64],
        round_edge: Callable[[FloatArray, float, float], float] = lambda _, edge, __: edge,
    ) -> ClassProfile | None:
        """Measure labelled source nodes; None if the logits do not separate the classes.

        ``round_edge`` is called with the confidences, an edge and its level.

        Examples
        --------
        >>> logits = np.array([[2.0, 0.0], [0.5, 0.0], [0.0, 1.0], [0.0, 3.0]] * 50)
        >>> profile = ClassProfile.measure(logits, np.array([0, 1, 1, 1] * 50))
        >>> profile.confusion.tolist(), profile.shares.tolist()
        ([[0.25, 0.25], [0.0, 0.5]], [0.25, 0.75])
        """
        classes = logits.shape[1]
        if classes > MOST_CLASSES:
            return None
        slope, biases = fit_biases(logits, labels)
        if not _SLOPES[0] < slope < _SLOPES[1]:
            return None
        confidence = temperatures.apply(logits).max(axis=1)
        levels = [part / THIRDS for part in range(1, THIRDS)]
        edges = np.array(
            [round_edge(confidence, float(np.quantile(confidence, x)), x) for x in levels]
        )
        counts = np.zeros((THIRDS * classes, classes), dtype=np.int64)
        np.add.at(counts, (_cells(logits, confidence, edges), labels), 1)
        return cls(counts, edges, slope, biases)

    @property
    def num_nodes(self) -> int:
        """Source nodes behind the counts."""
        return int(self.counts.sum())

    @property
    def confusion(self) -> FloatArray:
        """The joint confusion table (K, K): rows predicted, columns true."""
        classes = self.counts.shape[1]
        joint = self.counts.reshape(classes, THIRDS, classes).sum(axis=1)
        return np.asarray(joint / joint.sum())

    @property
    def shares(self) -> FloatArray:
        """Class shares of the source."""
        return np.asarray(self.counts.sum(axis=0) / self.counts.sum())

    @property
    def count_variance(self) -> FloatArray:
        """Variance that rounding has added to each count, (3 K, K)."""
        return rounding_variance(self.counts) if self.rounded else np.zeros(self.counts.shape)

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


def fit_biases(logits: FloatArray, labels: NDArray[np.int64]) -> tuple[float, FloatArray]:
    r"""Fit one slope and one bias per class to labelled logits.

    .. math:: \min_{\beta, b} -\sum_i \log \mathrm{softmax}(\beta z_i + b)_{y_i}
              + \tfrac12 \bigl((\beta - 1)^2 + |b|^2\bigr)

    by Newton's method; the loss is strictly convex. The penalty is that of a standard normal prior:
    it keeps the biases of classes without nodes finite, and is negligible with many nodes.

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
    z = np.asarray(logits, dtype=np.float64)
    point = np.concatenate([[1.0], np.zeros(z.shape[1])])
    value = _loss(point, z, labels)
    for _ in range(_STEPS):
        gradient, curvature = _derivatives(point, z, labels)
        step = -np.linalg.solve(curvature, gradient)
        decrease = -float(gradient @ step)
        if decrease <= _TOLERANCE:
            break
        for halving in range(_HALVINGS):
            trial = point + 0.5**halving * step
            lower = _loss(trial, z, labels)
            if lower <= value - 1e-4 * 0.5**halving * decrease:
                break
        else:  # no decrease beyond rounding
            break
        point, value = trial, lower
    return float(point[0]), point[1:]


def _loss(point: FloatArray, z: FloatArray, labels: NDArray[np.int64]) -> float:
    raw = point[0] * z + point[1:]
    raw -= raw.max(axis=1, keepdims=True)
    right = raw[np.arange(len(raw)), labels]
    deviation = point - np.eye(len(point))[0]
    penalty = 0.5 * float(deviation @ deviation) / _PRIOR_DEVIATION**2
    return float((np.log(np.exp(raw).sum(axis=1)) - right).sum()) + penalty


def _derivatives(
    point: FloatArray, z: FloatArray, labels: NDArray[np.int64]
) -> tuple[FloatArray, FloatArray]:
    p = temperatures.apply(point[0] * z + point[1:])
    size = len(point)
    mean = (p * z).sum(axis=1)
    deviation = point - np.eye(size)[0]
    gradient = deviation / _PRIOR_DEVIATION**2
    gradient[0] += float((mean - z[np.arange(len(z)), labels]).sum())
    gradient[1:] += p.sum(axis=0) - np.bincount(labels, minlength=size - 1)
    curvature = np.eye(size) / _PRIOR_DEVIATION**2
    curvature[0, 0] += float((p * z**2).sum() - (mean**2).sum())
    curvature[0, 1:] += (p * (z - mean[:, None])).sum(axis=0)
    curvature[1:, 0] = curvature[0, 1:]
    curvature[1:, 1:] += np.diag(p.sum(axis=0)) - p.T @ p
    return gradient, curvature


@dataclass(frozen=True, eq=False, repr=False)
class CardData:
    """The content of a source card: aggregates only, nothing that belongs to a single node.

    Attributes
    ----------
    predictor
        Name of the model.
    num_classes, num_features, num_nodes
        Size of the problem; ``num_nodes`` counts the labelled nodes that the card was built from.
    fingerprint : (6, K) array or None
        Logits on a small fixed graph, by which the model is recognised.
    probe
        How to measure: source temperature, noise level, thresholds.
    reference
        The source's own evidence, class moments and accuracy.
    population
        Sketch of the feature means, and how the classes differ.
    environments
        The atlas.
    names, kernels, widening
        The fitted response, for targets with a model and for targets with logits alone.
    excluded
        Families of shifts that were left out.
    class_profile, node_responses
        For class shares and node temperatures; None in cards of earlier versions.
    types
        Numbers of the node and edge types of the source graph; empty if it has none.
    natural
        Labelled environments: other graphs that the card has learned from.
    passes
        Forward passes of the model that the build took; None for a model with fast passes.
    privacy
        Epsilon of the differential privacy of the labels, if there is one
        (`graphtemper.card.private_labels`).
    atlas_nodes
        In memory only: what `SourceCard.without` fits node responses to.
    """

    predictor: str
    num_classes: int
    num_features: int
    num_nodes: int
    fingerprint: FloatArray | None
    probe: Probe
    reference: Reference
    population: DriftBaseline
    environments: tuple[Environment, ...]
    names: dict[str, tuple[str, ...]]
    kernels: dict[str, Kernel]
    widening: dict[str, float]
    excluded: tuple[str, ...] = ()
    class_profile: ClassProfile | None = None
    node_responses: dict[str, NodeResponse] | None = None
    types: GraphTypes = NO_TYPES
    natural: tuple[LabelledEnvironment, ...] = ()
    passes: int | None = None
    privacy: float | None = None
    atlas_nodes: AtlasNodes | None = None

    @property
    def temperature(self) -> float:
        """The source temperature, which divides all logits before anything is measured."""
        return self.probe.temperature

    @property
    def effective_nodes(self) -> int:
        """Number of exact labels with the sampling error of the source's accuracy."""
        if self.privacy is None:
            return self.num_nodes
        right = self.reference.accuracy
        return effective_nodes(self.num_nodes, right, self.num_classes, self.privacy)

    @property
    def families(self) -> tuple[str, ...]:
        """The families of shifts in the atlas, sorted."""
        return tuple(sorted(frozenset().union(*(item.families for item in self.environments))))


def relative_log_odds(environments: Sequence[Environment], accuracy: float) -> FloatArray:
    """Return the log-odds of each environment's accuracy, relative to the source's."""
    return np.array([log_odds(item.accuracy) for item in environments]) - log_odds(accuracy)


def sampling_variance(environments: Sequence[Environment], num_nodes: int) -> FloatArray:
    """Return the sampling variance of each environment's log-odds, for n labelled nodes.

    Two thirds of them are scored in each environment, but these overlap: a part of their sampling
    error is common to all environments and no noise between them. The variance of n nodes leaves
    that part to the response; that of two thirds of n gave intervals that cover too little.
    """
    accuracy = np.clip([item.accuracy for item in environments], 0.02, 0.98)
    return np.asarray(1.0 / (num_nodes * accuracy * (1.0 - accuracy)))
