import json

import numpy as np
import pytest
import scipy.sparse as sp
from tests.helpers import answer_bytes, block_model, raises

from graphtemper import Graph, recalibrate, shifts, suggest_labels
from graphtemper import temperature as temperatures
from graphtemper.errors import GraphTemperError, InputError
from graphtemper.models import SIGN
from graphtemper.recalibration.applied import probabilities_at

NUM_CLASSES = 3
VERDICTS = ("trust", "caution", "abstain")
NO_EDGES = np.empty((0, 2), int)


@pytest.fixture(scope="module")
def target():
    return shifts.noise(0.8)(block_model(2), 5)


TARGETS = {
    "same": lambda: block_model(3),
    "noise": lambda: shifts.noise(1.5)(block_model(4), 5),
    "rewired": lambda: shifts.rewire(0.6)(block_model(5), 6),
    "scaled": lambda: shifts.scale(4.0)(block_model(6), 7),
    "heterophilous": lambda: block_model(7, homophily=0.1),
    "no edges": lambda: block_model(8).replace(edges=NO_EDGES),
    "one node": lambda: Graph(features=block_model(9).features[:1], edges=NO_EDGES),
    "two nodes": lambda: Graph(features=block_model(9).features[:2], edges=[[0, 1]]),
    "no features": lambda: block_model(10).replace(features=np.zeros((600, 10), np.float32)),
    "equal nodes": lambda: block_model(10).replace(features=np.ones((600, 10), np.float32)),
    "huge features": lambda: block_model(11).replace(features=1e15 * block_model(11).features),
    "tiny features": lambda: block_model(11).replace(features=1e-30 * block_model(11).features),
    "one class": lambda: Graph(features=block_model(12).features + 20.0, edges=[[0, 1]]),
    "sparse": lambda: block_model(13).replace(
        features=sp.csr_matrix(
            np.where(block_model(13).features > 0.5, block_model(13).features, 0.0)
        )
    ),
}


def _is_sound(result, logits, card):
    """What must hold of every answer, whatever the target."""
    p = result.probabilities
    assert p.shape == logits.shape
    assert np.isfinite(p).all()
    assert (p >= 0.0).all()
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
    assert (p.argmax(axis=1) == logits.argmax(axis=1)).all()
    np.testing.assert_allclose(p, temperatures.apply(logits, result.temperature), atol=1e-9)
    a = result.accuracy
    assert 0.0 <= a.low <= a.value <= a.high <= 1.0
    assert result.verdict in VERDICTS
    assert result.reasons
    for reason in result.reasons:
        assert str(reason) == reason.text
        assert reason.text.endswith(".")
        assert len(reason.text.split()) > 4
        assert "nan" not in reason.text.lower().split()
    if result.verdict == "abstain":
        assert result.temperature == card.probe.temperature  # and so do the probabilities
        assert "labels_needed" in [reason.code for reason in result.reasons]
    if result.verdict == "caution":
        assert len(result.reasons) > 1
    again = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert again["verdict"] == result.verdict
    assert again["num_nodes"] == len(p)
    assert again["temperature"] == result.temperature


@pytest.mark.parametrize("name", TARGETS)
def test_every_target_gets_a_sound_answer(card, model, name):
    graph = TARGETS[name]()
    logits = np.asarray(model(graph), np.float64)
    for predictor in (model, logits, lambda g: model(g)):
        _is_sound(recalibrate(predictor, graph, card), logits, card)


def test_known_shifts_are_estimated(card, model):
    """On the card's own kind of graph the estimate is right to within its stated interval."""
    errors, inside = [], []
    for seed, level in enumerate((0.0, 0.4, 0.8, 1.2, 2.0)):
        clean = block_model(20 + seed)
        graph = shifts.noise(level)(clean, seed + 100)
        result = recalibrate(model, graph, card)
        truth = (model(graph).argmax(axis=1) == clean.labels).mean()
        errors.append(abs(result.accuracy.value - truth))
        inside.append(result.accuracy.low <= truth <= result.accuracy.high)
        if result.verdict != "abstain":
            assert result.mean_confidence[1] == pytest.approx(result.accuracy.value, abs=1e-6)
    assert np.mean(errors) < 0.04
    assert sum(inside) >= 4


def test_noise_asks_for_a_higher_temperature(card, model):
    found = [recalibrate(model, shifts.noise(x)(block_model(3), 9), card) for x in (0.0, 1.0)]
    assert found[1].verdict != "abstain"
    assert found[1].temperature > 1.3 * found[0].temperature
    assert found[1].slope < found[0].slope
    assert found[1].severity_bound > found[0].severity_bound
    assert found[1].slope == pytest.approx(card.probe.temperature / found[1].temperature)
    accuracy, confidence = found[1].accuracy, found[1].mean_confidence[0]
    assert found[1].severity_bound == pytest.approx(confidence - accuracy.low)
    assert found[1].severity_bound > confidence - accuracy.value  # the estimate may be wrong


