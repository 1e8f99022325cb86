"""Average thresholded confidence."""

from __future__ import annotations

from typing import Literal, Self, get_args

from numpy.typing import ArrayLike

from graphtemper._core.arrays import FloatArray
from graphtemper._core.estimate import Estimate
from graphtemper.errors import InputError
from graphtemper.estimators.base import Carried, correct, not_fitted, share_estimate
from graphtemper.signals import pointwise as signals
from graphtemper.signals.observation import Observation

Score = Literal["confidence", "entropy"]


class ATC:
    r"""The share of target nodes whose score reaches the source threshold.

    .. math:: \hat a = \frac1n \sum_i 1[s_i \ge \tau], \qquad
              \tau:\ \text{source share of } s \ge \tau \text{ equals source accuracy}

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
    >>> bool(abs(atc.estimate(source).value - (source.predictions == g.labels).mean()) < 1e-9)
    True
    """

    def __init__(self, score: Score = "confidence") -> None:
        if score not in get_args(Score):
            raise InputError(f"unknown score {score!r}; use one of {', '.join(get_args(Score))}.")
        self.score = score
        self.threshold: float | None = None

    @property
    def carries(self) -> Carried:
        """The threshold."""
        if self.threshold is None:
            raise not_fitted(self)
        return {"threshold": self.threshold}

    def fit(self, source: Observation, labels: ArrayLike) -> Self:
        """Set the threshold at which the source share equals the source accuracy."""
        accuracy = float(correct(source, labels).mean())
        self.threshold = signals.atc_threshold(self._scores(source), accuracy)
        return self

    def estimate(self, target: Observation) -> Estimate:
        """Return the share of target nodes at or above the threshold."""
        if self.threshold is None:
            raise not_fitted(self)
        share = signals.atc_share(self._scores(target), self.threshold)
        return share_estimate(share, target.num_nodes, f"ATC-{self.score}")

    def _scores(self, seen: Observation) -> FloatArray:
        if self.score == "confidence":
            return signals.confidence(seen.probabilities)
        return -signals.entropy(seen.probabilities)
