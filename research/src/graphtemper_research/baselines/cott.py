"""Accuracy from the costs of an optimal transport, thresholded as confidences are by ATC."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from graphtemper import Estimate, Observation, signals
from graphtemper.estimators import Carried, HasParameters, correct, share_estimate
from graphtemper.estimators.transport import transport
from graphtemper_research.baselines.importance import learned
from graphtemper_research.harness.numeric import FloatArray


class COTT(HasParameters):
    r"""The fraction of target nodes whose transport costs little.

    .. math:: \hat a = \frac1n\sum_i 1[s_i \ge \tau], \qquad s_i = p_{i k_i}, \quad
       k_i = \arg\max_k\,(p_{ik} - u_k)

    The prices u assign every node to a class so that classes have their shares at the source, as in
    `graphtemper.estimators.COT`; 1 - s is a node's cost. The threshold is exceeded by as many
    source nodes as are predicted correctly. Fails where the class shares moved.

    References
    ----------
    Lu et al., "Characterizing Out-of-Distribution Error via Optimal Transport", NeurIPS 2023. At
    most K - 1 nodes lie on a tie between classes; they are not split.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> from graphtemper.models import SIGN
    >>> g = csbm.sample(600, degree=8, homophily=0.8, snr=1.0)
    >>> source = Observation(SIGN().fit(g), g)
    >>> found = COTT().fit(source, g.labels).estimate(source).value
    >>> bool(abs(found - (source.predictions == g.labels).mean()) < 1e-9)
    True
    """

    shares_: FloatArray
    threshold_: float

    @property
    def carries(self) -> Carried:
        """Class shares and a threshold."""
        return {"shares": learned(self, "shares_").tolist(), "threshold": self.threshold_}

    def fit(self, source: Observation, labels: ArrayLike) -> Self:
        """Count the classes, and set the threshold that gives the source's accuracy."""
        truth = np.asarray(labels)
        self.shares_ = np.bincount(truth, minlength=source.num_classes) / truth.size
        scores = transport(source.probabilities, self.shares_)[1]
        accuracy = float(correct(source, labels).mean())
        self.threshold_ = signals.atc_threshold(scores, accuracy)
        return self

    def estimate(self, target: Observation) -> Estimate:
        """Return the fraction of target nodes at or above the threshold."""
        scores = transport(target.probabilities, learned(self, "shares_"))[1]
        share = signals.atc_share(scores, self.threshold_)
        return share_estimate(share, target.num_nodes, "COTT")
