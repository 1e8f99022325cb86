"""Disagreement under perturbation."""

from __future__ import annotations

from typing import Self, get_args

from numpy.typing import ArrayLike

from graphtemper._core.checks import check_choice
from graphtemper._core.estimate import Estimate
from graphtemper._core.parameters import HasParameters
from graphtemper.estimators.base import Carried, correct, fitted, share_estimate
from graphtemper.signals import pointwise as signals
from graphtemper.signals.observation import Observation
from graphtemper.signals.passes import Kind

# Range of a calibrated strength. Beyond it features are pure noise, or hardly any edge is left.
STRENGTHS: dict[Kind, tuple[float, float]] = {
    "feature": (0.01, 30.0),
    "edge": (0.01, 0.99),
    "both": (0.01, 0.99),
}
_HALVINGS = 12


class GDE(HasParameters):
    r"""One minus the mean pairwise disagreement of M perturbed passes.

    .. math:: \hat a = 1 - \frac1n\sum_i \Big[1 - \sum_k \frac{v_{ik}(v_{ik}-1)}{M(M-1)}\Big]

    Votes v come from feature noise (``strength`` x column std), edge dropout (a fraction
    ``strength``), or half of the passes each. The theorem behind disagreement is about two
    *training runs*; for perturbations of one frozen model the strength is arbitrary. With
    ``calibrated`` it is chosen at the source, by bisection on one fixed draw, so that disagreement
    equals the source error (the nearer end of `STRENGTHS` if no strength does).

    Carries the strength. Fails where the model is stable and wrong: if every node is predicted as
    one class, no two passes disagree.

    References
    ----------
    Jiang et al., "Assessing Generalization of SGD via Disagreement", ICLR 2022; the perturbed form
    is the paper's.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> from graphtemper.models import SIGN
    >>> g = csbm.sample(600, degree=8, homophily=0.7, snr=1.0)
    >>> source = Observation(SIGN().fit(g), g)
    >>> gde = GDE("feature", calibrated=True).fit(source, g.labels)
    >>> print(f"{gde.estimate(source).value:.2f} {(source.predictions == g.labels).mean():.2f}")
    0.92 0.92
    """

    def __init__(
        self,
        kind: Kind = "edge",
        strength: float = 0.3,
        passes: int = 8,
        calibrated: bool = False,
    ) -> None:
        self.kind: Kind = check_choice(kind, get_args(Kind), "kind")
        self.strength = strength
        self.passes = passes
        self.calibrated = calibrated

    @property
    def carries(self) -> Carried:
        """The strength: a constant, unless calibrated."""
        return {"strength": self._strength}

    def fit(self, source: Observation, labels: ArrayLike) -> Self:
        """Check the labels, and choose the strength if ``calibrated``."""
        error = 1.0 - float(correct(source, labels).mean())
        if self.calibrated:
            self.strength_ = self._matching_strength(source, error)
        return self

    def estimate(self, target: Observation) -> Estimate:
        """Return one minus the disagreement at the target."""
        value = 1.0 - self._disagreement(target, self._strength)
        return share_estimate(value, target.num_nodes, f"GDE-{self.kind}")

    @property
    def _strength(self) -> float:
        return fitted(self, "strength_") if self.calibrated else self.strength

    def _disagreement(self, observation: Observation, strength: float) -> float:
        unused = {"feature": "share", "edge": "level"}.get(self.kind)
        given = {name: strength for name in ("level", "share") if name != unused}
        votes = observation.votes(self.kind, self.passes, **given)
        return signals.pairwise_disagreement(votes)

    def _matching_strength(self, source: Observation, error: float) -> float:
        low, high = STRENGTHS[self.kind]
        if self._disagreement(source, low) >= error:
            return low
        if self._disagreement(source, high) <= error:
            return high
        for _ in range(_HALVINGS):
            # Geometric: strengths matter by their ratio.
            middle = float((low * high) ** 0.5)
            if self._disagreement(source, middle) < error:
                low = middle
            else:
                high = middle
        return float((low * high) ** 0.5)
