"""Isotonic calibration: averages and monotone curves."""

import numpy as np
import pytest

from graphtemper import temperature
from graphtemper_research.baselines import Isotonic, IsotonicShared


def test_isotonic_curves_preserve_averages_and_increase(sample):
    z, y = sample(2000, 3, scale=3.0)
    p = temperature.apply(z)
    curve = Isotonic().fit(z, y).curves_[1]
    # Pool adjacent violators keeps the sum: mean fitted value = frequency of the class.
    assert np.interp(p[:, 1], *curve).mean() == pytest.approx((y == 1).mean(), abs=1e-3)
    shared = IsotonicShared().fit(z, y)
    assert np.interp(p, *shared.curve_).mean() == pytest.approx(1 / 3, abs=1e-3)
    assert (np.diff(shared.curve_[1]) >= 0).all()
