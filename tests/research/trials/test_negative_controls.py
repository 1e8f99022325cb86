"""Negative controls: what they do to a graph, and that all of them are reported."""

import json

import numpy as np
import pytest

from graphtemper import Graph, csbm
from graphtemper.errors import InputError
from graphtemper.graph.moments import column_moments
from graphtemper_research.trials import hidden_shifts
from graphtemper_research.trials import negative_controls as controls
from graphtemper_research.trials.negative_controls import CONTROLS
from graphtemper_research.trials.trial import METHODS


@pytest.fixture(scope="module")
def graph():
    return csbm.sample(240, degree=6, homophily=0.8, snr=1.5, num_features=300, seed=1)


def test_a_rotation_keeps_lengths_and_angles(graph):
    turned = hidden_shifts.rotate(graph, 3)
    before, after = (g.features.astype(np.float64) for g in (graph, turned))
    np.testing.assert_allclose(after @ after.T, before @ before.T, atol=2e-2)
    assert np.abs(after - before).mean() > 0.1
    assert (hidden_shifts.rotate(graph, 3).features == turned.features).all()


def test_regional_noise_is_shared_by_neighbours_and_as_strong_as_noise(graph):
    change = hidden_shifts.regional_noise(graph, 1.0, 3).features - graph.features
    _, std = column_moments(graph.features)
    region = hidden_shifts.regions(graph, np.random.default_rng(1))
    assert region.max() + 1 >= graph.num_nodes // hidden_shifts.REGION_NODES
    assert (change / std).std() == pytest.approx(1.0, abs=0.1)
    one, two = (change / std)[graph.edges.T]
    shared = (one * two).mean()
    assert shared > 0.3  # independent noise has 0 here


def test_regions_of_a_graph_without_edges_are_its_nodes():
    lonely = Graph(features=np.ones((30, 1)), edges=np.empty((0, 2), int))
    region = hidden_shifts.regions(lonely, np.random.default_rng(1))
    assert sorted(region.tolist()) == list(range(30))


def test_row_and_class_noise(graph):
    _, std = column_moments(graph.features)
    change = (hidden_shifts.row_noise(graph, 1.0, 3).features - graph.features) / std
    np.testing.assert_allclose(change, change[:, :1].repeat(300, axis=1), atol=1e-4)
    assert change[:, 0].std() == pytest.approx(1.0, abs=0.15)
    change = (hidden_shifts.class_noise(graph, 1.5, 3).features - graph.features) / std
    often = np.bincount(graph.labels).argmax()
    assert (change[graph.labels != often] == 0).all()
    assert change[graph.labels == often].std() == pytest.approx(1.5, abs=0.02)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("controls")
    small = csbm.sample(240, degree=6, homophily=0.8, snr=1.5, num_features=5, seed=1)
    small.save(folder / "standin.npz")
    return folder, controls.run(folder, [str(folder / "standin.npz")], quick=True)


def test_every_control_is_reported(finished, tmp_path):
    folder, outcome = finished
    assert [row["control"] for row in outcome.rows] == [control.name for control in CONTROLS]
    assert all(bar.met is None for bar in outcome.comparisons)
    cell = json.loads((folder / "cells" / "standin-SIGN-1.json").read_text())
    assert len(cell["rows"]) == len(CONTROLS) * len(METHODS)
    rows = {row["control"]: row for row in outcome.rows}
    # Nothing shows of swapped classes: the methods say what they say of the same graph.
    plain, swapped = rows["none"], rows["swapped classes"]
    assert swapped["accuracy"] == pytest.approx(1.0 - plain["accuracy"])
    assert swapped["verdict"] == plain["verdict"]
    assert swapped["estimate"] == pytest.approx(plain["estimate"], abs=0.05)
    text = controls.render(outcome)
    assert text.count("| standin |") == len(CONTROLS)
    (table,) = controls.shown(outcome).values()
    assert [row["control"] for row in table] == [control.name for control in CONTROLS]
    assert outcome.write(tmp_path)[0].name == "controls.json"


def test_finished_controls_are_not_measured_again(finished, monkeypatch):
    folder, first = finished
    monkeypatch.setattr(controls, "measure", lambda *a, **o: pytest.fail("measured again"))
    again = controls.run(folder, [str(folder / "standin.npz")], quick=True)
    assert again.to_dict() == first.to_dict()


def test_missing_graphs_are_named(finished, monkeypatch):
    folder, _ = finished
    name = str(folder / "standin.npz")
    monkeypatch.setattr(controls, "QUICK_GRAPHS", (name, "nowhere.npz"))
    outcome = controls.run(folder, quick=True)
    assert outcome.comparisons[-1].note == "nowhere.npz"
    monkeypatch.setattr(controls, "QUICK_GRAPHS", ("nowhere.npz",))
    with pytest.raises(InputError, match="no graph to measure"):
        controls.run(folder, quick=True)
