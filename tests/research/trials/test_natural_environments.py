"""Labelled environments under natural shifts: the protocol and its bars."""

import json

import numpy as np
import pytest
from tests.helpers import raises

from graphtemper import Graph, csbm, metrics, temperature
from graphtemper_research.trials import (
    natural_environments,
    natural_labels,
    natural_places,
    natural_rule,
    trial,
)
from graphtemper_research.trials.natural_environments import compare, family_means
from graphtemper_research.trials.natural_families import FAMILIES, PAIRS_ONLY, Family
from graphtemper_research.trials.natural_places import (
    ALL,
    NONE,
    ONE,
    PAST,
    POISONED,
    SOURCE,
    methods,
)

pytestmark = pytest.mark.nightly

LABEL_FREE = ("temperature", "estimate", "low", "high", "verdict")


def month(seed, wrong):
    """Return a graph where a share of the labels means something else."""
    kind = {"degree": 6, "homophily": 0.8, "snr": 1.5, "num_features": 5}
    graph = csbm.sample(240, seed=seed, **kind)
    flipped = np.random.default_rng(seed).random(240) < wrong
    return graph.replace(labels=np.where(flipped, 1 - graph.labels, graph.labels))


@pytest.fixture(scope="module")
def finished(tmp_path_factory, quick):
    """Return a run on four months; all but the source have a quarter of other labels."""
    folder = tmp_path_factory.mktemp("environments")
    names = tuple(str(folder / f"month_{number}.npz") for number in range(4))
    for number, name in enumerate(names):
        month(number, 0.0 if number == 0 else 0.25).save(name)
    family = Family("months", names, series=(names,))
    bench = natural_environments.bench([family])
    return folder, family, bench, quick(bench, folder)


def test_every_environment_is_the_target_of_three_sources(finished):
    folder, _, bench, outcome = finished
    assert len(list((folder / "cells").iterdir())) == 3
    pairs = {(row["source"], row["target"]) for row in outcome.rows}
    assert len(pairs) == len(outcome.rows) == 9
    with_past = [row for row in outcome.rows if row[f"ece {PAST}"] is not None]
    assert {(row["source"][-1], row["target"][-1]) for row in with_past} == {
        ("0", "2"),
        ("0", "3"),
        ("2", "3"),
    }
    assert "| months |" in bench.page(outcome.to_dict())


def test_nothing_and_the_same_labels_have_rows(finished):
    folder, family, _, _ = finished
    cell = json.loads((folder / "cells" / "month_0-SIGN-1.json").read_text())
    home, away = (Graph.load(name) for name in family.graphs[:2])
    train, _ = trial.halves(home, 1)
    model = trial.MODELS["SIGN"](1).fit(home, train)
    found = {row["method"]: row for row in cell["rows"] if row["target"] == "month_1"}
    p = temperature.apply(model(away))
    assert found["uncalibrated"]["ece"] == pytest.approx(metrics.ece(p, away.labels), abs=1e-9)
    for count in (20, 50):
        draws = [found[natural_places.alone_method(count, draw)] for draw in (1, 2)]
        assert draws[0]["temperature"] != draws[1]["temperature"]
        assert all(row["estimate"] is None for row in draws)
    # More labels are nearer to the oracle's temperature, on the mean of all targets.
    away_from = {}
    for row in cell["rows"]:
        if "alone" in row["method"]:
            best = next(
                other["temperature"]
                for other in cell["rows"]
                if other["method"] == "oracle-T" and other["target"] == row["target"]
            )
            gap = abs(np.log(row["temperature"] / best))
            away_from.setdefault(row["method"][:2], []).append(gap)
    assert np.mean(away_from["50"]) < np.mean(away_from["20"])


def test_the_others_teach_what_no_signal_shows(finished):
    *_, outcome = finished
    rows = [row for row in outcome.rows if row["source"] == "month_0"]
    means = {name: np.mean([row[f"error {name}"] for row in rows]) for name in (NONE, ONE, ALL)}
    assert means[ALL] < 0.5 * means[NONE]
    assert means[ONE] < means[NONE]
    assert np.mean([row[f"ece {ALL}"] - row[f"ece {SOURCE}"] for row in rows]) < -0.03
    wider = [row[f"half {POISONED}"] > row[f"half {ALL}"] for row in rows]
    assert all(wider)


