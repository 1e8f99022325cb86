"""The slope that the theory predicts for a target, when it predicts none, and when it is shown."""

from dataclasses import replace

import numpy as np
import pytest
from tests.helpers import answering

from graphtemper import SourceCard, csbm, recalibrate, temperature, theory
from graphtemper._core.estimate import Estimate
from graphtemper.models import SGC
from graphtemper.recalibration.diagnosis import diagnosis, reliability, theory_slope


def test_theory_says_when_it_does_not_apply():
    assert theory_slope(0.8, 0.8, 1.0, num_classes=2)["slope"] == pytest.approx(1.0)
    for arguments in ((None, 0.8, 1.0, 3), (0.8, 0.8, None, 2), (0.8, 0.8, -0.1, 2)):
        assert theory_slope(*arguments)["slope"] is None
    assert "edges" in theory_slope(None, 0.8, 1.0, 3)["why"]
    for source in (0.5, 0.51):
        assert "1/2" in theory_slope(0.8, source, 1.0, 2)["why"]
    assert "1/4" in theory_slope(0.8, 0.26, 1.0, 4)["why"]


@pytest.fixture(scope="module")
def deployed():
    """A card of a three-class model, and its answer on a graph of lower homophily."""
    source = csbm.sample(900, 12, 0.8, 1.0, num_classes=3, num_features=6, seed=1)
    target = csbm.sample(900, 6, 0.7, 1.0, num_classes=3, num_features=6, seed=2)
    model = SGC(hops=1, operator="mean").fit(source, range(450))
    few = {"homophily": (-0.6, -0.3, 0.3), "rewire": (0.3,), "noise": (1.0,)}
    card = SourceCard.build(model, source, range(450, 900), compositions=0, shifts=few)
    return card, recalibrate(model, target.replace(labels=None), card)


def test_diagnosis_reads_degree_and_classes_from_card_and_target(deployed):
    card, result = deployed
    facts = diagnosis(result, card)
    for name, degree in {"source": 11.5, "target": 5.5}.items():
        assert facts[name]["degree"] == pytest.approx(degree, rel=0.1)
    homophilies = (facts["target"]["homophily"], facts["source"]["homophily"])
    expected = theory.slope_multiclass(*homophilies, facts["source"]["snr"], 3)
    assert theory_slope(*homophilies, facts["source"]["snr"], 3)["slope"] == pytest.approx(expected)


def answer(result, warmer, low, high):
    """The same target with another temperature and another interval."""
    return answering(
        result,
        temperature=warmer * result.source_temperature,
        accuracy=Estimate((low + high) / 2, low, high, "test"),
        verdict="trust",
    )


def test_a_slope_is_shown_only_where_the_atlas_does_not_contradict_it(deployed):
    card, result = deployed
    evidence = card.reference.evidence
    slope = theory_slope(result.signals["homophily"], evidence.homophily, evidence.snr, 3)["slope"]
    assert 0 < slope < 0.95
    implied = temperature.apply(result.logits, card.temperature / slope).max(axis=1).mean()
    agrees = answer(result, 1.2, implied - 0.02, implied + 0.02)
    assert diagnosis(agrees, card)["theory"]["slope"] == pytest.approx(slope)
    refused = {
        "opposite direction": answer(result, 0.9, implied - 0.02, implied + 0.02),
        "outside the interval": answer(result, 1.2, implied + 0.01, implied + 0.05),
        "no accuracy is known": answering(agrees, verdict="abstain"),
    }
    for why, other in refused.items():
        found = diagnosis(other, card)["theory"]
        assert found["slope"] is None
        assert why in found["why"]
        assert found["shifts"] == 4


def test_reliability_counts_where_theory_is_closer_than_no_correction(deployed):
    """By hand, from what the atlas holds: shifts of features say nothing on homophily."""
    card, _ = deployed
    evidence, closer = card.reference.evidence, []
    for point in card.atlas:
        if "noise" not in point.families:
            odds = np.exp(point.signals["predicted homophily"])
            found = theory_slope(odds / (1 + odds), evidence.homophily, evidence.snr, 3)["slope"]
            true = 1 / point.temperature
            closer.append(found > 0 and max(found / true, true / found) < max(true, 1 / true))
    assert reliability(card) == {"closer": sum(closer), "shifts": 4}
    # On the theory's own block model it is mostly right; exact temperatures make it always wrong.
    assert sum(closer) >= 2
    calibrated = tuple(replace(point, temperature=1.0) for point in card.atlas)
    assert reliability(replace(card, atlas=calibrated))["closer"] == 0
