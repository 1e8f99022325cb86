"""Temperature scaling: one temperature for all nodes."""

from __future__ import annotations

import numpy as np

from graphtemper import temperature
from graphtemper._core.checks import FloatArray
from graphtemper.calibrators.base import Inputs, Labelled, TemperatureCalibrator


class TemperatureScaling(TemperatureCalibrator):
    r"""Divide all logits by the temperature that minimises the NLL of the calibration labels.

    .. math:: p_i = \mathrm{softmax}(z_i / T)

    The NLL is convex in 1/T and solved to rounding error by `graphtemper.temperature.fit`. The
    reference implementation runs 50 steps of L-BFGS from T = 1.5 and stops short of the optimum.

    Attributes
    ----------
    temperature_ : float

    References
    ----------
    Guo et al., "On Calibration of Modern Neural Networks", ICML 2017.

    Examples
    --------
    >>> ts = TemperatureScaling().fit([[0.0, 3.0]] * 4, [1, 1, 1, 0])
    >>> ts.transform([[0.0, 3.0]]).round(6)
    array([[0.25, 0.75]])
    """

    reference = "Guo et al., ICML 2017"
    differs = "solved exactly; released code stops before the optimum"

    def _fit(self, inputs: Inputs, labelled: Labelled) -> None:
        self.temperature_ = temperature.fit(inputs.logits[labelled.nodes], labelled.labels)

    def _temperatures(self, inputs: Inputs) -> FloatArray:
        return np.full(len(inputs.logits), self.temperature_)
