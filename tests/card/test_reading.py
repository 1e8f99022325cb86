"""The prior on the accuracy, and targets whose feature means have moved."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from tests.helpers import block_model

from graphtemper.card.reading import NATURAL, NaturalPrior, Prior, read, read_evidence
from graphtemper.signals.observation import Observation


@pytest.mark.parametrize("lower_tail", [1.0, 2.0])
def test_the_centre_is_the_median_and_the_interval_holds_nine_tenths(lower_tail):
    """By quadrature of the density, which is only known up to a constant."""
    prior = Prior(0.7, 0.3, lower_tail)

    def density(x):
        return float(np.exp(prior.log_density(np.array([x]))[0]))

    low, high = prior.centre - 1.6449 * 0.3 * lower_tail, prior.centre + 1.6449 * 0.3
    parts = [quad(density, *ends)[0] for ends in ((-60, low), (low, 0.7), (0.7, high), (high, 60))]
    total = sum(parts)
    assert sum(parts[:2]) / total == pytest.approx(0.5, abs=1e-3)
    assert sum(parts[1:3]) / total == pytest.approx(0.9, abs=1e-3)
    stated = prior.estimate("atlas")
    assert np.log(stated.low / (1 - stated.low)) == pytest.approx(low, abs=1e-3)


def test_moved_feature_means_widen_the_interval_most_of_all_downwards(card, model):
    graph = block_model(5)
    moved = graph.replace(features=graph.features + np.linspace(0.5, 1.5, graph.num_features))
    here, there = (
        read(card, Observation(model, item).at(card.temperature)) for item in (graph, moved)
    )
    assert here.moved_fraction < 0.3 < 0.9 < there.moved_fraction
    assert there.prior.deviation > here.prior.deviation
    assert there.prior.lower_tail == pytest.approx(2.0)


def test_without_features_the_interval_is_not_narrower(card, model):
    """Unknown features may have moved, so less knowledge never gives a narrower interval."""
    graph = block_model(5)
    known = read(card, Observation(model(graph), graph).at(card.temperature))
    unknown = read_evidence(card, known.evidence, known.num_nodes, None, flat=False)
    assert unknown.moved_fraction == 1.0
    assert unknown.prior.deviation > known.prior.deviation
    assert unknown.prior.lower_tail > known.prior.lower_tail


odds = st.floats(-4.0, 4.0)


@given(odds, odds, st.floats(0.0, 9.0))
def test_the_atlas_is_used_as_it_is_where_feature_means_have_not_moved(c, m, novelty):
    assert NATURAL.centre(c, m, 0.0, novelty) == pytest.approx(m, abs=1e-12)
    assert NATURAL.variance(3.0, 0.0) == 0.0


@given(odds, odds, st.floats(0.0, 1.0), st.floats(0.0, 9.0))
def test_the_centre_lies_between_confidence_and_the_atlas(c, m, fraction, novelty):
    centre = NATURAL.centre(c, m, fraction, novelty) + NATURAL.shift * fraction
    assert min(c, m) - 1e-9 <= centre <= max(c, m) + 1e-9
    if fraction == 1.0:
        assert centre <= c + 1e-9


def test_the_atlas_counts_for_more_the_farther_the_target_is():
    prior = NaturalPrior(halfway=2.0, shift=0.0)
    steps = [prior.centre(2.0, 0.0, 1.0, novelty) for novelty in (0.0, 1.0, 2.0, 4.0, 5.0)]
    assert steps == pytest.approx([2.0, 1.6, 1.0, 0.4, 2.0 - 50.0 / 29.0])
    assert prior.centre(2.0, 0.0, 1.0, np.inf) == steps[-1]


def test_the_variance_grows_with_novelty_up_to_a_limit():
    prior = NaturalPrior(deviation=0.4)
    assert prior.variance(0.0, 1.0) == pytest.approx(0.16)
    assert prior.variance(2.0, 1.0) == pytest.approx(0.16 * 5)
    assert prior.variance(5.0, 1.0) == prior.variance(99.0, 1.0)
    assert prior.variance(1.0, 0.25) == pytest.approx(0.5 * prior.variance(1.0, 1.0))
    assert np.isfinite(prior.variance(np.inf, 1.0))
