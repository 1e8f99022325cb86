"""What happened to a model on a target, in the theory's words: direction, homophily, SNR, slope."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphtemper.errors import InputError

if TYPE_CHECKING:
    from graphtemper.card.card import SourceCard
    from graphtemper.recalibration.job import Recalibration


def diagnosis(result: Recalibration, card: SourceCard) -> dict[str, Any]:
    """Return direction, homophily and SNR against the source's, and what theory predicts."""
    source, seen = card.reference.evidence, result.signals
    target = {"homophily": seen.get("homophily"), "snr": seen.get("snr")}
    confidence, accuracy = result.mean_confidence[0], result.accuracy
    direction = "over-confident" if confidence > accuracy.high else "calibrated within error"
    return {
        "direction": "under-confident" if confidence < accuracy.low else direction,
        "source": {"homophily": source.homophily, "snr": source.snr},
        "target": target,
        "theory": theory_slope(target["homophily"], source.homophily, source.snr, card),
    }


def theory_slope(
    target: float | None, source: float | None, snr: float | None, card: SourceCard
) -> dict[str, Any]:
    """Return Theorem 1's slope from the estimates, or why it does not apply.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> found = theory_slope(0.65, 0.8, 1.0, SimpleNamespace(num_classes=2))
    >>> round(found["slope"], 3)
    0.429
    """
    import warnings

    from graphtemper import theory
    from graphtemper.errors import IllConditionedWarning

    if card.num_classes != 2:
        return {"slope": None, "why": f"Theorem 1 has two classes, not {card.num_classes}"}
    if target is None or source is None:
        return {"slope": None, "why": "there are no edges to see homophily on"}
    if snr is None or snr <= 0.0:
        return {"slope": None, "why": "no signal-to-noise ratio could be estimated"}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", IllConditionedWarning)
            return {"slope": float(theory.slope(target, source, snr)), "why": ""}
    except (InputError, IllConditionedWarning):
        return {"slope": None, "why": "the source's homophily is too close to 1/2"}
