"""How commands print an answer: verdict, accuracy, temperature, reasons and diagnosis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphtemper.cli.output import STYLES, print_reasons, print_rows, print_sentence

if TYPE_CHECKING:
    from graphtemper.recalibration.job import Recalibration
    from graphtemper.scale import ShardedRecalibration

# Relative differences below this are not worth mentioning to a reader.
_SAME = 0.02


def print_answer(result: Recalibration | ShardedRecalibration, source_temperature: float) -> None:
    """Print the verdict, the accuracy, what happens to the confidence, and the reasons."""
    accuracy, (before, after) = result.accuracy, result.mean_confidence
    print_sentence(f"Verdict: {result.verdict}", STYLES[result.verdict])
    print_rows(
        {
            "Accuracy": f"{accuracy.value:.1%} (90 % interval {accuracy.low:.1%} to "
            f"{accuracy.high:.1%})",
            "Confidence": f"{before:.1%} at the source temperature, {after:.1%} now",
            "Temperature": _temperature(result, source_temperature),
        }
    )
    print_reasons(result.reasons)


def diagnosis_rows(result: Recalibration, facts: dict[str, Any]) -> dict[str, str]:
    """Return the diagnosis as names and short strings."""
    source, target = facts["source"], facts["target"]
    nearest = ", ".join(f"{name} ({distance:.1f})" for name, distance in result.nearest[:3])
    return {
        "Slope": f"{_slope(result)}; theory {_theory(facts['theory'])}",
        "Direction": facts["direction"],
        "Severity": _severity(result.severity_bound),
        "Looks like": f"{nearest} (distance in atlas standard deviations)",
        "Homophily": f"{_number(target['homophily'])}, at the source "
        f"{_number(source['homophily'])} (between predictions)",
        "SNR": f"{_number(target['snr'])}, at the source {_number(source['snr'])}",
    }


def _temperature(result: Recalibration | ShardedRecalibration, source: float) -> str:
    import numpy as np

    value = result.temperature
    nodes = getattr(result, "node_temperatures", None)  # answers from shards have none
    if result.verdict == "abstain":
        return f"{value:.3g}, the source temperature: nothing is changed"
    if nodes is not None:
        low, high = np.quantile(nodes, (0.05, 0.95))
        return f"{value:.3g} for the graph; per node, 90 % between {low:.3g} and {high:.3g}"
    if abs(value / source - 1.0) < _SAME:
        return f"{value:.3g}, as at the source: confidence does not change"
    word = "lowered" if value > source else "raised"
    return f"{value:.3g} (source {source:.3g}): confidence is {word}"


def _slope(result: Recalibration) -> str:
    if result.verdict == "abstain":
        return "not used, because the verdict is abstain"
    origin = "the atlas and labels" if result.num_labels else "the atlas"
    return f"{result.slope:.3f} from {origin}"


def _theory(prediction: dict[str, Any]) -> str:
    slope = prediction["slope"]
    return f"not applicable ({prediction['why']})" if slope is None else f"{slope:.3f}"


def _severity(bound: float) -> str:
    if bound >= 1.0:
        return "no bound on the ECE (the logits are large)"
    return f"ECE at most {bound:.3f} at the source temperature"


def _number(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.3f}"