def test_finished_sources_are_not_measured_again(finished, from_cells):
    folder, _, bench, first = finished
    assert from_cells(bench, folder).to_dict() == first.to_dict()


def test_target_labels_reach_only_draws_and_scores(finished, monkeypatch):
    folder, family, _, _ = finished
    cell = json.loads((folder / "cells" / "month_0-SIGN-1.json").read_text())

    def load(name):
        graph = Graph.load(name)
        return graph.replace(labels=1 - graph.labels) if "month_3" in name else graph

    monkeypatch.setattr(natural_places, "load_graph", load)
    rows = natural_places.measure(family, family.graphs[0], "SIGN", 1, cell["compositions"])
    compared = 0
    for one, two in zip(cell["rows"], rows, strict=True):
        method = one["method"]
        fixed = (" labels" not in method or method == POISONED) and method != "oracle-T"
        if one["target"] == "month_3" and fixed:
            assert [one[key] for key in LABEL_FREE] == [two[key] for key in LABEL_FREE]
            assert one["accuracy"] != two["accuracy"]
            compared += 1
    fixed = [name for name in methods(True, True) if " labels" not in name or name == POISONED]
    assert compared == len(fixed) - 1


def test_bars_are_on_means_of_families(finished):
    *_, outcome = finished
    rows = [dict(row) for row in outcome.rows]
    for row in rows:
        row |= {"family": "large", f"ece {ALL}": 0.1, f"ece {SOURCE}": 0.05}
    small = dict(rows[0]) | {"family": "small", f"ece {ALL}": 0.02}
    means = family_means([*rows, small])
    assert [row["pairs"] for row in means] == [9, 1, 10]
    assert means[-1][f"ece {ALL}"] == pytest.approx(0.06)
    bars = {bar.quantity: bar for bar in compare([*rows, small])}
    assert bars["mean ECE with all environments"].measured == pytest.approx(0.06)
    assert bars["mean ECE with all environments"].met
    harmed = bars["share of pairs that all environments makes worse by more than 0.02"]
    assert harmed.measured == pytest.approx(9 / 10)
    assert not harmed.met


def test_the_families_are_catalogued_and_unknown_ones_refused(quick, tmp_path):
    from graphtemper_research.graphs import datasets

    names = [name for family in (*FAMILIES, *PAIRS_ONLY) for name in family.graphs]
    assert set(names) <= set(datasets.CATALOGUE)
    assert len(set(names)) == len(names) == 57
    with raises("choice"):
        quick(natural_environments.BENCH, tmp_path, ["months"])


def test_labels_have_a_page_of_the_same_cells(finished, from_cells):
    folder, family, *_ = finished
    bench = natural_labels.bench([family])
    outcome = from_cells(bench, folder)
    assert len(outcome.rows) == 9
    row = outcome.rows[0]
    cell = json.loads((folder / "cells" / f"{row['source']}-SIGN-1.json").read_text())
    drawn = [
        item["ece"]
        for item in cell["rows"]
        if item["target"] == row["target"] and item["method"].startswith("50 labels, draw")
    ]
    assert row["ece 50 labels"] == pytest.approx(np.mean(drawn))
    assert "20 all" in bench.page(outcome.to_dict())


def test_a_family_of_two_has_no_environment_to_learn_from(quick, tmp_path):
    names = tuple(str(tmp_path / f"month_{number}.npz") for number in range(2))
    for number, name in enumerate(names):
        month(number, 0.1).save(name)
    family = [Family("two", names)]
    assert len(quick(natural_rule.bench(family), tmp_path).rows) == 2
    rows = quick(natural_labels.bench(family), tmp_path).rows
    assert rows[0]["ece 50 labels and environments"] is None
    with raises("empty"):
        quick(natural_environments.bench(family), tmp_path)