SWAPPED = {
    "a path as the card": (lambda m, g, c: recalibrate(m, g, "model.card.json"), "wrong-type"),
    "a path as the graph": (lambda m, g, c: recalibrate(m, "target.npz", c), "wrong-type"),
    "a path as the model": (lambda m, g, c: recalibrate("model.npz", g, c), "predictor"),
    "graph first": (lambda m, g, c: recalibrate(g, m, c), "wrong-type"),
    "card second": (lambda m, g, c: recalibrate(m, c, g), "wrong-type"),
    "card first": (lambda m, g, c: recalibrate(c, g, m), "wrong-type"),
    "labels of a card": (lambda m, g, c: suggest_labels(c, 5), "wrong-type"),
}


@pytest.mark.parametrize("name", SWAPPED)
def test_arguments_in_another_order_are_one_sentence(card, model, target, name):
    call, error = SWAPPED[name]
    with raises(error) as caught:
        call(model, target, card)
    assert "\n" not in str(caught.value)


def test_labels_of_the_target_change_no_byte(card, model, target):
    scrambled = np.random.default_rng(0).permutation(target.labels)
    masks = np.ones((1, target.num_nodes), bool)
    variants = [
        target,
        target.replace(labels=None),
        target.replace(labels=scrambled),
        target.replace(labels=np.full(target.num_nodes, -1), test_masks=masks, train_masks=masks),
    ]
    for predictor in (model, lambda g: model(g), model(target)):
        assert len({answer_bytes(recalibrate(predictor, g, card)) for g in variants}) == 1


def test_the_same_seed_gives_the_sameanswer_bytes(card, model, target):
    one, two, other = (recalibrate(model, target, card, seed=s) for s in (4, 4, 5))
    assert answer_bytes(one) == answer_bytes(two)
    assert answer_bytes(one) != answer_bytes(other)
    assert other.accuracy.value == pytest.approx(one.accuracy.value, abs=0.04)


def _permuted(graph, order):
    """Node i of the new graph is node order[i] of the old one."""
    place = np.argsort(order)
    return Graph.from_edges(graph.features[order], place[graph.edges])


def test_the_order_of_the_nodes_does_not_matter(card, model, target):
    """Exactly so from logits; with a model but for the draws of the passes, which go by node."""
    order = np.random.default_rng(1).permutation(target.num_nodes)
    moved, logits = _permuted(target, order), np.asarray(model(target), np.float64)
    first, second = recalibrate(logits, target, card), recalibrate(logits[order], moved, card)
    assert second.temperature == pytest.approx(first.temperature, rel=1e-9)
    np.testing.assert_allclose(second.probabilities, first.probabilities[order], atol=1e-9)
    assert second.verdict == first.verdict
    one, two = recalibrate(model, target, card), recalibrate(model, moved, card)
    assert two.accuracy.value == pytest.approx(one.accuracy.value, abs=0.05)
    assert (two.probabilities.argmax(axis=1) == one.probabilities[order].argmax(axis=1)).all()


def test_a_constant_on_a_nodes_logits_means_nothing(card, model, target):
    logits = np.asarray(model(target), np.float64)
    moved = logits + np.random.default_rng(2).normal(0.0, 5.0, (len(logits), 1))
    one, two = (recalibrate(z, target, card) for z in (logits, moved))
    np.testing.assert_allclose(two.probabilities, one.probabilities, atol=1e-9)
    assert two.accuracy.value == pytest.approx(one.accuracy.value, rel=1e-9)
    assert two.reasons == one.reasons


def test_logits_alone_know_less(card, model):
    widths = {"model": [], "logits": []}
    for seed in range(4):
        graph = shifts.noise(0.3 + 0.4 * seed)(block_model(30 + seed), seed)
        for kind, predictor in (("model", model), ("logits", model(graph))):
            accuracy = recalibrate(predictor, graph, card).accuracy
            widths[kind].append(accuracy.high - accuracy.low)
    assert np.mean(widths["logits"]) >= np.mean(widths["model"])
    assert not recalibrate(model(graph), graph, card).gains


def test_chosen_nodes_are_answered_in_their_order(card, model, target):
    nodes = np.array([5, 400, 17, 3, *range(100, 160)])
    result = recalibrate(model, target, card, nodes=nodes)
    assert result.nodes.tolist() == nodes.tolist()
    _is_sound(result, np.asarray(model(target), np.float64)[nodes], card)
    mask = np.zeros(600, bool)
    mask[np.sort(nodes)] = True
    masked = recalibrate(model, target, card, nodes=mask)
    assert masked.nodes.tolist() == sorted(nodes.tolist())
    assert masked.temperature == pytest.approx(result.temperature, rel=1e-9)


def test_equal_logits_are_an_abstention(card, target):
    for value in (0.0, 1.0, -3e5):
        logits = np.full((600, NUM_CLASSES), value)
        result = recalibrate(logits, target, card)
        assert result.verdict == "abstain"
        np.testing.assert_allclose(result.probabilities, 1.0 / NUM_CLASSES)
        assert "temperature_at_bound" in [reason.code for reason in result.reasons]
        _is_sound(result, logits, card)


