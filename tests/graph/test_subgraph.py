"""Induced subgraphs."""

import numpy as np

from graphtemper import csbm
from graphtemper.graph.subgraph import induced


def test_an_induced_subgraph_keeps_what_is_between_its_nodes():
    graph = csbm.sample(200, 6, 0.8, 1.5, num_features=5, seed=3).replace(
        time=np.arange(200), class_names=("no", "yes")
    )
    nodes = np.random.default_rng(0).choice(200, 60, replace=False)
    part = induced(graph, nodes)
    inside = {int(node): place for place, node in enumerate(nodes)}
    wanted = {
        tuple(sorted((inside[a], inside[b])))
        for a, b in graph.edges.tolist()
        if a in inside and b in inside
    }
    assert {tuple(edge) for edge in part.edges.tolist()} == wanted
    assert (part.features == graph.features[nodes]).all()
    assert (part.labels == graph.labels[nodes]).all()
    assert part.time.tolist() == nodes.tolist()
    assert part.class_names == ("no", "yes")
