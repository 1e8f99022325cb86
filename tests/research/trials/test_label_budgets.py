"""Labels under natural shifts: what is asked, what is scored, and the summary."""

import numpy as np
import pytest

from graphtemper import Graph, csbm, metrics, temperature
from graphtemper_research.trials import label_budgets
from graphtemper_research.trials.pairs import Pair
from graphtemper_research.trials.trial import ATLAS, MODELS, ORACLE, SOURCE, halves


def sample(num_nodes, seed, homophily):
    return csbm.sample(num_nodes, degree=6, homophily=homophily, snr=1.5, num_features=5, seed=seed)


@pytest.fixture(scope="module")
def finished(tmp_path_factory, quick):
    folder = tmp_path_factory.mktemp("labels")
    here, there, small = (str(folder / f"{name}.npz") for name in ("here", "there", "small"))
    sample(300, 1, 0.85).save(here)
    sample(600, 2, 0.6).save(there)
    sample(80, 3, 0.6).save(small)
    pairs = [Pair("countries", here, there), Pair("countries", here, small)]
    bench = label_budgets.bench(pairs)
    return folder, bench, quick(bench, folder)


def test_one_row_per_pair_with_every_method(finished):
    _, _, outcome = finished
    assert [(row["target"], row["nodes"]) for row in outcome.rows] == [
        ("there", 600),
        ("small", 80),
    ]
    for row in outcome.rows:
        for key in ("uncalibrated", SOURCE, ATLAS, ORACLE, "50", "50 alone", "200", "200 alone"):
            assert 0.0 <= row[f"ece {key}"] <= 1.0
        assert 0.0 <= row["covered 50"] <= 1.0


def test_labels_bring_the_answer_to_the_oracle(finished):
    """The target has lost most of its homophily: two hundred labels of six hundred show it."""
    _, _, outcome = finished
    row = outcome.rows[0]
    assert row["ece 200"] - row[f"ece {ORACLE}"] < 0.02
    assert row["error 200"] < row["error 50"] + 0.01
    assert row["error 200"] < 0.03


def test_the_bars_are_the_means_over_pairs(finished):
    _, bench, outcome = finished
    bars = {bar.quantity: bar for bar in outcome.comparisons}
    mean = np.mean([row["ece 50"] for row in outcome.rows])
    limit = np.mean([row["ece 50 alone"] for row in outcome.rows])
    bar = bars[
        "SIGN: mean ECE with 50 labels, against a temperature fitted on the same labels alone"
    ]
    assert bar.measured == pytest.approx(mean)
    assert bar.met == (mean <= limit)
    covered = bars["SIGN: coverage of the 90 % interval with 200 labels"]
    assert covered.measured == pytest.approx(np.mean([r["covered 200"] for r in outcome.rows]))
    assert "| here | there |" in bench.page(outcome.to_dict())


def test_doing_nothing_is_a_row(finished):
    """The uncalibrated ECE is that of the model's own softmax on the target."""
    folder, _, outcome = finished
    here, there = (Graph.load(folder / f"{name}.npz") for name in ("here", "there"))
    train, _ = halves(here, 1)
    logits = MODELS["SIGN"](1).fit(here, train)(there)
    by_hand = metrics.ece(temperature.apply(logits), there.labels)
    assert outcome.rows[0]["ece uncalibrated"] == pytest.approx(by_hand, abs=1e-9)
