"""GETS: one expert, scales per class, and the expected load."""

import numpy as np
import pytest
from tests.helpers import raises

from graphtemper.calibrators import CaGCN
from graphtemper_research.baselines import GETS
from graphtemper_research.baselines.gets import Gate, expected_load

torch = pytest.importorskip("torch", reason="torch is not installed (extra [pyg])")


def test_gets_with_one_expert_is_cagcn_with_softplus(scene):
    gets = GETS(experts=("logits",), active=1, epochs=1)
    gets.fit(scene.logits, scene.labels, scene.graph, scene.cal, train_nodes=scene.train)
    cagcn = CaGCN(floor=1.0, margin=0.0, epochs=1)
    cagcn.fit(scene.logits, scene.labels, scene.graph, scene.cal)
    cagcn.parameters_ = gets.parameters_[7:11]
    np.testing.assert_allclose(
        gets.temperatures(scene.logits, graph=scene.graph),
        cagcn.temperatures(scene.logits, graph=scene.graph),
        rtol=1e-5,
    )


def test_gets_by_class_changes_predictions_and_refuses_one_temperature(scene):
    gets = GETS(scale="node_class", lr=0.1, epochs=40, stop="calibration")
    assert not gets.preserves_argmax
    gets.fit(scene.logits, scene.labels, scene.graph, scene.cal, train_nodes=scene.train)
    p = gets.transform(scene.logits, graph=scene.graph)
    assert (p.argmax(axis=1) != scene.logits.argmax(axis=1)).any()
    with raises("conflict"):
        gets.temperatures(scene.logits, graph=scene.graph)


def test_the_gate_draws_its_noise_once_per_step(scene, monkeypatch):
    draws, original = [], torch.randn

    def counted(*size, **settings):
        draws.append(size)
        return original(*size, **settings)

    gets = GETS(epochs=3, stop="calibration")
    monkeypatch.setattr(torch, "randn", counted)
    gets.fit(scene.logits, scene.labels, scene.graph, scene.cal)
    of_gate = [size for size in draws if size == (torch.Size((len(scene.logits), 7)),)]
    assert len(of_gate) == 3


def test_projections_have_a_trained_bias(scene):
    gets = GETS(epochs=30, lr=0.05, stop="calibration")
    gets.fit(scene.logits, scene.labels, scene.graph, scene.cal)
    gate_bias, expert_bias = gets.parameters_[1], gets.parameters_[4 + 7 + 1]
    assert gate_bias.shape == expert_bias.shape == (16,)
    assert np.abs(expert_bias).max() > 1e-3


def test_expected_load_is_the_probability_of_being_selected():
    """Redraw one expert's noise many times and count how often it is among the top two."""
    rng = np.random.default_rng(0)
    clean = torch.tensor(rng.normal(size=(1, 4)), dtype=torch.float32)
    deviation = torch.tensor(rng.uniform(0.5, 1.5, size=(1, 4)), dtype=torch.float32)
    noisy = clean + deviation * torch.tensor(rng.normal(size=(1, 4)), dtype=torch.float32)
    gates = torch.zeros(1, 4).scatter(1, noisy.topk(2).indices, 0.5)
    load = expected_load(Gate(gates, clean, noisy, deviation), 2)
    for expert in range(4):
        others = np.delete(noisy.numpy()[0], expert)
        draws = clean[0, expert].item() + deviation[0, expert].item() * rng.normal(size=40_000)
        chance = (draws > np.sort(others)[-2]).mean()
        assert load[expert].item() == pytest.approx(chance, abs=0.01)
