"""A target read against a source card: what was seen, what it means, how far it is from home."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from graphtemper import evidence
from graphtemper.card import SourceCard
from graphtemper.evidence import Evidence
from graphtemper.few_labels import Prior, to_share
from graphtemper.gains import Gains
from graphtemper.observe import Observation
from graphtemper.response import Response
from graphtemper.verdict import novelty


@dataclass(frozen=True, eq=False)
class Reading:
    """What an unlabelled target shows, in the units of a card.

    Attributes
    ----------
    seen, card
        The observation, and the card it is read against.
    shown, signals
        What was measured, and the few numbers that the atlas learns from.
    response
        The card's response surface for what can be measured here.
    gains
        Of the signal against the source; None without a model.
    """

    seen: Observation
    card: SourceCard
    shown: Evidence
    signals: dict[str, float]
    response: Response
    gains: Gains | None

    @classmethod
    def of(cls, seen: Observation, card: SourceCard) -> Reading:
        """Measure an observation as the card says."""
        shown = evidence.measure(seen, card.probe)
        return cls(
            seen=seen,
            card=card,
            shown=shown,
            signals=evidence.read(shown, card.reference),
            response=card.response(seen.has_model),
            gains=evidence.gains(shown, card.reference.evidence),
        )

    @cached_property
    def flat(self) -> bool:
        """Whether every node's logits are all equal."""
        return float(np.ptp(self.seen.logits, axis=1).max()) == 0.0

    @property
    def blind(self) -> bool:
        """Whether the leading signal of the card cannot be read here."""
        unread = self.gains is not None and self.gains.signal is None
        return unread and evidence.LEAD in self.response.names

    @cached_property
    def novelty(self) -> float:
        """Distance to the atlas, in units of how far left-out families lie from the others."""
        return novelty(self.response, self.signals)

    @cached_property
    def drift(self) -> float:
        """How far class shares may have moved unseen, as feature means have."""
        moments, probe = self.seen.own_moments, self.card.probe
        return self.card.population.drift(*moments, self.seen.num_nodes, probe.column_std)

    def prior(self, drift: float) -> Prior:
        """Turn the response into a normal on the log-odds of accuracy.

        Beside the response's own deviation it counts the sampling error of the n nodes here and of
        those the card was made of, and class shares that are wrong by ``drift``.
        """
        card, response = self.card, self.response
        mean, deviation = response.predict(self.signals)
        centre = evidence.log_odds(card.reference.accuracy) + mean
        value = to_share(centre)
        slope = max(value * (1.0 - value), 0.01)
        variance = (
            (response.widening * deviation) ** 2
            + _sampling(value, self.seen.num_nodes)
            + _sampling(card.reference.accuracy, card.num_nodes)
            + (card.population.accuracy_deviation(drift) / slope) ** 2
        )
        return Prior(centre, float(np.sqrt(variance)))

    def numbers(self) -> dict[str, float]:
        """Return the signals and the single numbers of the evidence, for people and reports."""
        plain = {
            key: float(value)
            for key, value in self.shown.to_dict().items()
            if isinstance(value, int | float) and key not in ("confidence",)
        }
        return self.signals | plain


def _sampling(accuracy: float, num_nodes: int) -> float:
    """Return the variance of the log-odds of an accuracy counted on so many nodes."""
    return 1.0 / (num_nodes * max(accuracy * (1.0 - accuracy), 0.01))
