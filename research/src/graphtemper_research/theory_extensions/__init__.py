"""Theory beyond the paper that the library does not need: many degrees, many classes, no labels."""

from __future__ import annotations

from graphtemper_research.theory_extensions.heterogeneity import (
    beta_homophily,
    degree_gain,
    degree_temperature,
    mixed_homophily_gain,
    mixed_homophily_temperature,
)
from graphtemper_research.theory_extensions.many_classes import (
    multiclass_scale,
    multiclass_temperature,
)

__all__ = [
    "beta_homophily",
    "degree_gain",
    "degree_temperature",
    "mixed_homophily_gain",
    "mixed_homophily_temperature",
    "multiclass_scale",
    "multiclass_temperature",
]
