"""How well unlabelled logits alone reveal the temperature, on any grid of the theory figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphtemper.experiments.outcome import Comparison

# Inside this range of true accuracies an answer is expected; outside, silence is.
EXPECTED = (0.75, 0.99)
TOLERANCE = 0.10


def compare(rows: Sequence[dict[str, Any]]) -> list[Comparison]:
    """Compare seed-averaged label-free temperatures with the oracle's, point by point.

    A point counts as answered when most seeds gave an answer.
    """
    inside = [row for row in rows if EXPECTED[0] <= row["accuracy"] <= EXPECTED[1]]
    outside = [row for row in rows if row not in inside]
    good = [row for row in inside if _answered(row) and _relative_error(row) <= TOLERANCE]
    missed = [row for row in inside if row not in good]
    spoken = [row for row in outside if row["label_free_answers"]]
    return [
        Comparison(
            f"label-free T within 10 % of the oracle (accuracy in {EXPECTED[0]}-{EXPECTED[1]})",
            len(good),
            f"all {len(inside)} points",
            len(good) == len(inside),
            note="; ".join(_describe(row) for row in missed),
        ),
        Comparison(
            "points outside that range where the mixture answers for any seed",
            len(spoken),
            f"0 of {len(outside)}",
            not spoken,
            note="; ".join(_describe(row) for row in spoken),
        ),
    ]


def _answered(row: dict[str, Any]) -> bool:
    return bool(2 * row["label_free_answers"] > row["label_free_seeds"])


def _relative_error(row: dict[str, Any]) -> float:
    return float(abs(row["label_free_temperature"] / row["label_free_oracle"] - 1))


def _describe(row: dict[str, Any]) -> str:
    place = f"h_t = {row['h_target']}" + (f", snr = {row['snr']}" if "snr" in row else "")
    if not row["label_free_answers"]:
        return f"{place}: not identifiable (accuracy {row['accuracy']:.2f})"
    return (
        f"{place}: {row['label_free_temperature']:.2f} against "
        f"{row['label_free_oracle']:.2f} "
        f"({row['label_free_answers']} of {row['label_free_seeds']} seeds, "
        f"accuracy {row['accuracy']:.2f})"
    )
