r"""A target read against a card at a sample of its nodes, with the sampling error priced in.

The signals are functions of a few averages, each with a standard error :math:`s_k` over the sampled
nodes or links. The answer's variance grows by

.. math:: \sum_k \Big( \eta(q + s_k e_k) - \eta(q) \Big)^2,

where :math:`\eta` are the log-odds of the accuracy by the atlas and q the averages.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from graphtemper.card.card import SourceCard
from graphtemper.card.reading import Reading
from graphtemper.signals import evidence
from graphtemper.signals.covariances import Covariance
from graphtemper.signals.evidence import Evidence
from graphtemper.signals.observation import Observation
from graphtemper.signals.receptive_field import Sample

_COVARIANCES = ("feature", "own_feature", "edge", "wedge", "held")
_AGREEMENTS = ("noise_agreement", "source_noise_agreement")


def read(card: SourceCard, observation: Observation, sample: Sample) -> Reading:
    """Measure an observation, whose perturbed passes are those of a sample, against a card."""
    measured = evidence.measure(observation, card.probe, sample.observation)
    flat = float(np.ptp(observation.logits, axis=1).max()) == 0.0
    reading = card.read_evidence(measured, observation.num_nodes, observation.own_moments, flat)
    return replace(reading, sampled=sampling_variance(reading, sample.nodes.size, sample.num_links))


def sampling_variance(reading: Reading, nodes: int, links: int) -> float:
    """Return the variance of the atlas's log-odds that is due to a sample of nodes and links."""
    reference, predict = reading.card.reference, reading.response.predict
    here = predict(reading.signals)[0]
    moved = (
        predict(evidence.read(item, reference))[0]
        for item in _moved(reading.evidence, nodes, links)
    )
    return float(sum((there - here) ** 2 for there in moved))


def _moved(measured: Evidence, nodes: int, links: int) -> Iterator[Evidence]:
    """Yield the evidence with each average moved by its standard error."""
    for name in _COVARIANCES:
        value, error = getattr(measured, name)
        moved: dict[str, Any] = {name: Covariance(value + error, error)}
        yield replace(measured, **moved)
    for name in _AGREEMENTS:
        share = getattr(measured, name)
        error = float(np.sqrt(share * (1.0 - share) / nodes))
        moved = {name: share - error}
        yield replace(measured, **moved)
    # The error of Cohen's kappa of m links, as that of a correlation far from one.
    kappa = measured.edge_agreement or 0.0
    error = float(np.sqrt((1.0 - kappa**2) / max(links, 1)))
    yield replace(measured, edge_agreement=kappa + error)
