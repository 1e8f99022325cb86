"""What a build measures at the source, against the definitions of what it measures."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logit
from sklearn.linear_model import LogisticRegression
from tests.helpers import raises

from graphtemper import SourceCard, csbm, recalibrate
from graphtemper.card import atlas
from graphtemper.card import build as building
from graphtemper.errors import GraphTemperWarning
from graphtemper.models import SIGN
from graphtemper.models.predictor import fingerprint
from graphtemper.signals.observation import Observation
from graphtemper.signals.views import noisy_logits
from graphtemper.temperature import apply

NODES = np.arange(150, 300)
LEVELS = {"noise": (0.5, 2.0), "mask": (0.3, 0.8), "rewire": (0.2, 0.8), "drop": (0.5,)}


@pytest.fixture(scope="module")
def graph():
    return csbm.sample(300, degree=6, homophily=0.8, snr=1.0, num_classes=3, num_features=6, seed=1)


@pytest.fixture(scope="module")
def model(graph):
    return SIGN(hops=1).fit(graph, range(150))


@pytest.fixture(scope="module")
def card(graph, model):
    return SourceCard.build(model, graph, NODES, compositions=0, shifts=LEVELS)


def test_a_card_knows_how_far_the_columns_spread(card, graph):
    np.testing.assert_allclose(card.probe.column_std, graph.features.std(axis=0), rtol=0.03)


def test_a_probe_graph_never_changes():
    """Every card in use was made with this one: another would refuse them all."""
    shown = []
    fingerprint(lambda g: shown.append(g) or g.features[:, :2], 4)
    path = [[0, 1], [1, 2], [2, 3], [3, 4], [4, 5]]
    features = np.random.default_rng(12345).standard_normal((6, 4), dtype=np.float32)
    np.testing.assert_array_equal(shown[0].features, features)
    assert shown[0].edges.tolist() == path


def test_the_probe_noise_makes_the_source_disagree_as_often_as_it_is_wrong(card, graph, model):
    seen = Observation(model, graph, NODES, temperature=card.probe.temperature, seed=0)
    level, wrong = card.probe.noise_level, 1.0 - card.reference.accuracy

    def disagreement(factor):
        runs = [noisy_logits(seen, level * factor, number)[NODES] for number in range(2)]
        return np.mean(runs[0].argmax(axis=1) != runs[1].argmax(axis=1))

    # Five steps of a bisection between 0.02 and 3 leave a factor of 1.17.
    assert disagreement(1 / 1.18) < wrong <= disagreement(1.18)


def test_the_noise_of_an_environment_is_that_of_two_thirds_of_the_nodes_against_all(card):
    size, rng = 100_000, np.random.default_rng(0)
    part = 2 * size // 3

    def variance(accuracy):
        right = round(accuracy * size)
        return logit(rng.hypergeometric(right, size - right, part, 4000) / part).var()

    expected = [variance(item.accuracy) for item in card.atlas]
    found = replace(card, num_nodes=size).response(has_model=True).noise
    np.testing.assert_allclose(found, expected, rtol=0.1)


def test_unlabelled_nodes_have_classes_that_agree_with_predictions_as_labels_do(graph, model):
    """Shifts of the homophily move edges by class; the likeliest classes would agree too often."""
    hidden = np.setdiff1d(np.arange(graph.num_nodes), NODES)
    labels = graph.labels.copy()
    labels[hidden] = -1
    known = graph.replace(labels=labels)
    plan = building.plan(model, known, None, NODES, atlas.plan(), {})
    measured = building.measure(plan)
    drawn = measured.source.graph.labels
    np.testing.assert_array_equal(drawn[NODES], graph.labels[NODES])
    assert drawn.min() == 0
    agreement = (drawn == measured.observation.all_predictions)[hidden].mean()
    confidence = apply(measured.observation.all_logits[hidden]).max(axis=1).mean()
    assert agreement == pytest.approx(confidence, abs=4 * 0.5 / np.sqrt(hidden.size))
    assert agreement < 0.99


class Counting:
    """A plain callable that counts its calls, also those on the unshifted source."""

    def __init__(self, model, source):
        self.model, self.source, self.calls, self.clean = model, source, 0, 0
        self.work = 0

    def __call__(self, graph):
        self.calls += 1
        # Models are recognised by calls on tiny graphs, which do not count.
        self.work += graph.num_nodes > 6
        same = graph.num_edges == self.source.num_edges and graph.num_nodes == self.source.num_nodes
        self.clean += same and bool((graph.features == self.source.features).all())
        return self.model(graph)


@pytest.mark.parametrize("budget", [500, "thorough"])
@pytest.mark.parametrize("edges", [True, False])
def test_the_number_of_passes_is_in_the_card(graph, edges, budget):
    source = graph if edges else graph.replace(edges=np.empty((0, 2), int))
    counting = Counting(SIGN(hops=1).fit(source, range(150)), source)
    few = {"noise": (1.0,), "mask": (0.5,), "scale": (0.5,)}  # they leave the edges as they are
    card = SourceCard.build(counting, source, NODES, compositions=2, shifts=few, budget=budget)
    # Without edges there are none to hold out.
    assert counting.work == card.passes if edges else counting.work < card.passes


def test_the_source_is_passed_once_without_a_change(graph, model):
    counting = Counting(model, graph)
    few = {"noise": (1.0,), "mask": (0.5,), "scale": (0.5,)}
    SourceCard.build(counting, graph, NODES, compositions=0, shifts=few)
    assert counting.clean == 1


def test_fewer_nodes_than_classes_are_refused():
    many = csbm.sample(400, degree=6, homophily=0.8, snr=9.0, num_classes=55, seed=1)
    model = SIGN(hops=1).fit(many, range(340))
    with raises("too-few"):
        SourceCard.build(model, many, range(340, 392))


def test_by_default_a_card_is_built_outside_the_training_mask(graph, model, card):
    mask = np.arange(300) < 150
    masked = SourceCard.build(
        model, graph.replace(train_masks=mask[None]), compositions=0, shifts=LEVELS
    )
    assert masked.to_json() == card.to_json()


@pytest.mark.parametrize("masks", [None, np.eye(2, 300, dtype=bool)])
def test_a_card_that_may_hold_training_nodes_says_so(graph, model, masks):
    with pytest.warns(GraphTemperWarning, match="all 300 labelled nodes"):
        SourceCard.build(model, graph.replace(train_masks=masks), compositions=0, shifts=LEVELS)


def test_too_few_nodes_outside_the_training_mask_are_counted(graph, model):
    mask = np.arange(300) < 295
    with raises("too-few", match="outside the training mask, but has 5"):
        SourceCard.build(model, graph.replace(train_masks=mask[None]))


def test_what_is_no_function_is_named(graph, model):
    with raises("missing", match=r"graph -> logits.*not a ndarray"):
        SourceCard.build(model(graph), graph, NODES)


def test_a_classifier_of_rows_is_named_with_the_cure(graph, model, card):
    classifier = LogisticRegression().fit(graph.features, graph.labels)
    cure = r"not sklearn\..*LogisticRegression; .*lambda graph: np\.log"
    for job in (
        lambda wrong: SourceCard.build(wrong, graph, NODES),
        lambda wrong: recalibrate(wrong, graph, card),
    ):
        with raises("predictor", match=cure):
            job(classifier)
        with raises("not-logits", match="not LogisticRegression"):
            job(lambda graph: classifier)
    logits = lambda graph: np.log(classifier.predict_proba(graph.features))  # noqa: E731
    assert SourceCard.build(logits, graph, NODES, compositions=0, shifts=LEVELS).num_classes == 3
