"""Ensemble temperature scaling: a mixture of three softmaxes."""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy.optimize import LinearConstraint, minimize, minimize_scalar

from graphtemper import temperature
from graphtemper.calibrators import Calibrator, Inputs, Labelled
from graphtemper_research.harness.numeric import FloatArray

Loss = Literal["nll", "brier"]
# Keeps the order of the classes where the uniform part would otherwise take all the weight.
_LEAST_WEIGHT = 1e-9
_TEMPERATURES = (0.05, 5.0)


class EnsembleTemperature(Calibrator):
    r"""Mix the tempered, the original and the uniform probabilities.

    .. math:: p_i = w_1\,\mathrm{softmax}(z_i/T) + w_2\,\mathrm{softmax}(z_i) + w_3/K,
       \qquad w \ge 0,\ \sum_m w_m = 1

    T first, then w, both by the same loss. With ``"nll"`` T is exact and the problem in w is
    convex; with ``"brier"`` (the authors' code) T is searched in [0.05, 5] and w solves a
    quadratic programme. Gradients are analytic and in float64: with float32 probabilities the
    finite differences of the authors' code are zero and nothing is fitted.

    Parameters
    ----------
    loss : {"nll", "brier"}

    Attributes
    ----------
    temperature_ : float
    weights_ : (3,) array

    References
    ----------
    Zhang, Kailkhura, Han, "Mix-n-Match: Ensemble and Compositional Methods for Uncertainty
    Calibration in Deep Learning", ICML 2020.

    Examples
    --------
    >>> ets = EnsembleTemperature().fit([[0.0, 3.0]] * 4, [1, 1, 1, 0])
    >>> ets.transform([[0.0, 3.0]]).round(4)
    array([[0.25, 0.75]])
    """

    preserves_argmax = True
    reference = "Zhang et al., ICML 2020 (ETS)"
    differs = 'default loss is the NLL, as in GATS; the authors\' code is loss="brier"'

    def __init__(self, loss: Loss = "nll") -> None:
        self.loss: Loss = loss

    def _fit(self, inputs: Inputs, labelled: Labelled) -> None:
        logits, labels = inputs.logits[labelled.nodes], labelled.labels
        truth = np.eye(logits.shape[1])[labels]
        if self.loss == "nll":
            self.temperature_ = temperature.fit(logits, labels)
        else:
            self.temperature_ = _brier_temperature(logits, truth)
        parts = components(logits, self.temperature_)
        self.weights_ = mixture_weights(parts, truth, self.loss)

    def _transform(self, inputs: Inputs) -> FloatArray:
        mixed = np.tensordot(self.weights_, components(inputs.logits, self.temperature_), 1)
        return np.asarray(mixed / mixed.sum(axis=1, keepdims=True))


def components(logits: FloatArray, at: float) -> FloatArray:
    """Return the three sets of probabilities that are mixed, (3, n, K).

    Examples
    --------
    >>> components(np.array([[0.0, 2.0]]), 2.0)[:, 0, 1].round(4).tolist()
    [0.7311, 0.8808, 0.5]
    """
    uniform = np.full(logits.shape, 1.0 / logits.shape[1])
    return np.stack([temperature.apply(logits, at), temperature.apply(logits), uniform])


def mixture_weights(parts: FloatArray, truth: FloatArray, loss: Loss) -> FloatArray:
    """Return the weights on the simplex with the lowest loss; ``truth`` is one-hot, (n, K).

    Examples
    --------
    >>> parts = components(np.array([[0.0, 9.0]] * 2), 3.0)
    >>> mixture_weights(parts, np.array([[1.0, 0.0], [0.0, 1.0]]), "nll").round(6).tolist()
    [0.0, 0.0, 1.0]
    """
    n = len(truth)
    of_truth = np.einsum("mnk,nk->mn", parts, truth)
    # Brier: w'Qw/n - 2 w'r/n + const, a convex quadratic in three numbers.
    quadratic = np.einsum("mnk,lnk->ml", parts, parts) / n
    linear = of_truth.sum(axis=1) / n

    def objective(weights: FloatArray) -> tuple[float, FloatArray]:
        if loss == "brier":
            pull = quadratic @ weights
            return float(weights @ pull - 2.0 * weights @ linear), 2.0 * (pull - linear)
        mixed = np.maximum(weights @ of_truth, np.finfo(np.float64).tiny)
        return -float(np.log(mixed).mean()), -(of_truth / mixed).mean(axis=1)

    # From inside the simplex: at a corner a component that is zero at a label has no finite slope.
    solution = minimize(
        objective,
        np.array([0.8, 0.1, 0.1]),
        jac=True,
        method="SLSQP",
        bounds=[(_LEAST_WEIGHT, 1.0), (0.0, 1.0), (0.0, 1.0)],
        constraints=[LinearConstraint(np.ones((1, 3)), 1.0, 1.0)],
        options={"ftol": 1e-14, "maxiter": 500},
    )
    weights = np.clip(solution.x, (_LEAST_WEIGHT, 0.0, 0.0), 1.0)
    return np.asarray(weights / weights.sum())


def _brier_temperature(logits: FloatArray, truth: FloatArray) -> float:
    def loss(log_temperature: float) -> float:
        p = temperature.apply(logits, float(np.exp(log_temperature)))
        return float(((p - truth) ** 2).sum(axis=1).mean())

    low, high = np.log(_TEMPERATURES)
    # Not convex: the best point of a grid, refined between its neighbours.
    grid = np.linspace(low, high, 47)
    best = int(np.argmin([loss(point) for point in grid]))
    around = (grid[max(best - 1, 0)], grid[min(best + 1, grid.size - 1)])
    end = minimize_scalar(loss, bounds=around, method="bounded", options={"xatol": 1e-10})
    return float(np.exp(end.x))
