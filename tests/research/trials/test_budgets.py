"""The page that compares budgets, and the counting of calls."""

import json

import pytest

from graphtemper import csbm
from graphtemper.models.passes import passes_of
from graphtemper_research.trials import budgets, pyg_modules
from graphtemper_research.trials.trial import MODELS


def row(budget, known, unknown, coverage=0.9):
    return {
        "graph": "ring",
        "model": "PyG-GCN",
        "seed": 1,
        "code": "abc",
        "budget": budget,
        "card_calls": 7106 if budget else 496,
        "card_ratio": 400.4,
        "known": known,
        "unknown": unknown,
        "known_coverage": coverage,
        "unknown_coverage": coverage,
    }


def test_the_page_compares_the_two_budgets_of_a_row(tmp_path):
    path = tmp_path / "budgets.json"
    budgets.write([row(None, 1.04, 1.2)], path)
    assert "| ring |" not in path.with_suffix(".md").read_text("utf-8")  # no thorough card yet
    budgets.write([row("thorough", 1.0, 1.2)], path)
    budgets.write([row(None, 1.02, 1.5, coverage=0.75)], path)  # replaces the first
    assert len(json.loads(path.read_text("utf-8"))) == 2
    page = path.with_suffix(".md").read_text("utf-8")
    cells = "1.02 | 1.00 | +2 % | 75 % | 1.50 | 1.20 | +25 % | 75 %"
    assert f"| ring | PyG-GCN | 1 | 496 | 7106 | 400 | {cells} |" in page
    means = "1.020 | 1.000 | +2.0 % | 75 / 90 % | 1.500 | 1.200 | +25.0 % | 75 / 90 %"
    assert f"| PyG-GCN | 1 | 1 | {means} |" in page
    other = [row(budget, 1.1, 1.2) | {"graph": "star"} for budget in (None, "thorough")]
    budgets.write(other, path)
    page = path.with_suffix(".md").read_text("utf-8")
    # (1.02 + 1.1) / (1.0 + 1.1), and the changes 2 % and 0 % of the rows
    assert "| all | 2 | 2 | 1.060 | 1.050 | +1.0 % ± 1.0 | 82 / 90 % |" in page
    assert "code abc" in page


@pytest.mark.parametrize("name", ["SIGN", "PyG-GCN"])
def test_calls_are_those_of_the_model(name, monkeypatch):
    pytest.importorskip("torch_geometric")
    monkeypatch.setattr(pyg_modules, "EPOCHS", 2)
    graph = csbm.sample(80, degree=4, homophily=0.8, snr=1.0, num_features=5, seed=1)
    counted = budgets.Counted(MODELS[name](0).fit(graph, graph.labelled[:40]))
    counted.calls = 0
    for expected in (1, 2):
        assert counted.used(graph).shape == (80, 2)
        assert counted.calls == expected
    assert not passes_of(counted.used).cheap
