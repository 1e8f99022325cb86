"""What changed between source and target, in the terms of the theory."""

from __future__ import annotations

import warnings
from typing import Any

from graphtemper import theory
from graphtemper.card.data import CardData
from graphtemper.errors import IllConditionedWarning, InputError
from graphtemper.recalibration.findings import Findings
from graphtemper.recalibration.reasons import ReasonCode
from graphtemper.recalibration.verdict import direction

_DIRECTIONS = {
    ReasonCode.OVER_CONFIDENT: "over-confident",
    ReasonCode.UNDER_CONFIDENT: "under-confident",
    ReasonCode.CALIBRATED: "calibrated within error",
    ReasonCode.DIRECTION_UNCLEAR: "unclear, because the interval is too wide",
}


def diagnosis(result: Findings, card: CardData) -> dict[str, Any]:
    """Return direction, homophily and SNR against the source's, and what theory predicts."""
    source, signals = card.reference.evidence, result.signals
    target = {"homophily": signals.get("homophily"), "snr": signals.get("snr")}
    code = direction(result.mean_confidence[0], result.accuracy).code
    return {
        "direction": _DIRECTIONS[code],
        "source": {"homophily": source.homophily, "snr": source.snr},
        "target": target,
        "theory": theory_slope(target["homophily"], source.homophily, source.snr, card.num_classes),
    }


def theory_slope(
    homophily: float | None, source_homophily: float | None, snr: float | None, num_classes: int
) -> dict[str, Any]:
    """Return Theorem 1's slope from estimates, or why it does not apply.

    Examples
    --------
    >>> round(theory_slope(0.65, 0.8, 1.0, num_classes=2)["slope"], 3)
    0.429
    """
    if num_classes != 2:
        return {"slope": None, "why": f"Theorem 1 has two classes, not {num_classes}"}
    if homophily is None or source_homophily is None:
        return {"slope": None, "why": "there are no edges to see homophily on"}
    if snr is None or snr <= 0.0:
        return {"slope": None, "why": "no signal-to-noise ratio could be estimated"}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", IllConditionedWarning)
            return {"slope": float(theory.slope(homophily, source_homophily, snr)), "why": ""}
    except (InputError, IllConditionedWarning):
        return {"slope": None, "why": "the source's homophily is too close to 1/2"}
