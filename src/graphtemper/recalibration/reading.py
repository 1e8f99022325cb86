"""A target read against a source card: what was seen, what it means, how far it is from home."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from graphtemper._core.arrays import FloatArray
from graphtemper._core.log_odds import log_odds, to_share
from graphtemper.card.card import SourceCard
from graphtemper.card.response import Response
from graphtemper.recalibration.few_labels import Prior
from graphtemper.recalibration.verdict import novelty
from graphtemper.signals import evidence
from graphtemper.signals.evidence import Evidence
from graphtemper.signals.gains import Gains
from graphtemper.signals.observation import Observation


@dataclass(frozen=True, eq=False)
class ReadEvidence:
    """What was measured of an unlabelled target, in the units of a card; wherever its nodes are.

    Attributes
    ----------
    card
        The card it is read against.
    shown, signals
        What was measured, and the few numbers that the atlas learns from.
    response
        The card's response surface for what can be measured here.
    gains
        Of the signal against the source; None without a model.
    num_nodes
        How many nodes were measured.
    moments
        Mean and standard deviation of their feature columns; None where features are not known.
    flat
        Whether every node's logits are all equal.
    """

    card: SourceCard
    shown: Evidence
    signals: dict[str, float]
    response: Response
    gains: Gains | None
    num_nodes: int
    moments: tuple[FloatArray, FloatArray] | None
    flat: bool

    @classmethod
    def read(
        cls,
        shown: Evidence,
        card: SourceCard,
        num_nodes: int,
        moments: tuple[FloatArray, FloatArray] | None,
        flat: bool,
    ) -> ReadEvidence:
        """Read evidence that was measured as the card says."""
        return cls(**_compared(shown, card), num_nodes=num_nodes, moments=moments, flat=flat)

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
        """How far class shares may have moved unseen, as feature means have; 0 if none are known.

        Without features nothing is known of the shares, which whoever gives the answer has to say.
        """
        if self.moments is None:
            return 0.0
        std = self.card.probe.column_std
        return self.card.population.drift(*self.moments, self.num_nodes, std)

    def prior(self, drift: float) -> Prior:
        """Turn the response into a normal on the log-odds of accuracy.

        Beside the response's own deviation it counts the sampling error of the n nodes here and of
        those the card was made of, and class shares that are wrong by ``drift``.
        """
        card, response = self.card, self.response
        mean, deviation = response.predict(self.signals)
        centre = log_odds(card.reference.accuracy) + mean
        value = to_share(centre)
        slope = max(value * (1.0 - value), 0.01)
        variance = (
            (response.widening * deviation) ** 2
            + _sampling(value, self.num_nodes)
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


@dataclass(frozen=True, eq=False)
class Reading(ReadEvidence):
    """The same of a graph in memory, with the observation that it was measured on."""

    seen: Observation

    @classmethod
    def of(cls, seen: Observation, card: SourceCard) -> Reading:
        """Measure an observation as the card says."""
        return cls(
            **_compared(evidence.measure(seen, card.probe), card),
            num_nodes=seen.num_nodes,
            moments=seen.own_moments,
            flat=float(np.ptp(seen.logits, axis=1).max()) == 0.0,
            seen=seen,
        )


def _compared(shown: Evidence, card: SourceCard) -> dict[str, Any]:
    """Compare evidence with the source's; it was measured with a model if it has witnesses."""
    return {
        "card": card,
        "shown": shown,
        "signals": evidence.read(shown, card.reference),
        "response": card.response(shown.held is not None),
        "gains": evidence.gains(shown, card.reference.evidence),
    }


def _sampling(accuracy: float, num_nodes: int) -> float:
    """Return the variance of the log-odds of an accuracy counted on so many nodes."""
    return 1.0 / (num_nodes * max(accuracy * (1.0 - accuracy), 0.01))
