"""The background of an answer: what a report shows beside it, node by node and in the atlas.

An answer is a few numbers and one row of probabilities a node. Where those nodes stood before, how
they are connected, which of them were labelled and what lay around the target in the atlas is kept
here, so that a report can be written long after the graph and the model are gone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from graphtemper._core.arrays import FloatArray
from graphtemper.card.atlas import Environment
from graphtemper.card.card import SourceCard
from graphtemper.card.response import Response
from graphtemper.recalibration.few_labels import Labels
from graphtemper.signals.observation import Observation


@dataclass(frozen=True, eq=False)
class Background:
    """What was known of the chosen nodes and of the source when an answer was given.

    Attributes
    ----------
    card, response
        The source card, and the response surface that the answer was read from.
    name, class_names
        What the target's file calls it and its classes; "" and () where it says nothing.
    confidence, predictions, degrees : (n,) arrays
        Top probability at the source temperature, its class, and the number of neighbours.
    labels
        The labels that the caller gave, by row.
    labelled : (m, K) array
        Probabilities at the source temperature of the labelled nodes.
    """

    card: SourceCard
    response: Response
    name: str
    class_names: tuple[str, ...]
    confidence: FloatArray
    predictions: NDArray[np.intp]
    degrees: NDArray[np.int64]
    labels: Labels
    labelled: FloatArray

    @classmethod
    def of(
        cls, seen: Observation, labels: Labels, card: SourceCard, response: Response
    ) -> Background:
        """Keep what a report shows of an observation."""
        return cls(
            card=card,
            response=response,
            name=seen.graph.name,
            class_names=seen.graph.class_names or (),
            confidence=seen.probabilities.max(axis=1),
            predictions=seen.predictions,
            degrees=np.asarray(seen.graph.degrees[seen.nodes], dtype=np.int64),
            labels=labels,
            labelled=seen.probabilities[labels.rows],
        )


def nearest_families(
    response: Response, signals: dict[str, float], environments: Iterable[Environment]
) -> list[tuple[str, float]]:
    """Return each family's distance to the target, through its nearest environment.

    Distances are in atlas standard deviations; the family ``none`` is the source itself.
    """
    x = response.coordinates(signals)
    distance = np.sqrt(((response.points - x) ** 2).sum(axis=1))
    best: dict[str, float] = {"none": float(np.sqrt((x**2).sum()))}
    for item, value in zip(environments, distance, strict=True):
        if len(item.families) == 1:
            name = next(iter(item.families))
            best[name] = min(best.get(name, np.inf), float(value))
    return sorted(best.items(), key=lambda pair: pair[1])
