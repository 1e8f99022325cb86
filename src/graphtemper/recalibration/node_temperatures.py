r"""One temperature per node, around the temperature of the whole graph.

The atlas says how much confidence a graph deserves in all; the card's node response says which of
its nodes deserve more of it and which less (see `node_response`). Temperatures are scaled together
until their mean top probability is that of the global temperature, so that the estimated accuracy
stays the anchor. No temperature changes a prediction.
"""

from __future__ import annotations

import numpy as np

from graphtemper import temperature as temperatures
from graphtemper._core.arrays import FloatArray
from graphtemper._core.log_odds import log_odds
from graphtemper.card.data import CardData
from graphtemper.errors import InputError
from graphtemper.recalibration.reasons import Reason, ReasonCode
from graphtemper.signals import node_signals
from graphtemper.signals.observation import Observation
from graphtemper.temperature.matching import nearest_temperature


def spread(
    observation: Observation,
    card: CardData,
    relative: float,
    accuracy: float,
    keep: bool = False,
) -> tuple[FloatArray, list[Reason]]:
    """Return each observed node's temperature (n,) and reasons: where it comes from.

    Parameters
    ----------
    observation
        The target; with logits alone only the signals that need no model are read.
    card
        The source card, with its node responses.
    relative
        The temperature of the whole graph, over the source's.
    accuracy
        The estimated accuracy of the whole graph.
    keep
        Keep ``relative`` at all nodes: an atlas that abstains on a graph says no more of its nodes.

    Examples
    --------
    >>> from graphtemper import csbm, recalibrate, shifts
    >>> from graphtemper.card.card import SourceCard
    >>> from graphtemper.models import SIGN
    >>> g = csbm.sample(800, degree=6, homophily=0.8, snr=1.0, num_features=30, seed=1)
    >>> model = SIGN(hops=1).fit(g, range(400))
    >>> card = SourceCard.build(model, g, range(400, 800), compositions=0)
    >>> target = shifts.heterogeneous(2.5)(g, seed=5)
    >>> result = recalibrate(model, target, card, range(400, 800), per_node=True)
    >>> result.node_temperatures.shape
    (400,)
    >>> bool(abs(result.probabilities.max(axis=1).mean() - result.accuracy.value) < 1e-6)
    True
    """
    if card.node_responses is None:
        raise InputError(
            "this card says nothing about single nodes, because it is from an earlier version or "
            "had a family of shifts taken out after loading; build it again, or leave per_node out."
        )
    if keep:
        return np.full(observation.num_nodes, relative), []
    response = card.node_responses["model" if observation.has_model else "logits"]
    if not response.helps:
        text = (
            "on shifts left out of this card one temperature per node was no better than one for "
            "all, so all nodes have the same."
        )
        equal = Reason(ReasonCode.NODE_TEMPERATURES_EQUAL, text)
        return np.full(observation.num_nodes, relative), [equal]
    log_ratio = response.log_temperatures(
        node_signals.measure(observation, card.probe),
        observation.predictions,
        log_odds(accuracy) - log_odds(card.reference.accuracy),
    )
    ratio = np.exp(log_ratio)
    wanted = temperatures.mean_confidence(observation.logits, relative)
    common, _ = nearest_temperature(divided(observation.logits, ratio), wanted)
    found = common * ratio
    low, high = np.quantile(found * card.probe.temperature, (0.05, 0.95))
    text = (
        f"nine nodes in ten have a temperature between {low:.3g} and {high:.3g}; on shifts left "
        f"out of the card this saved {response.gain:.2g} nats a node against one for all."
    )
    return found, [Reason(ReasonCode.NODE_TEMPERATURES, text)]


def divided(logits: FloatArray, ratio: FloatArray) -> FloatArray:
    """Return logits of every node divided by its own number, from their largest downwards.

    Examples
    --------
    >>> divided(np.array([[1.0, 3.0], [4.0, 0.0]]), np.array([1.0, 2.0])).tolist()
    [[-2.0, 0.0], [0.0, -2.0]]
    """
    return np.asarray((logits - logits.max(axis=1, keepdims=True)) / ratio[:, None])
