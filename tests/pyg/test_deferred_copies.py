"""A wrapped module that was copied or sent to another process draws the same noise."""

import copy
import pickle

import numpy as np
import pytest

from graphtemper import csbm

torch = pytest.importorskip("torch")
models = pytest.importorskip("torch_geometric.nn.models")


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))])
def test_noisy_passes_of_a_copy_are_the_same(copied):
    from graphtemper.pyg import predictor

    torch.manual_seed(0)
    graph = csbm.sample(200, 4, 0.8, 1.0, num_features=6, seed=1)
    model = predictor(models.GCN(6, 8, 2, 2))

    def noisy(one):
        noise = np.ones(6), np.random.default_rng(0)
        return one.deferred(graph, np.zeros(6)).logits(noise=noise)

    first = noisy(model)
    assert model.maps.known
    np.testing.assert_array_equal(noisy(copied(model)), first)
