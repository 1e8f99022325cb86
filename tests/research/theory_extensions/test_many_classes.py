"""The exact temperature for K classes, against sampled graphs and the theory of two classes."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from graphtemper import theory
from graphtemper.errors import RangeError
from graphtemper.theory import csbm
from graphtemper.theory.finite_degree import finite_degree_temperature, optimal_scale
from graphtemper_research import theory_extensions as extensions
from graphtemper_research.theory_extensions.many_classes import multiclass_scale


def sampled_scale(h, snr, degree, classes, size, seed):
    """Best scale of the logits of a sampled graph, found on the graph itself."""
    graph = csbm.sample(size, degree, h, snr, num_classes=classes, seed=seed)
    rows, columns = np.concatenate([graph.edges, graph.edges[:, ::-1]]).T
    adjacency = sp.csr_matrix((np.ones(rows.size), (rows, columns)), (size, size))
    count = np.bincount(rows, minlength=size)
    features = adjacency @ graph.features.astype(float) / np.maximum(count, 1)[:, None]
    means = csbm.simplex_means(classes, radius=np.sqrt(snr))
    logits = features @ means.T
    own = logits[np.arange(size), graph.labels]

    def loss(scale):
        return np.mean(logsumexp(scale * logits, axis=1) - scale * own)

    return minimize_scalar(loss, bounds=(-30, 60), method="bounded").x


@pytest.mark.parametrize(("classes", "h_target", "degree"), [(3, 0.6, 8.0), (5, 0.5, 12.0)])
def test_temperature_is_that_of_sampled_graphs(classes, h_target, degree):
    scales = [
        sampled_scale(h, 1.0, degree, classes, 120_000, seed=seed)
        for seed, h in enumerate((0.8, h_target))
    ]
    exact = extensions.multiclass_temperature(h_target, 0.8, 1.0, degree, classes)
    assert exact == pytest.approx(scales[0] / scales[1], rel=0.02)
    assert multiclass_scale(0.8, 1.0, degree, classes) == pytest.approx(scales[0], rel=0.02)


def test_two_classes_are_the_two_class_theory():
    for h, snr, degree in ((0.8, 1.0, 5.0), (0.3, 2.0, 6.0), (0.6, 0.5, 15.0)):
        scale = 2 * np.sqrt(snr) * multiclass_scale(h, snr, degree, 2)
        assert scale == pytest.approx(optimal_scale(h, snr, degree), rel=1e-6)
    exact = extensions.multiclass_temperature([0.6, 0.7], 0.8, 1.0, 6.0, 2)
    assert exact == pytest.approx(finite_degree_temperature([0.6, 0.7], 0.8, 1.0, 6.0), rel=1e-6)


def test_brute_force_over_counts_and_noise_agrees():
    """Three classes, degree 2: all six kinds of neighbourhoods, a grid over the noise plane."""
    h, snr, q = 0.7, 1.5, 0.15
    means = csbm.simplex_means(3, radius=np.sqrt(snr))
    axis = np.linspace(-8, 8, 161)
    noise = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    density = np.exp(-0.5 * (noise**2).sum(axis=1))
    density /= density.sum()
    chance = np.array([h, q, q])

    def loss(scale):
        total = 0.0
        for first in range(3):
            for second in range(3):
                g = (means[first] + means[second]) / 2 + noise / np.sqrt(2)
                z = scale * g @ means.T
                total += chance[first] * chance[second] * density @ (logsumexp(z, 1) - z[:, 0])
        return total

    best = minimize_scalar(loss, bounds=(0.1, 10), method="bounded", options={"xatol": 1e-8}).x
    assert multiclass_scale(h, snr, [0, 0, 1], 3) == pytest.approx(best, rel=1e-6)


def test_isolated_nodes_carry_nothing_and_no_signal_gives_no_scale():
    with_isolated = multiclass_scale(0.7, 1.0, [0.5, 0.0, 0.0, 0.5], 4)
    assert with_isolated == pytest.approx(multiclass_scale(0.7, 1.0, [0, 0, 0, 1], 4))
    assert multiclass_scale(0.25, 1.0, 5.0, 4) == 0.0
    assert multiclass_scale(0.1, 1.0, [0, 0, 0, 1], 4) < 0


def test_denser_target_is_under_confident():
    sparse, dense = np.eye(13)[6], np.eye(13)[12]
    exact = extensions.multiclass_temperature(0.7, 0.7, 1.0, sparse, 3, degree_target=dense)
    assert exact == pytest.approx(0.5, rel=0.05)


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_closed_form_is_near_the_exact_slope(classes):
    ten = np.eye(11)[10]
    for h in (0.55, 0.7, 0.9):
        closed = theory.slope_multiclass(h, 0.8, 1.0, classes)
        exact = 1 / extensions.multiclass_temperature(h, 0.8, 1.0, ten, classes)
        assert closed == pytest.approx(exact, rel=0.15)
        # The ratio of the signals alone is further away.
        ratio = theory.signal_ratio(h, 0.8, classes)
        assert abs(np.log(closed / exact)) < abs(np.log(ratio / exact))


def test_closed_form_reduces_to_the_paper():
    h = np.array([0.1, 0.55, 0.9])
    assert theory.slope_multiclass(h, 0.8, 2.0, 2) == pytest.approx(theory.slope(h, 0.8, 2.0))
    low = theory.slope_multiclass(h, 0.8, 1e-9, 5)
    assert low == pytest.approx(theory.signal_ratio(h, 0.8, 5))
    double = theory.slope_multiclass(h, 0.8, 1.0, 5, degree_ratio=2.0)
    assert double == pytest.approx(2.0 * theory.slope_multiclass(h, 0.8, 1.0, 5))


@pytest.mark.parametrize(
    "arguments",
    [
        (0.2, 0.8, 1.0, 5.0, 4),
        (0.7, 0.25, 1.0, 5.0, 4),
        (0.7, 0.8, 1.0, 900.0, 4),
        (0.7, 0.8, 1.0, [1.0], 4),
        (0.99, 0.98, 9.0, np.eye(60)[59], 3),
    ],
)
def test_refusals(arguments):
    with pytest.raises(RangeError):
        extensions.multiclass_temperature(*arguments)


@pytest.mark.parametrize(
    ("shift", "snr", "degree", "classes", "error"),
    [
        ((0.9, 0.5), 4.0, 10.0, 4, 0.976),
        pytest.param((0.6, 0.9), 2.0, 20.0, 3, -0.339, marks=pytest.mark.nightly),
        pytest.param((0.9, 0.5), 2.0, 20.0, 3, 0.586, marks=pytest.mark.nightly),
    ],
)
def test_closed_form_is_far_off_for_strong_shifts(shift, snr, degree, classes, error):
    """The sizes that its documentation gives: Poisson degrees and large shifts at high SNR."""
    exact = extensions.multiclass_temperature(shift[1], shift[0], snr, degree, classes)
    closed = 1 / theory.slope_multiclass(shift[1], shift[0], snr, classes)
    assert closed / exact - 1 == pytest.approx(error, abs=0.002)
