r"""One temperature per node, around the temperature of the whole graph.

The atlas estimates how much confidence a graph deserves as a whole; the card's node response says
which of its nodes deserve more and which less (see `graphtemper.card.node_response`). Temperatures
are scaled by a common factor so that mean confidence is that of the graph's temperature. No
temperature changes a prediction.
"""

from __future__ import annotations

import numpy as np

from graphtemper import errors
from graphtemper import temperature as temperatures
from graphtemper._core.checks import FloatArray
from graphtemper._core.numerics import log_odds
from graphtemper._core.printable import temperature_text
from graphtemper.card.card import SourceCard
from graphtemper.recalibration.reasons import Reason, ReasonCode
from graphtemper.signals import node_signals
from graphtemper.signals.observation import Observation
from graphtemper.temperature.scaling import nearest_temperature


def spread(
    observation: Observation,
    card: SourceCard,
    temperature: float,
    accuracy: float,
    keep: bool = False,
) -> tuple[FloatArray, list[Reason]]:
    """Return the temperature of each observed node (n,), and a reason.

    Parameters
    ----------
    observation
        The target; from logits alone only the signals that need no model are measured.
    card
        The source card, with its node responses.
    temperature
        The temperature of the graph.
    accuracy
        The estimated accuracy of the graph.
    keep
        Use ``temperature`` at all nodes, for a graph on which the atlas abstains.

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
    >>> print(f"{result.probabilities.max(axis=1).mean():.3f} {result.accuracy.value:.3f}")
    0.760 0.760
    """
    if card.node_responses is None:
        raise errors.missing(
            "this card holds no node responses, because a family of shifts was removed after "
            "loading; build it again, or leave out per_node."
        )
    if keep:
        text = "the answer is an abstention, so all nodes have the temperature of the graph."
        kept = Reason(ReasonCode.NODE_TEMPERATURES_KEPT, text)
        return np.full(observation.num_nodes, temperature), [kept]
    response = card.node_responses["model" if observation.has_model else "logits"]
    if not response.helps:
        text = (
            "on left-out shifts of this card node temperatures were no better than one "
            "temperature, so all nodes have the same."
        )
        equal = Reason(ReasonCode.NODE_TEMPERATURES_EQUAL, text)
        return np.full(observation.num_nodes, temperature), [equal]
    log_ratio = response.log_temperatures(
        node_signals.measure(observation, card.probe),
        observation.predictions,
        log_odds(accuracy) - log_odds(card.reference.accuracy),
    )
    ratio = np.exp(log_ratio)
    confidence = temperatures.mean_confidence(observation.logits, temperature)
    common, _ = nearest_temperature(divided(observation.logits, ratio), confidence)
    found = common * ratio
    low, high = map(temperature_text, np.quantile(found, (0.05, 0.95)))
    text = (
        f"90 % of the nodes have a temperature between {low} and {high}; on left-out "
        f"shifts of this card node temperatures gained {response.gain:.2g} nats per node."
    )
    return found, [Reason(ReasonCode.NODE_TEMPERATURES, text)]


def divided(logits: FloatArray, ratio: FloatArray) -> FloatArray:
    """Return the gaps to the largest logit of every node, divided by the node's own number.

    Examples
    --------
    >>> divided(np.array([[1.0, 3.0], [4.0, 0.0]]), np.array([1.0, 2.0])).tolist()
    [[-2.0, 0.0], [0.0, -2.0]]
    """
    return np.asarray((logits - logits.max(axis=1, keepdims=True)) / ratio[:, None])
