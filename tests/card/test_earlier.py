"""Earlier labels of the same nodes: what a card keeps of them, and what they tell."""

from dataclasses import replace

import numpy as np
import pytest
from tests.helpers import FEW_SHIFTS, block_model, raises

from graphtemper import SourceCard, recalibrate, shifts
from graphtemper.card.earlier import checked, design, expect, moments, num_columns

CLASSES = 3


def _period(number):
    """A graph of a series: features are noisier in some periods, and some classes change."""
    graph = block_model(2, num_nodes=800)
    rng = np.random.default_rng(number)
    changed = rng.random(800) < 0.1
    old = graph.labels
    new = np.where(changed, rng.integers(0, CLASSES, 800), old)
    return shifts.noise(0.2 + 0.6 * (number % 5))(graph, number).replace(labels=new), old


@pytest.fixture(scope="module")
def learned(source, model):
    card = SourceCard.build(model, source, range(300, 600), compositions=0, shifts=FEW_SHIFTS)
    for number in range(3):
        graph, old = _period(number)
        card = card.learn(model, graph, name=f"{number}", when=float(number), earlier=old)
    return card


def test_the_moments_are_those_of_a_regression():
    rng = np.random.default_rng(0)
    logits, old = rng.normal(0.0, 2.0, (500, CLASSES)), rng.integers(-1, CLASSES, 500)
    right = rng.random(500) < 0.7
    x, table = design(logits, old), moments(logits, old, right)
    assert x.shape == (500, num_columns(CLASSES))
    assert table.shape == (num_columns(CLASSES), num_columns(CLASSES) + 1)
    assert table[0, -1] == pytest.approx(right.mean())
    np.testing.assert_allclose(table[0, :-1], x.mean(axis=0))
    assert table.min() >= 0.0
    assert table.max() <= 1.0


def test_many_classes_need_few_moments():
    rng = np.random.default_rng(1)
    logits, old = rng.normal(0.0, 2.0, (100, 40)), rng.integers(-1, 40, 100)
    assert design(logits, old).shape == (100, num_columns(40)) == (100, 4)


def test_agreement_with_old_labels_tells_the_accuracy(learned, model):
    """How noisy features are is seen in how often predictions equal the old labels."""
    errors = []
    for number in (3, 4, 8):
        graph, old = _period(number)
        truth = (model(graph).argmax(axis=1) == graph.labels).mean()
        found = [
            recalibrate(model, graph, learned, earlier=given).accuracy
            for given in (None, old, [np.full(800, -1), old])
        ]
        assert found[1] == found[2]
        assert found[1].low <= truth <= found[1].high
        errors.append([abs(item.value - truth) for item in found[:2]])
    ours, plain = np.mean(errors, axis=0)[::-1]
    assert ours < 0.8 * plain


def test_new_labels_are_worth_more_next_to_old_ones(model, card):
    graph, old = _period(3)
    labels = {node: int(graph.labels[node]) for node in range(0, 800, 8)}
    plain, helped, proxied = (
        recalibrate(model, graph, card, labels=labels, **given)
        for given in (
            {},
            {"earlier": old},
            {"proxies": {"truth": graph.labels, "noise": np.full((800, CLASSES), 1 / 3)}},
        )
    )
    widths = [item.accuracy.high - item.accuracy.low for item in (plain, helped, proxied)]
    assert widths[1] < 0.95 * widths[0]
    assert widths[2] < 0.8 * widths[0]
    assert [item.code for item in helped.reasons if item.code == "earlier_labels"]


def test_a_card_keeps_the_moments(learned, card, tmp_path):
    learned.save(tmp_path / "card.json")
    again = SourceCard.load(tmp_path / "card.json")
    assert again.to_json() == learned.to_json()
    np.testing.assert_allclose(
        again.environments[0].earlier, learned.environments[0].earlier, rtol=1e-6
    )
    bare = replace(learned, environments=(replace(learned.environments[0], earlier=None),))
    assert SourceCard.from_json(bare.to_json()).environments[0].earlier is None


def test_moments_that_no_card_can_have_are_refused(learned):
    item = learned.environments[0]
    for wrong in (item.earlier[:-1], item.earlier + 1.0, item.earlier[:, :-1]):
        with raises("content"):
            replace(learned, environments=(replace(item, earlier=wrong),))


def test_more_environments_say_more(learned):
    here = learned.environments[0].earlier[0]
    known = [(item.earlier, item.truth) for item in learned.environments]
    one, three = expect(known[:1], here, 800), expect(known, here, 800)
    assert one.deviation > 0.0
    assert 2 * 1.645 * three.deviation < 3.0


@pytest.mark.parametrize(
    ("earlier", "error"),
    [
        (np.zeros(7, int), "shape"),
        (np.zeros((2, 2, 8), int), "shape"),
        (np.zeros(8), "shape"),
        (["a"] * 8, "shape"),
        (np.full(8, 3), "range"),
        (np.full(8, -2), "range"),
    ],
)
def test_odd_earlier_labels_are_one_sentence(earlier, error):
    with raises(error) as caught:
        checked(earlier, 8, CLASSES)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "proxy",
    [
        np.zeros(7, int),
        np.full(800, CLASSES),
        np.zeros(800),
        np.full((800, CLASSES), 2.0),
        np.full((800, CLASSES), np.nan),
        np.zeros((800, 2)),
    ],
)
def test_odd_proxies_are_one_sentence(model, card, proxy):
    graph, _ = _period(1)
    with raises("shape") as caught:
        recalibrate(model, graph, card, proxies={"llm": proxy})
    assert "the proxy 'llm' must have" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_proxy_may_cover_the_chosen_nodes_only(model, card):
    graph, other = _period(1)
    nodes = np.arange(1, 800, 3)
    labels = {int(node): int(graph.labels[node]) for node in nodes[:60]}
    shares = np.random.default_rng(0).dirichlet(np.ones(CLASSES), 800)
    for proxy in (other, shares):
        every, chosen = (
            recalibrate(model, graph, card, nodes, labels=labels, proxies={"other": given})
            for given in (proxy, proxy[nodes])
        )
        assert every.accuracy == chosen.accuracy
        np.testing.assert_array_equal(every.labels.columns, chosen.labels.columns)


def test_a_private_card_learns_from_no_earlier_labels(source, model):
    card = SourceCard.build(
        model, source, range(300, 600), compositions=0, shifts=FEW_SHIFTS, privacy=5.0
    )
    graph, old = _period(1)
    with raises("conflict"):
        card.learn(model, graph, earlier=old)
