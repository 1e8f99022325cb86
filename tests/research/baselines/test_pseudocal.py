"""PseudoCal, by hand."""

import numpy as np
import pytest
import scipy.sparse as sp

from graphtemper import temperature
from graphtemper._core.reproducible import stream
from graphtemper.graph.graph import Graph
from graphtemper.signals.observation import Observation
from graphtemper_research.baselines.pseudocal import PseudoCal


def test_mixed_nodes_are_scored_by_the_larger_part():
    """A model that returns its features: mixed logits are mixtures of logits."""
    z = np.random.default_rng(11).normal(size=(300, 3)) * 2.0
    z = np.where(np.abs(z) < 1e-9, 0.1, z)
    g = Graph(features=z.astype(np.float32), edges=[[0, 1]])
    target = Observation(lambda graph: np.asarray(graph.features), g, range(50, 300), seed=4)
    order = stream(4, "mixed nodes").permutation(300)
    z = np.asarray(g.features, dtype=np.float64)
    mixed, top = 0.65 * z + 0.35 * z[order], z.argmax(axis=1)
    rows = [i for i in range(50, 300) if top[i] != top[order[i]]]
    by_hand = temperature.fit(mixed[rows], top[rows])
    found = PseudoCal().temperature(target)
    assert found == pytest.approx(by_hand, rel=1e-4)
    sparse = Observation(
        lambda graph: np.asarray(graph.features.todense()),
        g.replace(features=sp.csr_matrix(g.features)),
        range(50, 300),
        seed=4,
    )
    assert PseudoCal().temperature(sparse) == pytest.approx(found, rel=1e-4)


def test_one_class_leaves_the_temperature_alone():
    g = Graph(features=np.tile([[2.0, 0.0]], (30, 1)), edges=[[0, 1]])
    target = Observation(lambda graph: np.asarray(graph.features), g)
    assert PseudoCal().temperature(target) == 1.0
