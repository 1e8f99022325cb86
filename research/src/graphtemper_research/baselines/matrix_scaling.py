"""Matrix scaling: a linear map of the logits."""

from __future__ import annotations

from graphtemper import temperature
from graphtemper.calibrators import Calibrator, Inputs, Labelled
from graphtemper_research.baselines.linear_map import chosen_strength, fit_full
from graphtemper_research.harness.numeric import FloatArray, one_blas_thread


class MatrixScaling(Calibrator):
    r"""Map logits linearly before the softmax, with ODIR regularisation.

    .. math:: p_i = \mathrm{softmax}(W z_i + b), \qquad L = \mathrm{NLL}
       + \frac{\lambda}{K(K-1)} \sum_{j\ne k} W_{jk}^2 + \frac{\mu}{K} \|b\|^2

    W starts at the identity over the temperature (released code starts at a matrix of ones). L is
    convex and solved by Newton's method (by L-BFGS beyond 36 classes). W is penalised in units of
    the temperature of the calibration nodes, so the answer does not depend on the logits' unit.

    Parameters
    ----------
    off_diagonal, intercept : float, optional
        :math:`\lambda` and :math:`\mu`; None takes one strength for both, from 0.001 to 1000 in
        decades, by the held-out NLL of five folds of the calibration nodes.
    seed : int
        Seed of the folds.

    Attributes
    ----------
    matrix_, bias_ : (K, K) and (K,) arrays
    strengths_ : tuple of float
        The :math:`\lambda` and :math:`\mu` used.

    References
    ----------
    Guo et al., ICML 2017; Kull et al., "Beyond temperature scaling", NeurIPS 2019 (ODIR).

    Examples
    --------
    >>> z, y = [[0.0, 2.0], [2.0, 0.0]] * 4, [1, 0, 1, 0, 1, 0, 0, 1]
    >>> scaling = MatrixScaling(off_diagonal=1.0, intercept=1.0).fit(z, y)
    >>> scaling.transform([[0.0, 2.0]]).round(2)
    array([[0.25, 0.75]])
    """

    granularity = "class"
    reference = "Guo et al., ICML 2017; ODIR of Kull et al., NeurIPS 2019"
    differs = "starts at temperature scaling, not at a matrix of ones; strength by cross-validation"

    def __init__(
        self, off_diagonal: float | None = None, intercept: float | None = None, seed: int = 0
    ) -> None:
        self.off_diagonal, self.intercept = off_diagonal, intercept
        self.seed = seed

    def _scores(self, logits: FloatArray) -> FloatArray:
        return logits

    def _fit(self, inputs: Inputs, labelled: Labelled) -> None:
        scores = self._scores(inputs.logits[labelled.nodes])
        off_diagonal, intercept = self.off_diagonal, self.intercept
        if off_diagonal is None or intercept is None:
            with one_blas_thread():
                chosen = chosen_strength(scores, labelled.labels, self.seed)
            off_diagonal = chosen if off_diagonal is None else off_diagonal
            intercept = chosen if intercept is None else intercept
        self.strengths_ = (off_diagonal, intercept)
        with one_blas_thread():
            self.matrix_, self.bias_ = fit_full(scores, labelled.labels, off_diagonal, intercept)

    def _transform(self, inputs: Inputs) -> FloatArray:
        return temperature.apply(self._scores(inputs.logits) @ self.matrix_.T + self.bias_)
