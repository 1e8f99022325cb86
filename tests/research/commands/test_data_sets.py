"""`graphtemper data`."""

import json

import numpy as np
import pytest
from tests.helpers import run_command

from graphtemper import csbm
from graphtemper_research.graphs import datasets


def test_data_list():
    entries = json.loads(run_command("data", "list", "--json").stdout)
    assert {"cora", "roman_empire", "questions"} <= {entry["name"] for entry in entries}
    assert all(entry["licence"] for entry in entries)


@pytest.mark.parametrize("columns", [80, 120])
def test_numbers_are_complete_on_any_terminal(columns):
    result = run_command("data", "list", COLUMNS=str(columns))
    assert result.returncode == 0, result.stderr
    assert max(len(line.rstrip()) for line in result.stdout.splitlines()[1:]) <= columns
    words = set(result.stdout.replace(",", " ").split())
    assert "…" not in result.stdout
    for name, entry in datasets.CATALOGUE.items():
        assert {name, str(entry.nodes), str(entry.edges)} <= words


@pytest.mark.parametrize("columns", [50, 80, 120])
def test_inspect_is_for_people(columns, tmp_path):
    masks = np.zeros((2, 30), dtype=bool)
    masks[:, :12] = True
    graph = csbm.sample(30, degree=4, homophily=0.8, snr=1.0, num_features=5, seed=1)
    graph.replace(train_masks=masks).save(tmp_path / "g.npz")
    result = run_command("data", "inspect", "g.npz", cwd=tmp_path, COLUMNS=str(columns))
    assert result.returncode == 0, result.stderr
    assert max(len(line.rstrip()) for line in result.stdout.splitlines()) <= columns
    text = " ".join(result.stdout.split())
    assert f"Edges {graph.num_edges}; on average" in text
    assert "2: 50.0%, 50.0%" in text
    assert "2; the first has 12 train nodes" in text
    assert not set("{}[]") & set(text)
    facts = json.loads(run_command("data", "inspect", "g.npz", "--json", cwd=tmp_path).stdout)
    assert facts["splits"] == {"count": 2, "train": [12, 12]}
