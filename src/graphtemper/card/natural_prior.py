r"""The natural prior: what shifts that happened teach about reading a target without labels.

Shifts that somebody draws (noise, rewiring, masking) leave the means of the feature columns where
they were. Shifts that happen (another month, country or release) move them, and then an estimate
that was learned from drawn shifts is worth less. Let u, between 0 and 1, say how far the column
means have moved; c be the log-odds of mean confidence at the source temperature; m the atlas's
centre, and :math:`m'` its centre if class shares have moved (`graphtemper.signals.moved_shares`).
The answer is centred at

.. math:: \hat\eta = c + w\,(m - c), \qquad
          w = (1 - (1 - k)\,u)\Big(1 - u + \frac{u}{1 + \Delta^2}\Big), \qquad
          \Delta = \frac{m - m'}{d_0\,(1 + (r / r_0)^2)},

where r is the misfit of the moved shares, and only a fraction 1 - u of an excess over c is
kept. The variance grows by

.. math:: \tau^2 \sqrt{u}\,(1 + \min(n, 5)^2)

with the target's novelty n, and the interval reaches further down than up by the factor
`lower_tail`: natural shifts lower accuracy more often than they raise it. The estimate is the
median, which minimises the expected difference between mean confidence and accuracy. Without moved
column means nothing changes.

The five numbers were chosen on nine families of natural shift, with every family left out in turn;
``graphtemper bench natural-prior`` chooses them again and reports the errors of left-out families.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# Farther than this from the atlas, nothing more is known about the error.
_FARTHEST = 5.0


@dataclass(frozen=True)
class NaturalPrior:
    r"""Five numbers that say how to read a target whose feature means have moved.

    Attributes
    ----------
    weight
        Weight k of the atlas against plain confidence where the column means have moved far.
    disagreement
        Difference :math:`d_0` of the two readings, in log-odds, that halves the atlas's weight.
    misfit
        Misfit :math:`r_0` of moved class shares, in standard deviations, beyond which that reading
        is implausible.
    deviation
        Standard deviation :math:`\tau` of natural variation, in log-odds.
    lower_tail
        Factor by which the interval is longer below the estimate than above.
    """

    weight: float = 0.75
    disagreement: float = 0.5
    misfit: float = 2.0
    deviation: float = 0.5
    lower_tail: float = 2.0

    def centre(
        self, confidence: float, atlas: float, moved: float, misfit: float, fraction: float
    ) -> float:
        """Return the log-odds of the accuracy.

        Parameters
        ----------
        confidence
            Log-odds of mean confidence at the source temperature.
        atlas, moved
            Log-odds of the accuracy by the atlas, with the source's and with moved class shares.
        misfit
            Misfit of the moved class shares.
        fraction
            How far the column means have moved, between 0 and 1.

        Examples
        --------
        >>> prior = NaturalPrior()
        >>> prior.centre(2.0, 1.0, 1.0, 0.0, fraction=0.0)  # means as at the source: the atlas
        1.0
        >>> prior.centre(2.0, 1.0, 1.0, 0.0, fraction=1.0)
        1.25
        >>> prior.centre(2.0, 1.0, 2.5, 0.0, fraction=1.0)  # the two readings disagree
        1.925
        """
        doubt = (atlas - moved) / (self.disagreement * (1.0 + (misfit / self.misfit) ** 2))
        agreed = 1.0 - fraction + fraction / (1.0 + doubt**2)
        weight = (1.0 - (1.0 - self.weight) * fraction) * agreed
        centre = confidence + weight * (atlas - confidence)
        if centre > confidence:
            centre = confidence + (1.0 - fraction) * (centre - confidence)
        return float(centre)

    def variance(self, novelty: float, fraction: float) -> float:
        """Return the variance that natural variation adds to the log-odds.

        Examples
        --------
        >>> NaturalPrior().variance(0.0, fraction=0.0), NaturalPrior().variance(1.0, fraction=1.0)
        (0.0, 0.5)
        """
        size = 1.0 + min(novelty, _FARTHEST) ** 2
        return float(self.deviation**2 * np.sqrt(fraction) * size)


NATURAL = NaturalPrior()
