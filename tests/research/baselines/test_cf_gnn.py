"""CF-GNN: coverage, the size loss, and the number of calibration nodes."""

import numpy as np
import pytest
from tests.helpers import raises

torch = pytest.importorskip("torch", reason="torch is not installed (extra [pyg])")

from graphtemper.calibrators import training  # noqa: E402
from graphtemper.calibrators.base import Inputs  # noqa: E402
from graphtemper_research.baselines import CFGNN  # noqa: E402
from graphtemper_research.baselines.cf_gnn import soft_size  # noqa: E402


def test_sets_cover_where_nodes_are_exchangeable(scene):
    """Over splits of one graph into threshold and test nodes, mean coverage is about the level."""
    covered, sizes = [], []
    for seed in range(6):
        order = np.random.default_rng(seed).permutation(np.arange(150, 500))
        cf = CFGNN(epochs=40, warm=20, seed=seed)
        cf.fit(scene.logits, scene.labels, scene.graph, order[:200], train_nodes=scene.train)
        sets = cf.sets(scene.logits, graph=scene.graph)[order[200:]]
        covered.append(sets[np.arange(150), scene.labels[order[200:]]].mean())
        sizes.append(sets.sum(axis=1).mean())
    assert np.mean(covered) > 0.87
    assert 0.9 <= np.mean(sizes) < 2.0


def test_sets_are_those_of_deterministic_aps_written_out(scene):
    """Cumulative sorted probabilities up to the threshold; the seed changes nothing."""
    cf = CFGNN(epochs=20, warm=10).fit(
        scene.logits, scene.labels, scene.graph, scene.cal, train_nodes=scene.train
    )
    sets, p = cf.sets(scene.logits, scene.graph), cf.transform(scene.logits, scene.graph)
    below = np.array([[row[row > value].sum() + value for value in row] for row in p])
    rows = cf.roles_.threshold
    truth = np.sort(below[rows, scene.labels[rows]])
    limit = truth[int(np.ceil((rows.size + 1) * 0.9)) - 1]
    assert (sets == (below <= limit)).mean() > 0.999  # rounding where a score is the threshold
    cf.seed = 7
    assert (cf.sets(scene.logits, scene.graph) == sets).all()
    cf.randomised = True
    assert (cf.sets(scene.logits, scene.graph) != sets).any()


def test_the_input_is_dropped_too(scene):
    """Dropout sees the probabilities, then the hidden layer, as in the released code."""
    cf = CFGNN(epochs=1, warm=0).fit(scene.logits, scene.labels, scene.graph, scene.cal)
    context = cf._context(Inputs(scene.logits.astype(float), scene.graph))
    seen = []

    def keep(hidden, rate, generator):
        seen.append(tuple(hidden.shape))
        return hidden

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "dropped", keep)
        cf._logits([torch.from_numpy(a) for a in cf.parameters_], context, torch.Generator())
    assert seen == [scene.logits.shape, (len(scene.logits), cf.hidden)]


def test_size_falls_with_the_size_loss():
    """The soft size has a gradient that makes sets smaller."""
    p = torch.tensor([[0.5, 0.4, 0.1]] * 4, requires_grad=True)
    size = soft_size(p, torch.full((9,), 0.3), 0.9, 0.1)
    torch.autograd.backward([size.sum()])
    assert (p.grad > 0).all()


def test_the_quantile_is_an_order_statistic():
    """Of 30 probabilities at level 0.9, the threshold is the third smallest, not between two."""
    hits = torch.linspace(0.1, 0.97, 30)
    position = int(np.ceil((1 - np.ceil(31 * 0.9) / 30) * 29))
    just_above, just_below = hits[position] + 1e-3, hits[position] - 1e-3
    sizes = soft_size(torch.tensor([[just_above], [just_below]]), hits, 0.9, 1e-5)
    assert sizes.tolist() == pytest.approx([1.0, 0.0], abs=1e-6)


def test_needs_a_few_nodes(scene):
    with raises("too-few"):
        CFGNN().fit(scene.logits, scene.labels, scene.graph, scene.cal[:7])
