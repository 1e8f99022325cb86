"""Mean confidence, uncorrected and corrected by its error at the source."""

from __future__ import annotations

from typing import Self

from numpy.typing import ArrayLike

from graphtemper._core.estimate import Estimate
from graphtemper._core.parameters import HasParameters
from graphtemper.estimators.base import Carried, correct, fitted, share_estimate
from graphtemper.signals import pointwise as signals
from graphtemper.signals.observation import Observation


class AverageConfidence(HasParameters):
    r"""The mean of the largest probability: :math:`\hat a = \frac1n\sum_i \max_k p_{ik}`.

    Carries nothing but the source temperature of the observation. Exact if the model is still
    calibrated at the target, which is the question; confidence inflated by noise goes unnoticed.

    References
    ----------
    Hendrycks and Gimpel, "A Baseline for Detecting Misclassified and Out-of-Distribution
    Examples", ICLR 2017.

    Examples
    --------
    >>> from graphtemper.graph.graph import Graph
    >>> g = Graph(features=[[0.0, 2.0], [0.0, -4.0]], edges=[[0, 1]])
    >>> round(AverageConfidence().estimate(Observation(lambda graph: graph.features, g)).value, 4)
    0.9314
    """

    @property
    def carries(self) -> Carried:
        """Nothing."""
        return {}

    def fit(self, source: Observation, labels: ArrayLike) -> Self:
        """Check the labels; nothing is learned."""
        correct(source, labels)
        return self

    def estimate(self, target: Observation) -> Estimate:
        """Return the target's mean confidence."""
        value = float(signals.confidence(target.probabilities).mean())
        return share_estimate(value, target.num_nodes, "average confidence")


class DoC(HasParameters):
    r"""Difference of confidences: source accuracy plus the change of mean confidence.

    .. math:: \hat a = a_s + \overline{c}_t - \overline{c}_s

    Carries the source's accuracy and mean confidence. It removes the miscalibration at the source
    but not what the shift adds: it fails where noise inflates confidence. The estimate is clipped
    to [0, 1].

    References
    ----------
    Guillory et al., "Predicting with Confidence on Unseen Distributions", ICCV 2021.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> from graphtemper.models import SIGN
    >>> g = csbm.sample(600, degree=8, homophily=0.8, snr=1.0)
    >>> source = Observation(SIGN().fit(g), g)
    >>> doc = DoC().fit(source, g.labels)
    >>> print(f"{doc.estimate(source).value:.3f} {(source.predictions == g.labels).mean():.3f}")
    0.967 0.967
    """

    @property
    def carries(self) -> Carried:
        """Source accuracy and mean confidence."""
        return {
            "accuracy": fitted(self, "accuracy_"),
            "confidence": fitted(self, "confidence_"),
        }

    def fit(self, source: Observation, labels: ArrayLike) -> Self:
        """Measure accuracy and mean confidence at the source."""
        self.accuracy_ = float(correct(source, labels).mean())
        self.confidence_ = float(signals.confidence(source.probabilities).mean())
        return self

    def estimate(self, target: Observation) -> Estimate:
        """Return the source accuracy plus the change of mean confidence."""
        accuracy, confidence = fitted(self, "accuracy_"), fitted(self, "confidence_")
        change = float(signals.confidence(target.probabilities).mean()) - confidence
        return share_estimate(accuracy + change, target.num_nodes, "DoC")
