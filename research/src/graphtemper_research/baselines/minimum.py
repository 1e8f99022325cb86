"""The smaller of two estimates: ATC's and GDE's."""

from __future__ import annotations

from typing import Self

from numpy.typing import ArrayLike

from graphtemper import Estimate, Observation
from graphtemper.estimators import ATC, GDE, Carried, HasParameters


class MinimumATCGDE(HasParameters):
    r"""The paper's estimate: :math:`\hat a = \min(\hat a_{ATC}, \hat a_{GDE})`.

    ATC uses the largest probability; ``gde`` defaults to 8 passes of edge dropout 0.3. Carries the
    threshold and the strength. The minimum guards against one of the two overshooting but not
    against both, which is what happens under noise on real graphs. The interval is that of the
    smaller estimate.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> from graphtemper.models import SIGN
    >>> g = csbm.sample(600, degree=8, homophily=0.8, snr=1.0)
    >>> source = Observation(SIGN().fit(g), g)
    >>> both = MinimumATCGDE().fit(source, g.labels)
    >>> parts = both.atc_.estimate(source).value, both.gde_.estimate(source).value
    >>> both.estimate(source).value == min(parts)
    True
    """

    def __init__(self, gde: GDE | None = None) -> None:
        self.gde = gde

    @property
    def carries(self) -> Carried:
        """ATC's threshold and GDE's strength."""
        return {**self.atc_.carries, **self.gde_.carries}

    def fit(self, source: Observation, labels: ArrayLike) -> Self:
        """Fit both parts."""
        self.atc_ = ATC().fit(source, labels)
        gde = GDE() if self.gde is None else GDE(**self.gde.get_params())
        self.gde_ = gde.fit(source, labels)
        return self

    def estimate(self, target: Observation) -> Estimate:
        """Return the smaller of the two estimates."""
        return min(
            self.atc_.estimate(target), self.gde_.estimate(target), key=lambda part: part.value
        )
