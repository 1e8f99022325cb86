"""The prior on the accuracy, and targets whose feature means have moved."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad
from tests.helpers import block_model

from graphtemper._core.estimate import Estimate
from graphtemper._core.numerics import log_odds
from graphtemper.card.reading import (
    NATURAL_DEVIATION,
    USUAL_GAP,
    read,
    read_evidence,
    second_estimate,
)
from graphtemper.signals.observation import Observation


def test_the_centre_is_the_median_and_the_interval_holds_nine_tenths():
    """By quadrature of the density, which is only known up to a constant."""
    prior = Estimate.of_log_odds(0.7, 0.3, "atlas")

    def density(x):
        return float(np.exp(prior.log_density(np.array([x]))[0]))

    low, high = prior.centre - 1.6449 * 0.3, prior.centre + 1.6449 * 0.3
    parts = [quad(density, *ends)[0] for ends in ((-60, low), (low, 0.7), (0.7, high), (high, 60))]
    total = sum(parts)
    assert sum(parts[:2]) / total == pytest.approx(0.5, abs=1e-3)
    assert sum(parts[1:3]) / total == pytest.approx(0.9, abs=1e-3)
    assert np.log(prior.low / (1 - prior.low)) == pytest.approx(low, abs=1e-3)


@pytest.fixture(scope="module")
def moved(card, model):
    """A target whose feature means have moved."""
    graph = block_model(5)
    graph = graph.replace(features=graph.features + np.linspace(0.5, 1.5, graph.num_features))
    return read(card, Observation(model, graph))


def test_moved_feature_means_leave_the_atlas_for_the_rule(card, model, moved):
    graph = block_model(5)
    here = read(card, Observation(model, graph))
    assert here.moved_fraction < 0.3
    assert moved.moved_fraction == 1.0
    assert moved.estimate.centre == moved.natural_centre
    sampling = moved.atlas_variance - (
        moved.response.widening**2 * moved.response.predict(moved.signals)[1] ** 2
    )
    assert moved.estimate.deviation == pytest.approx(
        np.sqrt(NATURAL_DEVIATION**2 + sampling), abs=0.02
    )
    unmoved = replace(here, moments=(card_mean(card, graph), np.ones(graph.num_features)))
    assert unmoved.estimate.deviation < moved.estimate.deviation


def card_mean(card, graph):
    return np.asarray(graph.features.mean(axis=0), dtype=float)


def test_disagreement_lowers_the_answer_and_agreement_does_not_raise_it(moved):
    """The rule takes the lower of confidence and what the second opinion says."""
    claimed = log_odds(moved.evidence.confidence)

    def centre(agreement):
        evidence = replace(moved.evidence, second_agreement=agreement)
        return replace(moved, evidence=evidence).natural_centre

    source = moved.card.reference
    assert centre(0.3) < centre(0.5) < claimed
    assert centre(1.0) == claimed
    assert centre(None) == pytest.approx(claimed - USUAL_GAP)
    same = second_estimate(claimed, source, source.evidence.second_agreement)
    assert same == pytest.approx(log_odds(source.accuracy))


def test_without_features_the_interval_is_not_narrower(card, model):
    """Unknown features may have moved, so less knowledge never gives a narrower interval."""
    graph = block_model(5)
    known = read(card, Observation(model(graph), graph))
    unknown = read_evidence(card, known.evidence, known.num_nodes, None, flat=False)
    assert unknown.moved_fraction == 1.0
    assert unknown.estimate.deviation > known.estimate.deviation
