"""What keeps a card private: secret draws, and classes with few nodes that are pooled.

SECURITY.md says what attacks on whole cards recovered.
"""

import numpy as np
import pytest

from graphtemper import SourceCard, csbm
from graphtemper.card.class_profile import FEWEST, ClassProfile
from graphtemper.card.privacy import pooled_moments, secret_seed
from graphtemper.models import SIGN
from graphtemper.signals.covariances import centred
from graphtemper.signals.gains import ClassMoments

FEW = {"noise": (0.5, 1.0), "drop": (0.5,), "rewire": (0.3,)}
NODES = np.arange(200, 400)


@pytest.fixture(scope="module")
def graph():
    return csbm.sample(400, degree=5, homophily=0.7, snr=0.8, num_features=6, seed=1)


def test_no_seed_of_a_build_is_in_its_card(graph):
    model = SIGN(hops=1).fit(graph, range(200))
    options = {"compositions": 0, "shifts": FEW}
    one = SourceCard.build(model, graph, NODES, **options)
    other = SourceCard.build(model, graph, NODES, seed=987654321, **options)
    text = other.to_json()
    assert "987654321" not in text
    assert str(secret_seed(987654321, NODES, graph.labels[NODES])) not in text
    assert other.probe.seed == one.probe.seed
    assert other.atlas != one.atlas


def test_the_secret_depends_on_labels_and_seed_but_not_on_the_order_of_nodes(graph):
    labels = graph.labels[NODES]
    secret = secret_seed(0, NODES, labels)
    assert secret == secret_seed(0, NODES[::-1], labels[::-1])
    assert secret == secret_seed(0, NODES, 1 - labels)  # nor on the names of classes
    other = labels.copy()
    other[17] = 1 - other[17]
    assert len({secret, secret_seed(1, NODES, labels), secret_seed(0, NODES, other)}) == 3
    assert secret.bit_length() > 64


@pytest.fixture(scope="module")
def rare():
    """Logits of three classes, the last of which has one member."""
    rng = np.random.default_rng(1)
    labels = np.r_[2, rng.integers(0, 2, 119)]
    return 2.0 * np.eye(3)[labels] + rng.standard_normal((120, 3)), labels


def moved(logits):
    """The same logits, but for those of the only member of its class."""
    other = logits.copy()
    other[0] = [3.0, -2.0, -9.0]
    return other


def test_a_class_with_one_member_does_not_show_its_logits(rare):
    logits, labels = rare
    exact = ClassMoments.measure(logits, labels)
    z = centred(logits)
    np.testing.assert_allclose(exact.offsets[2] + z.mean(axis=0), z[0])  # the attack
    one, two = (pooled_moments(item, labels) for item in (logits, moved(logits)))
    assert np.abs(one.offsets[2]).max() > 0.0
    # Another node of the class would give the same row, up to its part of the mean of all.
    gap = np.abs(one.offsets[2] - two.offsets[2]).max()
    assert gap < 0.05 * np.abs(z[0] - centred(moved(logits))[0]).max()
    np.testing.assert_allclose(one.shares.sum(), 1.0)
    np.testing.assert_allclose(one.offsets.sum(axis=1), 0.0, atol=1e-12)


def test_a_class_with_one_member_does_not_show_its_cell(rare):
    logits, labels = rare
    profile = ClassProfile.measure(logits, labels)
    column = profile.counts[:, 2]
    assert column.sum() == pytest.approx(1.0)
    assert column.max() < 0.5  # spread over cells, most of it over those of its own class
    assert column[6:].sum() == pytest.approx((logits.argmax(axis=1) == labels).mean())
    counts = np.bincount(labels)
    assert counts[2] < FEWEST <= counts[:2].min()
    np.testing.assert_allclose(profile.counts.sum(axis=0), counts, rtol=0.02)
    shown = profile.counts[profile.counts[:, 0] > 0.0, :2]  # cells without nodes say nothing
    assert (shown[shown == np.rint(shown)] >= FEWEST).all()  # no smaller count is as it is


def test_small_counts_are_shared_out_as_the_calibrated_probabilities_expect():
    rng = np.random.default_rng(2)
    logits = rng.normal(size=(600, 3)) * 2.0
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = (rng.random((600, 1)) > p.cumsum(axis=1)[:, :-1]).sum(axis=1)
    profile = ClassProfile.measure(logits, labels)
    true = np.zeros_like(profile.counts)
    confidence = p.max(axis=1)
    cells = 3 * logits.argmax(axis=1) + np.searchsorted(profile.edges, confidence)
    np.add.at(true, (cells, labels), 1.0)
    few = true < FEWEST
    assert 5 < few.sum() < 25
    np.testing.assert_array_equal(profile.counts[~few], true[~few])
    assert not np.isin(profile.counts[few], np.arange(FEWEST)).any()
    assert profile.counts.sum() == pytest.approx(600)
    # The expectation of calibrated probabilities is nearer to the truth than nothing at all.
    assert np.corrcoef(profile.counts[few], true[few])[0, 1] > 0.5


def test_small_classes_have_one_size_and_one_bias():
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(5), [100, 80, 9, 2, 0])
    logits = 2.0 * np.eye(5)[labels] + rng.normal(size=(labels.size, 5))
    profile = ClassProfile.measure(logits, labels)
    sizes = profile.counts.sum(axis=0)
    np.testing.assert_allclose(sizes[:2], [100, 80], rtol=0.02)
    np.testing.assert_allclose(sizes[2:], 11 / 3)
    assert np.unique(profile.biases[2:]).size == 1
    assert np.unique(profile.biases).size == 3
    assert profile.num_nodes == labels.size
