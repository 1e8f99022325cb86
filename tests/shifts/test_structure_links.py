"""Shifts of graphs with directions, attributes and types."""

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.graph.test_attributes import graphs

from graphtemper import Graph, csbm, shifts

ON_EDGES = [shifts.drop, shifts.rewire, shifts.add, shifts.drop_hubs]


def rows(graph):
    """Type of the ends, and attributes, of every edge."""
    parts = [getattr(graph, key) for key in ("edge_weight", "edge_features", "edge_type")]
    if not graph.num_edges:
        return set()
    columns = [part.reshape(graph.num_edges, -1) for part in parts if part is not None]
    if graph.node_type is not None:
        ends = graph.node_type[graph.edges]
        columns.append(ends if graph.directed else np.sort(ends, axis=1))
    return set(map(tuple, np.hstack(columns).tolist())) if columns else set()


@settings(max_examples=60, deadline=None)
@given(graph=graphs(), which=st.integers(0, 3), level=st.floats(0, 1), seed=st.integers(0, 50))
def test_edges_keep_their_attributes_and_the_types_of_their_ends(graph, which, level, seed):
    out = ON_EDGES[which](level)(graph, seed)
    Graph(**{item.name: getattr(out, item.name) for item in fields(out)})  # is checked
    for key in ("edge_weight", "edge_features", "edge_type"):
        value = getattr(out, key)
        assert (value is None) == (getattr(graph, key) is None)
        assert value is None or len(value) == out.num_edges
    # Attributes determine the edge in these graphs, so a row that does not exist was mixed up.
    assert rows(out) <= rows(graph)
    loops = graph.edges[graph.edges[:, 0] == graph.edges[:, 1]]
    assert np.array_equal(out.edges[out.edges[:, 0] == out.edges[:, 1]], loops)
    again = ON_EDGES[which](level)(graph, seed)
    assert np.array_equal(again.edges, out.edges)


@pytest.mark.parametrize("shift", ON_EDGES)
def test_a_graph_of_self_loops_alone_keeps_them(shift):
    loops = Graph(np.eye(2), np.array([[1, 1]]), directed=True)
    assert shift(0.5)(loops, 0).edges.tolist()[:1] == [[1, 1]]


@pytest.mark.parametrize("shift", [shifts.drop, shifts.rewire, shifts.drop_hubs])
def test_both_directions_of_a_link_move_together(shift):
    plain = csbm.sample(300, degree=6, homophily=0.8, snr=1.0, seed=1)
    plain = plain.replace(edges=np.unique(plain.edges, axis=0))  # links are sorted
    arcs = np.concatenate([plain.edges, plain.edges[:, ::-1]])
    both = plain.replace(edges=arcs, directed=True)
    expected, out = shift(0.4)(plain, 3), shift(0.4)(both, 3)
    assert np.array_equal(out.links, np.unique(expected.edges, axis=0))
    assert out.num_edges == 2 * expected.num_edges


@pytest.mark.parametrize("shift", [shifts.rewire(0.5), shifts.drop(0.3), shifts.homophily(-0.5)])
def test_weights_do_not_change_which_edges_are_drawn(shift):
    plain = csbm.sample(300, degree=6, homophily=0.8, snr=1.0, seed=1)
    weighted = plain.replace(edge_weight=np.arange(plain.num_edges))
    assert np.array_equal(shift(weighted, 3).edges, shift(plain, 3).edges)


def test_rewired_directed_edges_keep_one_end_and_their_direction():
    rng = np.random.default_rng(0)
    arcs = np.unique(np.sort(rng.integers(500, size=(1500, 2)), axis=1), axis=0)
    arcs = arcs[arcs[:, 0] != arcs[:, 1]][:, ::-1]
    number = np.arange(len(arcs))
    graph = Graph(features=np.ones((500, 1)), edges=arcs, directed=True, edge_features=number)
    out = shifts.rewire(1.0)(graph, 1)
    before = graph.edges[out.edge_features]
    same = out.edges == before
    assert same.any(axis=1).all()
    assert 0.4 < same[:, 0].mean() < 0.6


def test_added_edges_have_attributes_of_their_type():
    rng = np.random.default_rng(0)
    arcs = rng.integers(200, size=(800, 2))
    arcs = arcs[arcs[:, 0] != arcs[:, 1]]
    kind = rng.integers(3, size=len(arcs))
    weight = kind * 10.0 + rng.random(len(arcs))
    graph = Graph(
        features=np.ones((200, 1)), edges=arcs, directed=True, edge_type=kind, edge_weight=weight
    )
    out = shifts.add(1.0)(graph, 1)
    assert out.num_edges == pytest.approx(2 * graph.num_edges, rel=0.06)
    assert np.array_equal(out.edges[: graph.num_edges], graph.edges)
    assert np.array_equal(out.edge_weight // 10, out.edge_type)
    assert np.bincount(out.edge_type) / out.num_edges == pytest.approx(
        np.bincount(kind) / kind.size, abs=0.03
    )


def test_noise_and_moments_are_those_of_the_node_type():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(4000, 2)) * 0.1
    kind = np.arange(4000) % 2
    features[kind == 1] = features[kind == 1] * 100 + 50.0
    graph = Graph(features=features, edges=[[0, 1]], node_type=kind)
    added = shifts.noise(1.0)(graph, 1).features - graph.features
    assert added[kind == 0].std() == pytest.approx(0.1, rel=0.05)
    assert added[kind == 1].std() == pytest.approx(10.0, rel=0.05)
    masked = shifts.mask(1.0)(graph, 1).features
    assert np.ptp(masked[kind == 0], axis=0).max() == 0.0
    assert masked[kind == 1].mean() == pytest.approx(50.0, abs=1.0)
    for shift in (shifts.shuffle(1.0), shifts.blend(0.9)):
        assert shift(graph, 1).features[kind == 0].max() < 5.0
    assert shifts.scale(0.0)(graph).features[kind == 0].max() < 1.0
    moved = shifts.offset(1.0)(graph, 1).features - graph.features
    assert np.abs(moved[kind == 0]).max() < 1.0


def test_smoothing_takes_plain_means_of_a_weighted_graph():
    graph = csbm.sample(100, degree=6, homophily=0.8, snr=1.0, seed=1)
    signed = graph.replace(edge_weight=np.linspace(-1, 1, graph.num_edges))
    assert np.array_equal(shifts.smooth(0.5)(signed).features, shifts.smooth(0.5)(graph).features)
