"""The slope that the theory predicts for a target, and when it predicts none."""

import pytest

from graphtemper import SourceCard, csbm, recalibrate, temperature, theory
from graphtemper.models import SGC
from graphtemper.recalibration.diagnosis import diagnosis, theory_slope


def test_theory_says_when_it_does_not_apply():
    assert theory_slope(0.8, 0.8, 1.0, num_classes=2)["slope"] == pytest.approx(1.0)
    for arguments in ((None, 0.8, 1.0, 3), (0.8, 0.8, None, 2), (0.8, 0.8, -0.1, 2)):
        assert theory_slope(*arguments)["slope"] is None
    assert "edges" in theory_slope(0.8, 0.8, 1.0, 3, degree_ratio=None)["why"]
    for source in (0.5, 0.51):
        assert "1/2" in theory_slope(0.8, source, 1.0, 2)["why"]
    assert "1/4" in theory_slope(0.8, 0.26, 1.0, 4)["why"]


def test_slope_of_k_classes_and_of_another_degree_is_near_the_best_temperature():
    """A four-class model moved to a sparser graph of lower homophily: slope from labels alone."""
    fitted = SGC(hops=1, operator="mean")
    source, target = (
        csbm.sample(20_000, degree, h, 1.0, num_classes=4, seed=seed)
        for seed, (degree, h) in enumerate(((16, 0.8), (8, 0.65)))
    )
    fitted.fit(source, None)
    source_scale, target_scale = (
        1.0 / temperature.fit(fitted(graph), graph.labels) for graph in (source, target)
    )
    predicted = theory_slope(0.65, 0.8, 1.0, num_classes=4, degree_ratio=0.5)["slope"]
    assert predicted == pytest.approx(target_scale / source_scale, rel=0.2)
    # Without the degree ratio it would be twice as large.
    assert theory_slope(0.65, 0.8, 1.0, 4)["slope"] > 1.6 * target_scale / source_scale


def test_diagnosis_reads_degree_and_classes_from_card_and_target():
    source = csbm.sample(900, 12, 0.8, 1.0, num_classes=3, num_features=6, seed=1)
    target = csbm.sample(900, 6, 0.8, 1.0, num_classes=3, num_features=6, seed=2)
    model = SGC(hops=1, operator="mean").fit(source, range(450))
    card = SourceCard.build(model, source, range(450, 900), compositions=0)
    facts = diagnosis(recalibrate(model, target.replace(labels=None), card), card)
    typical = {"source": 11.5, "target": 5.5}
    for name, degree in typical.items():
        assert facts[name]["degree"] == pytest.approx(degree, rel=0.1)
    ratio = facts["target"]["degree"] / facts["source"]["degree"]
    expected = theory.slope_multiclass(
        facts["target"]["homophily"],
        facts["source"]["homophily"],
        facts["source"]["snr"],
        3,
        degree_ratio=ratio,
    )
    assert facts["theory"]["slope"] == pytest.approx(expected)
