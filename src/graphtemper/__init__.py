"""Honest confidence for graph neural networks on graphs that changed.

The package reads as one sentence: graph -> logits -> signals -> estimate -> temperature ->
probabilities -> report. Names are loaded on first use, so that ``import graphtemper`` is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from graphtemper._core.version import __version__ as __version__

if TYPE_CHECKING:
    from graphtemper import (
        calibrators,
        errors,
        estimators,
        metrics,
        models,
        monitor,
        scale,
        shifts,
        signals,
        temperature,
        theory,
    )
    from graphtemper import pyg as pyg
    from graphtemper._core.estimate import Estimate
    from graphtemper.calibrators import conformal, stac
    from graphtemper.calibrators.conformal import ConformalSets
    from graphtemper.card import SourceCard
    from graphtemper.graph import Graph
    from graphtemper.recalibration import Recalibration, recalibrate, report
    from graphtemper.recalibration.labels.given import suggest_labels
    from graphtemper.recalibration.labels.session import LabelSession
    from graphtemper.recalibration.reasons import Reason, ReasonCode
    from graphtemper.signals.observation import Observation
    from graphtemper.theory import csbm

# Where each public object is defined, and which module each public module name stands for.
_OBJECTS = {
    "ConformalSets": "graphtemper.calibrators.conformal",
    "Estimate": "graphtemper._core.estimate",
    "Graph": "graphtemper.graph",
    "LabelSession": "graphtemper.recalibration.labels.session",
    "Observation": "graphtemper.signals.observation",
    "Reason": "graphtemper.recalibration.reasons",
    "ReasonCode": "graphtemper.recalibration.reasons",
    "Recalibration": "graphtemper.recalibration",
    "SourceCard": "graphtemper.card",
    "recalibrate": "graphtemper.recalibration",
    "suggest_labels": "graphtemper.recalibration.labels.given",
}
_MODULES = {
    "calibrators": "graphtemper.calibrators",
    "conformal": "graphtemper.calibrators.conformal",
    "csbm": "graphtemper.theory.csbm",
    "errors": "graphtemper.errors",
    "estimators": "graphtemper.estimators",
    "metrics": "graphtemper.metrics",
    "models": "graphtemper.models",
    "monitor": "graphtemper.monitor",
    "pyg": "graphtemper.pyg",
    "report": "graphtemper.recalibration.report",
    "scale": "graphtemper.scale",
    "shifts": "graphtemper.shifts",
    "signals": "graphtemper.signals",
    "stac": "graphtemper.calibrators.stac",
    "temperature": "graphtemper.temperature",
    "theory": "graphtemper.theory",
}
# ``import *`` must not need torch, so `pyg` is not among them.
__all__ = [
    "ConformalSets",
    "Estimate",
    "Graph",
    "LabelSession",
    "Observation",
    "Reason",
    "ReasonCode",
    "Recalibration",
    "SourceCard",
    "calibrators",
    "conformal",
    "csbm",
    "errors",
    "estimators",
    "metrics",
    "models",
    "monitor",
    "recalibrate",
    "report",
    "scale",
    "shifts",
    "signals",
    "stac",
    "suggest_labels",
    "temperature",
    "theory",
]


# Type checkers read the imports above instead, and so report names that do not exist.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name in _OBJECTS:
            return getattr(importlib.import_module(_OBJECTS[name]), name)
        if name in _MODULES:
            return importlib.import_module(_MODULES[name])
        text = f"module 'graphtemper' has no attribute {name!r}"
        if name == "predictor":
            text += "; a torch module is wrapped with graphtemper.pyg.predictor(module)"
        raise AttributeError(text)


def __dir__() -> list[str]:
    return [*__all__, "pyg", "__version__"]
