"""Histogram binning: bins of equal size that hold frequencies."""

import numpy as np

from graphtemper import temperature
from graphtemper_research.baselines import HistogramBinning
from graphtemper_research.baselines.histogram_binning import inner_edges


def test_bins_are_equally_large_and_hold_frequencies(sample):
    z, y = sample(1000, 3, scale=3.0)
    histogram = HistogramBinning(bins=10).fit(z, y)
    p = temperature.apply(z)
    for k in range(3):
        index = np.searchsorted(histogram.edges_[k][1:-1], p[:, k])
        sizes = np.bincount(index)
        assert sizes.min() >= 99
        means = np.bincount(index, y == k) / sizes
        np.testing.assert_allclose(means, histogram.frequencies_[k])
    assert inner_edges(np.ones(5), 4).size == 0
