"""Label-free measurements of a predictor on a graph.

This package exports the formulas of single signals. `graphtemper.signals.observation` runs the
predictor, and `graphtemper.signals.evidence` measures everything that a source card compares.
"""

from __future__ import annotations

from graphtemper.signals.pointwise import (
    atc_share,
    atc_threshold,
    confidence,
    entropy,
    instability,
    log_degree,
    margin,
    mean_margin,
    neighbour_agreement,
    pairwise_disagreement,
    predicted_homophily,
    snr_estimate,
    snr_from_sums,
)

__all__ = [
    "atc_share",
    "atc_threshold",
    "confidence",
    "entropy",
    "instability",
    "log_degree",
    "margin",
    "mean_margin",
    "neighbour_agreement",
    "pairwise_disagreement",
    "predicted_homophily",
    "snr_estimate",
    "snr_from_sums",
]
