"""GPR-GNN and GraphCON against dense formulas, and as frozen predictors."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from graphtemper import csbm  # noqa: E402
from graphtemper.graph.operators import operator  # noqa: E402
from graphtemper.pyg import predictor  # noqa: E402
from graphtemper_research.leaderboard.modules import GPRGNN, GraphCON  # noqa: E402


@pytest.fixture
def scene():
    graph = csbm.sample(60, degree=4, homophily=0.8, snr=1.0, num_features=5, seed=0)
    dense = torch.from_numpy(operator(graph, "self-loop").toarray().astype(np.float32))
    return graph, graph.to_pyg(), dense


def test_gpr_gnn_is_the_sum_over_powers(scene):
    graph, data, dense = scene
    torch.manual_seed(0)
    net = GPRGNN(5, 8, 2, steps=3, alpha=0.2).eval()
    hidden = net.second(net.first(data.x).relu())
    weights = [0.2, 0.2 * 0.8, 0.2 * 0.64, 0.8**3]
    expected = sum(
        weight * torch.linalg.matrix_power(dense, k) @ hidden for k, weight in enumerate(weights)
    )
    torch.testing.assert_close(net(data.x, data.edge_index), expected)
    np.testing.assert_allclose(predictor(net)(graph), expected.detach().numpy(), atol=1e-5)
    net.gamma.data = torch.tensor([1.0, 0.0, 0.0, -1.0])
    expected = hidden - torch.linalg.matrix_power(dense, 3) @ hidden
    torch.testing.assert_close(net(data.x, data.edge_index), expected, atol=1e-5, rtol=1e-4)


def test_graph_con_is_two_coupled_steps(scene):
    graph, data, dense = scene
    torch.manual_seed(1)
    net = GraphCON(5, 8, 2, layers=2, step=0.5, damping=0.7, frequency=1.3).eval()
    place = velocity = net.encoder(data.x)
    for _ in range(2):
        force = (dense @ place @ net.coupling.lin.weight.T + net.coupling.bias).relu()
        velocity = velocity + 0.5 * (force - 1.3 * place - 0.7 * velocity)
        place = place + 0.5 * velocity
    torch.testing.assert_close(net(data.x, data.edge_index), net.decoder(place))
    assert predictor(net)(graph).shape == (60, 2)


@pytest.mark.parametrize("net", [GPRGNN, GraphCON])
def test_they_learn(scene, net):
    graph, data, _ = scene
    torch.manual_seed(2)
    module = net(5, 16, 2, dropout=0.0)
    optimiser = torch.optim.Adam(module.parameters(), lr=0.02)
    losses = []
    for _ in range(120):
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(module(data.x, data.edge_index), data.y)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert np.mean(losses[-5:]) < 0.7 * losses[0]
    assert (predictor(module)(graph).argmax(axis=1) == graph.labels).mean() > 0.8
