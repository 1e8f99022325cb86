"""The mean of recalibrated confidences, without and with weights towards the target."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from graphtemper import Estimate, Observation
from graphtemper.estimators import Carried, HasParameters, share_estimate
from graphtemper_research.baselines.importance import density_ratio, learned, representation
from graphtemper_research.harness.numeric import FloatArray


class CBPE(HasParameters):
    r"""Confidence-based performance estimation.

    .. math:: \hat a = \frac1n \sum_i \tilde p_{i \hat y_i}, \qquad
       \tilde p_{ik} = \frac{f_k(p_{ik})}{\sum_l f_l(p_{il})}

    Each f_k is an isotonic regression of 1[y = k] on the source's probability of class k. The
    prediction stays that of the model. Exact if the target differs only in how often each
    probability occurs.

    References
    ----------
    NannyML, "Confidence-based performance estimation" (documentation and code, 2022).

    Examples
    --------
    >>> from graphtemper import csbm
    >>> from graphtemper.models import SIGN
    >>> g = csbm.sample(600, degree=8, homophily=0.8, snr=1.0)
    >>> source = Observation(SIGN().fit(g), g)
    >>> found = CBPE().fit(source, g.labels).estimate(source).value
    >>> bool(abs(found - (source.predictions == g.labels).mean()) < 0.02)
    True
    """

    probabilities_: FloatArray
    labels_: FloatArray

    @property
    def carries(self) -> Carried:
        """Probabilities and labels of the source's nodes."""
        rows = learned(self, "probabilities_").ravel().tolist()
        return {"probabilities": rows, "labels": self.labels_.tolist()}

    def fit(self, source: Observation, labels: ArrayLike) -> Self:
        """Keep the source's probabilities and labels."""
        truth = np.asarray(labels)
        self.probabilities_, self.labels_ = source.probabilities, truth.astype(np.float64)
        return self

    def estimate(self, target: Observation) -> Estimate:
        """Return the mean of the target's recalibrated confidences."""
        seen, weights = learned(self, "probabilities_"), self._weights(target)
        made = recalibrated(target.probabilities, seen, self.labels_, weights)
        value = float(made[np.arange(len(made)), target.predictions].mean())
        return share_estimate(value, target.num_nodes, type(self).__name__)

    def _weights(self, target: Observation) -> FloatArray | None:
        return None


class PAPE(CBPE):
    r"""`CBPE` whose isotonic regressions weigh every source node by the density ratio p_t/p_s.

    The ratio is that of a logistic domain classifier on
    `graphtemper_research.baselines.importance.representation`; the authors use boosted trees on the
    model's inputs.

    References
    ----------
    Białek et al., "Estimating Model Performance Under Covariate Shift Without Labels", 2024.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> from graphtemper.models import SIGN
    >>> g = csbm.sample(600, degree=8, homophily=0.8, snr=1.0)
    >>> source = Observation(SIGN().fit(g), g)
    >>> found = PAPE().fit(source, g.labels).estimate(source).value
    >>> bool(abs(found - (source.predictions == g.labels).mean()) < 0.02)
    True
    """

    rows_: FloatArray

    def fit(self, source: Observation, labels: ArrayLike) -> Self:
        """Keep the source's probabilities and labels, and what a domain classifier reads."""
        self.rows_ = representation(source)
        return super().fit(source, labels)

    def _weights(self, target: Observation) -> FloatArray:
        return density_ratio(self.rows_, representation(target))


def recalibrated(
    target: FloatArray, source: FloatArray, labels: FloatArray, weights: FloatArray | None = None
) -> FloatArray:
    """Return probabilities (n, K) after one isotonic regression per class, normalised.

    Examples
    --------
    >>> p = np.array([[0.2, 0.8], [0.4, 0.6], [0.6, 0.4]])
    >>> recalibrated(p, p, np.array([1.0, 0.0, 0.0])).round(2).tolist()
    [[0.0, 1.0], [1.0, 0.0], [1.0, 0.0]]
    """
    from sklearn.isotonic import IsotonicRegression

    made = np.empty_like(target)
    for k in range(target.shape[1]):
        fit = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
        made[:, k] = fit.fit(source[:, k], labels == k, weights).predict(target[:, k])
    total = made.sum(axis=1, keepdims=True)
    return np.where(total > 0.0, made / np.where(total > 0.0, total, 1.0), target)
