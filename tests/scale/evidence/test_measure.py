"""Evidence from shards compared with evidence in memory."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from tests.helpers import real_graph

from graphtemper import Graph, recalibrate, shifts
from graphtemper.errors import FileError, InputError
from graphtemper.graph.operators import column_moments
from graphtemper.models import SIGN
from graphtemper.scale import Serial, convert_graph, propagation, recalibrate_shards
from graphtemper.scale.clean_pass import Run, clean_pass
from graphtemper.scale.evidence.measure import measure
from graphtemper.scale.storage.workspace import open_workspace
from graphtemper.signals.evidence import measure as measure_in_memory
from graphtemper.signals.observation import Observation

NOISE = ("noise_agreement", "source_noise_agreement")
SEEDS = range(4)


def on_shards(problem, graph, folder, seed):
    probe, model = problem.card.probe, problem.model.fast_passes()
    with open_workspace(folder / "stages", graph.num_nodes) as workspace:
        clean = clean_pass(Serial(), graph, model, probe.temperature, workspace)
        return measure(Run(Serial(), workspace, clean), probe, seed)


def in_memory(problem, graph, seed):
    probe = problem.card.probe
    observation = Observation(problem.model, graph, temperature=probe.temperature, seed=seed)
    return measure_in_memory(observation, probe)


def test_evidence_equals_that_in_memory(problem, tmp_path):
    for seed in (0, 1):
        found = on_shards(problem, problem.sharded, tmp_path, seed)
        expected = in_memory(problem, problem.target, seed).to_dict()
        for name, value in found.evidence.to_dict().items():
            np.testing.assert_allclose(value, expected[name], rtol=2e-6, atol=1e-7, err_msg=name)
    np.testing.assert_allclose(found.column_mean, problem.target.features.mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(found.column_std, problem.target.features.std(axis=0), rtol=1e-5)


def test_noise_on_large_graphs_has_the_same_distribution(problem, tmp_path, monkeypatch):
    """Means over seeds agree within their error."""
    monkeypatch.setattr(propagation, "ENOUGH_NODES", 1000)
    shards = [on_shards(problem, problem.sharded, tmp_path, seed).evidence for seed in SEEDS]
    memory = [in_memory(problem, problem.target, seed) for seed in SEEDS]
    for name in NOISE:
        one, other = (
            np.array([getattr(item, name) for item in items]) for items in (shards, memory)
        )
        assert not np.isclose(one, other, rtol=1e-9).all()
        error = np.sqrt(one.var(ddof=1) + other.var(ddof=1)) / np.sqrt(len(SEEDS))
        assert abs(one.mean() - other.mean()) < 4 * error, name
        # Standard deviations of four numbers: one in forty pairs differs by a factor of five.
        assert 0.1 < one.std(ddof=1) / other.std(ddof=1) < 10.0, name


def test_the_answer_is_that_of_recalibrate(problem, serial):
    found = serial.answer.to_dict()
    expected = recalibrate(problem.model, problem.target, problem.card).to_dict()
    assert set(found) == set(expected)
    assert found["accuracy"]["value"] == pytest.approx(expected["accuracy"]["value"], abs=1e-6)
    assert found["temperature"] == pytest.approx(expected["temperature"], rel=1e-5)
    assert found["verdict"] == expected["verdict"]
    before = found["mean_confidence"]["before"]
    assert before == pytest.approx(expected["mean_confidence"]["before"], abs=1e-7)
    assert found["mean_confidence"]["after"] == pytest.approx(found["accuracy"]["value"], abs=1e-8)


def test_probabilities_are_softmax_at_that_temperature(problem, serial):
    pq = pytest.importorskip("pyarrow.parquet")
    table = pq.read_table(serial.answer.out)
    assert table.column_names == ["node", *(f"probability_{k}" for k in range(4))]
    np.testing.assert_array_equal(table["node"].to_numpy(), np.arange(2000))
    p = np.column_stack([table[f"probability_{k}"].to_numpy() for k in range(4)])
    z = problem.model(problem.target).astype(np.float64) / serial.answer.temperature
    expected = np.exp(z - z.max(axis=1, keepdims=True))
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(p, expected, atol=1e-6)
    np.testing.assert_array_equal(p.argmax(axis=1), z.argmax(axis=1))
    stored = json.loads((serial.answer.out / "_answer.json").read_text())
    assert stored == serial.answer.to_dict()


def test_the_same_seed_gives_the_same_bytes(problem, serial, tmp_path):
    again = recalibrate_shards(problem.model, problem.sharded, problem.card, tmp_path / "out")
    assert {p.name: p.read_bytes() for p in again.out.iterdir()} == serial.written


def test_sparse_bags_of_words(problem, tmp_path):
    graph = real_graph("cora")
    model = SIGN(hops=2, tol=1e-2).fit(graph, graph.train_masks[0])
    probe = replace(problem.card.probe, column_std=column_moments(graph.features)[1])
    sparse = SimpleNamespace(model=model, card=SimpleNamespace(probe=probe))
    target = shifts.rewire(0.3)(graph, 5)
    graph = convert_graph(target, tmp_path / "g", rows_per_shard=900)
    found = on_shards(sparse, graph, tmp_path, 0)
    expected = in_memory(sparse, target, 0).to_dict()
    for name, value in found.evidence.to_dict().items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-5, atol=1e-6, err_msg=name)


def test_a_graph_without_edges(problem, tmp_path):
    alone = problem.target.replace(edges=np.empty((0, 2), int))
    graph = convert_graph(alone, tmp_path / "g", rows_per_shard=900)
    found = recalibrate_shards(problem.model, graph, problem.card, tmp_path / "out")
    expected = recalibrate(problem.model, alone, problem.card)
    assert found.verdict == expected.verdict
    assert found.accuracy.value == pytest.approx(expected.accuracy.value, abs=1e-6)


def test_other_models_and_other_columns_are_refused(problem, tmp_path):
    for model, message in (
        (lambda graph: None, "returned a NoneType"),
        (lambda graph: graph.features[:, :4], "build a card for this one"),
    ):
        with pytest.raises(InputError, match=message):
            recalibrate_shards(model, problem.sharded, problem.card, tmp_path / "out")
    narrow = convert_graph(Graph(features=np.ones((3, 2)), edges=[[0, 1]]), tmp_path / "narrow")
    with pytest.raises(InputError, match="12 feature columns but this one has 2"):
        recalibrate_shards(problem.model, narrow, problem.card, tmp_path / "out")
    with pytest.raises(FileError, match="exists already"):
        recalibrate_shards(problem.model, problem.sharded, problem.card, tmp_path / "narrow")
    assert [path.name for path in tmp_path.iterdir()] == ["narrow"]


@pytest.mark.parametrize("error", [FileError("a shard is damaged."), InputError("of no use.")])
def test_nothing_is_left_where_the_input_is_wrong(problem, tmp_path, monkeypatch, error):
    from graphtemper.scale import recalibration

    def broken(*arguments):
        raise error

    monkeypatch.setattr(recalibration, "write_answer", broken)
    with pytest.raises(type(error), match=str(error)):
        recalibrate_shards(problem.model, problem.sharded, problem.card, tmp_path / "out")
    assert not list(tmp_path.iterdir())
