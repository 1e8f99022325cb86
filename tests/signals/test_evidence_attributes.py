"""Evidence on directed graphs and on graphs with a target type."""

import numpy as np
import pytest
from tests.helpers import FEW_SHIFTS

from graphtemper import Graph, SourceCard, csbm
from graphtemper.models import SIGN
from graphtemper.signals.evidence import Probe, measure
from graphtemper.signals.observation import Observation


@pytest.fixture(scope="module")
def plain():
    graph = csbm.sample(300, degree=6, homophily=0.85, snr=1.0, num_features=5, seed=0)
    return graph.replace(edges=np.unique(graph.edges, axis=0))  # in the order of links


def test_both_directions_of_every_edge_give_the_same_evidence(plain):
    sign = SIGN(hops=1).fit(plain, range(150))
    arcs = np.concatenate([plain.edges[:, ::-1], plain.edges, np.arange(9)[:, None].repeat(2, 1)])
    both = plain.replace(edges=arcs, directed=True)
    probe = Probe(
        temperature=1.0,
        noise_level=0.5,
        column_std=np.ones(5),
        confidence_threshold=0.7,
        entropy_threshold=-0.5,
        seed=0,
    )
    for model in (sign, lambda graph: sign(graph)):  # fast passes, and real ones
        first, second = (
            measure(Observation(model, graph, range(150, 300)), probe).to_dict()
            for graph in (plain, both)
        )
        assert first["edge"] is not None
        for key in first.keys() - {"second_agreement"}:  # the probe has no second opinion
            value = first[key]
            np.testing.assert_allclose(second[key], value, atol=1e-6, err_msg=key)


def test_held_out_passes_never_see_a_direction_of_a_held_out_link(plain):
    arcs = np.concatenate([plain.edges, plain.edges[:, ::-1]])
    both = plain.replace(edges=arcs, directed=True)
    seen = []

    def spy(graph):
        seen.append(graph.num_edges)
        assert np.array_equal(np.unique(np.sort(graph.edges, axis=1), axis=0), graph.links)
        assert graph.num_edges == 2 * len(graph.links)
        return np.hstack([graph.features[:, :1], -graph.features[:, :1]])

    observation = Observation(spy, both)
    observation.votes("edge", passes=3)
    assert min(seen) < both.num_edges


def test_a_card_says_which_signals_have_no_meaning_without_links(plain):
    """Classified nodes have edges to nodes of another type only."""
    groups = np.arange(300) % 20
    inside = np.column_stack([np.arange(300), 300 + groups])
    graph = Graph(
        features=np.vstack([plain.features, np.zeros((20, 5))]),
        edges=inside,
        directed=True,
        labels=np.append(plain.labels, np.full(20, -1)),
        node_type=np.repeat([0, 1], [300, 20]),
        target_type=0,
    )
    weights = SIGN(hops=0).fit(plain, range(150)).weights_[0]
    card = SourceCard.build(
        lambda graph: graph.features @ weights,
        graph,
        range(150, 300),
        compositions=0,
        shifts=FEW_SHIFTS,
    )
    unused = {"edge agreement", "predicted homophily", "edge correlation"}
    assert not unused & set(card.responses["model"].names)
    assert not unused & set(card.reference.readable)
