from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tests.helpers import raises

from graphtemper import Graph, csbm
from graphtemper.models import SGC, SIGN
from graphtemper.models.predictor import as_graph, compared, predict


def test_graphs_and_pyg_data_are_accepted():
    pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")
    graph = csbm.sample(50, degree=4, homophily=0.8, snr=1.0)
    assert as_graph(graph) is graph
    data = graph.to_pyg()
    assert as_graph(data, lambda graph: graph.features).num_edges == graph.num_edges
    data.edge_index = data.edge_index[:, 1:]
    assert as_graph(data).directed
    data.pos = data.x[:, :1]
    with raises("other-types"):
        as_graph(data)


@pytest.mark.parametrize("wrong", ["cora.npz", Path("cora.npz"), None, [[1.0]]])
def test_other_objects_are_refused(wrong):
    with raises("wrong-type"):
        as_graph(wrong)


def test_graphs_of_other_libraries_are_named_with_the_cure():
    nx = pytest.importorskip("networkx", reason="networkx is not installed")
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    for wrong, cure in (
        (nx.path_graph(3), r"networkx.*Graph; Graph\.from_networkx"),
        (pd.DataFrame({"x": [1.0]}), r"pandas.*DataFrame; .*Graph\(features="),
    ):
        with raises("wrong-type", match=cure):
            as_graph(wrong)


def test_only_swapped_arguments_are_said_to_be_swapped():
    graph = csbm.sample(20, degree=4, homophily=0.8, snr=1.0)
    with raises("wrong-type", match="the model comes before the graph"):
        as_graph(SIGN(), graph)
    with raises("wrong-type", match=r"not list; Graph\(features="):
        as_graph([(0, 1)], SIGN())


class Checked:
    """A model that compares itself with its module on the data, as `graphtemper.pyg` does."""

    def __init__(self):
        self.checked = 0

    def __call__(self, graph):
        return graph.features

    def check(self, data):
        self.checked += 1
        graph = Graph.from_pyg(data, drop="all")
        return SimpleNamespace(graph=graph, logits=self(graph))


def test_a_model_is_compared_with_its_module_on_data():
    pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")
    data = csbm.sample(50, degree=4, homophily=0.8, snr=1.0).to_pyg()
    data.pos = data.x[:, :1]
    model = Checked()
    converted = as_graph(data, model)
    assert model.checked == 0
    graph, logits = compared(data, model, converted)
    assert model.checked == 1
    assert logits is graph.features
    assert compared(graph, model, graph) == (graph, None)
    assert compared(data, SIGN(), converted)[1] is None


def test_bundled_models_take_pyg_data():
    pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")
    graph = csbm.sample(80, degree=4, homophily=0.8, snr=1.0, seed=0)
    for kind in (SIGN(hops=1), SGC(hops=1)):
        expected = kind.fit(graph, range(40))(graph)
        given = kind.fit(graph.to_pyg(), range(40))(graph.to_pyg())
        np.testing.assert_array_equal(given, expected)


def test_a_function_of_pyg_data_is_told_what_it_gets():
    graph = csbm.sample(50, degree=4, homophily=0.8, snr=1.0)
    with raises("predictor"):
        predict(lambda data: data.x, graph)
    with pytest.raises(AttributeError):
        predict(lambda graph: graph.features.nothing, graph)
