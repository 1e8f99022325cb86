"""Honest confidence for graph neural networks on graphs that changed.

The package reads as one sentence: graph -> logits -> signals -> estimate -> temperature ->
probabilities -> report. Names are loaded on first use, so that ``import graphtemper`` is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from graphtemper._core.version import __version__ as __version__

if TYPE_CHECKING:
    from graphtemper import (
        calibrators,
        errors,
        estimators,
        metrics,
        models,
        monitor,
        pyg,
        scale,
        shifts,
        signals,
        temperature,
        theory,
    )
    from graphtemper.calibrators import conformal, stac
    from graphtemper.calibrators.conformal import ConformalSets
    from graphtemper.card import SourceCard
    from graphtemper.graph import Graph, datasets
    from graphtemper.recalibration import Recalibration, recalibrate
    from graphtemper.recalibration.labelling import LabelPlan, suggest_labels
    from graphtemper.theory import csbm
    from graphtemper.theory import label_free as mixture

# Where each public name is defined. A name that is its module's own last part is that module.
_NAMES = {
    "ConformalSets": "graphtemper.calibrators.conformal",
    "Graph": "graphtemper.graph",
    "LabelPlan": "graphtemper.recalibration.labelling",
    "Recalibration": "graphtemper.recalibration",
    "SourceCard": "graphtemper.card",
    "recalibrate": "graphtemper.recalibration",
    "suggest_labels": "graphtemper.recalibration.labelling",
}
_MODULES = {
    "calibrators": "graphtemper.calibrators",
    "conformal": "graphtemper.calibrators.conformal",
    "csbm": "graphtemper.theory.csbm",
    "datasets": "graphtemper.graph.datasets",
    "errors": "graphtemper.errors",
    "estimators": "graphtemper.estimators",
    "metrics": "graphtemper.metrics",
    "mixture": "graphtemper.theory.label_free",
    "models": "graphtemper.models",
    "monitor": "graphtemper.monitor",
    "pyg": "graphtemper.pyg",
    "scale": "graphtemper.scale",
    "shifts": "graphtemper.shifts",
    "signals": "graphtemper.signals",
    "stac": "graphtemper.calibrators.stac",
    "temperature": "graphtemper.temperature",
    "theory": "graphtemper.theory",
}
__all__ = [
    "ConformalSets",
    "Graph",
    "LabelPlan",
    "Recalibration",
    "SourceCard",
    "calibrators",
    "conformal",
    "csbm",
    "datasets",
    "errors",
    "estimators",
    "metrics",
    "mixture",
    "models",
    "monitor",
    "pyg",
    "recalibrate",
    "scale",
    "shifts",
    "signals",
    "stac",
    "suggest_labels",
    "temperature",
    "theory",
]


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(importlib.import_module(_NAMES[name]), name)
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    raise AttributeError(f"module 'graphtemper' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
