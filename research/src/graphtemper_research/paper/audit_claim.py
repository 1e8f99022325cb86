"""A claim of the audit, and how its sentences read the outcomes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from graphtemper_research.harness.frame import select

Outcomes = dict[str, dict[str, Any]]


class NotMeasuredError(Exception):
    """What a sentence needs is not in the outcomes."""


@dataclass(frozen=True)
class Claim:
    """One claim of the paper.

    ``measured`` turns the outcomes it needs into a sentence, and ``supported`` says whether they
    show what the verdict says; without that there is no verdict.
    """

    title: str
    paper: str
    code: str
    needs: tuple[str, ...]
    measured: Callable[[Outcomes], str]
    verdict: str
    supported: Callable[[Outcomes], bool]


def value(outcomes: Outcomes, name: str, quantity: str) -> dict[str, Any]:
    """Return the comparison of a quantity, or the first that starts with the text."""
    found = [item for item in outcomes[name]["comparisons"] if item["measured"] is not None]
    found = [item for item in found if item["quantity"].startswith(quantity)]
    if not found:
        raise NotMeasuredError(quantity)
    comparison: dict[str, Any] = min(found, key=lambda item: item["quantity"] != quantity)
    return comparison


def measured(outcomes: Outcomes, name: str, quantity: str) -> float:
    """Return a comparison's number."""
    return float(value(outcomes, name, quantity)["measured"])


def number(outcomes: Outcomes, name: str, quantity: str) -> str:
    """Return a comparison's number with three decimals."""
    return f"{measured(outcomes, name, quantity):.3f}"


def count(outcomes: Outcomes, name: str, quantity: str) -> str:
    """Return a comparison's count, and what its note lists."""
    item = value(outcomes, name, quantity)
    listed = f" ({item['note']})" if item["note"] else ""
    return f"{item['measured']:.0f}{listed}"


def rows(outcomes: Outcomes, name: str, **values: Any) -> list[dict[str, Any]]:
    """Return the rows of an outcome with some values; at least one."""
    found: list[dict[str, Any]] = select(outcomes[name]["rows"], **values)
    if not found:
        raise NotMeasuredError(", ".join(str(item) for item in values.values()))
    return found
