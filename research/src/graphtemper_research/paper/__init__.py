"""One file for each figure or table of the paper; the library never imports from here."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from graphtemper.errors import InputError

if TYPE_CHECKING:
    from graphtemper_research.harness.outcome import Outcome

# What `graphtemper paper NAME` can reproduce, in the paper's order.
FIGURES = {
    "concept": "graphtemper_research.paper.concept",
    "slope": "graphtemper_research.paper.slope",
    "extensions": "graphtemper_research.paper.extensions",
    "bound": "graphtemper_research.paper.bound",
    "temperature": "graphtemper_research.paper.temperature_grid",
    "label-free": "graphtemper_research.paper.label_free",
    "synthetic": "graphtemper_research.paper.synthetic",
    "real": "graphtemper_research.paper.real",
    "sweep": "graphtemper_research.paper.sweep",
    "rewiring": "graphtemper_research.paper.rewiring",
    "audit": "graphtemper_research.paper.audit",
}


def run(name: str) -> Outcome:
    """Reproduce one figure or table and return its numbers."""
    if name not in FIGURES:
        raise InputError(f"unknown figure {name!r}; choose from {', '.join(FIGURES)} or all.")
    outcome: Outcome = importlib.import_module(FIGURES[name]).run()
    return outcome
