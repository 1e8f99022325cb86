"""Natural shifts: the protocol, what the labels of a target reach, and the bars."""

import json

import numpy as np
import pytest
from tests.helpers import raises

from graphtemper import Graph, csbm, metrics, temperature
from graphtemper_research.graphs import datasets
from graphtemper_research.trials import natural, trial
from graphtemper_research.trials.natural import (
    ALL,
    ENVIRONMENTS,
    FAMILIES,
    NONE,
    ONE,
    PAST,
    POISONED,
    SOURCE,
    WITH_LABELS,
    WITHOUT_LABELS,
    Family,
    environment_bars,
    family_means,
    of_families,
    scored_nodes,
)

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
    return folder, family, quick(of_families(ENVIRONMENTS, [family]), folder)


def cell_of(folder, source):
    return json.loads((folder / "cells" / f"{source}-SIGN-1.json").read_text())


@pytest.mark.nightly
def test_every_environment_is_the_target_of_three_sources(finished):
    folder, _, outcome = finished
    assert len(list((folder / "cells").iterdir())) == 3
    pairs = {(row["source"], row["target"]) for row in outcome.rows}
    assert len(pairs) == len(outcome.rows) == 9
    with_past = [row for row in outcome.rows if row[f"ece {PAST}"] is not None]
    assert {(row["source"][-1], row["target"][-1]) for row in with_past} == {
        ("0", "2"),
        ("0", "3"),
        ("2", "3"),
    }


@pytest.mark.nightly
def test_doing_nothing_is_the_softmax_of_the_model(finished):
    folder, family, _ = finished
    home, away = (Graph.load(name) for name in family.graphs[:2])
    train, _ = trial.halves(home, 1)
    p = temperature.apply(trial.MODELS["SIGN"](1).fit(home, train)(away))
    rows = cell_of(folder, "month_0")["rows"]
    found = {row["method"]: row for row in rows if row["target"] == "month_1"}
    assert found["uncalibrated"]["ece"] == pytest.approx(metrics.ece(p, away.labels), abs=1e-9)
    assert found[natural.TRUE]["ece"] <= found["uncalibrated"]["ece"]


@pytest.mark.nightly
def test_more_labels_alone_are_nearer_to_the_best_temperature(finished):
    folder, *_ = finished
    rows = cell_of(folder, "month_0")["rows"]
    best = {r["target"]: r["temperature"] for r in rows if r["method"] == "oracle-T"}
    away = {20: [], 50: []}
    for row in rows:
        for count, gaps in away.items():
            if row["method"].startswith(f"{count} labels, temperature alone"):
                gaps.append(abs(np.log(row["temperature"] / best[row["target"]])))
    assert np.mean(away[50]) < np.mean(away[20])


@pytest.mark.nightly
def test_the_others_teach_what_no_signal_shows(finished):
    *_, outcome = finished
    rows = [row for row in outcome.rows if row["source"] == "month_0"]
    means = {name: np.mean([row[f"error {name}"] for row in rows]) for name in (NONE, ONE, ALL)}
    assert means[ALL] < 0.5 * means[NONE]
    assert means[ONE] < means[NONE]
    assert np.mean([row[f"ece {ALL}"] - row[f"ece {SOURCE}"] for row in rows]) < -0.03
    assert all(row[f"half {POISONED}"] > row[f"half {ALL}"] for row in rows)


@pytest.mark.nightly
def test_target_labels_reach_only_draws_and_scores(finished, tmp_path):
    """The labels of one month are all changed, and nothing that was learned about it is."""
    folder, family, _ = finished
    cell = cell_of(folder, "month_0")
    names = [str(tmp_path / f"month_{number}.npz") for number in range(4)]
    for number, name in enumerate(names):
        graph = Graph.load(family.graphs[number])
        (graph.replace(labels=1 - graph.labels) if number == 3 else graph).save(name)
    changed = Family("months", tuple(names), series=(tuple(names),))
    rows = natural.measure(changed, names[0], "SIGN", 1, cell["compositions"])
    fixed = {SOURCE, "uncalibrated", NONE, ONE, ALL, PAST, POISONED}
    compared = set()
    for one, two in zip(cell["rows"], rows, strict=True):
        if one["target"] == "month_3" and one["method"] in fixed:
            assert [one[key] for key in LABEL_FREE] == [two[key] for key in LABEL_FREE]
            assert one["accuracy"] != two["accuracy"]
            compared.add(one["method"])
    assert compared == fixed


@pytest.mark.nightly
def test_bars_are_on_means_of_families(finished):
    *_, outcome = finished
    rows = [dict(row) for row in outcome.rows]
    for row in rows:
        row |= {"family": "large", f"ece {ALL}": 0.1, f"ece {SOURCE}": 0.05}
    small = dict(rows[0]) | {"family": "small", f"ece {ALL}": 0.02}
    means = family_means([*rows, small])
    assert [row["pairs"] for row in means] == [9, 1, 10]
    assert means[-1][f"ece {ALL}"] == pytest.approx(0.06)
    bars = {bar.quantity: bar for bar in environment_bars([*rows, small])}
    assert bars["mean ECE with all environments"].measured == pytest.approx(0.06)
    harmed = bars["share of pairs that all environments makes worse by more than 0.02"]
    assert harmed.measured == pytest.approx(9 / 10)
    assert not harmed.met


@pytest.mark.nightly
def test_all_pages_are_made_of_the_same_cells(finished, from_cells):
    folder, family, first = finished
    assert from_cells(of_families(ENVIRONMENTS, [family]), folder).to_dict() == first.to_dict()
    row = from_cells(of_families(WITH_LABELS, [family]), folder).rows[0]
    drawn = [
        item["ece"]
        for item in cell_of(folder, row["source"])["rows"]
        if item["target"] == row["target"] and item["method"].startswith("50 labels, draw")
    ]
    assert row["ece 50 labels"] == pytest.approx(np.mean(drawn))
    rows = from_cells(of_families(WITHOUT_LABELS, [family]), folder).rows
    assert [row["answer"] for row in rows] == [row[f"ece {NONE}"] for row in first.rows]


def test_the_families_are_catalogued_and_unknown_ones_refused(quick, tmp_path):
    names = [name for family in FAMILIES for name in family.graphs]
    assert set(names) <= set(datasets.CATALOGUE)
    assert len(set(names)) == len(names)
    with raises("choice"):
        quick(ENVIRONMENTS, tmp_path, ["months"])


@pytest.mark.nightly
def test_a_family_of_two_has_no_environment_to_learn_from(quick, tmp_path):
    names = tuple(str(tmp_path / f"month_{number}.npz") for number in range(2))
    for number, name in enumerate(names):
        month(number, 0.1).save(name)
    family = [Family("two", names, same_nodes=True)]
    assert len(quick(of_families(WITHOUT_LABELS, family), tmp_path).rows) == 2
    rows = quick(of_families(WITH_LABELS, family), tmp_path).rows
    assert rows[0]["ece 50 labels and environments"] is None
    assert rows[0]["nodes"] == 120  # the others are the model's own
    with raises("empty"):
        quick(of_families(ENVIRONMENTS, family), tmp_path)


def test_large_environments_are_sampled_by_seed():
    graph, none = month(0, 0.0), np.empty(0, np.int64)
    one, two, other = (scored_nodes(graph, "month", none, seed, 50) for seed in (1, 1, 2))
    assert one.size == np.unique(one).size == 50
    assert one.tolist() == two.tolist() != other.tolist()
