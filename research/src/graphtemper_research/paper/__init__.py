"""The figures and tables of the paper, each in a module of its own, and the audit.

Module, name for `graphtemper paper`, and content with its label in the paper:

==================  ===========  ==================================================================
`concept`           concept      Figure `fig:concept`: confidence and accuracy by logit
`slope`             slope        Figure `fig:val`: the slope of Theorem 1
`extensions`        extensions   Figure `fig:ext`: self-loops and several classes
`bound`             bound        Figure `fig:bound`: the bound of Proposition 4
`temperature_grid`  temperature  Figure `fig:temp`: the temperature over homophily and SNR
`synthetic`         synthetic    Figure `fig:mech` and the synthetic tables: STAC on block models
`real`              real         Figure `fig:real`, Table `tab:real`: STAC on real graphs
`sweep`             sweep        Figure `fig:sweep`: the gap against feature noise
`rewiring`          rewiring     Figure `fig:struct`: rewired edges
`diagnostic`        diagnostic   Section 6.1: the slope as a diagnostic on real graphs
`audit`             audit        small studies of claims that no figure tests
==================  ===========  ==================================================================

`frozen_binary` and `slope_grid` hold what the figures on block models share, `real_graphs` what
those on real graphs share. `block_models` is the synthetic study, and `released_stream` the same on
the authors' random numbers. `theory_studies` and `homophily_study` belong to the audit.
`audit_page`, with the claims in ``claims.toml``, and `results_page` write the pages.
"""

from __future__ import annotations

import importlib
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from graphtemper import errors

if TYPE_CHECKING:
    from graphtemper_research.harness.outcome import Outcome

# What `graphtemper paper NAME` can reproduce, in the paper's order.
FIGURES = {
    "concept": "graphtemper_research.paper.concept",
    "slope": "graphtemper_research.paper.slope",
    "extensions": "graphtemper_research.paper.extensions",
    "bound": "graphtemper_research.paper.bound",
    "temperature": "graphtemper_research.paper.temperature_grid",
    "synthetic": "graphtemper_research.paper.synthetic",
    "real": "graphtemper_research.paper.real",
    "sweep": "graphtemper_research.paper.sweep",
    "rewiring": "graphtemper_research.paper.rewiring",
    "diagnostic": "graphtemper_research.paper.diagnostic",
    "audit": "graphtemper_research.paper.audit",
}

# The paper's numbers of them. Figures 2 to 4 are drawings, and table 1 lists related work.
NUMBERS = {
    "fig1": "concept",
    "fig5": "slope",
    "fig6": "extensions",
    "fig7": "bound",
    "fig8": "temperature",
    "fig9": "synthetic",
    "fig10": "real",
    "fig11": "sweep",
    "fig12": "rewiring",
    "table2": "real",
}


def named(figure: str) -> str:
    """Return the name of a figure or table that may be given by its number in the paper.

    Examples
    --------
    >>> named("fig5"), named("Table 2"), named("slope")
    ('slope', 'real', 'slope')
    """
    number = re.fullmatch(r"(figure|fig|table|tab)\.?\s*(\d{1,2})", figure.strip(), re.IGNORECASE)
    if number is None:
        return figure
    kind = "fig" if number.group(1).lower().startswith("fig") else "table"
    key = f"{kind}{number.group(2)}"
    if key not in NUMBERS:
        raise errors.choice(
            f"{figure!r} has no numbers to reproduce; choose from {', '.join(NUMBERS)}, or a name "
            f"of {', '.join(FIGURES)}."
        )
    return NUMBERS[key]


def run(name: str) -> Outcome:
    """Reproduce one figure or table and return its numbers."""
    if name not in FIGURES:
        raise errors.choice(f"unknown figure {name!r}; choose from {', '.join(FIGURES)} or all.")
    from graphtemper_research.harness.provenance import stamp

    outcome: Outcome = importlib.import_module(FIGURES[name]).run()
    return replace(outcome, measured=stamp(f"graphtemper paper {name}"))
