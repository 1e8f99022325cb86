"""Models of the user that change their input, change their answers, or fail."""

import ctypes

import numpy as np
import pytest
from tests.helpers import raises

from graphtemper import Graph, SourceCard, csbm, recalibrate
from graphtemper.errors import InputError, ModelError
from graphtemper.models.predictor import fingerprint, predict

pytestmark = pytest.mark.filterwarnings("ignore:in the source")  # models that were not trained

GRAPH = csbm.sample(200, 6, 0.8, 1.0, num_features=4, seed=1)
TARGET = csbm.sample(150, 6, 0.7, 1.0, num_features=4, seed=2)
FEW = {"noise": (0.5,), "drop": (0.5,), "rewire": (0.3,)}


def build(model, nodes=None, graph=GRAPH):
    nodes = graph.labelled if nodes is None else nodes
    return SourceCard.build(model, graph, nodes, shifts=FEW, compositions=0, progress=False)


def small(num_nodes):
    return Graph(features=np.ones((num_nodes, 4)), edges=[[0, 1]])


def plain(graph):
    return np.asarray(graph.features)[:, :2] * 3.0


@pytest.fixture(scope="module")
def card():
    return build(plain)


def shares_memory(graph):
    """Write to the features like a layer that works in place on a tensor which shares them."""
    address = graph.features.__array_interface__["data"][0]
    buffer = (ctypes.c_float * graph.features.size).from_address(address)
    values = np.frombuffer(buffer, np.float32).reshape(graph.features.shape)
    np.maximum(values, 0.0, out=values)
    return values[:, :2] * 3.0


def test_a_model_that_works_in_place_is_refused_before_it_sees_a_graph(card):
    jobs = {
        "source": (GRAPH, lambda: build(shares_memory)),
        "target": (TARGET, lambda: recalibrate(shares_memory, TARGET, card)),
    }
    for graph, work in jobs.values():
        before = graph.features.copy()
        with pytest.raises(InputError):
            work()
        np.testing.assert_array_equal(graph.features, before)


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
def test_torch_in_place_is_noticed():
    torch = pytest.importorskip("torch", reason="torch is not installed")

    def model(graph):
        return torch.nn.ReLU(inplace=True)(torch.from_numpy(graph.features))

    with pytest.raises(InputError):
        fingerprint(model, 4)


def test_edges_that_are_changed_in_place_are_noticed():
    def model(graph):
        ctypes.memset(graph.edges.ctypes.data, 0, 4)
        return plain(graph)

    graph = csbm.sample(20, 4, 0.8, 1.0, num_features=4, seed=3)
    graph = graph.replace(edges=graph.edges[graph.edges[:, 0] > 0])
    with pytest.raises(InputError):
        predict(model, graph)


@pytest.mark.parametrize("kind", ["gradient", "bfloat16", "integers"])
def test_tensors_of_any_kind_are_read(kind):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    values = torch.tensor([[1.0, 2.0], [0.5, -3.0]])
    output = {
        "gradient": values.clone().requires_grad_(),
        "bfloat16": values.to(torch.bfloat16),
        "integers": values.to(torch.int64),
    }[kind]
    graph = small(2)
    expected = values.to(torch.int64).double() if kind == "integers" else values.double()
    np.testing.assert_array_equal(predict(lambda graph: output, graph), expected.numpy())


@pytest.mark.parametrize(
    "output", [(np.zeros((2, 2)), 1), {"logits": 1}, None, [[1.0], [1.0, 2.0]]]
)
def test_an_output_that_is_no_array_is_named(output):
    graph = small(2)
    with raises(("not-logits", "shape")):
        predict(lambda graph: output, graph)


class Dropout:
    """Answers differently every time; ``known`` nodes are all that it can run on."""

    def __init__(self, known=None):
        self.rng, self.known, self.calls = np.random.default_rng(0), known, 0

    def __call__(self, graph):
        self.calls += 1
        if self.known is not None and graph.num_nodes != self.known:
            raise KeyError("unknown node")
        return plain(graph) * (self.rng.random((graph.num_nodes, 1)) < 0.9)


@pytest.mark.parametrize("known", [None, GRAPH.num_nodes])
def test_changing_answers_are_found_before_the_build(known):
    model = Dropout(known)
    with raises("other-model"):
        build(model)
    assert model.calls < 5


def test_growing_logits_are_found():
    calls = []

    def model(graph):
        calls.append(graph)
        return plain(graph) * (1.0 + 0.01 * len(calls))

    with raises("other-model"):
        build(model)


def test_an_error_of_the_model_is_that_error(card):
    def fails(graph):
        raise MemoryError("no memory left on the device")

    with pytest.raises(ModelError) as caught:
        recalibrate(fails, TARGET, card)
    assert isinstance(caught.value.__cause__, MemoryError)
    with raises("other-model"):
        recalibrate(lambda graph: plain(graph) * 2.0, TARGET, card)


def test_repeated_nodes_are_refused(card):
    with raises("repeated"):
        build(plain, [30] * 60)
    with raises("repeated"):
        recalibrate(plain, TARGET, card, [1, 3, 5, 3])


def test_equal_rows_are_not_taken_for_probabilities():
    graph = small(3)
    assert predict(lambda graph: np.full((3, 2), 0.5), graph).shape == (3, 2)
    with raises("not-logits"):
        predict(lambda graph: np.array([[0.5, 0.5], [0.25, 0.75], [0.5, 0.5]]), graph)


def test_too_many_classes_are_refused_before_the_build():
    calls = []

    def model(graph):
        calls.append(graph)
        return np.tile(np.asarray(graph.features)[:, :1], (1, 100)) * np.arange(100)

    with raises("range"):
        build(model)
    assert len(calls) < 6  # three times on six nodes, then once or twice on the graph


def test_fifty_classes_fit(tmp_path):
    from graphtemper.models import SIGN

    graph = csbm.sample(1500, 8, 0.8, 3.0, num_classes=50, num_features=64, seed=1)
    model = SIGN(hops=1).fit(graph, range(750))
    card = build(model, range(750, 1500), graph)
    # The default atlas has 132 shifts; a row takes the same bytes in all of them.
    size = len(card.to_json())
    rows = size + (132 - len(card.atlas)) * 220
    assert rows < 100_000
    card.save(tmp_path / "card.json")
    again = SourceCard.load(tmp_path / "card.json")
    covariance = again.reference.evidence.covariance
    np.testing.assert_array_equal(covariance, covariance.T)
    np.testing.assert_array_equal(covariance, card.reference.evidence.covariance)
    assert again.to_json() == card.to_json()
