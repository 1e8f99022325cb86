"""An upper bound on the target's error from the linear critic that disagrees most."""

from __future__ import annotations

import math
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize

from graphtemper import Estimate, Observation, temperature
from graphtemper.estimators import Carried, HasParameters, correct, share_estimate
from graphtemper_research.baselines.importance import learned, representation
from graphtemper_research.harness.numeric import FloatArray, stream

Classes = NDArray[np.intp]
_STEPS = 200


class Dis2(HasParameters):
    r"""Disagreement discrepancy: one minus a bound on the error.

    .. math:: \epsilon_t \le \epsilon_s + \Delta_t(h') - \Delta_s(h')
       + \sqrt{\frac{(n_s + 4 n_t)\log(1/\delta)}{2 n_s n_t}}

    h' is a linear critic on `importance.representation` (logits, their mean over the neighbours,
    degree). It is trained on half of the source and of the target rows to agree with the model at
    the source and to disagree at the target; the other halves measure its rates of disagreement
    Delta. The bound holds with probability 1 - delta if no truth disagrees with the model more than
    the best critic. Its "accuracy" is a lower bound, so as an estimate it is low by construction.

    References
    ----------
    Rosenfeld and Garg, "(Almost) Provable Error Bounds Under Distribution Shift via Disagreement
    Discrepancy", NeurIPS 2023.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> from graphtemper.models import SIGN
    >>> g = csbm.sample(600, degree=8, homophily=0.8, snr=1.0)
    >>> source = Observation(SIGN().fit(g), g)
    >>> found = Dis2().fit(source, g.labels).estimate(source).value
    >>> bool(found < (source.predictions == g.labels).mean())
    True
    """

    right_: FloatArray
    rows_: FloatArray
    classes_: Classes

    def __init__(self, delta: float = 0.05) -> None:
        self.delta = delta

    @property
    def carries(self) -> Carried:
        """What the critic reads of the source's nodes, their predictions, and which were right."""
        rows = learned(self, "rows_").ravel().tolist()
        return {"rows": rows, "right": self.right_.tolist(), "classes": self.classes_.tolist()}

    def fit(self, source: Observation, labels: ArrayLike) -> Self:
        """Keep what the critic reads of the source's nodes, and which were right."""
        self.right_, self.rows_ = correct(source, labels), representation(source)
        self.classes_ = np.asarray(source.predictions)
        return self

    def estimate(self, target: Observation) -> Estimate:
        """Return one minus the bound."""
        known, classes = learned(self, "rows_"), self.classes_
        centre, spread = known.mean(axis=0), np.maximum(known.std(axis=0), 1e-12)
        own = _inputs((known - centre) / spread)
        there = _inputs(np.clip((representation(target) - centre) / spread, -20.0, 20.0))
        theirs = np.asarray(target.predictions)
        (fit_s, test_s), (fit_t, test_t) = (_halves(len(z), target.seed) for z in (own, there))
        critic = trained(
            own[fit_s], classes[fit_s], there[fit_t], theirs[fit_t], target.num_classes
        )
        here = disagreement(own[test_s] @ critic, classes[test_s])
        away = disagreement(there[test_t] @ critic, theirs[test_t])
        n, m = test_s.size, test_t.size
        slack = math.sqrt((n + 4 * m) * math.log(1.0 / self.delta) / (2.0 * n * m))
        bound = 1.0 - float(self.right_[test_s].mean()) + away - here + slack
        return share_estimate(1.0 - bound, target.num_nodes, "Dis2")


def trained(
    own: FloatArray, predicted: Classes, there: FloatArray, theirs: Classes, classes: int
) -> FloatArray:
    """Return the linear critic, (D, K): both losses are convex, so there is one."""
    shape = (own.shape[1], classes)

    def objective(flat: FloatArray) -> tuple[float, FloatArray]:
        value, slope = losses(flat.reshape(shape), own, predicted, there, theirs)
        return value, slope.ravel()

    start = np.zeros(shape[0] * classes)
    found = minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": _STEPS})
    return np.asarray(found.x.reshape(shape))


def losses(
    critic: FloatArray, own: FloatArray, predicted: Classes, there: FloatArray, theirs: Classes
) -> tuple[float, FloatArray]:
    r"""Return cross-entropy at the source plus the disagreement loss at the target; its gradient.

    The loss of disagreement is
    :math:`\frac1{\log 2}\log(1 + \exp(h_y - \frac1{K-1}\sum_{k \ne y} h_k))`.
    """
    classes = critic.shape[1]
    p = temperature.apply(own @ critic)
    one = np.eye(classes)
    agree = -float(np.log(np.maximum(p[np.arange(len(p)), predicted], 1e-300)).mean())
    slope = own.T @ (p - one[predicted]) / len(p)
    contrast = one * (1.0 + 1.0 / (classes - 1)) - 1.0 / (classes - 1)
    gaps = ((there @ critic) * contrast[theirs]).sum(axis=1)
    away = float(np.logaddexp(0.0, gaps).mean()) / math.log(2.0)
    steep = 1.0 / (1.0 + np.exp(-np.clip(gaps, -500, 500))) / math.log(2.0) / len(gaps)
    return agree + away, slope + there.T @ (steep[:, None] * contrast[theirs])


def disagreement(scores: FloatArray, predicted: Classes) -> float:
    """Return how often the critic's class is not the model's."""
    return float((scores.argmax(axis=1) != predicted).mean())


def _inputs(rows: FloatArray) -> FloatArray:
    return np.column_stack([rows, np.ones(len(rows))])


def _halves(size: int, seed: int) -> tuple[Classes, Classes]:
    order = stream(seed, "halves of a critic").permutation(size)
    return np.asarray(order[: size // 2]), np.asarray(order[size // 2 :])
