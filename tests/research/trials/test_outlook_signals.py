"""Two further node signals: what they measure, and that a gain would be seen."""

import numpy as np
import pytest

from graphtemper import csbm
from graphtemper.calibrators.conformal import scores
from graphtemper_research.harness.runner import Request, run
from graphtemper_research.trials import outlook_signals as trial


def test_conditioning_removes_what_the_other_number_explains():
    rng = np.random.default_rng(0)
    given = rng.uniform(size=2000)
    own = rng.normal(size=2000)
    values = 5.0 * given + own
    rest = trial.conditioned(values, given, groups=50)
    assert abs(np.corrcoef(rest, given)[0, 1]) < 0.05
    assert np.corrcoef(rest, own)[0, 1] > 0.95


def test_set_sizes_count_the_classes_up_to_the_threshold():
    p = np.array([[0.7, 0.2, 0.1], [0.4, 0.35, 0.25], [1.0, 0.0, 0.0]])
    limit = 0.8
    expected = [(scores.aps(row[None]) <= limit).sum() for row in p]
    assert trial.set_sizes(p, limit).tolist() == [max(size, 1) for size in expected]
    assert trial.set_sizes(p, 2.0).tolist() == [3.0, 3.0, 3.0]


@pytest.mark.nightly
def test_a_run_on_a_block_model_has_a_row_per_variant(tmp_path, monkeypatch):
    graph = csbm.sample(600, degree=6, homophily=0.8, snr=1.0, num_features=8, seed=1)
    graph.save(tmp_path / "home.npz")
    request = Request(tmp_path / "out", [str(tmp_path / "home.npz")], ["SIGN"], 2)
    rows = run(trial.BENCH, request).rows
    assert [row["added"] for row in rows] == list(trial.VARIANTS)
    assert rows[0]["difference"] == 0.0
    assert all(row["cells"] == 2 for row in rows)
    # A signal that reveals the label must be found: the measurement can see a gain.
    labels = {}

    def revealing(probabilities, limit):
        return 1.0 + 9.0 * (probabilities.argmax(axis=1) == labels["own"])

    nodes = trial.trial.split(graph, 1)[1]
    labels["own"] = graph.labels[nodes]
    monkeypatch.setattr(trial, "set_sizes", revealing)
    found = {
        row["added"]: row["gain"] for row in trial.measure(str(tmp_path / "home.npz"), "SIGN", 1)
    }
    assert found[trial.SET_SIZE] > found["none"] + 0.05
    assert found[trial.PLAIN] == pytest.approx(found["none"], abs=0.02)
