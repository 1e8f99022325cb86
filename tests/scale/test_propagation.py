"""Sharded propagation compared with the in-memory path, and its random draws."""

import numpy as np
import pytest

from graphtemper.graph.normalised import EdgeSubsets
from graphtemper.graph.operators import horner
from graphtemper.models import SGC, SIGN
from graphtemper.scale import Serial, convert_graph, propagation
from graphtemper.scale.clean_pass import clean_pass
from graphtemper.scale.propagation import (
    ColumnSink,
    EdgeSample,
    Noise,
    Projected,
    ShardedOperator,
    propagate,
)
from graphtemper.scale.storage import shards
from graphtemper.scale.storage.array_files import Columns
from graphtemper.scale.storage.workspace import open_workspace
from graphtemper.signals.passes import kept, link_keys, node_keys


def sharded_logits(graph, model, folder, sample=None):
    count = model.intercept_.size
    weights = [None] * (model.hops + 1)
    for position, hop in enumerate(model.hops_used):
        weights[hop] = model.weights_[position].astype(np.float32)
    terms = Projected(graph, weights, [np.zeros(count, np.float32)] * len(weights), count)
    with open_workspace(folder / "stages", graph.num_nodes) as workspace:
        scale = workspace.scratch_columns("scale", 1, np.float64)
        operator = ShardedOperator(graph, model.operator, scale, sample)
        operator.write_scale(Serial())
        out = workspace.scratch_columns("logits", count, np.float32)
        propagate(Serial(), graph, operator, terms, model.hops, workspace, ColumnSink(out))
        return np.array(out.open()) + model.intercept_.astype(np.float32)


@pytest.mark.parametrize("kind", ["self-loop", "symmetric", "mean"])
@pytest.mark.parametrize("model", [SIGN(hops=2), SGC(hops=2), SIGN(hops=0)])
def test_logits_are_those_of_the_model(problem, tmp_path, kind, model, monkeypatch):
    monkeypatch.setattr(shards, "ENTRIES_AT_ONCE", 500)  # many blocks per shard
    fitted = type(model)(hops=model.hops, operator=kind)
    fitted.weights_ = np.random.default_rng(0).standard_normal((len(fitted.hops_used), 12, 4))
    fitted.intercept_ = np.array([0.1, -0.2, 0.3, 0.0])
    found = sharded_logits(problem.sharded, fitted, tmp_path)
    expected = fitted(problem.target)
    assert np.abs(found - expected).max() <= 4 * np.spacing(np.abs(expected).max())


def test_sparse_features(problem, tmp_path):
    import scipy.sparse as sp

    features = problem.target.features * (np.abs(problem.target.features) > 1.5)
    sparse = problem.target.replace(features=sp.csr_matrix(features))
    graph = convert_graph(sparse, tmp_path / "g", rows_per_shard=600)
    found = sharded_logits(graph, problem.model, tmp_path)
    np.testing.assert_allclose(found, problem.model(sparse), rtol=0, atol=2e-6)


def test_clean_pass_writes_logits_and_classes(problem, tmp_path):
    with open_workspace(tmp_path / "stages", 2000) as workspace:
        model = problem.model.fast_passes()
        clean = clean_pass(Serial(), problem.sharded, model, 2.0, workspace)
        expected = problem.model(problem.target)
        np.testing.assert_allclose(clean.values.open(), expected, rtol=0, atol=1e-6)
        np.testing.assert_array_equal(clean.classes.open()[:, 0], expected.argmax(axis=1))
        np.testing.assert_allclose(clean.logits(1), expected[700:1400] / 2.0, atol=1e-6)
    assert not list(tmp_path.iterdir())


def test_dropped_edges_are_renormalised(problem, keys, tmp_path):
    """The same edges are left out in memory; both shards of an edge agree."""
    in_memory = link_keys(problem.target, node_keys(problem.target))
    keep = kept(in_memory, 0.4, np.uint64(5))
    assert abs(keep.mean() - 0.6) < 4 * np.sqrt(0.24 / len(keep))
    terms = problem.model.fast_passes().project(problem.target.features)
    operator = EdgeSubsets(problem.target, "self-loop").operator(keep)
    expected = horner(operator, terms) + problem.model.intercept_
    sample = EdgeSample(keys, 5, 0.4)
    found = sharded_logits(problem.sharded, problem.model, tmp_path, sample)
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6)


@pytest.fixture
def keys(problem, tmp_path):
    columns = Columns.create(tmp_path / "keys.npy", (2000, 1), np.uint64)
    columns.write(0, node_keys(problem.target)[:, None])
    return columns


@pytest.fixture(params=[10**5, 100], ids=["small", "large"])
def _size(request, monkeypatch):
    monkeypatch.setattr(propagation, "ENOUGH_NODES", request.param)


@pytest.mark.usefixtures("_size")
def test_noise_has_the_covariance_of_projected_feature_noise(problem, keys):
    std = np.linspace(0.5, 1.5, 12)
    factor = problem.model.fast_passes().noise_factor(std)
    terms = Noise([factor], range(40), (0, 1, 2), 4, seed=0, keys=keys)
    blocks = list(problem.sharded.blocks(0))
    drawn = [np.vstack([terms.reader(0, hop)(rows) for rows in blocks]) for hop in range(3)]
    stacked = np.concatenate([hop.reshape(-1, 40, 4) for hop in drawn], axis=2).reshape(-1, 12)
    weights = problem.model.weights_.transpose(1, 0, 2).reshape(12, 12)
    expected = weights.T @ np.diag(std**2) @ weights
    found = stacked.T @ stacked / len(stacked)
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    assert np.abs(found - expected).max() < 6 * scale.max() / np.sqrt(len(stacked))


@pytest.mark.usefixtures("_size")
def test_noise_belongs_to_pass_and_node(problem, keys):
    factor = problem.model.fast_passes().noise_factor(np.ones(12))

    def draw(seed, passes, shard):
        noise = Noise([factor], passes, (0, 1, 2), 4, seed, keys)
        return noise.reader(shard, 1)(next(problem.sharded.blocks(shard)))

    both = draw(0, range(2), 0)
    assert np.array_equal(both[:, 4:], draw(0, range(1, 2), 0))
    assert not np.array_equal(both[:, :4], both[:, 4:])
    assert not np.array_equal(both, draw(0, range(2), 1))
    assert not np.array_equal(both, draw(1, range(2), 0))
