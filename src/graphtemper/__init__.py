"""Honest confidence for graph neural networks on graphs that changed.

The package reads as one sentence: graph -> logits -> signals -> estimate -> temperature ->
probabilities -> report. Names are loaded on first use, so that ``import graphtemper`` is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graphtemper.card import SourceCard as SourceCard
    from graphtemper.conformal import ConformalSets as ConformalSets
    from graphtemper.graph import Graph as Graph
    from graphtemper.labelling import LabelPlan as LabelPlan
    from graphtemper.labelling import suggest_labels as suggest_labels
    from graphtemper.recalibration import recalibrate as recalibrate

__version__ = "0.1.0"

_OBJECTS = {
    "ConformalSets": "graphtemper.conformal",
    "Graph": "graphtemper.graph",
    "LabelPlan": "graphtemper.labelling",
    "SourceCard": "graphtemper.card",
    "recalibrate": "graphtemper.recalibration",
    "suggest_labels": "graphtemper.labelling",
}
_MODULES = {
    "calibrators",
    "conformal",
    "csbm",
    "datasets",
    "errors",
    "estimators",
    "finite_degree",
    "metrics",
    "mixture",
    "model_card",
    "models",
    "observe",
    "perturb",
    "propagate",
    "pyg",
    "shifts",
    "signals",
    "stac",
    "temperature",
    "theory",
    "tracking",
}
__all__ = sorted({*_OBJECTS, *_MODULES})


def __getattr__(name: str) -> Any:
    if name in _OBJECTS:
        return getattr(importlib.import_module(_OBJECTS[name]), name)
    if name in _MODULES:
        return importlib.import_module(f"graphtemper.{name}")
    raise AttributeError(f"module 'graphtemper' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
