"""Outputs of a module."""

import numpy as np
import pytest
from tests.helpers import raises

torch = pytest.importorskip("torch", reason="torch is not installed (extra [pyg])")
nn = pytest.importorskip("torch_geometric.nn", reason="torch_geometric is not installed")

from torch.nn import Linear, Sequential  # noqa: E402

from graphtemper.pyg import predictor  # noqa: E402
from graphtemper.temperature.scaling import apply  # noqa: E402

from .data import FEATURES, mlp  # noqa: E402


def test_probabilities_are_named_and_converted_on_request(graph):
    module = mlp()
    honest = apply(predictor(module)(graph))
    for last, kind in (
        (torch.nn.Softmax(dim=1), "probabilities"),
        (torch.nn.LogSoftmax(dim=1), "log-probabilities"),
    ):
        other = Sequential(module, last)
        with raises("not-logits"):
            predictor(other)(graph)
        np.testing.assert_allclose(apply(predictor(other, returns=kind)(graph)), honest, atol=1e-6)
        with raises("not-logits"):
            predictor(module, returns=kind)(graph)
    half = Sequential(module, torch.nn.Softmax(dim=1)).bfloat16()
    with raises("not-logits"):
        predictor(half)(graph)


@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
def test_a_binary_score_is_the_second_of_two_logits(graph, shape):
    """The probability of class 1 is the sigmoid that the module was trained with."""
    head = Linear(FEATURES, 1)
    own = head(torch.as_tensor(graph.features)).detach().numpy().reshape(-1)
    model = predictor(head, adapter=lambda net, data: net(data.x).reshape(shape), returns="binary")
    np.testing.assert_allclose(apply(model(graph))[:, 1], 1.0 / (1.0 + np.exp(-own)), atol=1e-6)
    assert model.check(graph.to_pyg()).equal_predictions == 1.0
    sure = predictor(head, adapter=lambda net, data: net(data.x).sigmoid(), returns="binary")
    with raises("not-logits"):
        sure.check(graph.to_pyg())
    with raises("shape"):
        predictor(mlp(), adapter=lambda net, data: net(data.x), returns="binary")(graph)


def test_a_probability_of_zero_stays_finite(graph):
    sure = predictor(
        mlp(),
        adapter=lambda _, data: torch.eye(3)[torch.zeros(data.num_nodes, dtype=torch.long)],
        returns="probabilities",
    )(graph)
    assert np.isfinite(sure).all()
    assert (apply(sure)[:, 0] == 1.0).all()


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (lambda x: (x, x), "not-logits"),
        (lambda x: x.numpy(), "not-logits"),
        (lambda x: x[:-1], "shape"),
        (lambda x: x[:, 0], "shape"),
        (lambda x: x[:, :1], "shape"),
        (lambda x: x[None], "shape"),
        (lambda x: x.argmax(1, keepdim=True).expand(-1, 3), "not-logits"),
        (lambda x: x.index_fill(0, torch.tensor([7]), torch.inf), "not-finite"),
    ],
)
def test_wrong_outputs_are_named(graph, answer, error):
    with raises(error):
        predictor(mlp(), adapter=lambda _, data: answer(data.x))(graph)
