import json

import numpy as np
import pytest

from graphtemper import csbm, shifts
from graphtemper_research.trials import inductive_pairs
from graphtemper_research.trials.inductive_pairs import WAYS
from graphtemper_research.trials.natural_families import Family

NAMES = ("a", "b", "c", "d")


@pytest.fixture(scope="module")
def graphs():
    """One home and three environments that are noisier by the same amount."""
    drawn = [csbm.sample(600, 6, 0.75, 0.7, num_features=20, seed=seed) for seed in range(4)]
    return dict(zip(NAMES, [drawn[0], *(shifts.noise(1.5)(g, 3) for g in drawn[1:])], strict=True))


def test_environments_explain_a_shift_that_training_nodes_do_not(graphs, monkeypatch):
    monkeypatch.setattr(inductive_pairs, "sources", lambda names: ["a"])
    found = list(inductive_pairs.pairs("SIGN", Family("f", NAMES), graphs))
    assert len(found) == 3
    ways = {way: np.array([item[way] for item in found]) for way in WAYS}
    rows = inductive_pairs.summary([ways, ways])
    assert rows["plain"]["accuracy"] > 0.1
    assert rows["plain"]["accuracy_removed"] == rows["plain"]["better"] == 0.0
    assert rows["elsewhere"]["accuracy_removed"] > 0.5
    assert rows["elsewhere"]["better"] > 0.05
    assert abs(rows["swapped"]["accuracy_removed"]) < 0.2


def test_two_environments_leave_no_third(graphs):
    found = list(inductive_pairs.pairs("SIGN", Family("f", NAMES[:2]), graphs))
    assert [set(item) for item in found] == [{"plain", "cut", "swapped"}] * 2


def test_a_line_per_way_and_family(graphs, monkeypatch, capsys):
    families = (Family("f", NAMES), Family("g", NAMES[:3]))
    monkeypatch.setattr(inductive_pairs, "FAMILIES", families)
    monkeypatch.setattr(inductive_pairs, "load_graph", graphs.__getitem__)
    inductive_pairs.main(["SIGN"])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["way"] for row in rows] == list(WAYS) * 3
    assert [row.get("family") for row in rows[::4]] == ["f", "g", None]
    inductive_pairs.main(["SIGN", "g"])
    assert len(capsys.readouterr().out.splitlines()) == 8


@pytest.mark.nightly
def test_cards_of_each_way_answer_known_shifts(monkeypatch, capsys):
    known = inductive_pairs.known_shifts()
    assert list(known) == ["home", "none", "noise", "mask", "rewire", "drop"]
    assert known["none"].num_edges > 1.5 * known["drop"].num_edges
    few = {name: known[name].subgraph(range(400)) for name in ("home", "none")}
    monkeypatch.setattr(inductive_pairs, "known_shifts", lambda: few)
    inductive_pairs.main(["cards", "SIGN", "known"])
    row = json.loads(capsys.readouterr().out)
    assert set(row) == {"model", "family", "source_t", "plain", "cut", "swapped"}
    assert 0.0 < row["plain"] < 0.3
