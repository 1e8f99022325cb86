"""Smooth ECE against relplot and against its defining integral."""

from __future__ import annotations

import numpy as np
import pytest

from graphtemper import metrics


def defining_integral(confidence, correct, bandwidth, points=4000):
    """smECE at a bandwidth: midpoint rule, the reflected kernel as a sum over mirror images."""
    t = (np.arange(points) + 0.5) / points
    density = np.zeros(points)
    for c, y in zip(confidence, correct, strict=True):
        kernel = np.zeros(points)
        for shift in range(-6, 7, 2):
            for image in (shift + c, shift - c):
                kernel += np.exp(-0.5 * ((t - image) / bandwidth) ** 2)
        density += (y - c) * kernel
    density /= len(confidence) * bandwidth * np.sqrt(2 * np.pi)
    return np.abs(density).mean()


@pytest.mark.parametrize("overconfidence", [0.6, 1.0, 1.8])
@pytest.mark.parametrize("n", [100, 2000])
def test_against_relplot(sample, overconfidence, n):
    import relplot

    p, labels = sample(0, n=n, overconfidence=overconfidence)
    peer = relplot.smECE(p.max(axis=1), (p.argmax(axis=1) == labels).astype(float))
    # relplot bisects the bandwidth to 1e-3, integrates on 200 points, and cuts its kernel off at
    # a distance of 1/2, so the two part company at bandwidths above about 0.2.
    assert peer < 0.2
    assert metrics.smooth_ece(p, labels) == pytest.approx(peer, rel=0.02, abs=1e-3)


@pytest.mark.parametrize("seed", range(4))
def test_is_a_fixed_point_of_the_definition(sample, seed):
    p, labels = sample(seed, n=80, overconfidence=[0.3, 1.0, 2.0, 6.0][seed])
    value = metrics.smooth_ece(p, labels)
    integral = defining_integral(p.max(axis=1), p.argmax(axis=1) == labels, value)
    assert value == pytest.approx(integral, rel=1e-4)


def test_extremes():
    p = [[0.0, 1.0]] * 5
    assert metrics.smooth_ece(p, [1] * 5) == 0.0
    everything_wrong = metrics.smooth_ece(p, [0] * 5)
    assert everything_wrong == pytest.approx(1.0, abs=1e-6)
    assert metrics.smooth_ece([[0.5, 0.5]] * 4, [0, 0, 1, 1]) == pytest.approx(0, abs=1e-6)


def test_is_continuous_where_binned_ece_jumps():
    # The confidence crosses the edge 0.8 of ten bins and joins other nodes.
    def both(c):
        p = np.array([[1 - c, c]] * 50 + [[0.25, 0.75]] * 50)
        labels = np.array([1] * 50 + [0] * 50)
        return metrics.ece(p, labels, bins=10), metrics.smooth_ece(p, labels)

    below, above = both(0.8 - 1e-6), both(0.8 + 1e-6)
    assert abs(below[0] - above[0]) > 0.1
    assert abs(below[1] - above[1]) < 1e-5
