"""Node signals: what they measure, their units, and that they find the nodes of a shift."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import roc_auc_score

from graphtemper import Graph, csbm, shifts
from graphtemper.graph.operators import column_moments
from graphtemper.models import SIGN
from graphtemper.signals import node_signals
from graphtemper.signals.evidence import Probe
from graphtemper.signals.node_signals import PLAIN_SIGNALS, SIGNALS
from graphtemper.signals.observation import Observation


@pytest.fixture(scope="module")
def graph():
    return csbm.sample(500, degree=6, homophily=0.8, snr=1.0, num_features=40, seed=1)


@pytest.fixture(scope="module")
def model(graph):
    return SIGN(hops=1).fit(graph, range(250))


def probe_of(graph, temperature=1.3):
    std = column_moments(graph.features)[1]
    return Probe(temperature, 0.3, std, 0.7, -0.5, seed=3)


def measured(model, graph, probe, nodes=None):
    observation = Observation(model, graph, nodes, temperature=probe.temperature)
    values = node_signals.measure(observation, probe)
    assert values.dtype == np.float32
    assert np.isfinite(values).all()
    return dict(zip(node_signals.readable(observation), values.T, strict=True))


def auroc(score, hit):
    """Probability that a node that was hit scores higher than one that was not."""
    return roc_auc_score(hit, score)


@pytest.mark.parametrize(
    ("name", "least"),
    [
        # Two splits of a binary model are two squared normals, a rough measure of their variance.
        ("own disagreement", 0.75),
        ("feature energy", 0.95),
        ("feature deviation", 0.9),
    ],
)
def test_a_signal_finds_the_nodes_that_were_hit(graph, model, name, least):
    half = shifts.heterogeneous(3.0)(graph, 5)
    hit = (half.features != graph.features).any(axis=1).astype(int)
    assert auroc(measured(model, half, probe_of(graph))[name], hit) > least
    # On the unshifted graph the same nodes do not stand out.
    assert abs(auroc(measured(model, graph, probe_of(graph))[name], hit) - 0.5) < 0.1


def test_energy_is_in_source_variances(graph, model):
    noisy = shifts.noise(2.0)(graph, 5)
    values = measured(model, noisy, probe_of(graph))
    for name in ("feature energy", "feature deviation"):
        assert np.exp(values[name]).mean() == pytest.approx(1.0 + 2.0**2, rel=0.1)
    assert np.exp(values["neighbours' energy"]).mean() == pytest.approx(5.0, rel=0.1)


def test_signals_do_not_depend_on_how_the_features_are_stored(graph, model):
    sparse = graph.replace(features=sp.csr_matrix(graph.features))
    one, two = (measured(model, g, probe_of(graph)) for g in (graph, sparse))
    for name in SIGNALS:
        np.testing.assert_allclose(one[name], two[name], atol=2e-3, err_msg=name)


def test_signals_are_in_units_of_the_source_temperature(graph, model):
    """A model with logits twice as large and its temperature show the same signals.

    The second is a plain callable, so this also compares projected views with real passes.
    """
    one = measured(model, graph, probe_of(graph, 0.7))
    two = measured(lambda g: 2.0 * model(g), graph, probe_of(graph, 1.4))
    for name in SIGNALS:
        np.testing.assert_allclose(one[name], two[name], atol=5e-3, err_msg=name)


def test_nodes_are_measured_alike_whoever_else_is_looked_at(graph, model):
    some = np.array([4, 77, 300])
    whole, part = (measured(model, graph, probe_of(graph), n) for n in (None, some))
    for name in SIGNALS:
        np.testing.assert_allclose(part[name], whole[name][some], atol=1e-4, err_msg=name)


def test_logits_alone_show_what_needs_no_model(graph, model):
    plain = measured(model(graph), graph, probe_of(graph))
    assert tuple(plain) == PLAIN_SIGNALS == SIGNALS[: len(PLAIN_SIGNALS)]
    whole = measured(model, graph, probe_of(graph))
    for name, values in plain.items():
        np.testing.assert_array_equal(values, whole[name])


def test_agreement_and_leads_of_a_small_graph_are_those_by_hand():
    features = np.array([[2.0], [1.0], [-3.0], [5.0]], dtype=np.float32)
    graph = Graph(features=features, edges=[[0, 1], [0, 2]])
    values = measured(
        lambda g: np.column_stack([0 * g.features[:, 0], g.features[:, 0]]),
        graph,
        Probe(1.0, 0.3, np.ones(1), 0.7, -0.5, seed=3),
    )
    # Node 0 agrees with one of two neighbours, 1 with its only one, 2 with none; 3 has none.
    expected = np.log([1.0, 3.0, 1 / 3, 1.0])
    np.testing.assert_allclose(values["hard agreement"], expected, atol=1e-6)
    np.testing.assert_allclose(values["own lead"], np.arcsinh([2.0, 1.0, 3.0, 5.0]), atol=1e-6)
    # Mean own view of the neighbours: of 1 and -3 for class 1, 2 for it, 2 against it, and none.
    np.testing.assert_allclose(
        values["neighbours' lead"], np.arcsinh([-1.0, 2.0, -2.0, 0.0]), atol=1e-6
    )
    np.testing.assert_allclose(values["log degree"], np.log([3.0, 2.0, 2.0, 1.0]), atol=1e-6)


def test_a_graph_without_edges_and_constant_columns_is_measured(model):
    lonely = Graph(features=np.zeros((30, 40)), edges=np.empty((0, 2), int))
    measured(model, lonely, probe_of(lonely))


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("splits", [1, 3])
def test_some_rows_have_the_signals_that_they_have_among_all(graph, model, kind, splits):
    """Isolated nodes included, and rows in any order."""
    edges = graph.edges[(graph.edges >= 20).all(axis=1)]
    features = np.where(np.abs(graph.features) > 0.7, graph.features, 0.0)
    features = features if kind == "dense" else sp.csr_matrix(features)
    changed = graph.replace(edges=edges, features=features)
    probe = replace(probe_of(graph), splits=splits)
    observation = Observation(model, changed, np.arange(0, 500, 3), temperature=1.3)
    rows = np.array([100, 0, 3, 57])
    part = node_signals.measure(observation, probe, rows)
    np.testing.assert_allclose(part, node_signals.measure(observation, probe)[rows], atol=2e-5)
