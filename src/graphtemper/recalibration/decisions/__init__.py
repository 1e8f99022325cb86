"""What the answer about a target means for decisions: precision, recall, F1, rankings, cost."""

from __future__ import annotations

from graphtemper.recalibration.decisions.metrics import (
    BestThreshold,
    Confusion,
    Curve,
    Metrics,
    estimate,
)

__all__ = ["BestThreshold", "Confusion", "Curve", "Metrics", "estimate"]
