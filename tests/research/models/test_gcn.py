import time

import numpy as np
import pytest
import scipy.sparse as sp

torch = pytest.importorskip("torch", reason="torch is not installed (extra [pyg])")

from graphtemper import csbm  # noqa: E402
from graphtemper.temperature import apply  # noqa: E402
from graphtemper_research.models import GCN  # noqa: E402
from graphtemper_research.models.gcn_training import Watch  # noqa: E402

TRAIN, VAL, TEST = range(600), range(600, 800), slice(800, 1000)


@pytest.fixture(scope="module")
def graph():
    return csbm.sample(
        1000, degree=8, homophily=0.8, snr=0.3, num_classes=3, num_features=16, seed=0
    )


@pytest.fixture(scope="module")
def model(graph):
    return GCN().fit(graph, TRAIN)


def test_it_learns(graph, model):
    logits = model(graph)
    assert logits.shape == (1000, 3)
    assert logits.dtype == np.float32
    accuracy = (logits.argmax(1) == graph.labels)[TEST].mean()
    features_alone = GCN().fit(graph.replace(edges=np.empty((0, 2), int)), TRAIN)
    without = features_alone(graph.replace(edges=np.empty((0, 2), int)))
    assert accuracy > 0.75
    assert accuracy > (without.argmax(1) == graph.labels)[TEST].mean() + 0.1
    assert model.losses_[-1] < 0.7 * model.losses_[0]


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_equal_to_pyg_for_the_same_weights(graph, layers):
    nn = pytest.importorskip("torch_geometric.nn", reason="torch_geometric is not installed")
    model = GCN(layers=layers, epochs=15, dropout=0.0).fit(graph, TRAIN)
    data = graph.to_pyg()
    signal = data.x
    with torch.no_grad():
        for depth, (weights, bias) in enumerate(model.layers_):
            conv = nn.GCNConv(*weights.shape)
            conv.lin.weight.copy_(torch.from_numpy(weights.T))
            conv.bias.copy_(torch.from_numpy(bias))
            signal = conv(signal.relu() if depth else signal, data.edge_index)
    assert len(model.layers_) == layers
    np.testing.assert_allclose(model(graph), signal.numpy(), atol=1e-5)


def test_training_is_that_of_pyg_step_by_step(graph):
    """Without dropout, Adam on PyG's layers from the same start ends at the same weights."""
    nn = pytest.importorskip("torch_geometric.nn", reason="torch_geometric is not installed")
    epochs = 20
    # With a vanishing step the fit returns its initial weights.
    start = GCN(epochs=1, dropout=0.0, lr=1e-30).fit(graph, TRAIN).layers_
    data = graph.to_pyg()
    convs = [nn.GCNConv(*weights.shape) for weights, _ in start]
    with torch.no_grad():
        for conv, (weights, _) in zip(convs, start, strict=True):
            conv.lin.weight.copy_(torch.from_numpy(weights.T))
    parameters = [parameter for conv in convs for parameter in conv.parameters()]
    optimiser = torch.optim.Adam(parameters, lr=0.01, weight_decay=5e-4)
    for _ in range(epochs):
        optimiser.zero_grad()
        hidden = convs[0](data.x, data.edge_index).relu()
        logits = convs[1](hidden, data.edge_index)
        torch.nn.functional.cross_entropy(logits[:600], data.y[:600]).backward()
        optimiser.step()
    ours = GCN(epochs=epochs, dropout=0.0).fit(graph, TRAIN).layers_
    for conv, (weights, bias) in zip(convs, ours, strict=True):
        np.testing.assert_allclose(weights, conv.lin.weight.detach().numpy().T, atol=1e-4)
        np.testing.assert_allclose(bias, conv.bias.detach().numpy(), atol=1e-4)


def test_sparse_features_train_the_same_model(graph):
    sparse = graph.replace(features=sp.csr_matrix(graph.features))
    options = {"epochs": 20, "seed": 3}
    dense_logits = GCN(**options).fit(graph, TRAIN)(graph)
    sparse_logits = GCN(**options).fit(sparse, TRAIN)(sparse)
    np.testing.assert_allclose(sparse_logits, dense_logits, atol=1e-3)


def test_a_seed_gives_the_same_weights_and_does_not_change_torch(graph):
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    first = GCN(epochs=10, seed=5).fit(graph, TRAIN)(graph)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == threads
    with torch.random.fork_rng():
        torch.manual_seed(99)
        second = GCN(epochs=10, seed=5).fit(graph, TRAIN)(graph)
    assert np.array_equal(first, second)
    assert not np.array_equal(first, GCN(epochs=10, seed=6).fit(graph, TRAIN)(graph))


def test_labels_outside_the_training_nodes_are_not_used(graph):
    hidden = np.array(graph.labels)
    hidden[700:] = -1
    assert np.array_equal(
        GCN(epochs=5).fit(graph, TRAIN)(graph),
        GCN(epochs=5).fit(graph.replace(labels=hidden), TRAIN)(graph),
    )


def test_validation_nodes_choose_the_epoch(graph):
    options = {"epochs": 60, "lr": 0.1, "weight_decay": 0.0, "hidden": 64}
    chosen = GCN(**options).fit(graph, range(30), VAL)
    assert 1 <= chosen.best_epoch_ < 60
    stopped = GCN(**options | {"epochs": chosen.best_epoch_}).fit(graph, range(30))
    assert np.array_equal(chosen(graph), stopped(graph))


def test_focal_lowers_and_gcl_raises_confidence(graph):
    def confidence(**options):
        fitted = GCN(dropout=0.0, **options).fit(graph, TRAIN)
        return apply(fitted(graph))[TEST].max(axis=1).mean()

    plain = confidence()
    assert confidence(loss="focal") < plain - 0.03
    assert confidence(loss="gcl", gamma=1.0) > plain + 0.01


def test_predictions_are_the_largest_logits(graph, model):
    assert np.array_equal(model.predict(graph), model(graph).argmax(axis=1))


def test_patience_is_the_rule_of_gat(graph):
    watch = Watch(2)
    scores = [(1.0, 0.5), (0.9, 0.6), (0.8, 0.5), (0.95, 0.6), (0.9, 0.5), (0.9, 0.5)]
    assert [watch.improved(*pair) for pair in scores] == [True, True, False, False, False, False]
    assert watch.ended
    model = GCN(epochs=300).fit(graph, TRAIN, VAL, patience=5)
    assert model.best_epoch_ <= model.losses_.size < 300
    same = GCN(epochs=model.best_epoch_).fit(graph, TRAIN)
    np.testing.assert_array_equal(same.layers_[0][0], model.layers_[0][0])


def test_120_epochs_on_1000_nodes_take_a_second_of_processor_time(graph, model):
    times = []
    for _ in range(3):
        start = time.process_time()
        GCN().fit(graph, TRAIN)
        times.append(time.process_time() - start)
    assert min(times) < 1.0 * torch.get_num_threads()
