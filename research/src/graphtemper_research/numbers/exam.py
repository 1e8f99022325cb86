"""What the coverage exam says: how often trusted intervals hold, and who says `abstain` when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphtemper_research.harness.frame import Row, distinct, select
from graphtemper_research.numbers.tables import ABSENT, Results, table

FILE = "atlas/exam"
NAMES = {"PyG-GCN": "GCN", "PyG-SAGE": "GraphSAGE"}
GOALS = {
    "trust": "share of trust",
    "trusted held": "trusted intervals hold",
    "held": "intervals hold",
    "honest": "interval holds or abstain",
    "width": "mean width",
    "worst held": "worst family",
    "width ratio": "width over Wilson's",
}
"""The goals of the bench, by the column that each is about."""


def rows(results: Results) -> list[dict[str, Any]]:
    """Return one row per model and situation."""
    return results.rows(FILE, part="all")


def exam(results: Results) -> str:
    """Return verdicts and coverage in every situation without labels; a missed goal is bold."""
    own = [row for row in rows(results) if row["width ratio"] is None]
    columns = {
        "answers `trust`": "trust",
        "trusted intervals that hold": "trusted held",
        "all that hold": "held",
        "hold, or `abstain`": "honest",
        "mean width": "width",
    }
    return _table(results, "situation", own, columns)


def exam_labels(results: Results) -> str:
    """Return coverage with random labels, beside Wilson's interval of the same labels."""
    own = [row for row in rows(results) if row["width ratio"] is not None]
    columns = {
        "intervals that hold": "held",
        "in the worst family": "worst held",
        "Wilson's, same labels": "wilson held",
        "Wilson's, worst family": "wilson worst",
        "width over Wilson's": "width ratio",
    }
    return _table(results, "labels of the target", own, columns)


def exam_goals(results: Results) -> str:
    """Say which goals are reached, and name those that are not."""
    goals = [bar for bar in results.read(FILE)["comparisons"] if bar["met"] is not None]
    missed = [bar for bar in goals if not bar["met"]]
    counts = f"{len(goals) - len(missed)} of {len(goals)} goals are reached."
    if not missed:
        return counts
    body = [[_said(bar["quantity"]), f"{bar['measured']:.3g}", bar["bar"]] for bar in missed]
    return f"{counts} Those that are not:\n\n{table(['goal', 'measured', 'bar'], body)}"


def exam_words(results: Results) -> str:
    """Say in one sentence what trusted intervals are worth, over all situations without labels."""
    own = [row for row in rows(results) if row["width ratio"] is None and row["trusted"]]
    trusted = sum(row["trusted"] for row in own)
    held = sum(row["trusted"] * row["trusted held"] for row in own)
    goals = [bar for bar in results.read(FILE)["comparisons"] if bar["met"] is not None]
    met = sum(bar["met"] for bar in goals)
    models = ", ".join(NAMES.get(name, name) for name in distinct(own, "model"))
    sources = len(results.read(FILE)["settings"]["sources"])
    return (
        "The claim: *when it says `trust`, the interval holds; when it cannot know, it says so.* "
        f"In these situations {held / trusted:.0%} of {trusted} trusted 90 % intervals hold "
        f"({models}, {sources} sources). {met} of {len(goals)} goals are reached; a number that "
        "misses its goal is bold."
    )


def _said(quantity: str) -> str:
    model, _, rest = quantity.partition(": ")
    return f"{NAMES.get(model, model)}, {rest}"


def _table(results: Results, corner: str, own: Sequence[Row], columns: Mapping[str, str]) -> str:
    bars = {bar["quantity"]: bar["met"] for bar in results.read(FILE)["comparisons"]}
    models = distinct(own, "model")
    body = []
    for name in distinct(own, "row"):
        found = {row["model"]: row for row in select(own, row=name)}
        count = sum(row["answers"] for row in found.values())
        line = [f"{name} ({count} answers)"]
        for key in columns.values():
            parts = []
            for model in models:
                value = found[model][key] if model in found else None
                text = ABSENT if value is None else _number(key, value)
                missed = bars.get(f"{model}: {name}: {GOALS.get(key)}") is False
                parts.append(f"**{text}**" if missed else text)
            line.append(" / ".join(parts))
        body.append(line)
    names = " / ".join(NAMES.get(model, model) for model in models)
    return table([f"{corner}: {names}", *columns], body)


def _number(key: str, value: float) -> str:
    return f"{value:.2f}" if "width" in key else f"{value:.0%}"
