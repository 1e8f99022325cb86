"""The choice of the constants of labelled environments: made on other families only."""

from dataclasses import replace

import numpy as np
import pytest

from graphtemper.card.random_effects import CONSTANTS
from graphtemper_research.trials import natural_constants
from graphtemper_research.trials.natural_places import GRID


def cell(family, gap, spread, seed):
    """Return a cell of six environments whose gaps vary around a mean, with ECE |accuracy - C|."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(6):
        truth = 2.0 + gap + spread * rng.standard_normal()
        share = 1.0 / (1.0 + np.exp(-GRID))
        environment = {
            **{"truth": truth, "variance": 0.004, "confidence": 2.0, "atlas": 2.0, "second": 2.0},
            **{"place": rng.normal(size=3).tolist(), "means": rng.normal(size=4 + number).tolist()},
        }
        reading = {
            **{
                "confidence": 2.0,
                "atlas": 2.0,
                "second": 2.0,
                "fraction": 1.0,
                "environment": environment,
            },
            "ece": np.abs(share - 1.0 / (1.0 + np.exp(-truth))).tolist(),
        }
        rows.append({"target": f"t{number}", "nodes": 1000, "reading": reading})
    return {"family": family, "model": "SIGN", "seed": 1, "source": family, "rows": rows}


def test_environments_bring_the_answer_near_the_truth():
    rows = cell("a", gap=-1.0, spread=0.1, seed=0)["rows"]
    for target in rows:
        others = [item for item in rows if item is not target]
        assert natural_constants.ece(target, others, CONSTANTS) < 0.05
        one = natural_constants.ece(target, others[:1], CONSTANTS)
        none = replace(CONSTANTS, mean=0.0, mean_scale=1e-6, spread=1e-3, spread_count=1e9)
        assert one < natural_constants.ece(target, others, none)


def test_a_family_is_scored_with_the_constants_of_the_others(monkeypatch):
    """The constants that suit family b are used for a, and the other way round."""
    low, high = (
        replace(CONSTANTS, mean=mean, mean_scale=0.01, spread=0.05) for mean in (-2.0, 0.0)
    )
    monkeypatch.setattr(natural_constants, "TRIED", (low, high))
    cells = [cell("a", gap=-2.0, spread=0.05, seed=1), cell("b", gap=0.0, spread=0.05, seed=2)]
    found = natural_constants.left_out(cells)
    rows = cells[0]["rows"]
    expected = natural_constants.ece(rows[0], rows[1:], high)
    assert found["SIGN", 1, "a", "t0"] == pytest.approx(expected)
    assert expected > natural_constants.ece(rows[0], rows[1:], low)
