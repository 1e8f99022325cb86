import json
from dataclasses import replace

import numpy as np
import pytest
from tests.helpers import block_model, raises

from graphtemper import Graph, SourceCard, shifts
from graphtemper._core.numerics import log_odds
from graphtemper.models import SGC, SIGN
from graphtemper.signals import evidence
from graphtemper.signals.covariances import Covariance
from graphtemper.signals.evidence import LEAD, LOGIT_SIGNALS, SIGNALS
from graphtemper.signals.gains import NEIGHBOURS
from graphtemper.signals.observation import Observation


def _graph(homophily=0.8, seed=1, **other):
    settings = {"degree": 8, "snr": 1.0, "num_classes": 3, "num_features": 12} | other
    return block_model(seed, homophily, 900, **settings)


@pytest.fixture(scope="module")
def graph():
    return _graph()


@pytest.fixture(scope="module")
def model(graph):
    return SIGN(hops=1).fit(graph, range(450))


@pytest.fixture(scope="module")
def card(graph, model):
    return SourceCard.build(model, graph, range(450, 900), compositions=0)


def _measure(card, predictor, graph, seed=0):
    observation = Observation(predictor, graph, temperature=card.probe.temperature, seed=seed)
    return evidence.measure(observation, card.probe)


def test_logits_alone_show_what_needs_no_model(card, graph, model):
    full = _measure(card, model, graph)
    part = _measure(card, model(graph), graph)
    assert set(evidence.read(part, card.reference)) == set(LOGIT_SIGNALS)
    assert set(evidence.read(full, card.reference)) == {*SIGNALS, *LOGIT_SIGNALS}
    assert part.feature is None
    assert part.held is None
    for name in ("confidence", "confident_share", "certain_share", "homophily", "log_degree"):
        assert getattr(part, name) == pytest.approx(getattr(full, name))
    np.testing.assert_allclose(part.covariance, full.covariance)
    json.dumps(full.to_dict(), allow_nan=False)


def test_the_source_read_against_itself_has_gains_of_one(card):
    gains = card.reference.gains
    assert gains is not None
    assert {"signal", "model", "own", "homophily", "spread"} <= set(gains.to_dict())
    assert list(gains.to_dict().values()) == pytest.approx([1.0] * len(gains.to_dict()))
    signals = card.reference.signals
    assert signals == evidence.read(replace(card.reference.evidence), card.reference)
    source = log_odds(card.reference.accuracy)
    assert signals[LEAD] == pytest.approx(source, abs=0.25)
    for name in ("predicted shares", "logit spread"):
        assert signals[name] == pytest.approx(0.0, abs=1e-9)


def test_what_depends_on_the_source_alone_is_kept(card):
    reference = replace(card.reference)
    assert reference.gains is reference.gains
    assert reference.signals is reference.signals


def test_the_signal_accuracy_follows_noise_where_confidence_does_not(card, graph, model):
    """Noise makes logits larger and accuracy lower, so confidence goes in the wrong direction."""
    noisy = shifts.noise(2.0)(graph, 5)
    truth = log_odds((model(noisy).argmax(axis=1) == graph.labels).mean())
    signals = evidence.read(_measure(card, model, noisy), card.reference)
    assert signals[LEAD] == pytest.approx(truth, abs=0.4)
    assert signals["confidence"] > truth + 0.8


@pytest.mark.nightly
def test_the_expected_standard_error_is_the_spread_over_graphs():
    model = SGC(hops=1, operator="mean").fit(_graph())
    card = SourceCard.build(model, _graph(), range(450, 900), compositions=0)
    measured = [_measure(card, model, _graph(seed=s)) for s in range(10, 34)]
    for name in ("feature", "own_feature", "edge", "wedge", "held"):
        values = [getattr(item, name).value for item in measured]
        stated = np.mean([getattr(item, name).error for item in measured])
        # Nodes share neighbours, so the stated error is slightly small; a factor of 2 is chance.
        assert 0.5 < np.std(values) / stated < 2.5


def test_a_view_that_shows_nothing_at_the_source_is_not_read():
    """One column has no halves, and random edges carry no signal."""
    g = _graph(num_classes=2, num_features=1, homophily=0.5)
    alone = SIGN(hops=0).fit(g, range(450))
    card = SourceCard.build(alone, g, range(450, 900), compositions=0)
    unread = {LEAD, "edge correlation", "wedge correlation", "held correlation"}
    assert not unread & set(card.responses["model"].names)
    measured = [_measure(card, alone, target) for target in (g, shifts.noise(2.0)(g, 3))]
    first, second = (evidence.read(item, card.reference) for item in measured)
    assert first[LEAD] == second[LEAD]
    assert first["confidence"] != second["confidence"]
    assert LEAD not in card.reference.readable


