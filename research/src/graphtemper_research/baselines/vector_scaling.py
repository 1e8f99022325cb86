"""Vector scaling: a scale and a shift for each class."""

from __future__ import annotations

import numpy as np

from graphtemper import temperature
from graphtemper.calibrators import Calibrator, Inputs, Labelled
from graphtemper_research.baselines.linear_map import Labels, likelihood, minimum, start_temperature
from graphtemper_research.harness.numeric import FloatArray


class VectorScaling(Calibrator):
    r"""Scale and shift each class's logit before the softmax.

    .. math:: p_i = \mathrm{softmax}(w \odot z_i / T + b), \qquad
       L = \mathrm{NLL} + \frac{\lambda}{K} \big(\|w - 1\|^2 + \|b\|^2\big)

    T is the temperature of the calibration nodes, so that the penalty pulls towards temperature
    scaling and the answer does not depend on the logits' unit. L is convex and solved by L-BFGS
    with its gradient. Without a penalty there is no optimum where a class is separated.

    Parameters
    ----------
    bias : bool
        Whether b is fitted. The code released with GATS, GETS, WATS and CF-GNN makes b but never
        gives it to the optimiser, which is ``bias=False``.
    penalty : float
        :math:`\lambda`.

    Attributes
    ----------
    scale_, shift_ : (K,) arrays
        w / T and b.

    References
    ----------
    Guo et al., "On Calibration of Modern Neural Networks", ICML 2017.

    Examples
    --------
    >>> z, y = [[0.0, 1.0]] * 4 + [[1.0, 0.0]] * 4, [1, 1, 1, 0, 0, 1, 0, 1]
    >>> VectorScaling(penalty=1e-9).fit(z, y).transform([[0.0, 1.0], [1.0, 0.0]]).round(3)
    array([[0.25, 0.75],
           [0.5 , 0.5 ]])
    """

    granularity = "class"
    reference = "Guo et al., ICML 2017"
    differs = "a weak penalty towards temperature scaling, so that an optimum exists"

    def __init__(self, bias: bool = True, penalty: float = 1e-3) -> None:
        self.bias = bias
        self.penalty = penalty

    def _fit(self, inputs: Inputs, labelled: Labelled) -> None:
        logits = inputs.logits[labelled.nodes]
        unit = start_temperature(logits, labelled.labels)
        scaled, classes = logits / unit, logits.shape[1]

        def objective(parameters: FloatArray) -> tuple[float, FloatArray]:
            value, gradient = vector_loss(scaled, labelled.labels, parameters, self.penalty)
            if not self.bias:
                gradient[classes:] = 0.0
            return value, gradient

        start = np.concatenate([np.ones(classes), np.zeros(classes)])
        parameters = minimum(objective, start)
        self.scale_, self.shift_ = parameters[:classes] / unit, parameters[classes:]

    def _transform(self, inputs: Inputs) -> FloatArray:
        return temperature.apply(inputs.logits * self.scale_ + self.shift_)


def vector_loss(
    inputs: FloatArray, labels: Labels, parameters: FloatArray, penalty: float
) -> tuple[float, FloatArray]:
    r"""Return :math:`L(w, b)` and its gradient, (2K,), for inputs z / T.

    Examples
    --------
    >>> value, gradient = vector_loss(
    ...     np.zeros((1, 2)), np.array([0]), np.array([1.0, 1.0, 0.0, 0.0]), 0.0)
    >>> round(value, 4), gradient.tolist()
    (0.6931, [0.0, 0.0, -0.5, 0.5])
    """
    classes = inputs.shape[1]
    scale, shift = parameters[:classes], parameters[classes:]
    value, residual = likelihood(inputs * scale + shift, labels)
    pull = penalty / classes * np.concatenate([scale - 1.0, shift])
    value += float(pull @ np.concatenate([scale - 1.0, shift]))
    gradient = np.concatenate([(residual * inputs).sum(axis=0), residual.sum(axis=0)])
    return value, gradient + 2.0 * pull
