"""STAC's experiments: published next to measured, and no way for a label to reach the estimate."""

from pathlib import Path

import numpy as np
import pytest

from graphtemper import Graph, metrics, stac, temperature
from graphtemper.models import SIGN
from graphtemper_research.graphs import datasets
from graphtemper_research.harness.outcome import Outcome
from graphtemper_research.paper import (
    audit,
    block_models,
    diagnostic,
    homophily_study,
    real,
    real_graphs,
    released_stream,
    rewiring,
    sweep,
    synthetic,
)
from graphtemper_research.paper.real_graphs import published_noise, splits

pytest.importorskip("torch")

# Bars that honest work does not reach; the results page says why.
NOT_REACHED: set[str] = set()
PAPER_GRAPHS = ("minesweeper", "tolokers")
DOCS = Path(__file__).parents[2] / "docs"


def missed(outcome: Outcome) -> set[str]:
    return {item.quantity for item in outcome.comparisons if item.met is False}


@pytest.mark.slow
@pytest.mark.parametrize("figure", [synthetic, audit])
def test_a_full_run_gives_the_committed_numbers(figure, committed):
    outcome = figure.run()
    assert missed(outcome) <= NOT_REACHED
    found = {item.quantity: item.measured for item in outcome.comparisons}
    for item in committed(outcome.name)["comparisons"]:
        assert found[item["quantity"]] == pytest.approx(item["measured"], rel=1e-4, abs=1e-6)


def test_synthetic_agrees_with_the_published_figures(committed):
    compared = [item for item in committed("synthetic")["comparisons"] if item["met"] is not None]
    assert {item["quantity"] for item in compared if not item["met"]} <= NOT_REACHED
    assert len(compared) == 15
    values = {item["quantity"]: item for item in compared if item["published"] is not None}
    assert {name: item["published"] for name, item in values.items()} == {
        "feature 1.4: accuracy, authors' seeds": 0.61,
        "feature 1.4: ECE, uncalibrated, authors' seeds": 0.203,
        "feature 1.4: ECE, source-T, authors' seeds": 0.191,
        "feature 1.4: ECE, STAC-global, authors' seeds": 0.100,
        "feature 1.4: ECE, oracle, authors' seeds": 0.024,
    }
    for item in values.values():
        assert abs(item["measured"] - item["published"]) <= 0.01


def test_the_authors_random_numbers_give_their_digits(committed):
    """Uncalibrated, source-T and oracle need no perturbed passes, so three digits agree."""
    scores = block_models.measured_as_released("feature", 1.4)
    assert scores["uncalibrated"]["ece"] == pytest.approx(0.2033, abs=5e-4)
    assert scores["source-T"]["ece"] == pytest.approx(0.1908, abs=5e-4)
    assert scores["oracle"]["ece"] == pytest.approx(0.0243, abs=5e-4)
    # And the committed page says the same of them; the draws of others may have changed since.
    for item in committed("synthetic")["comparisons"]:
        for method, score in scores.items():
            if item["quantity"] == f"feature 1.4: ECE, {method}, authors' seeds":
                near = {} if method in ("uncalibrated", "source-T", "oracle") else {"abs": 0.01}
                assert item["measured"] == pytest.approx(score["ece"], **{"rel": 1e-4} | near)


def test_most_of_the_gap_of_source_temperature_is_there_without_shift(committed):
    """The authors' random numbers at level 0, where Proposition 3 says that T = 1."""
    errors, optima = [], []
    for seed in released_stream.SEEDS:
        source = released_stream.trained(seed)
        target = released_stream.shifted(source, "feature", 0.0)
        logits = source.model(target)
        errors.append(metrics.ece(temperature.apply(logits, source.temperature), target.labels))
        optima.append(temperature.fit(logits, target.labels))
    assert np.mean(errors) / 0.1908 == pytest.approx(0.70, abs=0.01)
    assert min(optima) > 1.5
    items = committed("synthetic")["comparisons"]
    share = next(i for i in items if "as a share of that at 1.4, authors' seeds" in i["quantity"])
    assert share["measured"] == pytest.approx(np.mean(errors) / 0.1908, abs=0.005)


@pytest.mark.nightly
def test_validation_nodes_in_a_fresh_graph_show_the_drop():
    source = block_models.trained(0)
    assert source.accuracy - source.fresh_accuracy > 0.05
    assert source.fresh.temperature > 1.3 * source.temperature


def test_with_fresh_validation_nodes_little_is_left_for_stac(committed):
    rows = committed("synthetic")["rows"]
    ece = {
        row["method"]: row["ece"]
        for row in rows
        if row["shift"] == "feature" and row["level"] == 1.4
    }
    assert ece[f"source-T{block_models.FRESH}"] < 0.5 * ece["source-T"]
    assert ece[f"source-T{block_models.FRESH}"] < ece["STAC-global"]


@pytest.mark.slow
def test_the_printed_numbers_are_not_those_of_another_level():
    other = block_models.measured_as_released("feature", 0.8)
    assert abs(other["uncalibrated"]["ece"] - 0.203) > 0.03


def test_stac_removes_about_half_of_the_excess(committed):
    items = committed("synthetic")["comparisons"]
    left = [item["measured"] for item in items if "left above" in item["quantity"]]
    assert len(left) == 2
    assert all(0.2 < value < 0.8 for value in left)


