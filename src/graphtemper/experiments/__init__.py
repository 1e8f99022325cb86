"""One file for each figure or table of the paper; the library never imports from here."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from graphtemper.errors import InputError

if TYPE_CHECKING:
    from graphtemper.experiments.outcome import Outcome

# What `graphtemper paper NAME` can reproduce, in the paper's order.
FIGURES = {
    "concept": "graphtemper.experiments.concept",
    "slope": "graphtemper.experiments.slope",
    "extensions": "graphtemper.experiments.extensions",
    "bound": "graphtemper.experiments.bound",
    "temperature": "graphtemper.experiments.temperature_grid",
    "label-free": "graphtemper.experiments.label_free",
    "synthetic": "graphtemper.experiments.synthetic",
    "real": "graphtemper.experiments.real",
    "sweep": "graphtemper.experiments.sweep",
    "rewiring": "graphtemper.experiments.rewiring",
    "audit": "graphtemper.experiments.audit",
}


def run(name: str) -> Outcome:
    """Reproduce one figure or table and return its numbers."""
    if name not in FIGURES:
        raise InputError(f"unknown figure {name!r}; choose from {', '.join(FIGURES)} or all.")
    outcome: Outcome = importlib.import_module(FIGURES[name]).run()
    return outcome
