"""Directions, weights, features and types: checks, links, files and rows that stay aligned."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers import raises

from graphtemper import Graph
from graphtemper.graph.operators import operator

FIELDS = ("edges", "edge_weight", "edge_features", "edge_type", "node_type", "type_columns")


@st.composite
def graphs(draw, directed=None):
    """A graph whose edge attributes are functions of the edge, so that a wrong row shows."""
    num_nodes, seed = draw(st.integers(2, 12)), draw(st.integers(0, 10_000))
    directed = draw(st.booleans()) if directed is None else directed
    rng = np.random.default_rng(seed)
    edges = rng.integers(num_nodes, size=(draw(st.integers(0, 30)), 2))
    if not directed:
        edges = np.unique(np.sort(edges[edges[:, 0] != edges[:, 1]], axis=1), axis=0)
    number = rng.permutation(len(edges)).astype(float)
    options = {
        "edge_weight": number,
        "edge_features": np.column_stack([number, -number]),
        "edge_type": number.astype(int) % 3,
        "node_type": rng.integers(2, size=num_nodes),
    }
    chosen = {key: value for key, value in options.items() if draw(st.booleans())}
    features = rng.normal(size=(num_nodes, 3))
    return Graph(features=features, edges=edges, directed=directed, **chosen)


def equal(first, second):
    for key in FIELDS:
        mine, other = getattr(first, key), getattr(second, key)
        if not (mine is other is None or np.array_equal(mine, other)):
            return False
    return first.directed == second.directed and first.target_type == second.target_type


@settings(max_examples=60, deadline=None)
@given(graph=graphs())
def test_files_hold_everything(graph, tmp_path_factory):
    path = tmp_path_factory.mktemp("files") / "graph.npz"
    graph.save(path)
    assert equal(Graph.load(path), graph)


def arcs(data):
    """The ordered pairs of a PyG Data with their attributes, as a set of rows."""
    keys = [key for key in ("edge_weight", "edge_attr", "edge_type") if key in data]
    values = [data[key].reshape(data.num_edges, -1 if data.num_edges else 1) for key in keys]
    columns = [data.edge_index.T.numpy(), *(part.numpy() for part in values)]
    return sorted(map(tuple, np.hstack(columns).tolist()))


@pytest.mark.cpu(6)  # it may be the first to import torch
@settings(max_examples=60, deadline=None)
@given(graph=graphs())
def test_pyg_data_come_back(graph):
    pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")
    data = graph.to_pyg()
    back = Graph.from_pyg(data)
    assert arcs(back.to_pyg()) == arcs(data)
    assert np.array_equal(back.features, graph.features)
    if graph.directed and back.directed:
        assert equal(back, graph)  # in the same order
    if not graph.directed:
        assert not back.directed


@settings(max_examples=60, deadline=None)
@given(graph=graphs(), seed=st.integers(0, 100))
def test_links_are_the_pairs_of_the_edges(graph, seed):
    pairs = {tuple(sorted(edge)) for edge in graph.edges.tolist() if edge[0] != edge[1]}
    assert len(graph.links) == len(pairs)
    assert {tuple(link) for link in graph.links.tolist()} == pairs
    keep = np.random.default_rng(seed).random(len(pairs)) < 0.5
    kept = {tuple(link) for link in graph.links[keep].tolist()}
    part = graph.keep_links(keep)
    expected = [
        row
        for row, (source, target) in enumerate(graph.edges.tolist())
        if source == target or (min(source, target), max(source, target)) in kept
    ]
    assert equal(part, graph.keep_edges(np.array(expected, dtype=int)))
    loops = graph.without_neighbours().edges
    assert np.array_equal(loops, graph.edges[graph.edges[:, 0] == graph.edges[:, 1]])


@settings(max_examples=60, deadline=None)
@given(graph=graphs(), seed=st.integers(0, 100))
def test_subgraphs_keep_attributes_with_their_edges(graph, seed):
    rng = np.random.default_rng(seed)
    nodes = rng.permutation(graph.num_nodes)[: rng.integers(1, graph.num_nodes + 1)]
    part = graph.subgraph(nodes)
    for key in ("edge_weight", "edge_features", "edge_type"):
        if getattr(graph, key) is None:
            continue

        def listed(edges, values, directed=graph.directed):
            rows = [tuple(edge) if directed else tuple(sorted(edge)) for edge in edges.tolist()]
            return sorted(zip(rows, values.tolist(), strict=True))

        inside = np.isin(graph.edges, nodes).all(axis=1)
        assert listed(nodes[part.edges], getattr(part, key)) == listed(
            graph.edges[inside], getattr(graph, key)[inside]
        )
    if graph.node_type is not None:
        assert np.array_equal(part.node_type, graph.node_type[nodes])


def test_links_of_a_target_type_join_two_classified_nodes():
    graph = Graph(
        features=np.ones((4, 1)),
        edges=[[0, 1], [1, 2], [2, 3], [3, 2]],
        directed=True,
        node_type=[1, 0, 0, 0],
        target_type=0,
    )
    assert graph.links.tolist() == [[1, 2], [2, 3]]
    assert graph.classified.tolist() == [1, 2, 3]
    kept = graph.keep_links(np.array([False, False]))
    assert kept.edges.tolist() == [[0, 1]]  # the edge to another type is not held out


BAD = [
    ({"edge_weight": [1.0]}, "shape"),
    ({"edge_weight": [1.0, np.nan]}, "not-finite"),
    ({"edge_features": [[1.0, np.inf], [0.0, 0.0]]}, "not-finite"),
    ({"edge_features": np.ones((3, 2))}, "shape"),
    ({"edge_type": [0, -1]}, "range"),
    ({"directed": "yes"}, "wrong-type"),
    ({"target_type": 0}, "missing"),
    ({"node_type": [0, 1, 1], "target_type": 2}, "range"),
    ({"node_type": [0, 1, 1], "node_type_names": ["a"]}, "range"),
    ({"node_type": [0, 1, 1], "node_type_names": ["a", "a"]}, "repeated"),
    ({"node_type": [0, 1, 1], "type_columns": [[0, 2], [1, 2]]}, "range"),
]


@pytest.mark.parametrize(("fields", "error"), BAD)
def test_bad_attributes(fields, error, tmp_path):
    with raises(error):
        Graph(features=np.ones((3, 2)), edges=[[0, 1], [1, 2]], **fields)
    plain = Graph(features=np.ones((3, 2)), edges=[[0, 1], [1, 2]])
    with raises(error):
        plain.replace(**fields)


def test_new_edges_need_new_attributes():
    graph = Graph(features=np.ones((3, 1)), edges=[[0, 1], [1, 2]], edge_weight=[1.0, 2.0])
    with raises("shape"):
        graph.replace(edges=[[0, 1]])
    changed = graph.replace(edges=[[0, 1]], edge_weight=[3.0])
    assert changed.edge_weight.tolist() == [3.0]


def test_edge_lists_with_attributes_are_merged_only_if_they_agree():
    edges, features = [[1, 0], [0, 1], [2, 1], [2, 2]], np.ones((3, 1))
    merged = Graph.from_edges(features, edges, edge_weight=[4.0, 4.0, 5.0, 9.0])
    assert (merged.edges.tolist(), merged.edge_weight.tolist()) == ([[0, 1], [1, 2]], [4.0, 5.0])
    with raises("other-types"):
        Graph.from_edges(features, edges, edge_weight=[4.0, 3.0, 5.0, 9.0])
    kept = Graph.from_edges(features, edges, directed=True, edge_weight=[4.0, 3.0, 5.0, 9.0])
    assert kept.edges.tolist() == edges


@pytest.mark.parametrize("kind", ["self-loop", "symmetric", "mean"])
def test_operators_of_weighted_graphs_against_dense_matrices(kind):
    rng = np.random.default_rng(0)
    dense = np.triu(rng.random((8, 8)) * (rng.random((8, 8)) < 0.5), 1)
    dense += dense.T
    graph = Graph.from_scipy(sp.csr_matrix(dense), np.ones((8, 1)))
    plain = dense + np.eye(8) if kind == "self-loop" else dense
    degree = plain.sum(axis=1)
    left = np.divide(1.0, degree, out=np.zeros(8), where=degree > 0)
    root = np.sqrt(left)
    expected = left[:, None] * plain if kind == "mean" else root[:, None] * plain * root
    np.testing.assert_allclose(operator(graph, kind).toarray(), expected, atol=1e-6)
    both = graph.replace(
        directed=True,
        edges=np.concatenate([graph.edges, graph.edges[:, ::-1]]),
        edge_weight=np.concatenate([graph.edge_weight, graph.edge_weight]) / 2.0,
    )
    np.testing.assert_allclose(operator(both, kind).toarray(), expected, atol=1e-6)
    with raises("range"):
        operator(graph.replace(edge_weight=-np.ones(graph.num_edges)), kind)
