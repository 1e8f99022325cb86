"""Prediction sets: what they promise, on simulations; what travels; what is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers import raises

from graphtemper import ConformalSets, Graph, csbm, metrics, temperature
from graphtemper.models import SIGN

SCORES = ("aps", "raps", "daps")


def draw(rng, n, sharpness=2.0, num_classes=4):
    """Probabilities of an overconfident model, and labels."""
    z = 1.5 * rng.normal(size=(n, num_classes))
    labels = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    return temperature.apply(sharpness * z), labels


@pytest.mark.parametrize("score", ["aps", "raps"])
def test_coverage_is_exact_where_nodes_are_exchangeable(score):
    """Without ties the true class scores below the threshold with probability k / (n + 1)."""
    rng, repeats, new = np.random.default_rng(1), 400, 50
    below, covered = [], []
    for seed in range(repeats):
        p, labels = draw(rng, 99 + new)
        sets = ConformalSets(score, 0.9, seed=seed).fit(p[:99], labels[:99])
        scores = sets.scores(p[99:])[np.arange(new), labels[99:]]
        below.append((scores <= sets.threshold_[labels[99:]]).mean())
        covered.append(metrics.coverage(sets.predict(p[99:]), labels[99:]))
    # Binomial error of the new nodes, and as much again as 99 nodes leave in the threshold.
    error = np.sqrt(0.09 / new + 0.09 / 101) / np.sqrt(repeats)
    assert abs(np.mean(below) - 0.9) < 4 * error
    assert np.mean(covered) >= np.mean(below)  # no set is empty


@pytest.mark.parametrize("randomised", [True, False])
def test_random_splits_of_a_graph_are_covered_by_diffused_scores(randomised):
    g = csbm.sample(500, degree=4, homophily=0.8, snr=1.0, num_classes=3, num_features=5, seed=2)
    p = temperature.apply(SIGN(hops=1).fit(g, range(100))(g), 0.5)
    rng, rest, below = np.random.default_rng(0), np.arange(100, 500), []
    for repeat in range(200):
        order = rng.permutation(rest)
        new = order[199:]
        sets = ConformalSets("daps", 0.8, seed=repeat if randomised else None)
        sets.fit(p, g.labels, g, order[:199])
        scores = sets.scores(p, g)[new, g.labels[new]]
        below.append((scores <= sets.threshold_[0]).mean())
        members = sets.predict(p, g, new)
        assert metrics.coverage(members, g.labels[new]) >= below[-1]
    error = np.sqrt(0.16 / 201 + 0.16 / 199) / np.sqrt(200)
    assert abs(np.mean(below) - 0.8) < 4 * error


def test_true_class_shares_restore_the_coverage():
    """Under label shift alone the plain threshold fails and the weighted one holds."""
    rng = np.random.default_rng(3)
    p, labels = draw(rng, 40_000, sharpness=1.0)
    p = 0.4 * p + 0.6 * np.eye(4)[np.zeros(40_000, int)]  # always thinks of class 0 first
    keep = np.where(labels == 0, 1.0, 0.1)  # at the source class 0 is frequent
    source = np.flatnonzero(rng.random(40_000) < keep)[:6000]
    target = np.setdiff1d(np.arange(20_000, 40_000), source)
    # Equal shares at the target.
    target = np.concatenate([target[labels[target] == k][:2000] for k in range(4)])
    weights = 0.25 / (np.bincount(labels[source]) / source.size)[labels[source]]
    plain, weighted = (
        ConformalSets(level=0.9).fit(p[source], labels[source], weights=given).predict(p[target])
        for given in (None, weights)
    )
    assert metrics.coverage(plain, labels[target]) < 0.75
    assert 0.9 - 0.02 < metrics.coverage(weighted, labels[target]) < 0.9 + 0.03


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000), st.sampled_from(SCORES), st.booleans(), st.integers(2, 5))
def test_sets_grow_with_the_level_and_are_never_empty(seed, score, randomised, num_classes):
    rng = np.random.default_rng(seed)
    p, labels = draw(rng, 60, num_classes=num_classes)
    steps = np.arange(59)
    g = Graph(features=np.ones((60, 1)), edges=np.column_stack([steps, steps + 1]))
    before = np.zeros(p.shape, dtype=bool)
    for level in (0.05, 0.3, 0.6, 0.9, 0.99):
        sets = ConformalSets(score, level, seed=seed if randomised else None)
        members = sets.fit(p, labels, g, range(30)).predict(p, g)
        assert members.any(axis=1).all()
        assert (members >= before).all()
        before = members
    assert members.all()  # 30 nodes are too few for 99 %


def test_too_few_nodes_give_all_classes():
    p, labels = draw(np.random.default_rng(6), 9)
    few = ConformalSets(level=0.9).fit(p[:8], labels[:8])
    assert np.isinf(few.threshold_).all()
    assert few.predict(p).all()
    assert np.isfinite(ConformalSets(level=0.9).fit(p, labels).threshold_).all()


def test_unit_weights_change_nothing_and_other_rows_are_not_read():
    p, labels = draw(np.random.default_rng(7), 80)
    plain = ConformalSets(seed=3).fit(p, labels, nodes=range(40))
    hidden = np.where(np.arange(80) < 40, labels, -1)
    weights = np.where(np.arange(80) < 40, 1.0, np.nan)
    again = ConformalSets(seed=3).fit(p, hidden, nodes=range(40), weights=weights)
    np.testing.assert_array_equal(plain.threshold_, again.threshold_)
    heavy = np.where(labels == labels[0], 20.0, 1.0)
    other = ConformalSets(seed=3).fit(p, labels, nodes=range(40), weights=heavy)
    assert (other.threshold_ != plain.threshold_).any()


def test_the_same_seed_gives_the_same_sets():
    p, labels = draw(np.random.default_rng(8), 300)
    one, same, other = (
        ConformalSets(seed=s).fit(p[:150], labels[:150]).predict(p[150:]) for s in (1, 1, 2)
    )
    assert (one == same).all()
    assert (one != other).any()
    plain = ConformalSets(seed=None).fit(p[:150], labels[:150])
    np.testing.assert_array_equal(plain.scores(p), plain.scores(p, stage="fit"))
    # Without randomness the sum runs through the class itself.
    assert plain.scores(p).min(axis=1) == pytest.approx(p.max(axis=1))


@pytest.mark.parametrize("score", SCORES)
def test_a_record_gives_the_same_sets(score):
    rng = np.random.default_rng(9)
    p, labels = draw(rng, 200)
    g = Graph(features=np.ones((200, 1)), edges=[[0, 1], [2, 3]])
    sets = ConformalSets(score, 0.85, lam=0.2, k_reg=2, delta=0.25, seed=4).fit(p, labels, g)
    again = ConformalSets.from_dict(json.loads(json.dumps(sets.to_dict(), allow_nan=False)))
    assert again.get_params() == sets.get_params()
    np.testing.assert_array_equal(again.predict(p, g), sets.predict(p, g))


def test_infinite_thresholds_and_missing_classes_are_recorded():
    p, labels = draw(np.random.default_rng(10), 6)
    sets = ConformalSets(level=0.95).fit(p, np.minimum(labels, 1))
    record = json.loads(json.dumps(sets.to_dict(), allow_nan=False))
    assert record["threshold"] == [None] * 4
    assert ConformalSets.from_dict(record).predict(p).all()


@pytest.mark.parametrize(
    "change",
    [
        {"schema": "other"},
        {"threshold": ["a", 0.5, 0.5, 0.5]},
        {"threshold": [float("nan")] * 4},
        {"level": 90},
        {"score": "lac"},
        {"seed": "a"},
    ],
)
def test_damaged_records_are_refused(change):
    p, labels = draw(np.random.default_rng(12), 50)
    record = ConformalSets().fit(p, labels).to_dict()
    with raises("content"):
        ConformalSets.from_dict(record | change)
    missing = {key: value for key, value in record.items() if key not in change}
    with raises("content"):
        ConformalSets.from_dict(missing)


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: ConformalSets("lac"), "choice"),
        (lambda: ConformalSets(level=1.0), "range"),
        (lambda: ConformalSets(lam=-1), "range"),
        (lambda: ConformalSets(delta=2), "range"),
        (lambda: ConformalSets().predict([[0.5, 0.5]]), "not-fitted"),
        (lambda: ConformalSets().fit(np.empty((0, 2)), []), "empty"),
        (lambda: ConformalSets().fit([[0.5, 0.5]], [0], nodes=[]), "empty"),
        (lambda: ConformalSets().fit([[np.nan, 0.5]], [0]), "not-finite"),
        (lambda: ConformalSets().fit([[0.5, 0.5]], [-1]), "no-labels"),
        (lambda: ConformalSets().fit([[0.5, 0.5]], [0, 1]), "shape"),
        (lambda: ConformalSets().fit([[0.5, 0.5]], [0], weights=[np.nan]), "not-finite"),
        (lambda: ConformalSets("daps").fit([[0.5, 0.5]], [0]), "missing"),
        (
            lambda: ConformalSets().fit([[0.5, 0.5]], [0]).predict([[0.2, 0.3, 0.5]]),
            "other-classes",
        ),
    ],
)
def test_bad_input_is_refused(make, error):
    with raises(error):
        make()
