import numpy as np
import pytest
from tests.helpers import raises

from graphtemper import Graph, csbm, shifts


@pytest.fixture(scope="module")
def graph():
    return csbm.sample(3000, degree=8, homophily=0.8, snr=1.0, num_classes=3, seed=3)


def edge_set(graph):
    return set(map(tuple, graph.edges))


def same_class(graph):
    return (graph.labels[graph.edges[:, 0]] == graph.labels[graph.edges[:, 1]]).mean()


def test_rewire_keeps_the_rest_and_one_end_of_each(graph):
    out = shifts.rewire(0.25)(graph)
    common = len(edge_set(graph) & edge_set(out)) / graph.num_edges
    assert common == pytest.approx(0.75, abs=0.005)
    assert out.num_edges > 0.99 * graph.num_edges
    # A rewired edge joins classes at random: homophily 0.75 h + 0.25 / K.
    assert same_class(out) == pytest.approx(0.75 * same_class(graph) + 0.25 / 3, abs=0.01)


def test_rewire_favours_no_end():
    # On a star, either the centre stays (the leaf changes) or the leaf does: half each.
    star = Graph(features=np.ones((4001, 1)), edges=[[0, i] for i in range(1, 4001)])
    assert shifts.rewire(1.0)(star).degrees[0] / 4000 == pytest.approx(0.5, abs=0.15)


def test_drop_removes_exactly_the_share(graph):
    out = shifts.drop(0.9)(graph)
    assert out.num_edges == graph.num_edges - round(0.9 * graph.num_edges)
    assert edge_set(out) < edge_set(graph)
    assert shifts.drop(1.0)(graph).num_edges == 0


def test_one_seed_at_two_levels_is_one_draw(graph):
    assert edge_set(shifts.drop(0.6)(graph, 2)) < edge_set(shifts.drop(0.3)(graph, 2))


def test_add_keeps_all_and_adds_random_pairs(graph):
    out = shifts.add(1.5)(graph)
    assert edge_set(graph) < edge_set(out)
    assert out.num_edges / graph.num_edges == pytest.approx(2.5, abs=0.02)
    assert same_class(out) == pytest.approx((same_class(graph) + 1.5 / 3) / 2.5, abs=0.01)


def test_drop_hubs_prefers_hubs():
    rng = np.random.default_rng(0)
    ends = np.minimum(rng.pareto(1.5, (4000, 2)) * 20, 999).astype(int)
    g = Graph.from_edges(np.ones((1000, 1)), ends)
    fair, unfair = shifts.drop(0.5)(g), shifts.drop_hubs(0.5)(g)
    assert fair.num_edges == unfair.num_edges
    hub = int(g.degrees.argmax())
    assert unfair.degrees[hub] < 0.6 * fair.degrees[hub]


@pytest.mark.parametrize(("level", "limit"), [(0.5, 1.0), (-0.5, 0.0), (1.0, 1.0), (-1.0, 0.0)])
def test_homophily_moves_towards_its_limit(graph, level, limit):
    out = shifts.homophily(level)(graph)
    start, share = same_class(graph), abs(level)
    assert same_class(out) == pytest.approx((1 - share) * start + share * limit, abs=0.01)


def test_homophily_partners_are_uniform_and_labelled():
    # Every edge keeps node 0 (class 0) or moves it; count who becomes the partner of node 0.
    labels = np.array([0] * 5 + [1] * 3 + [2] * 2 + [-1])
    g = Graph(features=np.ones((11, 1)), edges=[[0, 10]], labels=labels)
    partners = {1.0: np.zeros(11), -1.0: np.zeros(11)}
    for seed in range(4000):
        for level, count in partners.items():
            (edge,) = shifts.homophily(level)(g, seed).edges
            count[edge[1] if edge[0] == 0 else edge[0]] += 1
    # Half the time the unlabelled end stays, and then nothing happens.
    for level, allowed in ((1.0, [1, 2, 3, 4]), (-1.0, [5, 6, 7, 8, 9])):
        count = partners[level]
        assert count[10] / 4000 == pytest.approx(0.5, abs=0.04)
        np.testing.assert_allclose(count[allowed] / 4000, 0.5 / len(allowed), atol=0.025)
        assert count[[k for k in range(10) if k not in allowed]].sum() == 0


def test_homophily_needs_labels(graph):
    with raises("no-labels"):
        shifts.homophily(0.5)(graph.replace(labels=None))


@pytest.mark.parametrize("name", ["rewire", "drop", "add", "drop_hubs"])
def test_graph_without_edges(name):
    g = Graph(features=np.ones((3, 1)), edges=np.empty((0, 2), int), labels=[0, 1, 0])
    assert getattr(shifts, name)(0.5)(g).num_edges == 0
    assert shifts.homophily(0.5)(g).num_edges == 0
