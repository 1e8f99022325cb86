"""What changed between source and target, in the terms of the theory."""

from __future__ import annotations

import math
import warnings
from typing import Any

from scipy.special import expit

from graphtemper import theory
from graphtemper.card.atlas import moves_edges_only
from graphtemper.card.card import SourceCard
from graphtemper.errors import IllConditionedWarning, InputError
from graphtemper.recalibration.applied import Applied


def diagnosis(result: Applied, card: SourceCard) -> dict[str, Any]:
    """Return homophily, degree and SNR against the source's, and the slope that theory predicts.

    A degree here is the typical one, exp(mean of log(1 + degree)) - 1. The slope is given only
    where the accuracy that the atlas reads does not contradict it, and with its `reliability`.
    """
    source, signals = card.reference.evidence, result.signals
    homophily, log_degree = signals.get("homophily"), signals.get("log_degree")
    predicted = theory_slope(homophily, source.homophily, source.snr, card.num_classes)
    if predicted["slope"] is not None and (why := _contradiction(result, predicted["slope"])):
        predicted = {"slope": None, "why": why}
    degrees = [None if x is None else math.expm1(x) for x in (source.log_degree, log_degree)]
    own = {"homophily": source.homophily, "snr": source.snr, "degree": degrees[0]}
    seen = {"homophily": homophily, "snr": signals.get("snr"), "degree": degrees[1]}
    return {"source": own, "target": seen, "theory": predicted | reliability(card)}


def theory_slope(
    homophily: float | None, source_homophily: float | None, snr: float | None, num_classes: int
) -> dict[str, Any]:
    """Return the slope that theory predicts from estimates, or why it does not apply.

    It is that of equal degrees; see `graphtemper.theory.slope_multiclass`.

    Examples
    --------
    >>> round(theory_slope(0.65, 0.8, 1.0, num_classes=2)["slope"], 3)
    0.429
    """
    if homophily is None or source_homophily is None:
        return {"slope": None, "why": "there are no edges to see homophily on"}
    if snr is None or snr <= 0.0:
        return {"slope": None, "why": "no signal-to-noise ratio could be estimated"}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", IllConditionedWarning)
            slope = float(theory.slope_multiclass(homophily, source_homophily, snr, num_classes))
            return {"slope": slope, "why": ""}
    except (InputError, IllConditionedWarning):
        return {"slope": None, "why": f"the source's homophily is too close to 1/{num_classes}"}


def _contradiction(result: Applied, slope: float) -> str:
    """Return why the atlas rules a slope out, or nothing."""
    if result.verdict == "abstain" or not len(result.logits):
        return "no accuracy is known that could confirm it"
    if slope <= 0.0 or (slope - 1.0) * (result.slope - 1.0) < 0.0:
        return "the atlas sees the opposite direction"
    confidence = result.at(result.source_temperature / slope).max(axis=1).mean()
    inside = result.accuracy.low <= confidence <= result.accuracy.high
    return "" if inside else "it would put confidence outside the interval of the accuracy"


def reliability(card: SourceCard) -> dict[str, int]:
    """Return on how many of the card's shifts of edges theory is closer than no correction.

    The measured slope of a shift is its best temperature's, from the labels of the source.
    """
    source, closer, shifts = card.reference.evidence, 0, 0
    for point in card.atlas:
        if moves_edges_only(point) and source.homophily is not None:
            homophily = float(expit(point.signals["predicted homophily"]))
            slope = theory_slope(homophily, source.homophily, source.snr, card.num_classes)["slope"]
            relative = (slope or 0.0) * point.temperature
            shifts += 1
            closer += relative > 0.0 and abs(math.log(relative)) < abs(math.log(point.temperature))
    return {"closer": closer, "shifts": shifts}
