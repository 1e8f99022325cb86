"""Evidence of a large graph from a sample of nodes with their exact receptive fields."""

import numpy as np
import pytest
from tests.helpers import raises

from graphtemper import Graph, SourceCard, csbm, recalibrate
from graphtemper.card.reading import read
from graphtemper.models import SIGN
from graphtemper.models.predictor import predict
from graphtemper.signals import evidence, graph_parts, receptive_field
from graphtemper.signals.observation import Observation

FEW = {"noise": (0.5, 1.5), "drop": (0.5,), "rewire": (0.3, 0.7), "scale": (0.5,)}
AVERAGES = ("feature", "own_feature", "edge", "wedge", "held")


@pytest.fixture(autouse=True)
def _small_graphs_are_large(monkeypatch):
    monkeypatch.setattr(receptive_field, "SMALL", 1000)
    monkeypatch.setattr(receptive_field, "SIZES", (400, 150, 20))


@pytest.fixture(scope="module")
def graph():
    return csbm.sample(6000, degree=4, homophily=0.85, snr=1.0, num_features=8, seed=3)


@pytest.fixture(scope="module")
def source():
    return csbm.sample(900, degree=4, homophily=0.85, snr=1.2, num_features=8, seed=1)


@pytest.fixture(scope="module")
def model(source):
    return Counted(SIGN(hops=1).fit(source, range(300)))


@pytest.fixture(scope="module")
def card(source, model):
    return SourceCard.build(model, source, range(300, 900), shifts=FEW, compositions=0, seed=1)


class Counted:
    """A model without fast passes that counts the rows it computes."""

    def __init__(self, model):
        self.model, self.rows = model, 0

    def __call__(self, graph):
        self.rows += graph.num_nodes
        return self.model(graph)


@pytest.mark.cpu(4)
@pytest.mark.parametrize("name", ["GCN", "GAT", "GraphSAGE", "GIN"])
@pytest.mark.parametrize("layers", [1, 2])
def test_logits_at_the_sample_are_those_of_the_whole_graph(graph, name, layers):
    torch = pytest.importorskip("torch")
    models = pytest.importorskip("torch_geometric.nn.models")
    from graphtemper.pyg import predictor

    torch.manual_seed(0)
    model = predictor(getattr(models, name)(8, 16, layers, 2))
    logits = predict(model, graph)
    found = receptive_field.draw(Observation(model, graph, logits=logits))
    assert found.depth == layers
    part = found.observation
    np.testing.assert_allclose(part.logits, logits[found.nodes], atol=2e-5)
    assert part.graph.num_nodes < graph.num_nodes
    # A field that is one edge short gives other logits.
    if layers == 2:
        field = graph_parts.Field.of(
            graph_parts.InMemory(Observation(model, graph)),
            found.nodes,
            graph_parts.Reach(1, padded=True),
        )
        wrong = predict(model, field.graph)[field.rows(found.nodes)]
        assert np.abs(wrong - logits[found.nodes]).max() > 1e-3


def test_directed_edges_with_weights_keep_them():
    rng = np.random.default_rng(0)
    edges = rng.integers(4000, size=(8000, 2))
    features = rng.standard_normal((4000, 3)).astype(np.float32)
    weight = rng.random(8000)
    graph = Graph(features=features, edges=edges, directed=True, edge_weight=weight)

    def model(graph):
        sums = np.zeros((graph.num_nodes, 3))
        from_, to = graph.edges.T
        np.add.at(sums, to, graph.edge_weight[:, None] * graph.features[from_])
        return sums

    logits = model(graph)
    found = receptive_field.draw(Observation(model, graph, logits=logits))
    np.testing.assert_allclose(found.observation.logits, logits[found.nodes], atol=1e-5)


def test_the_sample_has_the_shares_of_the_whole_graph(graph, model, monkeypatch):
    monkeypatch.setattr(graph_parts, "MOST_SHARE", 1.0)
    observation = Observation(model, graph, logits=model(graph))
    found = receptive_field.draw(observation)
    assert found.nodes.size == 150
    rows = observation.probabilities[found.nodes]
    everywhere = observation.probabilities
    np.testing.assert_allclose(rows.max(axis=1).mean(), everywhere.max(axis=1).mean(), atol=5e-3)
    shares = (np.bincount(values.argmax(axis=1)) / len(values) for values in (rows, everywhere))
    np.testing.assert_allclose(*shares, atol=0.011)


