from pathlib import Path

import pytest

from graphtemper import csbm
from graphtemper.errors import InputError
from graphtemper.models.predictor import as_graph


def test_graphs_and_pyg_data_are_accepted():
    pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")
    graph = csbm.sample(50, degree=4, homophily=0.8, snr=1.0)
    assert as_graph(graph) is graph
    data = graph.to_pyg()
    assert as_graph(data, lambda graph: graph.features).num_edges == graph.num_edges
    data.edge_index = data.edge_index[:, 1:]
    assert as_graph(data).directed
    data.pos = data.x[:, :1]
    with pytest.raises(InputError, match="which a Graph does not hold"):
        as_graph(data)


@pytest.mark.parametrize("wrong", ["cora.npz", Path("cora.npz"), None, [[1.0]]])
def test_other_objects_are_refused(wrong):
    advice = r"Graph\.load" if isinstance(wrong, str | Path) else "the model comes before"
    with pytest.raises(InputError, match=rf"not {type(wrong).__name__}; {advice}"):
        as_graph(wrong)
