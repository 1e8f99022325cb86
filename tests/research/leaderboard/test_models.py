"""Models of PyG as people train them."""

import numpy as np
import pytest

from graphtemper import csbm
from graphtemper_research.leaderboard.models import PygNet


def test_a_pyg_net_is_the_same_for_the_same_seed():
    pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")
    graph = csbm.sample(200, degree=6, homophily=0.8, snr=1.0, num_features=4, seed=0)
    first, again, other = (
        PygNet("GAT", seed, epochs=5).fit(graph, range(100)) for seed in (1, 1, 2)
    )
    assert np.array_equal(first(graph), again(graph))
    assert not np.array_equal(first(graph), other(graph))
