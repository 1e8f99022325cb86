"""What changed between source and target, in the terms of the theory."""

from __future__ import annotations

import math
import warnings
from typing import Any

from graphtemper import theory
from graphtemper.card.card import SourceCard
from graphtemper.errors import IllConditionedWarning, InputError
from graphtemper.recalibration.findings import Findings


def diagnosis(result: Findings, card: SourceCard) -> dict[str, Any]:
    """Return homophily, degree and SNR against the source's, and the slope that theory predicts.

    A degree here is the typical one, exp(mean of log(1 + degree)) - 1.
    """
    source, signals = card.reference.evidence, result.signals
    homophily, log_degree = signals.get("homophily"), signals.get("log_degree")
    source_degree = math.expm1(source.log_degree)
    degree = None if log_degree is None else math.expm1(log_degree)
    ratio = degree / source_degree if degree and source_degree > 0.0 else None
    return {
        "source": {"homophily": source.homophily, "snr": source.snr, "degree": source_degree},
        "target": {"homophily": homophily, "snr": signals.get("snr"), "degree": degree},
        "theory": theory_slope(homophily, source.homophily, source.snr, card.num_classes, ratio),
    }


def theory_slope(
    homophily: float | None,
    source_homophily: float | None,
    snr: float | None,
    num_classes: int,
    degree_ratio: float | None = 1.0,
) -> dict[str, Any]:
    """Return the slope that theory predicts from estimates, or why it does not apply.

    For two classes and equal degrees it is Theorem 1's; see `graphtemper.theory.slope_multiclass`.

    Examples
    --------
    >>> round(theory_slope(0.65, 0.8, 1.0, num_classes=2)["slope"], 3)
    0.429
    >>> round(theory_slope(0.65, 0.8, 1.0, num_classes=5, degree_ratio=0.5)["slope"], 3)
    0.35
    """
    if homophily is None or source_homophily is None or degree_ratio is None:
        return {"slope": None, "why": "there are no edges to see homophily on"}
    if snr is None or snr <= 0.0:
        return {"slope": None, "why": "no signal-to-noise ratio could be estimated"}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", IllConditionedWarning)
            slope = theory.slope_multiclass(
                homophily, source_homophily, snr, num_classes, degree_ratio=degree_ratio
            )
            return {"slope": float(slope), "why": ""}
    except (InputError, IllConditionedWarning):
        return {"slope": None, "why": f"the source's homophily is too close to 1/{num_classes}"}
