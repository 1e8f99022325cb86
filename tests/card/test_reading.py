"""The prior on the accuracy, and targets whose feature means have moved."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad
from tests.helpers import block_model, find_graph

from graphtemper import Graph, SourceCard, csbm, recalibrate, shifts
from graphtemper._core.estimate import Estimate
from graphtemper._core.numerics import log_odds
from graphtemper.card.atlas import Ends
from graphtemper.card.reading import (
    FAR,
    MEMORY_DEVIATION,
    MEMORY_TAKEN_BACK,
    NATURAL_DEVIATION,
    NEAR,
    TAKEN_BACK,
    USUAL_GAP,
    VAGUE,
    read,
    read_evidence,
    second_estimate,
)
from graphtemper.models import SIGN
from graphtemper.signals.observation import Observation


def test_the_centre_is_the_median_and_the_interval_holds_nine_tenths():
    """By quadrature of the density, which is only known up to a constant."""
    prior = Estimate.of_log_odds(0.7, 0.3, "atlas")

    def density(x):
        return float(np.exp(prior.log_density(np.array([x]))[0]))

    low, high = prior.centre - 1.6449 * 0.3, prior.centre + 1.6449 * 0.3
    parts = [quad(density, *ends)[0] for ends in ((-60, low), (low, 0.7), (0.7, high), (high, 60))]
    total = sum(parts)
    assert sum(parts[:2]) / total == pytest.approx(0.5, abs=1e-3)
    assert sum(parts[1:3]) / total == pytest.approx(0.9, abs=1e-3)
    assert np.log(prior.low / (1 - prior.low)) == pytest.approx(low, abs=1e-3)


@pytest.fixture(scope="module")
def moved(card, model):
    """A target whose feature means have moved."""
    graph = block_model(5)
    graph = graph.replace(features=graph.features + np.linspace(0.5, 1.5, graph.num_features))
    return read(card, Observation(model, graph))


def test_moved_feature_means_leave_the_atlas_for_the_rule(card, model, moved):
    graph = block_model(5)
    here = read(card, Observation(model, graph))
    assert here.moved_fraction < 0.3
    assert moved.moved_fraction == 1.0
    assert moved.estimate.centre == moved.natural_centre
    rise = max(moved.usual_centre - log_odds(card.reference.accuracy), 0.0)
    assert moved.natural_centre == pytest.approx(moved.usual_centre - TAKEN_BACK * rise)
    unlike = np.clip((moved.novelty - NEAR) / (FAR - NEAR), 0.0, 1.0)
    sampling = moved.atlas_variance - (
        moved.response.widening**2 * moved.response.predict(moved.signals)[1] ** 2
    )
    assert moved.estimate.deviation == pytest.approx(
        np.sqrt(NATURAL_DEVIATION**2 + (TAKEN_BACK * rise) ** 2 + unlike * VAGUE**2 + sampling),
        abs=0.02,
    )
    unmoved = replace(here, moments=(card_mean(card, graph), np.ones(graph.num_features)))
    assert unmoved.estimate.deviation < moved.estimate.deviation


def card_mean(card, graph):
    return np.asarray(graph.features.mean(axis=0), dtype=float)


def test_disagreement_lowers_the_answer_and_agreement_does_not_raise_it(moved):
    """The rule takes the lower of confidence and what the second opinion says."""
    claimed = log_odds(moved.evidence.confidence)

    def centre(agreement):
        evidence = replace(moved.evidence, second_agreement=agreement)
        return replace(moved, evidence=evidence).usual_centre

    source = moved.card.reference
    assert centre(0.3) < centre(0.5) < claimed
    assert centre(1.0) == claimed
    assert centre(None) == pytest.approx(claimed - USUAL_GAP)
    same = second_estimate(claimed, source, source.evidence.second_agreement)
    assert same == pytest.approx(log_odds(source.accuracy))


def test_without_features_the_interval_is_not_narrower(card, model):
    """Unknown features may have moved, so less knowledge never gives a narrower interval."""
    graph = block_model(5)
    known = read(card, Observation(model(graph), graph))
    unknown = read_evidence(card, known.evidence, known.num_nodes, None, flat=False)
    assert unknown.moved_fraction == 1.0
    assert unknown.estimate.deviation > known.estimate.deviation


@pytest.fixture(scope="module")
def linked():
    """A model that needs the links, its card, and a fresh graph."""
    kind = {"degree": 10, "snr": 1.5, "num_classes": 3, "num_features": 12}
    graph, target = (block_model(seed, 0.8, 900, **kind) for seed in (1, 2))
    model = SIGN(hops=1).fit(graph, range(450))
    shown = {"noise": (0.5, 1.0), "shuffle": (0.3, 0.6), "rewire": (0.3, 0.6), "drop": (0.5,)}
    built = SourceCard.build(model, graph, range(450, 900), compositions=0, shifts=shown)
    return model, built, target


def _moved_features(graph):
    return graph.replace(features=graph.features[_order(graph)])


def _moved_links(graph):
    return graph.replace(edges=np.sort(_order(graph)[graph.edges], axis=1))


def _order(graph):
    return np.random.default_rng(0).permutation(graph.num_nodes)


def test_features_and_links_of_other_nodes_cannot_be_told_apart(linked):
    """The same numbers in another order, with accuracies far apart: one interval for both."""
    model, card, target = linked
    pair = _moved_features(target), _moved_links(target)
    logits = [np.asarray(model(graph)) for graph in pair]
    np.testing.assert_allclose(logits[0], logits[1][_order(target)], atol=1e-4)
    truths = [float((z.argmax(axis=1) == target.labels).mean()) for z in logits]
    assert truths[1] > truths[0] + 0.2
    for graph in pair:
        result = recalibrate(model, graph.replace(labels=None), card)
        assert result.verdict == "abstain"
        assert any(item.code == "no_link_signal" for item in result.reasons)
        assert result.accuracy.low < min(truths)
        assert result.accuracy.high > max(truths)


@pytest.mark.parametrize(
    ("shift", "unlinked"),
    [
        (None, False),
        (shifts.rewire(1.0), True),
        (shifts.shuffle(1.0), True),
        (shifts.rewire(0.6), False),
        (shifts.shuffle(0.6), False),
        (shifts.noise(1.0), False),
        (shifts.drop(0.9), False),
    ],
)
def test_links_without_signal_are_recognised(linked, shift, unlinked):
    model, card, target = linked
    graph = target if shift is None else shift(target, seed=4)
    assert read(card, Observation(model, graph)).unlinked is unlinked


def test_a_few_nodes_do_not_show_that_links_carry_no_signal(linked):
    model, card, target = linked
    graph = shifts.rewire(1.0)(target, seed=4)
    assert not read(card, Observation(model, graph, range(12))).unlinked


def test_an_older_card_takes_guessing_and_the_source_for_the_ends(linked):
    model, card, target = linked
    older = replace(card, ends=Ends())
    accuracy = read(older, Observation(model, _moved_links(target))).estimate
    assert accuracy.low < older.reference.chance
    assert accuracy.high > older.reference.accuracy


def test_the_ends_are_the_accuracies_of_the_source(linked):
    model, card, _ = linked
    kind = {"degree": 10, "snr": 1.5, "num_classes": 3, "num_features": 12}
    graph = block_model(1, 0.8, 900, **kind)
    for end, shift in ((card.ends.shuffled, shifts.shuffle), (card.ends.rewired, shifts.rewire)):
        right = np.asarray(model(shift(1.0)(graph, seed=9))).argmax(axis=1) == graph.labels
        assert end == pytest.approx(right[450:].mean(), abs=0.15)
    assert card.without("rewire").ends == Ends(card.ends.shuffled, None)


def test_a_rise_above_the_source_widens_the_answer(moved):
    """Confidence beyond anything seen says that the world is another one."""
    sure = replace(moved, evidence=replace(moved.evidence, confidence=0.9999, second_agreement=1.0))
    source = log_odds(moved.card.reference.accuracy)
    assert sure.usual_centre > source + 4.0
    assert source < sure.estimate.centre < source + 0.3 * (sure.usual_centre - source)
    assert sure.estimate.low < 0.5
    assert sure.estimate.half_width > moved.estimate.half_width


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_equal_features_in_all_nodes_say_nothing(card, model, value):
    graph = block_model(5)
    result = recalibrate(
        model, graph.replace(features=np.full_like(graph.features, value), labels=None), card
    )
    assert result.verdict == "abstain"
    assert result.accuracy.high - result.accuracy.low > 0.6
    truth = (result.logits.argmax(axis=1) == graph.labels).mean()
    assert result.accuracy.low <= truth <= result.accuracy.high


@pytest.mark.skipif(find_graph("cora") is None, reason="cora is not here")
def test_both_ends_of_cora_are_in_one_interval():
    graph = Graph.load(find_graph("cora")).replace(train_masks=None)
    model = SIGN(hops=2).fit(graph, np.arange(0, graph.num_nodes, 2))
    nodes = np.arange(1, graph.num_nodes, 2)
    few = {"noise": (0.5, 1.0), "rewire": (0.3, 0.7), "drop": (0.5,), "shuffle": (0.4,)}
    card = SourceCard.build(model, graph, nodes, compositions=0, shifts=few)
    truths, intervals = [], []
    for shift in (shifts.shuffle(1.0), shifts.rewire(1.0)):
        target = shift(graph, seed=3)
        result = recalibrate(model, target.replace(labels=None), card, nodes)
        truths.append(float((result.logits.argmax(axis=1) == graph.labels[nodes]).mean()))
        intervals.append(result.accuracy)
        assert any(item.code == "no_link_signal" for item in result.reasons)
    assert truths[1] > truths[0] + 0.3
    for accuracy in intervals:
        assert accuracy.low < min(truths)
        assert accuracy.high > max(truths)


def test_what_a_model_knows_by_heart_shortens_and_widens_a_drop(card, model):
    graph = shifts.noise(1.0)(block_model(5), seed=1)
    known = read(replace(card, elsewhere=None), Observation(model, graph))
    source = log_odds(card.reference.accuracy)
    drop = source - known.atlas_centre
    assert drop > 0.3
    assert known.memory == 0.0
    assert replace(known, card=replace(card, elsewhere=card.reference.accuracy)).memory == 0.0
    heart = replace(known, card=replace(card, elsewhere=0.9999))
    assert heart.memory == 1.0
    kept = 1.0 - known.moved_fraction
    assert heart.estimate.centre - known.estimate.centre == pytest.approx(
        kept * MEMORY_TAKEN_BACK * drop
    )
    wider = heart.estimate.deviation**2 - known.estimate.deviation**2
    assert wider == pytest.approx(kept * (MEMORY_DEVIATION * drop) ** 2, abs=0.02)


def test_a_fresh_graph_of_a_model_that_knows_its_source_by_heart():
    """The card's nodes are next to training nodes, and look better than any fresh graph."""
    kind = {"degree": 8, "homophily": 0.8, "snr": 2.0, "num_classes": 10, "num_features": 100}
    graph = csbm.sample(1000, **kind, seed=0)
    model = SIGN(hops=2).fit(graph, range(500))
    shown = {"noise": (0.5, 1.0, 2.0), "rewire": (0.3, 0.6), "drop": (0.5, 0.8), "add": (0.7,)}
    shown |= {"shuffle": (0.3, 0.6), "mask": (0.3, 0.6), "homophily": (-0.3, 0.3)}
    card = SourceCard.build(model, graph, range(500, 1000), compositions=0, shifts=shown)
    assert card.elsewhere > 0.99
    held = 0
    for seed in range(50, 54):
        target = csbm.sample(1000, **kind, seed=seed)
        result = recalibrate(model, target.replace(labels=None), card)
        truth = (result.logits.argmax(axis=1) == target.labels).mean()
        assert truth < card.reference.accuracy - 0.05
        held += result.accuracy.low <= truth <= result.accuracy.high
    assert held >= 3


def test_far_from_everything_seen_is_an_abstention(card, model):
    """Features on another scale, whose means are elsewhere as well."""
    graph = block_model(5)
    target = graph.replace(features=500.0 * graph.features + 500.0, labels=None)
    result = recalibrate(model, target, replace(card, columns=None))
    assert result.reading.novelty > FAR
    assert result.verdict == "abstain"
    assert result.accuracy.high - result.accuracy.low > 0.6
