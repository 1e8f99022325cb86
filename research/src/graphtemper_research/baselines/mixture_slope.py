"""Accuracy from the shape of the logits alone."""

from __future__ import annotations

from typing import Self

from numpy.typing import ArrayLike

from graphtemper._core.estimate import DEVIATIONS, Estimate
from graphtemper._core.parameters import HasParameters
from graphtemper.estimators.base import Carried, correct, share_estimate
from graphtemper.signals.observation import Observation
from graphtemper_research.theory_extensions.label_free.binary import fit_binary
from graphtemper_research.theory_extensions.label_free.multiclass import fit_multiclass


class MixtureSlope(HasParameters):
    """The accuracy of the Gaussian mixture that the target's logits form.

    Two classes: `label_free.fit_binary` on z_1 - z_0, with the interval of that fit.
    More: `label_free.fit_multiclass`, with the sampling interval of a fraction.

    Carries nothing: everything comes from the target. Raises `NotIdentifiableError` where the
    classes do not form separate modes in the logits (accuracy near chance or near one, or logits
    that are not Gaussian). Fails where two classes are unbalanced, or where classes have logits of
    different spread.

    Parameters
    ----------
    degrees : bool
        Two classes only: use the target's degrees. Exact for mean aggregation, wrong for other
        models.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> from graphtemper.models import SGC
    >>> g = csbm.sample(4000, degree=20, homophily=0.75, snr=1.0, seed=1)
    >>> target = Observation(SGC(1, "mean").fit(g), g)
    >>> accuracy = float((target.predictions == g.labels).mean())
    >>> abs(MixtureSlope(degrees=True).estimate(target).value - accuracy) < 0.02
    True
    """

    def __init__(self, degrees: bool = False) -> None:
        self.degrees = degrees

    @property
    def carries(self) -> Carried:
        """Nothing."""
        return {}

    def fit(self, source: Observation, labels: ArrayLike) -> Self:
        """Check the labels; nothing is learned."""
        correct(source, labels)
        return self

    def estimate(self, target: Observation) -> Estimate:
        """Return the fitted mixture's accuracy."""
        logits = target.logits
        if target.num_classes > 2:
            value = fit_multiclass(logits).accuracy
            return share_estimate(value, target.num_nodes, "mixture slope")
        degrees = target.graph.degrees[target.nodes] if self.degrees else None
        fit = fit_binary(logits[:, 1] - logits[:, 0], degrees)
        radius = DEVIATIONS * fit.accuracy_error
        low, high = max(fit.accuracy - radius, 0.0), min(fit.accuracy + radius, 1.0)
        return Estimate(fit.accuracy, low, high, "mixture slope")
