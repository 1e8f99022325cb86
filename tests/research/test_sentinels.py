"""Three small measurements, repeated and compared with what was committed.

A failure means that the method has changed more than its draws: measure with
``python -m graphtemper_research.sentinels docs/results`` and say why the numbers move.
"""

from pathlib import Path

import pytest

from graphtemper_research import sentinels

RESULTS = Path(__file__).parents[2] / "docs" / "results"


@pytest.mark.cpu(20)
@pytest.mark.parametrize("name", sentinels.SENTINELS)
def test_a_small_measurement_gives_the_committed_numbers(name):
    if not RESULTS.is_dir():
        pytest.skip("the committed results are not in this copy")
    found = sentinels.measure(name, sentinels.REPEATED[name])
    expected = sentinels.allowed(RESULTS, name)
    assert found.keys() == expected.keys()
    for key, (mean, tolerance) in expected.items():
        assert found[key][0] == pytest.approx(mean, abs=tolerance), key


@pytest.mark.parametrize("name", ["drawn shift", "natural pair"])
def test_leaving_the_probabilities_alone_would_be_seen(name):
    """The tolerance is smaller than what recalibration changes."""
    if not RESULTS.is_dir():
        pytest.skip("the committed results are not in this copy")
    expected = sentinels.allowed(RESULTS, name)
    mean, tolerance = expected["ece recalibrated"]
    assert mean + tolerance < expected["ece uncalibrated"][0]
