"""Confidence by optimal transport to the source's class shares."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from graphtemper import temperature
from graphtemper._core.checks import FloatArray, check_labels
from graphtemper._core.estimate import Estimate
from graphtemper._core.parameters import HasParameters
from graphtemper.estimators.base import Carried, not_fitted, share_estimate
from graphtemper.signals.observation import Observation

_SMOOTHING = 10.0 ** np.arange(-0.5, -4.25, -0.25)
_NEWTON_STEPS = 50
# In units of the smoothing: the scale on which a node's choice changes.
_LARGEST_STEP = 3.0


class COT(HasParameters):
    r"""Mean confidence when the predictions must have the source's class shares.

    The estimated error is the cost of moving the target's probability rows (mass 1/n each) to
    one-hot labels with the source's class shares :math:`\pi`, at cost
    :math:`\frac12\|p_i - e_k\|_1 = 1 - p_{ik}`:

    .. math:: \hat a = \max_{\gamma \ge 0} \sum_{ik}\gamma_{ik} p_{ik}, \qquad
              \sum_k \gamma_{ik} = \tfrac1n, \quad \sum_i \gamma_{ik} = \pi_k

    so it is never above the mean confidence. Carries :math:`\pi`. Fails where the true class
    shares changed, and where noise inflates confidence. Solved on all nodes through its dual, which
    has K unknowns (see `transport`). The published method can add the source's confidence
    gap; here the source temperature of the observation takes its place.

    References
    ----------
    Lu et al., "Characterizing Out-of-Distribution Error via Optimal Transport", NeurIPS 2023.

    Examples
    --------
    Both nodes prefer class 1, but half of the mass must go to class 0:

    >>> from graphtemper.graph.graph import Graph
    >>> g = Graph(features=np.log([[0.4, 0.6], [0.1, 0.9]]), edges=[[0, 1]])
    >>> target = Observation(lambda graph: graph.features, g)
    >>> round(COT().fit(target, [0, 1]).estimate(target).value, 6)    # (0.4 + 0.9) / 2
    0.65
    """

    shares_: FloatArray

    @property
    def carries(self) -> Carried:
        """The source's class shares."""
        return {"shares": self._fitted_shares().tolist()}

    def fit(self, source: Observation, labels: ArrayLike) -> Self:
        """Count the source's classes."""
        truth = check_labels(labels, source.num_nodes, source.num_classes)
        self.shares_ = np.bincount(truth, minlength=source.num_classes) / truth.size
        return self

    def estimate(self, target: Observation) -> Estimate:
        """Return one minus the transport cost at the target."""
        value, _ = transport(target.probabilities, self._fitted_shares())
        return share_estimate(value, target.num_nodes, "COT")

    def _fitted_shares(self) -> FloatArray:
        if not hasattr(self, "shares_"):
            raise not_fitted(self)
        return self.shares_


def transport(probabilities: FloatArray, shares: FloatArray) -> tuple[float, FloatArray]:
    r"""Return the largest mean probability of an assignment with the given class shares.

    Each node's probability of the class it is assigned, (n,), comes second: one minus its cost. At
    most K - 1 nodes lie on a tie between classes; they are not split.

    By duality this is the minimum over prices u, one per class, of the convex function

    .. math:: g(u) = \sum_k \pi_k u_k + \frac1n\sum_i \max_k\,(p_{ik} - u_k).

    The maximum is smoothed (:math:`\epsilon\log\sum\exp`, the dual that Sinkhorn's iteration
    climbs), Newton's method follows the minimum as :math:`\epsilon` shrinks to 1e-4, and g itself
    is evaluated there. The result is never too small and at most :math:`10^{-4}\log K` too large;
    usually far less, because smoothing affects only nodes within :math:`\epsilon` of a tie.

    Examples
    --------
    >>> mean, each = transport(np.array([[0.4, 0.6], [0.1, 0.9]]), np.array([0.5, 0.5]))
    >>> round(mean, 6), each.tolist()
    (0.65, [0.4, 0.9])
    """
    # A class without mass has an infinite price: nothing is assigned to it.
    present = shares > 0.0
    p, mass = probabilities[:, present], shares[present]
    prices = np.zeros(mass.size)
    for smoothing in _SMOOTHING if mass.size > 1 else ():
        for _ in range(_NEWTON_STEPS):
            step = _newton_step(p, mass, prices, smoothing)
            prices = prices + step
            if float(np.abs(step).max()) < 1e-3 * smoothing:
                break
    assigned = p[np.arange(len(p)), (p - prices).argmax(axis=1)]
    return float(mass @ prices + (p - prices).max(axis=1).mean()), assigned


def _newton_step(
    p: FloatArray, mass: FloatArray, prices: FloatArray, smoothing: float
) -> FloatArray:
    chosen = temperature.apply((p - prices) / smoothing)
    assigned = chosen.mean(axis=0)
    gradient = mass - assigned
    curvature = (np.diag(assigned) - chosen.T @ chosen / len(p)) / smoothing
    # Prices are defined up to a constant, and far from the solution no node may choose a class:
    # damping makes the step well defined, and the cap keeps it where the quadratic model holds.
    damping = 1e-9 / smoothing
    step = -np.linalg.solve(curvature + damping * np.eye(mass.size), gradient)
    step -= step.mean()
    return np.asarray(step * min(1.0, _LARGEST_STEP * smoothing / max(np.abs(step).max(), 1e-300)))
