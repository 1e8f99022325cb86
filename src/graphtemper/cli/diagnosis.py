"""What `graphtemper diagnose` adds to a recalibration: the source beside the target, and theory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphtemper.errors import InputError

if TYPE_CHECKING:
    from graphtemper.card import SourceCard
    from graphtemper.recalibration import Recalibration


def diagnosis_rows(result: Recalibration, facts: dict[str, Any]) -> dict[str, str]:
    """Return the diagnosis as names and short texts."""
    was, now = facts["source"], facts["target"]
    nearest = ", ".join(f"{name} ({distance:.1f})" for name, distance in result.nearest[:3])
    return {
        "Slope": f"{result.slope:.3f} from the atlas; theory {_theory(facts['theory'])}",
        "Direction": facts["direction"],
        "Severity": _severity(result.severity_bound),
        "Looks like": f"{nearest} (distance in atlas standard deviations)",
        "Homophily": f"{_number(now['homophily'])}, at the source {_number(was['homophily'])} "
        "(between predictions)",
        "SNR": f"{_number(now['snr'])}, at the source {_number(was['snr'])}",
    }


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
    """Return Theorem 1's slope from the estimates, or why it does not apply."""
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


def _theory(found: dict[str, Any]) -> str:
    slope = found["slope"]
    return f"not applicable ({found['why']})" if slope is None else f"{slope:.3f}"


def _severity(bound: float) -> str:
    if bound >= 1.0:
        return "no bound on the ECE (the logits are large)"
    return f"ECE at most {bound:.3f} at the source temperature"


def _number(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.3f}"
