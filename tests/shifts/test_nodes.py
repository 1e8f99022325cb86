import numpy as np
import pytest
from tests.helpers import raises

from graphtemper.errors import InputError
from graphtemper.shifts import resample_classes


def test_class_shares_are_the_requested_ones():
    rng = np.random.default_rng(0)
    labels = rng.integers(-1, 3, 4000)
    nodes = np.arange(500, 4000)
    subset = resample_classes(labels, nodes, [0.6, 0.3, 0.1], seed=1)
    share = np.bincount(labels[subset]) / subset.size
    np.testing.assert_allclose(share, [0.6, 0.3, 0.1], atol=1e-3)
    assert np.isin(subset, nodes).all()
    assert np.unique(subset).size == subset.size
    # As large as possible: the class that binds keeps all of its nodes.
    assert (labels[subset] == 0).sum() == (labels[nodes] == 0).sum()
    assert (subset == resample_classes(labels, nodes, [0.6, 0.3, 0.1], seed=1)).all()
    assert not np.array_equal(subset, resample_classes(labels, nodes, [0.6, 0.3, 0.1], seed=2))


def test_every_node_of_a_class_is_equally_likely():
    labels = np.array([0] * 10 + [1] * 5)
    count = np.zeros(15)
    for seed in range(2000):
        count[resample_classes(labels, None, [0.5, 0.5], seed)] += 1
    np.testing.assert_allclose(count[:10] / 2000, 0.5, atol=0.05)
    assert (count[10:] == 2000).all()


@pytest.mark.parametrize("shares", [[0, 0], [-1, 2], [float("nan"), 1], [1.0], [[0.5, 0.5]]])
def test_bad_shares(shares):
    with pytest.raises(InputError):
        resample_classes(np.array([0, 1, 1]), None, shares)


def test_a_class_without_nodes_is_named():
    with raises("no-labels"):
        resample_classes(np.array([0, 1, 1]), None, [1, 1, 1])
