"""Negative controls: all of them are reported."""

import json
from dataclasses import replace

import pytest
from tests.helpers import raises

from graphtemper import csbm
from graphtemper_research.trials import negative_controls
from graphtemper_research.trials.cases import graph_cases
from graphtemper_research.trials.negative_controls import BENCH, CONTROLS
from graphtemper_research.trials.trial import METHODS


@pytest.fixture(scope="module")
def finished(tmp_path_factory, quick):
    folder = tmp_path_factory.mktemp("controls")
    small = csbm.sample(240, degree=6, homophily=0.8, snr=1.5, num_features=5, seed=1)
    small.save(folder / "standin.npz")
    return folder, quick(BENCH, folder, [str(folder / "standin.npz")])


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
    text = BENCH.page(outcome.to_dict())
    assert text.count("| standin |") == len(CONTROLS)
    (table,) = BENCH.shown(outcome.to_dict()).values()
    assert [row["control"] for row in table] == [control.name for control in CONTROLS]
    assert outcome.write(tmp_path)[0].name == "controls.json"


def test_missing_graphs_are_named(finished, quick):
    folder, _ = finished
    name = str(folder / "standin.npz")

    def bench(*graphs):
        usual = (negative_controls.SCHEMA, (), graphs)
        return replace(BENCH, cases=graph_cases(negative_controls.measure, *usual))

    assert quick(bench(name, "nowhere.npz"), folder).comparisons[-1].note == "nowhere.npz"
    with raises("empty"):
        quick(bench("nowhere.npz"), folder)
