"""The committed results: which experiment made each, and whether its code is still the same."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from graphtemper_research import benches, paper
from graphtemper_research.harness.cells import OUTDATED
from graphtemper_research.harness.made_by import digest
from graphtemper_research.harness.outcome import CELLS_CODE, Outcome

# Figures that take a few minutes of one core together: their results are always up to date.
CHEAP = (
    "concept",
    "slope",
    "extensions",
    "bound",
    "temperature",
    "label-free",
    "synthetic",
    "audit",
)


def experiment(name: str) -> str | None:
    """Return the module behind a result's file name, or None for a file of another kind.

    Examples
    --------
    >>> experiment("slope"), experiment("labels")
    ('graphtemper_research.paper.slope', 'graphtemper_research.trials.label_budgets')
    """
    if name in paper.FIGURES:
        return paper.FIGURES[name]
    return f"graphtemper_research.{benches.MODULES[name]}" if name in benches.MODULES else None


def stamped(outcome: Outcome) -> Outcome:
    """Return an outcome with its code's digest, unless other code measured some of its cells."""
    module = experiment(outcome.name)
    mixed = any(item.quantity == OUTDATED for item in outcome.comparisons)
    return replace(outcome, code=None if module is None or mixed else digest(module))


def stale(folder: Path) -> dict[str, str]:
    """Return why a result in a folder, or in its folders, is not the current code's, by path.

    Examples
    --------
    >>> stale(Path("nowhere"))
    {}
    """
    reasons = {}
    for path in sorted(folder.rglob("*.json")):
        module = experiment(path.stem)
        if module is None:
            continue
        content: dict[str, Any] = json.loads(path.read_text("utf-8"))
        name, code = path.relative_to(folder).as_posix(), content.get("code")
        if code is None:
            cells = content.get("settings", {}).get(CELLS_CODE)
            reasons[name] = (
                f"its cells were measured by code {', '.join(cells)}"
                if cells
                else "made before results recorded their code"
            )
        elif code != digest(module):
            reasons[name] = f"made by code {code}; the code is now {digest(module)}"
    return reasons
