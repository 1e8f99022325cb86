"""How commands print an answer: verdict, accuracy, temperature, reasons and diagnosis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from graphtemper.cli.output import STYLES, console, print_line, print_sentence, table

if TYPE_CHECKING:
    from graphtemper.recalibration import Recalibration
    from graphtemper.recalibration.decisions import Metrics

_QUALIFIED = {"calibrated": " within error", "unknown": ", because the interval is too wide"}

_NEXT = "one of these"


def print_answer(
    result: Recalibration, metrics: Metrics | None = None, steps: Sequence[str] = ()
) -> None:
    """Print the summary of an answer, wrapped to the terminal, with the verdict in its colour.

    ``steps`` are commands to type next, which stay on one line each. They are left out where the
    summary asks for nothing more.
    """
    from graphtemper.recalibration.decisions.metrics import in_words, title

    verdict, *lines = result.summary(console().width, metrics, _NEXT).splitlines()
    print_sentence(verdict, STYLES[result.verdict])
    more = [f"  {step}" for step in steps]
    if lines[-1] == f"Next: {_NEXT}":
        lines[-1:] = [lines[-1], *more] if more else []
    for line in lines:
        print_line(line)
    if metrics is not None and metrics.segments:
        rows: list[dict[str, Any]] = []
        for name, one in metrics.segments.items():
            rows.append({"Segment": str(name), "Nodes": one.num_nodes})
            for field in ("precision", "recall", "f1"):
                value = getattr(one, field)
                rows[-1][title(field)] = "-" if value is None else in_words(value)
        console().print(table("Segments", rows))


def diagnosis_rows(result: Recalibration, facts: dict[str, Any]) -> dict[str, str]:
    """Return the diagnosis as names and short strings."""
    source, target = facts["source"], facts["target"]
    nearest = ", ".join(f"{name} ({distance:.1f})" for name, distance in result.nearest[:3])
    return {
        "Direction": result.direction + _QUALIFIED.get(result.direction, ""),
        "Severity": f"ECE at most {result.severity_bound:.3f} at the source temperature, for any "
        "accuracy in the interval",
        "Slope": _slope(result, facts["theory"]),
        "Looks like": f"{nearest} (distance in atlas standard deviations)",
        "Homophily": f"{_number(target['homophily'])}, at the source "
        f"{_number(source['homophily'])} (between predictions)",
        "Degree": f"{_number(target['degree'])}, at the source "
        f"{_number(source['degree'])} (typical)",
        "SNR": f"{_number(target['snr'])}, at the source {_number(source['snr'])}",
    }


def _slope(result: Recalibration, prediction: dict[str, Any]) -> str:
    if result.verdict == "abstain":
        return "not known, because the verdict is abstain"
    origin = "the atlas and labels" if result.num_labels else "the atlas"
    slope = prediction["slope"]
    theory = f"not shown ({prediction['why']})" if slope is None else f"{slope:.3f}"
    if prediction["shifts"]:
        theory += f"; on {prediction['closer']} of the {prediction['shifts']} shifts of edges in "
        theory += "the card theory is closer than no correction"
    return f"{result.slope:.3f} from {origin}; theory {theory}"


def _number(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.3f}"
