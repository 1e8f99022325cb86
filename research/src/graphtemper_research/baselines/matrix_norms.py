"""Two published scores, turned into accuracies by proportion to the source."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from graphtemper import Estimate, Observation, temperature
from graphtemper.estimators import Carried, HasParameters, correct, share_estimate
from graphtemper_research.baselines.importance import learned
from graphtemper_research.harness.numeric import FloatArray


class _Proportional(HasParameters, ABC):
    r""":math:`\hat a = a_s\,\mathrm{score}_t/\mathrm{score}_s`: the line through origin and source.

    The papers fit a regression of accuracy on the score over many shifted data sets. A single
    source point allows no more than a proportion, so these are baselines and not the published
    protocols. Carries the source's accuracy and score. Estimates are clipped at 1.
    """

    method: str

    @abstractmethod
    def measure(self, observation: Observation) -> float:
        """Return the score of an observation."""

    @property
    def carries(self) -> Carried:
        """Source accuracy and score."""
        return {"accuracy": float(learned(self, "accuracy_")), "score": self.score_}

    def fit(self, source: Observation, labels: ArrayLike) -> Self:
        """Measure accuracy and score at the source."""
        self.accuracy_ = float(correct(source, labels).mean())
        self.score_ = self.measure(source)
        return self

    def estimate(self, target: Observation) -> Estimate:
        """Return the source accuracy times the ratio of the scores."""
        accuracy, score = float(learned(self, "accuracy_")), self.score_
        value = accuracy * self.measure(target) / score
        return share_estimate(value, target.num_nodes, self.method)


class NuclearNorm(_Proportional):
    r"""Confidence and dispersity in one number: the nuclear norm of the probabilities.

    .. math:: \mathrm{score} = \|P\|_* / \sqrt{n \min(n, K)} \in (0, 1]

    It is 1 for one-hot rows spread evenly over the classes, and falls with lower confidence as
    well as with a collapse to one class. A score, not an accuracy: the estimate is source accuracy
    x score ratio. Carries the source's accuracy and score. Fails where noise inflates confidence.

    References
    ----------
    Deng et al., "Confidence and Dispersity Speak", ICML 2023.

    Examples
    --------
    >>> from graphtemper import Graph
    >>> g = Graph(features=[[0.0, 99.0], [99.0, 0.0]], edges=[[0, 1]])
    >>> round(NuclearNorm().measure(Observation(lambda graph: graph.features, g)), 6)
    1.0
    """

    method = "nuclear norm"

    def measure(self, observation: Observation) -> float:
        """Return the scaled nuclear norm."""
        p = observation.probabilities
        norm = float(np.linalg.svd(p, compute_uv=False).sum())
        return norm / float(np.sqrt(p.shape[0] * min(p.shape)))


class MaNo(_Proportional):
    r"""Matrix norm of normalised logits.

    .. math:: \mathrm{score} = \Big(\frac{1}{nK}\sum_{ik} q_{ik}^4\Big)^{1/4}

    q is softmax(z) if :math:`\Phi = -\frac{1}{nK}\sum \log\mathrm{softmax}(z)_{ik}` exceeds 5 (the
    model is confident enough) and otherwise the row-normalised second-order
    expansion :math:`1 + z + z^2/2`. The expansion, unlike softmax, depends on where a row's logits
    are centred; they are centred at mean zero here, so that [0, g] and [-g/2, g/2] agree (the
    released code subtracts each row's minimum instead, so its scores differ). A score,
    not an accuracy: the estimate is source accuracy x score ratio. Carries the source's accuracy
    and score. Fails where noise inflates logits, and jumps where :math:`\Phi` crosses 5.

    References
    ----------
    Xie et al., "MANO: Exploiting Matrix Norm for Unsupervised Accuracy Estimation under
    Distribution Shifts", NeurIPS 2024.

    Examples
    --------
    >>> from graphtemper import Graph
    >>> g = Graph(features=[[0.0, 0.0]], edges=[])
    >>> MaNo().measure(Observation(lambda graph: graph.features, g))
    0.5
    """

    method = "MaNo"

    def measure(self, observation: Observation) -> float:
        """Return the norm of the normalised logits."""
        logits = observation.logits / observation.temperature
        return float((_normalised(logits) ** 4).mean() ** 0.25)


def _normalised(logits: FloatArray) -> FloatArray:
    if -float(temperature.log_probabilities(logits).mean()) > 5.0:
        return temperature.apply(logits)
    z = logits - logits.mean(axis=1, keepdims=True)
    expansion = 1.0 + z + z**2 / 2.0
    return np.asarray(expansion / expansion.sum(axis=1, keepdims=True))
