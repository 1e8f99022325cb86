r"""Multinomial likelihood of a linear map of logits: value, gradient, and the penalised minimum.

.. math:: L(W, b) = \frac1n \sum_i -\log \mathrm{softmax}(W x_i + b)_{y_i}
          + \frac{\lambda}{K(K-1)} \sum_{j \ne k} W_{jk}^2 + \frac{\mu}{K} \sum_k b_k^2

The penalty is ODIR, off-diagonal and intercept regularisation: the diagonal is free, so the
penalised family always contains temperature scaling. L is convex.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from graphtemper import temperature
from graphtemper.errors import NotIdentifiableError
from graphtemper_research.harness.numeric import FloatArray, stream

Labels = NDArray[np.intp]
Objective = Callable[[FloatArray], tuple[float, FloatArray]]
# Strengths of the penalty that cross-validation chooses from, and its number of folds.
STRENGTHS = tuple(10.0**power for power in range(-3, 4))
FOLDS = 5
# With more classes, the second derivatives cost more memory than they save time.
MOST_CLASSES_FOR_NEWTON = 36
NEWTON_STEPS = 100
# Stop when a step would lower the loss by less; the gradient is then about the root of this.
NEWTON_PROMISE = 1e-16


def likelihood(scores: FloatArray, labels: Labels) -> tuple[float, FloatArray]:
    """Return the mean NLL of softmax(scores) and its gradient in the scores, (n, K)."""
    rows = np.arange(len(labels))
    value = -float(temperature.log_probabilities(scores)[rows, labels].mean())
    residual = temperature.apply(scores)
    residual[rows, labels] -= 1.0
    return value, residual / len(labels)


def full_objective(
    inputs: FloatArray, labels: Labels, off_diagonal: float, intercept: float
) -> Objective:
    """Return L as a function of the rows of [W b], one after the other, with its gradient."""
    classes = inputs.shape[1]
    penalty = penalties(classes, off_diagonal, intercept)
    extended = np.column_stack([inputs, np.ones(len(inputs))])

    def objective(parameters: FloatArray) -> tuple[float, FloatArray]:
        joint = parameters.reshape(classes, classes + 1)
        value, residual = likelihood(extended @ joint.T, labels)
        value += float((penalty * joint**2).sum())
        return value, (residual.T @ extended + 2.0 * penalty * joint).ravel()

    return objective


def full_hessian(
    inputs: FloatArray, off_diagonal: float, intercept: float
) -> Callable[[FloatArray], FloatArray]:
    r"""Return the second derivatives of L, :math:`(K(K+1))^2` of them.

    .. math:: \frac1n \sum_i (\mathrm{diag}(p_i) - p_i p_i^\top)
              \otimes \tilde x_i \tilde x_i^\top
    """
    n, classes = inputs.shape
    size = classes * (classes + 1)
    extended = np.column_stack([inputs, np.ones(n)])
    squares = (extended[:, :, None] * extended[:, None, :]).reshape(n, -1)
    penalty = np.diag(2.0 * penalties(classes, off_diagonal, intercept).ravel())

    def hessian(parameters: FloatArray) -> FloatArray:
        p = temperature.apply(extended @ parameters.reshape(classes, classes + 1).T)
        spread = -p[:, :, None] * p[:, None, :]
        spread[:, np.arange(classes), np.arange(classes)] += p
        joint = spread.reshape(n, -1).T @ squares / n
        joint = joint.reshape(classes, classes, classes + 1, classes + 1)
        return np.asarray(joint.transpose(0, 2, 1, 3).reshape(size, size) + penalty)

    return hessian


def penalties(classes: int, off_diagonal: float, intercept: float) -> FloatArray:
    """Return the weight of each squared entry of [W b] in L, (K, K + 1)."""
    weights = np.full((classes, classes + 1), off_diagonal / (classes * (classes - 1)))
    np.fill_diagonal(weights, 0.0)
    weights[:, -1] = intercept / classes
    return weights


def fit_full(
    inputs: FloatArray, labels: Labels, off_diagonal: float, intercept: float
) -> tuple[FloatArray, FloatArray]:
    """Return the minimising W and b, starting at temperature scaling."""
    classes = inputs.shape[1]
    # In units of the temperature the start is the identity, whatever the scale of the logits.
    unit = start_temperature(inputs, labels)
    scaled = inputs / unit
    objective = full_objective(scaled, labels, off_diagonal, intercept)
    start = np.eye(classes, classes + 1).ravel()
    if classes <= MOST_CLASSES_FOR_NEWTON:
        # Where few labels leave W nearly free, L-BFGS takes thousands of steps and Newton ten.
        start = newton(objective, full_hessian(scaled, off_diagonal, intercept), start)
    else:
        start = minimum(objective, start)
    joint = start.reshape(classes, classes + 1)
    return joint[:, :-1] / unit, joint[:, -1]


def newton(
    objective: Objective, hessian: Callable[[FloatArray], FloatArray], start: FloatArray
) -> FloatArray:
    """Return the minimum of a convex function by Newton's method, each step halved until it helps.

    Examples
    --------
    >>> bowl = lambda x: (float(((x - 2.0) ** 4).sum()), 4.0 * (x - 2.0) ** 3)
    >>> newton(bowl, lambda x: np.diag(12.0 * (x - 2.0) ** 2), np.array([0.0])).round(2).tolist()
    [2.0]
    """
    point = start
    value, gradient = objective(point)
    for _ in range(NEWTON_STEPS):
        curvature = hessian(point)
        # A direction without curvature (a shift of all scores) is left alone by a tiny ridge.
        ridge = 1e-10 * max(float(np.trace(curvature)) / len(point), 1e-300)
        step = np.linalg.solve(curvature + ridge * np.eye(len(point)), gradient)
        promise = float(gradient @ step)
        if promise <= NEWTON_PROMISE:
            break
        share = 1.0
        while share > 1e-10:
            proposal = point - share * step
            below, slope = objective(proposal)
            if below <= value - 1e-4 * share * promise:
                break
            share *= 0.5
        else:
            break
        point, value, gradient = proposal, below, slope
    return finite(point)


def minimum(objective: Objective, start: FloatArray) -> FloatArray:
    """Return the minimum of a convex function by L-BFGS with its gradient."""
    solution = minimize(
        objective,
        start,
        jac=True,
        method="L-BFGS-B",
        options={"ftol": 1e-15, "gtol": 1e-9, "maxiter": 5000, "maxfun": 20000},
    )
    return finite(np.asarray(solution.x))


def finite(result: FloatArray) -> FloatArray:
    """Return the result of a minimisation, or raise if it is not finite."""
    if not np.isfinite(result).all():
        raise NotIdentifiableError("the fit has no finite optimum; use more calibration nodes.")
    return result


def start_temperature(inputs: FloatArray, labels: Labels) -> float:
    """Return the temperature of the calibration nodes, or 1 if the labels determine none."""
    solved = temperature.solve(inputs, labels)
    return solved.temperature if solved.status == "optimal" else 1.0


def chosen_strength(inputs: FloatArray, labels: Labels, seed: int) -> float:
    """Return the strength (of both penalties) with the lowest held-out NLL in five folds."""
    folds = np.empty(len(labels), np.int64)
    folds[stream(seed, "calibration folds").permutation(len(labels))] = (
        np.arange(len(labels)) % FOLDS
    )
    losses = np.zeros(len(STRENGTHS))
    for fold in range(int(folds.max()) + 1):
        held = folds == fold
        for index, strength in enumerate(STRENGTHS):
            matrix, bias = fit_full(inputs[~held], labels[~held], strength, strength)
            losses[index] += likelihood(inputs[held] @ matrix.T + bias, labels[held])[0]
    return STRENGTHS[int(np.argmin(losses))]
