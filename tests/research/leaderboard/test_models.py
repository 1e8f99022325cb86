"""Models of PyG as people train them."""

import numpy as np
import pytest

from graphtemper import csbm, temperature

pytest.importorskip("torch_geometric", reason="torch_geometric is not installed (extra [pyg])")

from graphtemper_research.leaderboard.backbones import BACKBONES
from graphtemper_research.leaderboard.models import MODELS, TORCH_MODELS, USUAL, PygNet
from graphtemper_research.models import GCN
from graphtemper_research.retrained import GCL, FocalLoss


def test_a_pyg_net_is_the_same_for_the_same_seed():
    graph = csbm.sample(200, degree=6, homophily=0.8, snr=1.0, num_features=4, seed=0)
    first, again, other = (
        PygNet("GAT", seed, epochs=5).fit(graph, range(100)) for seed in (1, 1, 2)
    )
    assert np.array_equal(first(graph), again(graph))
    assert not np.array_equal(first(graph), other(graph))


def test_all_backbones_answer_by_name():
    assert set(TORCH_MODELS) == set(BACKBONES)
    assert set(USUAL) | set(TORCH_MODELS) | {"SIGN", "SGC", "GCN"} <= set(MODELS)
    graph = csbm.sample(120, degree=6, homophily=0.8, snr=1.0, num_features=4, seed=0)
    answers = {
        name: PygNet(name, 1, epochs=3).fit(graph, range(60))(graph) for name in TORCH_MODELS
    }
    assert {answer.shape for answer in answers.values()} == {(120, 2)}
    assert len({answer.tobytes() for answer in answers.values()}) == len(TORCH_MODELS)


def test_other_losses_train_other_gcns():
    graph = csbm.sample(150, degree=6, homophily=0.8, snr=1.0, num_features=4, seed=0)
    logits = MODELS["GCN"](1).fit(graph, range(80))(graph)
    confidence = {"GCN": temperature.apply(logits).max(axis=1).mean()}
    for method in (FocalLoss, GCL):
        # Training nodes alone are trained on; the logits given are not used.
        fitted = method(seed=1).fit(
            np.zeros_like(logits), graph.labels, graph, range(80, 150), train_nodes=range(80)
        )
        p = fitted.transform(np.zeros_like(logits), graph=graph)
        by_hand = GCN(hidden=64, epochs=200, dropout=0.5, loss=method.loss, seed=1).fit(
            graph, range(80)
        )
        np.testing.assert_allclose(p, temperature.apply(by_hand(graph)), atol=1e-12)
        confidence[method.loss] = p.max(axis=1).mean()
    # The focal loss lowers confidence and GCL raises it.
    assert confidence["focal"] < confidence["GCN"] < confidence["gcl"]
