"""Labelled environments in a card."""

from dataclasses import replace

import numpy as np
import pytest
from tests.helpers import raises

from graphtemper import SourceCard, csbm, recalibrate, temperature
from graphtemper.card import environments
from graphtemper.card.format import MAX_BYTES
from graphtemper.errors import InputError
from graphtemper.models import SIGN
from graphtemper.signals.drift import column_sketch

LEVELS = {"noise": (0.5, 1.5), "mask": (0.4,), "rewire": (0.3,), "drop": (0.5,)}


def sample(seed, **other):
    kind = {"degree": 6, "homophily": 0.8, "snr": 1.0, "num_features": 6} | other
    return csbm.sample(300, seed=seed, **kind)


@pytest.fixture(scope="module")
def source():
    return sample(1)


@pytest.fixture(scope="module")
def model(source):
    return SIGN(hops=1).fit(source, range(150))


@pytest.fixture(scope="module")
def card(source, model):
    return SourceCard.build(model, source, range(150, 300), compositions=0, shifts=LEVELS)


def test_an_environment_leaves_its_aggregates(card, model):
    other, nodes = sample(2, homophily=0.6), np.arange(40, 220)
    learned = card.learn(model, other, nodes, name="May", when="2026-05")
    (item,) = learned.environments
    logits = model(other)[nodes] / card.temperature
    right = logits.argmax(axis=1) == other.labels[nodes]
    confidence = temperature.apply(logits).max(axis=1).mean()
    assert (item.name, item.when, item.num_nodes) == ("May", "2026-05", 180)
    assert item.accuracy == pytest.approx(right.mean(), rel=1e-6)
    assert item.confidence == pytest.approx(confidence, rel=1e-6)
    odds = (item.accuracy * 180 + 0.5) / ((1 - item.accuracy) * 180 + 0.5)
    gap = np.log(odds) - np.log(item.confidence / (1 - item.confidence))
    assert item.gap == pytest.approx(gap, abs=1e-4)
    optimum = temperature.fit(logits, other.labels[nodes])
    assert item.temperature == pytest.approx(optimum, rel=1e-4)
    means = column_sketch(other.features[nodes].mean(axis=0), card.probe.column_std)
    np.testing.assert_allclose(item.sketch, means[: environments.SKETCH_SIZE], atol=1e-5)
    assert card.environments == ()


def test_building_with_environments_is_building_and_learning(card, source, model):
    others = [sample(2), (sample(3, homophily=0.5), range(100, 300))]
    built = SourceCard.build(
        model, source, range(150, 300), compositions=0, shifts=LEVELS, environments=others
    )
    learned = card.learn(model, others[0], name=built.environments[0].name)
    learned = learned.learn(model, *others[1], name=built.environments[1].name)
    assert built.to_json() == learned.to_json()


def test_environments_travel_with_the_card(card, model, tmp_path):
    learned = card.learn(model, sample(2), name="b", when=2)
    learned = learned.learn(model, sample(3), name="a", when=1)
    assert [item.name for item in learned.environments] == ["a", "b"]  # in order of time
    learned.save(tmp_path / "card.json")
    again = SourceCard.load(tmp_path / "card.json")
    assert again.to_json() == learned.to_json()
    one, other = again.environments[0], learned.environments[0]
    assert one.signals == other.signals
    assert np.array_equal(one.biases, other.biases)
    assert np.array_equal(one.shares, other.shares)


def test_environments_like_the_target_count_for_more(card, model):
    """Of two kinds of environments, the answer follows those with the target's feature means."""
    rng = np.random.default_rng(0)

    def place(seed, moved):
        graph = sample(seed)
        labels = graph.labels.copy()
        wrong = rng.random(300) < (0.35 if moved else 0.0)
        labels[wrong] = 1 - labels[wrong]
        return graph.replace(features=graph.features + 0.6 * moved, labels=labels)

    learned = card
    for seed in range(2, 8):
        learned = learned.learn(model, place(seed, seed % 2), name=str(seed))
    still, moved = (recalibrate(model, place(20, kind), learned).accuracy for kind in (0, 1))
    assert moved.value < still.value - 0.1


def test_digits_in_times_are_numbers(card, model):
    learned = card
    for seed, when in enumerate(("2020-10", "2020-9", "2021-1"), start=2):
        learned = learned.learn(model, sample(seed), name=when, when=when)
    assert [item.name for item in learned.environments] == ["2020-9", "2020-10", "2021-1"]


def test_the_oldest_is_forgotten_when_there_are_many(card, model):
    first = card.learn(model, sample(2), name="0", when=0)
    one = first.environments[0]
    many = tuple(
        replace(one, name=str(number), when=float(number), accuracy=0.5 + 0.002 * number)
        for number in range(environments.MOST_ENVIRONMENTS)
    )
    grown = replace(first, environments=many).learn(model, sample(3), name="new", when=1000)
    assert len(grown.environments) == environments.MOST_ENVIRONMENTS
    assert grown.environments[0].name == "1"
    assert grown.environments[-1].name == "new"
    assert len(grown.to_json()) < MAX_BYTES


def test_a_large_card_forgets_down_to_its_size_limit(card, model):
    # Many drawn shifts leave space for a few environments only.
    large = replace(card, atlas=card.atlas * 76)
    one = card.learn(model, sample(2), name="x" * 190).environments[0]
    many = tuple(replace(one, name=f"{'x' * 190}{number}") for number in range(39))
    larger = replace(large, environments=many)
    assert len(large.to_json()) < MAX_BYTES < len(larger.to_json())
    grown = larger.learn(model, sample(3), name="new")
    assert len(grown.to_json()) <= MAX_BYTES
    assert grown.environments[-1].name == "new"


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"nodes": range(9)}, "too-few"),
        ({"nodes": [0] * 60}, "repeated"),
        ({"when": True}, "wrong-type"),
        ({"when": float("nan")}, "wrong-type"),
        ({"graph": sample(2, num_features=7)}, "other-features"),
        ({"graph": sample(2, num_classes=3)}, "range"),
        ({"graph": sample(2).replace(labels=None)}, "no-labels"),
        ({"predictor": np.zeros((300, 2))}, "missing"),
    ],
)
def test_bad_environments_are_refused(card, model, change, error):
    values = {"predictor": model, "graph": sample(2), "nodes": None} | change
    with raises(error):
        card.learn(values.pop("predictor"), values.pop("graph"), values.pop("nodes"), **values)


def test_the_same_environment_is_not_learned_twice(card, model):
    learned = card.learn(model, sample(2), name="May", when=1)
    with raises("repeated"):
        learned.learn(model, sample(3), name="May", when=2)
    with raises("repeated"):
        learned.learn(model, sample(2), name="June", when=2)
    with pytest.raises(InputError):
        learned.learn(model, sample(3), name="June", when="2026-06")


def test_environments_without_a_time_are_the_oldest(card, model):
    learned = card.learn(model, sample(2), name="May", when=1).learn(model, sample(3), name="old")
    assert [item.name for item in learned.environments] == ["old", "May"]
    assert SourceCard.from_json(learned.to_json()).environments[0].when is None


def test_the_card_s_own_nodes_are_not_an_environment(source, model):
    options = {"compositions": 0, "shifts": LEVELS}
    with raises("foreign"):
        SourceCard.build(
            model, source, range(150, 300), environments=[(source, range(200, 250))], **options
        )
    with raises("wrong-type"):
        SourceCard.build(model, source, range(150, 300), environments=["May"], **options)
