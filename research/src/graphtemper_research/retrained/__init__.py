"""Baselines that train the model again, or adapt its weights, behind the calibrators' protocol.

`REGISTRY` holds them by name, as `graphtemper.calibrators.REGISTRY` holds the calibrators.
"""

from __future__ import annotations

from graphtemper.calibrators import Calibrator
from graphtemper_research.retrained.g_delta_uq import GDeltaUQ
from graphtemper_research.retrained.gda_specreg import GDASpecReg
from graphtemper_research.retrained.other_losses import GCL, FocalLoss
from graphtemper_research.retrained.tent import Tent

__all__ = ["GCL", "REGISTRY", "FocalLoss", "GDASpecReg", "GDeltaUQ", "Tent"]

REGISTRY: dict[str, type[Calibrator]] = {
    method.__name__: method for method in (FocalLoss, GCL, Tent, GDeltaUQ, GDASpecReg)
}
