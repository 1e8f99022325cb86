"""The content of a source card."""

from __future__ import annotations

from dataclasses import dataclass

from graphtemper._core.arrays import FloatArray
from graphtemper.card.atlas import AtlasNodes, Environment
from graphtemper.card.class_profile import ClassProfile
from graphtemper.card.node_response import NodeResponse
from graphtemper.card.response import Kernel
from graphtemper.signals.evidence import Probe, Reference
from graphtemper.signals.share_drift import DriftBaseline


@dataclass(frozen=True, eq=False, repr=False)
class CardData:
    """The content of a source card: aggregates only, nothing that belongs to a single node.

    Attributes
    ----------
    predictor
        Name of the model.
    num_classes, num_features, num_nodes
        Size of the problem; ``num_nodes`` counts the labelled nodes that the card was built from.
    fingerprint : (6, K) array or None
        Logits on a small fixed graph, by which the model is recognised.
    probe
        How to measure: source temperature, noise level, thresholds.
    reference
        The source's own evidence, class moments and accuracy.
    population
        Sketch of the feature means, and how the classes differ.
    environments
        The atlas.
    names, kernels, widening
        The fitted response, for targets with a model and for targets with logits alone.
    excluded
        Families of shifts that were left out.
    class_profile, node_responses
        For class shares and node temperatures; None in cards of earlier versions.
    atlas_nodes
        In memory only: what `SourceCard.without` fits node responses to.
    """

    predictor: str
    num_classes: int
    num_features: int
    num_nodes: int
    fingerprint: FloatArray | None
    probe: Probe
    reference: Reference
    population: DriftBaseline
    environments: tuple[Environment, ...]
    names: dict[str, tuple[str, ...]]
    kernels: dict[str, Kernel]
    widening: dict[str, float]
    excluded: tuple[str, ...] = ()
    class_profile: ClassProfile | None = None
    node_responses: dict[str, NodeResponse] | None = None
    atlas_nodes: AtlasNodes | None = None

    @property
    def temperature(self) -> float:
        """The source temperature, which divides all logits before anything is measured."""
        return self.probe.temperature

    @property
    def families(self) -> tuple[str, ...]:
        """The families of shifts in the atlas, sorted."""
        return tuple(sorted(frozenset().union(*(item.families for item in self.environments))))
