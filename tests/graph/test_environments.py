"""Environments within one graph."""

import numpy as np
import pytest

from graphtemper import Graph
from graphtemper.errors import InputError
from graphtemper.graph.environments import environment_nodes

FIELDS = {"features": np.ones((5, 1)), "edges": [[0, 1], [2, 4]]}


def test_nodes_are_grouped_by_environment_among_the_chosen_ones():
    graph = Graph(**FIELDS, environment=[3, 0, 3, -1, 0])
    chosen = environment_nodes(graph, [4, 2, 3])
    assert {key: nodes.tolist() for key, nodes in chosen.items()} == {0: [4], 3: [2]}


def test_a_graph_without_environments_is_refused():
    with pytest.raises(InputError, match="no environments"):
        environment_nodes(Graph(**FIELDS))


@pytest.mark.parametrize(
    ("environment", "message"),
    [([0, 1], "shape"), ([0.5] * 5, "integers"), ([0, 0, -2, 0, 0], r"environment\[2\] is -2")],
)
def test_bad_environments_are_refused(environment, message):
    with pytest.raises(InputError, match=message):
        Graph(**FIELDS, environment=environment)


def test_the_display_counts_environments():
    assert "environments=2" in repr(Graph(**FIELDS, environment=[3, 0, 3, -1, 0]))
