"""Dirichlet calibration: a linear map of the log-probabilities."""

from __future__ import annotations

from graphtemper import temperature
from graphtemper_research.baselines.matrix_scaling import MatrixScaling
from graphtemper_research.harness.numeric import FloatArray


class Dirichlet(MatrixScaling):
    r"""Map log-probabilities linearly before the softmax, with ODIR regularisation.

    .. math:: p_i' = \mathrm{softmax}(W \log p_i + b), \qquad p_i = \mathrm{softmax}(z_i)

    Everything else is as in `MatrixScaling`. With W = I / T and b = 0 it is temperature scaling.
    GATS uses :math:`\lambda = \mu = 10` on cora, citeseer and pubmed.

    References
    ----------
    Kull et al., "Beyond temperature scaling: Obtaining well-calibrated multi-class probabilities
    with Dirichlet calibration", NeurIPS 2019.

    Examples
    --------
    >>> z, y = [[0.0, 2.0], [2.0, 0.0]] * 4, [1, 0, 1, 0, 1, 0, 0, 1]
    >>> Dirichlet(off_diagonal=1.0, intercept=1.0).fit(z, y).transform([[0.0, 2.0]]).round(2)
    array([[0.25, 0.75]])
    """

    reference = "Kull et al., NeurIPS 2019"
    differs = "solved exactly from temperature scaling; strength by cross-validation"

    def _scores(self, logits: FloatArray) -> FloatArray:
        return temperature.log_probabilities(logits)
