"""Temperature: fit it to labels, match it to an accuracy, apply it to logits."""

from __future__ import annotations

from graphtemper.temperature.fitting import TemperatureFit, fit, solve
from graphtemper.temperature.inverse import RELATIVE_BOUNDS
from graphtemper.temperature.scaling import (
    apply,
    log_probabilities,
    match_confidence,
    mean_confidence,
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
