"""Cells made by hand."""

import pytest

from graphtemper_research.harness.uses import key
from graphtemper_research.leaderboard.methods import PER_NODE
from graphtemper_research.leaderboard.tasks import KNOWN
from graphtemper_research.trials.trial import ATLAS, ORACLE, SOURCE


def row(shift, method, ece, **other):
    scores = {"nll": 0.5, "brier": 0.2, "accuracy": 0.8, "estimate": None}
    scores |= {"noise_floor": 0.03, "classwise_ece": 0.05}
    return {"shift": shift, "method": method, "ece": ece} | scores | other


def cell(model, graph, seed, **ece):
    """A cell whose methods have one ECE at home and another under both of its shifts."""
    names = {"source": SOURCE, "atlas": ATLAS, "per_node": PER_NODE, "oracle": ORACLE}
    rows = [
        row(shift, names.get(name, name), 0.01 if shift == "none" else value)
        for shift in ("none", "noise(1)", "drop(0.5)")
        for name, value in ece.items()
    ]
    head = {"setting": KNOWN, "model": model, "graph": graph, "seed": seed, "compositions": 0}
    return head | {
        "uses": [],
        "code": key(),
        "cpu_seconds": 360.0,
        "wall_seconds": 720.0,
        "rows": rows,
    }


@pytest.fixture
def cells():
    """Return cells of two graphs and two seeds."""
    return [
        cell(
            "SIGN", "a", 1, source=0.20, RBS=0.22, GATS=0.14, atlas=0.05, per_node=0.04, oracle=0.02
        ),
        cell(
            "SIGN", "a", 2, source=0.24, RBS=0.23, GATS=0.18, atlas=0.07, per_node=0.06, oracle=0.04
        ),
        cell(
            "SIGN", "b", 1, source=0.10, RBS=0.11, GATS=0.05, atlas=0.03, per_node=0.02, oracle=0.02
        ),
        cell(
            "SIGN", "b", 2, source=0.12, RBS=0.12, GATS=0.06, atlas=0.03, per_node=0.02, oracle=0.02
        ),
    ]


@pytest.fixture
def make_cell():
    """Return the function that makes a cell."""
    return cell
