"""Every bench by the name of its files."""

from __future__ import annotations

from importlib import import_module

from graphtemper_research.harness.runner import Bench

# Modules of this package that have a bench as BENCH, or under another name. They are imported when
# they are needed.
MODULES = {
    "exam": "trials.exam",
    "leaderboard": "leaderboard.board",
    "atlas_bench": "trials.known_shifts",
    "natural_environments": "trials.natural:ENVIRONMENTS",
    "natural_rule": "trials.natural:WITHOUT_LABELS",
    "natural_labels": "trials.natural:WITH_LABELS",
    "decisions": "trials.decision_metrics",
    "labels": "trials.label_budgets",
    "sessions": "trials.label_sessions",
    "controls": "trials.negative_controls",
    "paper_setting": "trials.paper_setting",
    "sets": "trials.prediction_sets",
    "class_shares": "trials.class_share_shifts",
    "per_node": "trials.per_node_temperatures",
    "monitoring": "trials.monitoring",
    "card_attacks": "trials.card_attacks",
    "calibrators_in_distribution": "gats.protocol",
    "cf_gnn_sets": "gats.set_sizes",
}


def load(name: str) -> Bench:
    """Return a bench by the name of its files.

    Examples
    --------
    >>> load("controls").title
    'What the atlas cannot see'
    """
    module, _, attribute = MODULES[name].partition(":")
    bench = getattr(import_module(f"graphtemper_research.{module}"), attribute or "BENCH")
    assert isinstance(bench, Bench)
    return bench