@pytest.mark.nightly
def test_audit_studies(committed, holds):
    outcome = committed("audit")
    assert not [item for item in outcome["comparisons"] if item["met"] is False]
    rows = {row["M"]: row for row in outcome["rows"] if row["study"] == "passes"}
    assert rows[50]["spread"] < rows[6]["spread"]
    ranking = [row for row in outcome["rows"] if row["study"] == "ranking"]
    assert ranking[0]["first"] < ranking[0]["second"]
    assert ranking[1]["first"] > ranking[1]["second"]
    for row in [*audit.ranking_example(), audit.limits_example(), audit._passes_row(4)]:
        holds(outcome, row)
    holds(outcome, audit._degree_row(12))


@pytest.fixture(scope="module")
def paper_graphs():
    absent = [name for name in PAPER_GRAPHS if datasets.find(name) is None]
    if absent:
        pytest.skip(f"{absent[0]}.npz is not on this machine (set GRAPHTEMPER_DATA)")
    return PAPER_GRAPHS


def test_minesweeper_has_the_digits_of_the_table(paper_graphs):
    graph = datasets.load("minesweeper")
    found = []
    for index, split in enumerate(splits(graph)):
        model = SIGN(hops=2, C=1.0, max_iter=200, tol=1e-4).fit(graph, split.train)
        target = published_noise(graph.replace(labels=None), real_graphs.STAC_LEVEL, index)
        scores = real_graphs._scores(model, graph, target, split, index, with_stac=True)
        found.append({name: cell["ece"] for name, cell in scores["as-published"].items()})
    printed = {"uncalibrated": 0.123, "source-T": 0.072, "STAC": 0.128, "oracle": 0.020}
    for name, value in printed.items():
        assert np.mean([row[name] for row in found]) == pytest.approx(value, abs=1e-3), name


@pytest.mark.slow
@pytest.mark.parametrize("figure", [real, sweep, rewiring])
def test_real_graphs_hit_the_published_digits(paper_graphs, figure):
    assert missed(figure.run(paper_graphs)) == set()


@pytest.mark.slow
def test_corrected_logits_show_minesweeper_under_confident(paper_graphs):
    rows = [
        row
        for row in sweep.run(paper_graphs).rows
        if row["graph"] == "minesweeper" and row["mode"] == "corrected" and row["level"] == 0
    ]
    assert rows[0]["gap"] == pytest.approx(-0.016, abs=0.005)


def test_the_label_free_path_cannot_see_labels(paper_graphs):
    graph = datasets.load("minesweeper")
    split = splits(graph)[0]
    model = SIGN(max_iter=200, tol=1e-4).fit(graph, split.train)
    threshold = stac.threshold(model, graph, split.val)
    target = published_noise(graph, 1.0, 0)
    wrong = np.random.default_rng(0).integers(2, size=graph.num_nodes)
    answers = [
        stac.stac(model, g, threshold, nodes=split.test).temperature
        for g in (target, target.replace(labels=None), target.replace(labels=wrong))
    ]
    assert answers[0] == answers[1] == answers[2]


def test_the_authors_rewiring_replaces_second_ends_alone():
    """1,000 edges without a common end: their first ends keep an edge, their second ends do not."""
    first = np.arange(1000)
    graph = Graph(features=np.ones((2000, 1)), edges=np.column_stack([first, first + 1000]))
    target = homophily_study.released_rewire(graph, 1.0, np.random.default_rng(0))
    lonely = target.degrees == 0
    assert lonely[:1000].sum() <= 3  # self-loops are dropped
    assert lonely[1000:].mean() == pytest.approx(np.exp(-0.5), abs=0.05)
    half = homophily_study.released_rewire(graph, 0.5, np.random.default_rng(0))
    kept = {tuple(edge) for edge in graph.edges} & {tuple(edge) for edge in half.edges}
    assert len(kept) / 1000 == pytest.approx(0.5, abs=0.05)


@pytest.mark.nightly
def test_the_authors_rewiring_of_minesweeper(paper_graphs, committed, holds):
    rows = homophily_study.of_graph("minesweeper")
    oracle = {row["share"]: row["ece"] for row in rows if row["method"] == "oracle"}
    assert oracle[0.0] == pytest.approx(0.031, abs=0.002)
    assert oracle[0.75] > 0.05
    for row in rows:
        holds(committed("audit"), row)


def test_scores_of_a_diagnostic_are_those_of_its_rows(committed):
    content = committed("diagnostic")
    rows, found = content["rows"], {i["quantity"]: i["measured"] for i in content["comparisons"]}
    assert len(rows) == len(diagnostic.GRAPHS) * len(diagnostic.SHIFTS)
    truth = np.log([row["measured"] for row in rows])
    for kind in ("predicted", "atlas"):
        guess = np.log([row[kind] for row in rows])
        order = np.corrcoef(truth.argsort().argsort(), guess.argsort().argsort())[0, 1]
        title = diagnostic.PREDICTIONS[kind]
        assert found[f"{title}: Spearman correlation with the measured slope"] == pytest.approx(
            order, abs=0.02
        )
        assert found[f"{title}: share of targets with the right direction"] == pytest.approx(
            (np.sign(truth) == np.sign(guess)).mean(), abs=1e-4
        )
    off = {
        kind: diagnostic.scores(rows, kind)["log_ratio"] for kind in ("predicted", "atlas", "none")
    }
    assert off["atlas"] < off["none"] < off["predicted"]


def test_no_shown_slope_contradicts_the_atlas(committed):
    shown = [row for row in committed("diagnostic")["rows"] if row["shown"] is not None]
    assert len(shown) > 3
    for row in shown:
        assert np.log(row["shown"]) * np.log(row["atlas"]) >= 0.0


@pytest.mark.slow
def test_a_graph_of_the_diagnostic_gives_the_committed_rows(committed, holds):
    for row in diagnostic.measured("county_2012"):
        holds(committed("diagnostic"), row)
