"""Temperature: fit it to labels, match it to an accuracy, apply it to logits."""

from __future__ import annotations

from graphtemper.temperature.inverse import RELATIVE_BOUNDS
from graphtemper.temperature.scaling import (
    TemperatureFit,
    apply,
    fit,
    log_probabilities,
    match_confidence,
    mean_confidence,
    solve,
)

__all__ = [
    "RELATIVE_BOUNDS",
    "TemperatureFit",
    "apply",
    "fit",
    "log_probabilities",
    "match_confidence",
    "mean_confidence",
    "solve",
]
