"""The slope that the theory predicts for a target, and when it predicts none."""

import pytest

from graphtemper.recalibration.diagnosis import theory_slope


def test_theory_says_when_it_does_not_apply():
    assert theory_slope(0.8, 0.8, 1.0, num_classes=2)["slope"] == pytest.approx(1.0)
    for arguments in ((0.8, 0.8, 1.0, 3), (0.8, 0.8, None, 2), (0.8, 0.8, -0.1, 2)):
        assert theory_slope(*arguments)["slope"] is None
    for source in (0.5, 0.51):
        assert "1/2" in theory_slope(0.8, source, 1.0, 2)["why"]