def test_a_sample_of_all_nodes_is_the_whole_graph(graph, model, card, monkeypatch):
    monkeypatch.setattr(receptive_field, "SIZES", (6000,))
    monkeypatch.setattr(graph_parts, "MOST_SHARE", 2.0)
    monkeypatch.setattr(receptive_field, "TESTED", 5)
    observation = Observation(model, graph, logits=model(graph), temperature=card.temperature)
    sample = receptive_field.draw(observation)
    whole = evidence.measure(observation, card.probe)
    found = evidence.measure(observation, card.probe, sample.observation)
    for name in ("feature", "own_feature", "edge", "wedge"):
        np.testing.assert_allclose(getattr(found, name), getattr(whole, name), rtol=1e-4)


def test_the_evidence_is_that_of_the_whole_graph_up_to_its_error(graph, model, card, monkeypatch):
    monkeypatch.setattr(graph_parts, "MOST_SHARE", 1.0)
    probe, unit, logits = card.probe, card.temperature, model(graph)
    whole = evidence.measure(Observation(model, graph, logits=logits, temperature=unit), probe)
    deviations, gaps = [], []
    for seed in range(4):
        observation = Observation(
            model, graph, seed=seed, logits=logits, temperature=card.temperature
        )
        sample = receptive_field.draw(observation)
        found = evidence.measure(observation, probe, sample.observation)
        for name in AVERAGES:
            now, then = getattr(found, name), getattr(whole, name)
            deviations.append((now.value - then.value) / np.hypot(now.error, then.error))
        gaps.append(found.edge_agreement - whole.edge_agreement)
        assert abs(found.noise_agreement - whole.noise_agreement) < 0.05
        assert found.confidence == whole.confidence
        assert found.homophily == whole.homophily
    assert 0.2 < np.sqrt(np.mean(np.square(deviations))) < 1.6
    assert abs(np.mean(gaps)) < 0.06


def test_the_model_runs_on_the_sample_only_and_answers_the_same(graph, model, card):
    logits = model(graph)
    model.rows = 0
    whole = recalibrate(model, graph, card)
    rows, model.rows = model.rows, 0
    found = recalibrate(model, graph, card, logits=logits)
    assert model.rows < 0.6 * rows
    assert found.passes < whole.passes
    assert found.probabilities.shape == (6000, 2)
    assert "sample_run" in [reason.code for reason in found.reasons]
    (low, high), value = (found.accuracy.low, found.accuracy.high), whole.accuracy.value
    assert low < value < high
    assert high - low > whole.accuracy.high - whole.accuracy.low
    # With one temperature per node the model is needed at every node.
    per_node = recalibrate(model, graph, card, logits=logits, per_node=True)
    assert per_node.passes == whole.passes


def test_sampling_error_is_that_of_repeated_samples(graph, model, card):
    logits = model(graph)
    centres, variances = [], []
    for seed in range(8):
        observation = Observation(
            model, graph, seed=seed, logits=logits, temperature=card.temperature
        )
        reading = read(card, observation, receptive_field.draw(observation))
        centres.append(reading.atlas_centre)
        variances.append(reading.sampled)
    ratio = np.var(centres, ddof=1) / np.mean(variances)
    # Neighbour covariances err together but are moved one by one, so the stated error is large.
    assert 0.08 < ratio < 3.0


def test_a_model_that_reads_the_whole_graph_runs_on_it_and_says_so(graph, source):
    def model(graph):
        return graph.features[:, :2] - graph.features[:, :2].mean(axis=0)

    card = SourceCard.build(model, source, range(300, 900), shifts=FEW, compositions=0)
    result = recalibrate(model, graph, card, logits=model(graph))
    assert "whole_graph_run" in [reason.code for reason in result.reasons]
    np.testing.assert_array_equal(
        result.probabilities, recalibrate(model, graph, card).probabilities
    )


def test_logits_of_other_rows_are_refused(graph, model, card):
    with raises("other-model"):
        recalibrate(model, graph, card, logits=model(graph)[::-1])


def test_log_probabilities_are_logits(graph, model, card):
    logits = model(graph)
    shifted = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    found = [recalibrate(model, graph, card, logits=one).temperature for one in (logits, shifted)]
    np.testing.assert_allclose(*found, rtol=1e-3)