def test_without_halves_neighbours_give_the_signal_gain(graph):
    """A single column has no second half, but neighbours still share signal."""
    g = _graph(num_classes=2, num_features=1)
    alone = SIGN(hops=1).fit(g, range(450))
    card = SourceCard.build(alone, g, range(450, 900), compositions=0)
    gains = evidence.gains(_measure(card, alone, shifts.scale(0.5)(g, 1)), card.reference.evidence)
    assert gains.halves is None
    assert np.exp(gains.signal) == pytest.approx(0.5, abs=0.1)


def test_held_out_agreement_depends_on_classes_and_not_on_messages(card, model):
    """Without homophily the two ends of a dropped edge agree by chance alone."""
    values = [_measure(card, model, _graph(h, seed=9)).edge_agreement for h in (0.8, 1 / 3)]
    assert values[0] > 0.3
    assert abs(values[1]) < 0.05


@pytest.mark.parametrize("count", [1, 2, 3])
def test_graphs_of_a_few_nodes_have_finite_evidence(card, graph, model, count):
    predicted = model(graph).argmax(axis=1)
    rows = [int(np.flatnonzero(predicted == k)[0]) for k in range(count)]
    edges = [[0, 1]] if count > 1 else np.empty((0, 2), int)
    measured = _measure(card, model, Graph(features=graph.features[rows], edges=edges))
    assert measured.snr is None or np.isfinite(measured.snr)
    signals = evidence.read(measured, card.reference)
    assert np.isfinite(list(signals.values())).all()


def test_too_large_logits_are_refused_with_the_node(card, graph, model):
    logits = model(graph).astype(np.float64)
    logits[17] *= 1e150
    with raises("range"):
        _measure(card, logits, graph)


def test_shares_of_nearly_all_nodes_are_alike_as_signals(card, graph, model):
    """Accuracies above 99.5 % are kept apart, but such a share of a sample is no measurement."""
    found = _measure(card, model, graph)
    read = [
        evidence.read(replace(found, confidence=share), card.reference)["confidence"]
        for share in (0.99, 0.996, 0.9999)
    ]
    assert read[0] < read[1] == read[2]
    assert log_odds(0.996) < log_odds(0.9999)


@pytest.mark.parametrize("level", [-0.6, 0.6])
def test_agreement_across_edges_shows_both_signs_of_a_change_of_homophily(level):
    """Where neighbours hardly agree at the source, they may agree more or less than by chance."""
    g = _graph(num_classes=2, homophily=0.55)
    model = SIGN(hops=1).fit(g, range(450))
    card = SourceCard.build(model, g, range(450, 900), compositions=0)
    assert "edge agreement" in card.responses["model"].names
    target = _measure(card, model, shifts.homophily(level)(g, 3))
    change = evidence.read(target, card.reference)["edge agreement"]
    assert np.sign(level) * (change - card.reference.signals["edge agreement"]) > 0.05


def test_correlations_of_neighbours_do_not_depend_on_the_scale_of_the_logits(card):
    source = card.reference.evidence
    doubled = replace(
        source,
        covariance=4.0 * source.covariance,
        **{
            name: Covariance(4.0 * getattr(source, name).value, 4.0 * getattr(source, name).error)
            for name in NEIGHBOURS
        },
    )
    signals = evidence.read(doubled, card.reference)
    for name in NEIGHBOURS:
        key = f"{name} correlation"
        assert signals[key] == pytest.approx(card.reference.signals[key])


def test_predicted_shares_of_other_nodes_are_compared_beyond_chance(card):
    """Samples of one population differ, which is no change; the same nodes do not."""
    source, rng, size = card.reference.evidence, np.random.default_rng(0), 200
    found = []
    for _ in range(200):
        shares = rng.multinomial(size, source.predicted_shares) / size
        drawn = replace(source, predicted_shares=shares)
        found.append(
            [evidence.read(drawn, card.reference, by)["predicted shares"] for by in (0.0, 1 / size)]
        )
    plain, corrected = np.mean(found, axis=0)
    assert corrected < 0.5 * plain
    moved = replace(source, predicted_shares=np.roll(source.predicted_shares, 1)[::-1])
    assert (
        evidence.read(moved, card.reference, 0.01)["predicted shares"]
        <= (evidence.read(moved, card.reference)["predicted shares"])
    )
