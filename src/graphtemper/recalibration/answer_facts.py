"""An answer as plain values: what files and machines read, the same for graphs and for shards."""

from __future__ import annotations

from typing import Any, Protocol

from graphtemper._core.estimate import Estimate
from graphtemper.recalibration.reasons import Reason
from graphtemper.recalibration.verdict import LEVEL, Verdict


class _Answered(Protocol):
    """What an answer says of a whole target, however it was computed."""

    @property
    def accuracy(self) -> Estimate: ...
    @property
    def verdict(self) -> Verdict: ...
    @property
    def reasons(self) -> list[Reason]: ...
    @property
    def slope(self) -> float: ...
    @property
    def severity_bound(self) -> float: ...
    @property
    def signals(self) -> dict[str, float]: ...
    @property
    def gains(self) -> dict[str, float]: ...
    @property
    def nearest(self) -> list[tuple[str, float]]: ...
    @property
    def mean_confidence(self) -> tuple[float, float]: ...


def as_facts(found: _Answered) -> dict[str, Any]:
    """Return an answer as plain Python values."""
    accuracy, (before, after) = found.accuracy, found.mean_confidence
    interval = {"value": accuracy.value, "low": accuracy.low, "high": accuracy.high}
    return {
        "schema": "graphtemper.recalibration/2",
        "verdict": found.verdict,
        "reasons": [reason.to_dict() for reason in found.reasons],
        "slope": found.slope,
        "severity_bound": found.severity_bound,
        "accuracy": interval | {"level": LEVEL},
        "mean_confidence": {"before": before, "after": after},
        "signals": dict(found.signals),
        "gains": dict(found.gains),
        "nearest": [{"family": name, "distance": value} for name, value in found.nearest],
    }
