"""How `graphtemper diagnose` prints: the source beside the target, and theory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graphtemper.recalibration.job import Recalibration


def diagnosis_rows(result: Recalibration, facts: dict[str, Any]) -> dict[str, str]:
    """Return the diagnosis as names and short texts."""
    was, now = facts["source"], facts["target"]
    nearest = ", ".join(f"{name} ({distance:.1f})" for name, distance in result.nearest[:3])
    return {
        "Slope": f"{_slope(result)}; theory {_theory(facts['theory'])}",
        "Direction": facts["direction"],
        "Severity": _severity(result.severity_bound),
        "Looks like": f"{nearest} (distance in atlas standard deviations)",
        "Homophily": f"{_number(now['homophily'])}, at the source {_number(was['homophily'])} "
        "(between predictions)",
        "SNR": f"{_number(now['snr'])}, at the source {_number(was['snr'])}",
    }


def _slope(result: Recalibration) -> str:
    if result.verdict == "abstain":
        return "not used, because the verdict is abstain"
    source = "the atlas and labels" if result.num_labels else "the atlas"
    return f"{result.slope:.3f} from {source}"


def _theory(found: dict[str, Any]) -> str:
    slope = found["slope"]
    return f"not applicable ({found['why']})" if slope is None else f"{slope:.3f}"


def _severity(bound: float) -> str:
    if bound >= 1.0:
        return "no bound on the ECE (the logits are large)"
    return f"ECE at most {bound:.3f} at the source temperature"


def _number(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.3f}"