def test_one_predicted_class_is_answered_with_care(card, target):
    rng = np.random.default_rng(3)
    logits = rng.normal([0.0, 2.0, 0.0], 0.1, (600, NUM_CLASSES))
    result = recalibrate(logits, target, card)
    assert (result.probabilities.argmax(axis=1) == 1).all()
    assert result.verdict != "trust"
    _is_sound(result, logits, card)


def test_a_small_lead_survives_a_large_temperature(card, target):
    """An estimate below chance flattens everything, but never changes a prediction."""
    rng = np.random.default_rng(4)
    logits = rng.normal(0.0, 3.0, (600, NUM_CLASSES))
    logits[0] = [1.0, 1.0 + 1e-13, 1.0 - 1e-13]
    flat = temperatures.apply(logits, 1e9)
    assert flat[0].argmax() == 0
    kept = probabilities_at(logits, 1e9)
    assert (kept.argmax(axis=1) == logits.argmax(axis=1)).all()
    np.testing.assert_allclose(kept.sum(axis=1), 1.0, atol=1e-12)
    result = recalibrate(logits, target, card)
    assert (result.probabilities.argmax(axis=1) == logits.argmax(axis=1)).all()


BAD = {
    "not finite": (lambda z: np.where(np.arange(600)[:, None] == 42, np.nan, z), "not-finite"),
    "infinite": (lambda z: np.where(np.arange(600)[:, None] == 7, np.inf, z), "not-finite"),
    "too few rows": (lambda z: z[:-1], "not-logits"),
    "one column": (lambda z: z[:, :1], "not-logits"),
    "flat": (lambda z: z.ravel(), "not-logits"),
    "probabilities": (temperatures.apply, "not-logits"),
    "text": (lambda z: np.full(z.shape, "a"), "not-logits"),
    "other classes": (lambda z: np.hstack([z, z]), "other-classes"),
    "too large": (lambda z: z.astype(np.float64) * 1e200, "range"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_logits_are_one_clear_sentence(card, model, target, name):
    change, error = BAD[name]
    with raises(error) as caught:
        recalibrate(change(model(target)), target, card)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", [name for name in BAD if name not in ("other classes",)])
def test_bad_models_are_one_clear_sentence(card, model, target, name):
    """The model behaves on the card's test graph, so only its answer on the target is wrong."""
    change, error = BAD[name]
    with raises(error):
        recalibrate(lambda g: change(model(g)) if g.num_nodes == 600 else model(g), target, card)


def test_a_model_that_writes_to_its_input_is_refused(card, model, target):
    def careless(graph):
        if graph.num_nodes == 600:
            graph.features[0] = 0.0
        return model(graph)

    before = target.features.tobytes()
    with pytest.raises(InputError):
        recalibrate(careless, target, card)
    assert target.features.tobytes() == before


def test_a_model_that_fails_on_a_part_of_its_input_says_so(card, model, target):
    """The clean pass is fine; hidden features send the model out of bounds."""

    def fragile(graph):
        logits = np.array(model(graph), np.float64)
        if graph.num_nodes == 600 and np.abs(graph.features - target.features).max() > 0.1:
            logits[3] = np.inf
        return logits

    with raises("not-finite"):
        recalibrate(fragile, target, card)


@pytest.mark.parametrize("arguments", [{"nodes": []}, {"nodes": [600]}, {"seed": -1}])
def test_odd_arguments_are_refused(card, model, target, arguments):
    with pytest.raises(GraphTemperError):
        recalibrate(model, target, card, **arguments)


def test_another_feature_space_or_model_is_refused(card, model, target):
    narrow = target.replace(features=target.features[:, :9])
    with raises("other-features"):
        recalibrate(model, narrow, card)
    with raises("other-model"):
        recalibrate(SIGN(hops=1).fit(block_model(40)), target, card)


def test_far_from_everything_seen_is_an_abstention(card, model):
    """Features a million times larger: certain everywhere, and nothing to compare with."""
    result = recalibrate(model, shifts.scale(1e6)(block_model(3), 1), card)
    assert result.verdict == "abstain"
    assert "signal_out_of_range" in [reason.code for reason in result.reasons]


def test_the_nearest_family_is_the_one_that_acted(card, model):
    names = [
        name for name, _ in recalibrate(model, shifts.drop(0.95)(block_model(3), 1), card).nearest
    ]
    assert {"drop", "drop_hubs", "rewire", "homophily"} & set(names[:2])  # shifts of edges
    distances = [d for _, d in recalibrate(model, block_model(3), card).nearest]
    assert distances == sorted(distances)
    assert {"none", "noise", "rewire"} <= set(names)


@pytest.mark.parametrize("per_node", [False, True])
@pytest.mark.parametrize("fast", [False, True])
def test_logits_of_another_model_are_refused_on_a_small_graph(
    model, card, source, target, fast, per_node
):
    used = model if fast else lambda graph: model(graph)
    other = SIGN().fit(source, range(60))
    with raises("other-model"):
        recalibrate(used, target, card, logits=other(target), per_node=per_node)
    half = model(target).astype(np.float16).astype(np.float64)
    assert recalibrate(used, target, card, logits=half, per_node=per_node).verdict in VERDICTS
