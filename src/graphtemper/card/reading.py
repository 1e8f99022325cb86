"""A target read against a source card: its evidence, its signals, and the accuracy they imply."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from graphtemper._core.arrays import FloatArray
from graphtemper._core.estimate import DEVIATIONS, Estimate
from graphtemper._core.numerics import log_odds, to_share
from graphtemper.card.data import CardData
from graphtemper.card.natural_prior import NATURAL
from graphtemper.card.response import Response
from graphtemper.signals.evidence import LEAD, Evidence
from graphtemper.signals.gains import Gains
from graphtemper.signals.moved_shares import read_moved
from graphtemper.signals.share_drift import LARGEST_DRIFT

TAILS = 4.0
"""Degrees of freedom of the prior."""
# The 95 % quantile of a Student t with 4 degrees of freedom and scale 1.
_T_QUANTILE = 2.1318467863266495
# Log-odds beyond this are an accuracy of 0 or 1 in float64.
_FAR = 40.0
# Grid points at the prior's own scale, and points between the ends.
_OWN, _EVEN = 81, 81


@dataclass(frozen=True)
class Prior:
    """The accuracy before any label: a Student t on its log-odds, with two scales.

    ``centre`` is the median of the log-odds. The 90 % interval reaches 1.645 deviations up, as that
    of a normal does, and ``lower_tail`` times as far down.

    Examples
    --------
    >>> Prior(0.0, 0.3).estimate("atlas").value
    0.5
    """

    centre: float
    deviation: float
    lower_tail: float = 1.0

    def log_density(self, log_odds: FloatArray) -> FloatArray:
        """Return the logarithm of the density, up to a constant."""
        away = log_odds - self.centre
        side = np.where(away < 0.0, self.lower_tail, 1.0)  # half of the probability on each side
        square = (away / (side * self.deviation * DEVIATIONS / _T_QUANTILE)) ** 2
        return np.asarray(-0.5 * (TAILS + 1.0) * np.log1p(square / TAILS) - np.log(side))

    def grid(self) -> FloatArray:
        """Return log-odds at which to start: dense at the centre, then ever sparser."""
        steps = np.sinh(np.linspace(-5.3, 5.3, _OWN))  # to a hundred deviations
        own = self.centre + self.deviation * self.lower_tail * steps
        return np.unique(np.concatenate([own, np.linspace(-_FAR, _FAR, _EVEN)]))

    def estimate(self, method: str) -> Estimate:
        """Return the accuracy and its 90 % interval."""
        reach = DEVIATIONS * self.deviation
        steps = (-reach * self.lower_tail, 0.0, reach)
        low, value, high = (to_share(self.centre + step) for step in steps)
        return Estimate(value, low, high, method)


@dataclass(frozen=True, eq=False)
class Reading:
    """Evidence about an unlabelled target, in memory or in shards, compared with a card.

    Attributes
    ----------
    card
        The card.
    evidence, signals
        What was measured, and the few numbers that the atlas learns from.
    response
        The card's response surface for what could be measured.
    gains
        Gains of the signal against the source; None without a model.
    num_nodes
        Number of measured nodes.
    moments
        Mean and standard deviation of their feature columns; None if features are unknown.
    flat
        Whether every node's logits are all equal.
    """

    card: CardData
    evidence: Evidence
    signals: dict[str, float]
    response: Response
    gains: Gains | None
    num_nodes: int
    moments: tuple[FloatArray, FloatArray] | None
    flat: bool

    @property
    def blind(self) -> bool:
        """Whether the leading signal of the card cannot be measured on this target."""
        unreadable = self.gains is not None and self.gains.signal is None
        return unreadable and LEAD in self.response.names

    @cached_property
    def novelty(self) -> float:
        """Distance to the atlas, in units of how far left-out families lie from the others."""
        return self.response.novelty(self.signals)

    @cached_property
    def drift(self) -> float:
        """How far class shares may have moved unnoticed, judging by feature means.

        It is 0 if features are unknown; whoever gives the answer then has to say so.
        """
        if self.moments is None:
            return 0.0
        std = self.card.probe.column_std
        return self.card.population.drift(*self.moments, self.num_nodes, std)

    @cached_property
    def moved_fraction(self) -> float:
        """How far feature means have moved, between 0 and 1; 1 if features are unknown."""
        return 1.0 if self.moments is None else self.drift / LARGEST_DRIFT

    @cached_property
    def prior(self) -> Prior:
        """The log-odds of the accuracy by the atlas and by the natural prior.

        The variance adds up that of the response, the sampling errors of the n nodes here and of
        those that the card was built from, and natural variation.
        """
        atlas, fraction = self._centre(self.signals), self.moved_fraction
        centre = atlas
        if fraction > 0.0:
            moved, misfit = self._moved_shares()
            confidence = log_odds(self.evidence.confidence)
            centre = NATURAL.centre(confidence, atlas, moved, misfit, fraction)
        variance = self._variance(centre) + NATURAL.variance(self.novelty, fraction)
        lower_tail = 1.0 + (NATURAL.lower_tail - 1.0) * float(np.sqrt(fraction))
        return Prior(centre, float(np.sqrt(variance)), lower_tail)

    def deviation_with_shares(self, error: float) -> float:
        """Return the deviation of the log-odds if class shares are known up to an error."""
        centre = self._centre(self.signals)
        value = to_share(centre)
        slope = max(value * (1.0 - value), 0.01)
        shares = (self.card.population.accuracy_deviation(error) / slope) ** 2
        return float(np.sqrt(self._variance(centre) + shares))

    def _centre(self, signals: dict[str, float]) -> float:
        return log_odds(self.card.reference.accuracy) + self.response.predict(signals)[0]

    def _moved_shares(self) -> tuple[float, float]:
        """Return the atlas's centre if class shares have moved, and the misfit of these shares."""
        gains = self.gains
        if gains is None or gains.signal is None or LEAD not in self.response.names:
            return self._centre(self.signals), 0.0
        lead, misfit = read_moved(self.evidence, self.card.reference, gains)
        return self._centre(self.signals | {LEAD: lead}), misfit

    def _variance(self, centre: float) -> float:
        """Return the variance of the response and of the sampling of both graphs' nodes."""
        card = self.card
        deviation = self.response.widening * self.response.predict(self.signals)[1]
        here = _sampling(to_share(centre), self.num_nodes)
        return deviation**2 + here + _sampling(card.reference.accuracy, card.num_nodes)

    def numbers(self) -> dict[str, float]:
        """Return the signals and the scalars of the evidence, for people and reports."""
        plain = {
            key: float(value)
            for key, value in self.evidence.to_dict().items()
            if isinstance(value, int | float) and key not in ("confidence",)
        }
        return self.signals | plain

    def nearest_families(self) -> list[tuple[str, float]]:
        """Return each family's distance to the target, through its nearest environment.

        Distances are in atlas standard deviations; the family ``none`` is the source itself.
        """
        x = self.response.coordinates(self.signals)
        distance = np.sqrt(((self.response.points - x) ** 2).sum(axis=1))
        best: dict[str, float] = {"none": float(np.sqrt((x**2).sum()))}
        for item, value in zip(self.card.environments, distance, strict=True):
            if len(item.families) == 1:
                name = next(iter(item.families))
                best[name] = min(best.get(name, np.inf), float(value))
        return sorted(best.items(), key=lambda pair: pair[1])


def _sampling(accuracy: float, num_nodes: int) -> float:
    """Return the sampling variance of the log-odds of an accuracy counted on n nodes."""
    return 1.0 / (num_nodes * max(accuracy * (1.0 - accuracy), 0.01))
