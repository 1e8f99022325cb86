"""The slope that the theory predicts for a target, and where it predicts none."""

from types import SimpleNamespace

import pytest

from graphtemper.recalibration.diagnosis import theory_slope


def test_theory_says_where_it_does_not_apply():
    two, three = SimpleNamespace(num_classes=2), SimpleNamespace(num_classes=3)
    assert theory_slope(0.8, 0.8, 1.0, two)["slope"] == pytest.approx(1.0)
    for arguments in ((0.8, 0.8, 1.0, three), (0.8, 0.8, None, two), (0.8, 0.8, -0.1, two)):
        assert theory_slope(*arguments)["slope"] is None
    for source in (0.5, 0.51):
        assert "1/2" in theory_slope(0.8, source, 1.0, two)["why"]
