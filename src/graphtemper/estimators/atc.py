"""Average thresholded confidence."""

from __future__ import annotations

from typing import Literal, Self, get_args

from numpy.typing import ArrayLike

from graphtemper._core.checks import FloatArray, check_choice
from graphtemper._core.estimate import Estimate
from graphtemper._core.parameters import HasParameters
from graphtemper.estimators.base import Carried, correct, fitted, share_estimate
from graphtemper.signals import pointwise as signals
from graphtemper.signals.observation import Observation

Score = Literal["confidence", "entropy"]


class ATC(HasParameters):
    r"""The fraction of target nodes whose score reaches the source threshold.

    .. math:: \hat a = \frac1n \sum_i 1[s_i \ge \tau], \qquad
              \tau:\ \text{source fraction of } s \ge \tau \text{ equals source accuracy}

    Scores s are the largest probability (``"confidence"``) or minus the entropy (``"entropy"``).

    Carries one number, the threshold. Exact if the order of right and wrong scores around the
    threshold is preserved. Fails where noise inflates the logits (confidence rises as accuracy
    falls), under label shift, and near chance.

    References
    ----------
    Garg et al., "Leveraging Unlabeled Data to Predict Out-of-Distribution Performance", ICLR 2022.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> from graphtemper.models import SIGN
    >>> g = csbm.sample(600, degree=8, homophily=0.8, snr=1.0)
    >>> source = Observation(SIGN().fit(g), g)
    >>> atc = ATC().fit(source, g.labels)
    >>> print(f"{atc.estimate(source).value:.3f} {(source.predictions == g.labels).mean():.3f}")
    0.967 0.967
    """

    def __init__(self, score: Score = "confidence") -> None:
        self.score: Score = check_choice(score, get_args(Score), "score")

    @property
    def carries(self) -> Carried:
        """The threshold."""
        return {"threshold": fitted(self, "threshold_")}

    def fit(self, source: Observation, labels: ArrayLike) -> Self:
        """Set the threshold that as large a fraction of source scores reaches as is correct."""
        accuracy = float(correct(source, labels).mean())
        self.threshold_ = signals.atc_threshold(self._scores(source), accuracy)
        return self

    def estimate(self, target: Observation) -> Estimate:
        """Return the fraction of target nodes at or above the threshold."""
        share = signals.atc_share(self._scores(target), fitted(self, "threshold_"))
        return share_estimate(share, target.num_nodes, f"ATC-{self.score}")

    def _scores(self, observation: Observation) -> FloatArray:
        if self.score == "confidence":
            return signals.confidence(observation.probabilities)
        return -signals.entropy(observation.probabilities)
