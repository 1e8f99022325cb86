"""The second opinion, and what its coefficients say of the labels it was fitted to."""

import numpy as np
import pytest

from graphtemper import SourceCard, csbm
from graphtemper.models import SIGN
from graphtemper.signals.second_opinion import FEWEST_LABELS, SKETCH, SecondOpinion

FEW = {"noise": (0.5, 1.0), "drop": (0.5,), "rewire": (0.3,)}


def _drawn(size, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, size)
    sums = rng.standard_normal((size, SKETCH)) + 0.5 * np.eye(classes, SKETCH)[labels]
    return sums, labels


def test_the_optimum_is_reached():
    sums, labels = _drawn(300, 3)
    opinion = SecondOpinion.fit(sums, labels, 3)
    p = np.exp(opinion.scores(sums))
    p /= p.sum(axis=1, keepdims=True)
    x = np.column_stack([sums, np.ones(300)])
    penalised = opinion.weights.copy()
    penalised[-1] = 0.0
    np.testing.assert_allclose(x.T @ (np.eye(3)[labels] - p), penalised, atol=0.05)


@pytest.mark.parametrize(("labels", "sums"), [(128, 8), (399, 24), (1000, 62), (5000, 64)])
def test_labels_hide_in_one_sum_for_sixteen_of_them(labels, sums):
    given, classes = _drawn(labels)
    opinion = SecondOpinion.hiding(given, classes, classes, 2)
    assert opinion.weights.shape == (sums + 1, 2)


def test_few_labels_have_no_second_opinion():
    given, classes = _drawn(FEWEST_LABELS - 1)
    assert SecondOpinion.hiding(given, classes, classes, 2) is None
    given, classes = _drawn(400)
    assert SecondOpinion.hiding(given, np.zeros_like(classes), classes, 2) is None


@pytest.mark.parametrize("rare", [0, 1, 5, 9])
def test_nothing_of_a_rare_class_is_in_the_coefficients(rare):
    """Whichever nodes are its members, and however many, the coefficients are the same bytes."""
    given, classes = _drawn(400)
    expected = SecondOpinion.hiding(given, classes, classes, 3)
    labels = classes.copy()
    labels[np.random.default_rng(rare).permutation(400)[:rare]] = 2
    found = SecondOpinion.hiding(given, labels, classes, 3)
    np.testing.assert_array_equal(found.weights, expected.weights)


@pytest.mark.cpu(6)
@pytest.mark.filterwarnings("ignore:in the source")
def test_a_card_never_fits_the_labels_that_it_scores():
    g = csbm.sample(900, degree=6, homophily=0.8, snr=1.0, num_features=12, seed=1)
    nodes = np.arange(600, 900)
    model = SIGN(hops=1).fit(g, range(600))
    labels = g.labels.copy()
    labels[nodes] = 1 - labels[nodes]  # the secret of the draws does not depend on names
    one, other = (
        SourceCard.build(model, graph, nodes, compositions=0, shifts=FEW)
        for graph in (g, g.replace(labels=labels))
    )
    assert one.reference.accuracy != other.reference.accuracy
    np.testing.assert_array_equal(one.probe.second.weights, other.probe.second.weights)
    alone = g.replace(labels=np.where(np.arange(900) < 600, -1, g.labels))
    assert SourceCard.build(model, alone, nodes, compositions=0, shifts=FEW).probe.second is None
