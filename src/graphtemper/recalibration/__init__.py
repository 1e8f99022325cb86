"""The main job: a frozen model, an unlabelled graph and a source card give honest probabilities."""

from __future__ import annotations

from graphtemper.recalibration.diagnosis import diagnosis as diagnose
from graphtemper.recalibration.job import recalibrate
from graphtemper.recalibration.result import Recalibration

__all__ = ["Recalibration", "diagnose", "recalibrate"]
