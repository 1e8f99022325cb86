"""Temperature and accuracy from unlabelled logits, under the mixture model."""

from __future__ import annotations

from graphtemper_research.theory_extensions.label_free.binary import (
    ACCURACY_RANGE,
    LARGEST_LOG_ERROR,
    MixtureFit,
    fit_binary,
)
from graphtemper_research.theory_extensions.label_free.multiclass import (
    ClassMixtureFit,
    fit_multiclass,
)

__all__ = [
    "ACCURACY_RANGE",
    "LARGEST_LOG_ERROR",
    "ClassMixtureFit",
    "MixtureFit",
    "fit_binary",
    "fit_multiclass",
]
