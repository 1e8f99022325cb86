"""How to measure a graph: settings that are fixed at the source, so that graphs are comparable."""

from __future__ import annotations

from dataclasses import dataclass

from graphtemper._core.arrays import FloatArray

# Number of votes (nodes times passes) beyond which more passes are not worth their time.
ENOUGH_VOTES = 60_000


@dataclass(frozen=True, eq=False)
class Probe:
    """How to measure: fixed at the source and stored in the card.

    ``noise_level`` is the feature noise, in column standard deviations, under which two passes over
    the source disagree as often as the model is wrong. The thresholds are those of ATC at the
    source. With ``shared_splits``, passes are shared, see `graphtemper.signals.shared_passes`;
    without, halves, noise and held-out edges are measured in passes of their own.
    """

    temperature: float
    noise_level: float
    column_std: FloatArray
    confidence_threshold: float
    entropy_threshold: float
    seed: int
    splits: int = 6
    passes: int = 6
    edge_share: float = 0.3
    shared_splits: int = 0
    copies: bool = True

    def passes_over(self, num_nodes: int, fewest: int = 1) -> int:
        """Return the number of perturbed passes over a graph of ``num_nodes`` observed nodes.

        Agreement is averaged over nodes and passes. On more than ten thousand nodes, more passes
        would only reduce an error that is already smaller than the atlas can resolve.
        """
        return max(fewest, min(self.passes, -(-ENOUGH_VOTES // num_nodes)))
