"""STAC, the paper's label-free recalibration: as printed, and as its tables used it."""

from __future__ import annotations

from graphtemper.calibrators.stac.method import (
    StacResult,
    as_published,
    binned_loss,
    binned_proxy,
    from_observation,
    node_proxy,
    stac,
    threshold,
)

__all__ = [
    "StacResult",
    "as_published",
    "binned_loss",
    "binned_proxy",
    "from_observation",
    "node_proxy",
    "stac",
    "threshold",
]
