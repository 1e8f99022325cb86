"""Every situation changes what its name says, and leaves labels and the order of nodes alone."""

import numpy as np
import pytest
import scipy.sparse as sp

from graphtemper import csbm
from graphtemper_research.trials import situations
from graphtemper_research.trials.situations import BLOCKS, HAPPENED, WITHOUT_SIGNAL

SHIFTS = situations.SHIFTS_INSIDE | situations.SHIFT_ENDS | situations.CHANGED_HOMOPHILY


@pytest.fixture(scope="module")
def graph():
    return csbm.sample(200, degree=6, homophily=0.8, snr=1.0, num_features=5, seed=1)


def moments(graph):
    return np.mean(graph.features, axis=0), np.std(graph.features, axis=0)


CHANGES = SHIFTS | WITHOUT_SIGNAL | HAPPENED


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_something_changes_and_labels_stay(graph, change):
    found, again = change(graph, 3), change(graph, 3)
    assert found.labels.tolist() == graph.labels.tolist()
    assert (found.num_nodes, found.num_features) == (graph.num_nodes, graph.num_features)
    assert np.array_equal(found.features, again.features)
    assert np.array_equal(found.edges, again.edges)
    same = np.array_equal(found.features, graph.features) and found.directed == graph.directed
    assert not (same and np.array_equal(found.edges, graph.edges))


def test_without_signal_the_columns_have_their_moments(graph):
    for name in ("rows permuted", "each column permuted"):
        found = WITHOUT_SIGNAL[name](graph, 1)
        assert np.allclose(moments(found), moments(graph), atol=1e-5)
        assert found.edges.tolist() == graph.edges.tolist()
    noise = WITHOUT_SIGNAL["noise for features"](graph, 1).features
    assert abs(np.corrcoef(noise[:, 0], graph.features[:, 0])[0, 1]) < 0.25


def test_accidents_are_what_they_are_called(graph):
    found = {name: change(graph, 1) for name, change in HAPPENED.items()}
    features = {name: one.features for name, one in found.items()}
    assert np.array_equal(features["columns reversed"], graph.features[:, ::-1])
    assert (features["a column zero"] == 0.0).all(axis=0).sum() == 1
    assert np.allclose(features["all columns x 100"], 100 * graph.features)
    times = features["one column x 100"] / graph.features
    assert np.sort(np.median(times, axis=0)).round().tolist() == [1, 1, 1, 1, 100]
    swapped = (features["two columns swapped"] != graph.features).any(axis=0)
    assert swapped.sum() == 2
    assert np.allclose(moments(found["standardised again"]), [[0.0] * 5, [1.0] * 5], atol=1e-5)
    assert found["no edges"].num_edges == 0
    assert 0.03 < found["one edge in ten"].num_edges / graph.num_edges < 0.2
    assert sorted(found["node numbers shuffled"].degrees) == sorted(graph.degrees)
    one_way = found["one direction of every edge"]
    assert one_way.directed
    assert one_way.num_edges == graph.num_edges


def test_sparse_columns_are_treated_alike(graph):
    sparse = graph.replace(features=sp.csr_matrix(np.maximum(graph.features, 0.0)))
    dense = graph.replace(features=np.maximum(graph.features, 0.0))
    for name in ("columns reversed", "a column zero", "one column x 100", "two columns swapped"):
        found = HAPPENED[name](sparse, 2).features
        assert sp.issparse(found)
        assert np.allclose(found.toarray(), HAPPENED[name](dense, 2).features)


@pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS)
def test_blocks_have_the_homophily_that_is_asked_for(block):
    for homophily in (block.homophily, *block.other_homophilies):
        graph = block.graph(1, homophily)
        ends = graph.labels[graph.edges]
        assert np.mean(ends[:, 0] == ends[:, 1]) == pytest.approx(homophily, abs=0.04)
