"""Mean confidence, as it is and corrected by its error at the source."""

from __future__ import annotations

from typing import Self

from numpy.typing import ArrayLike

from graphtemper._core.estimate import Estimate
from graphtemper.estimators.base import Carried, correct, not_fitted, share_estimate
from graphtemper.signals import pointwise as signals
from graphtemper.signals.observation import Observation


class AverageConfidence:
    r"""The mean of the largest probability: :math:`\hat a = \frac1n\sum_i \max_k p_{ik}`.

    Carries nothing but the source temperature of the observation. Right exactly when the model is
    still calibrated, which is what is in question; confidence inflated by noise goes unnoticed.

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


class DoC:
    r"""Difference of confidences: source accuracy plus the change of mean confidence.

    .. math:: \hat a = a_s + \overline{c}_t - \overline{c}_s

    Carries the source's accuracy and mean confidence. Its miscalibration at the source is undone,
    what the shift adds to it is not: it fails where noise inflates confidence. Outside [0, 1] the
    estimate is the nearer end.

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
    >>> bool(abs(doc.estimate(source).value - (source.predictions == g.labels).mean()) < 1e-12)
    True
    """

    def __init__(self) -> None:
        self.accuracy: float | None = None
        self.confidence: float | None = None

    @property
    def carries(self) -> Carried:
        """Source accuracy and mean confidence."""
        if self.accuracy is None or self.confidence is None:
            raise not_fitted(self)
        return {"accuracy": self.accuracy, "confidence": self.confidence}

    def fit(self, source: Observation, labels: ArrayLike) -> Self:
        """Measure accuracy and mean confidence at the source."""
        self.accuracy = float(correct(source, labels).mean())
        self.confidence = float(signals.confidence(source.probabilities).mean())
        return self

    def estimate(self, target: Observation) -> Estimate:
        """Return the source accuracy plus the change of mean confidence."""
        if self.accuracy is None or self.confidence is None:
            raise not_fitted(self)
        change = float(signals.confidence(target.probabilities).mean()) - self.confidence
        return share_estimate(self.accuracy + change, target.num_nodes, "DoC")
