"""Temperatures by degree and under mixed homophily, against sampled graphs and sampled laws."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import brentq
from scipy.special import expit

from graphtemper.errors import RangeError, ShapeError
from graphtemper.theory import csbm
from graphtemper.theory.finite_degree import finite_degree_temperature, optimal_scale
from graphtemper_research import theory_extensions as extensions


def block_model(h, snr, degree, size, seed):
    """Mean-aggregated coordinate of a sampled graph, signed by the class, and degrees."""
    graph = csbm.sample(size, degree, h, snr, seed=seed)
    ends = graph.edges
    ones = np.ones(2 * len(ends))
    rows, columns = np.concatenate([ends, ends[:, ::-1]]).T
    adjacency = sp.csr_matrix((ones, (rows, columns)), (size, size))
    count = np.bincount(rows, minlength=size)
    mean = (adjacency @ graph.features[:, 0].astype(float)) / np.maximum(count, 1)
    return mean * (2 * graph.labels - 1), count


def fitted_scale(coordinate):
    return brentq(lambda a: np.mean(coordinate * expit(-a * coordinate)), -200, 200)


def scale_error(coordinate):
    """Relative standard error of the fitted scale."""
    scale = fitted_scale(coordinate)
    p = expit(-scale * coordinate)
    spread = np.std(coordinate * p) / np.sqrt(coordinate.size)
    return spread / np.mean(coordinate**2 * p * (1 - p)) / scale


def loss(coordinate, scale):
    return np.mean(np.logaddexp(0.0, -scale * coordinate))


def test_temperature_by_degree_is_that_of_a_sampled_graph():
    source, _ = block_model(0.75, 1.0, 10.0, 150_000, seed=0)
    target, count = block_model(0.65, 1.0, 10.0, 150_000, seed=1)
    degrees = np.array([5, 8, 10, 14])
    reference = fitted_scale(source)
    measured = np.array([reference / fitted_scale(target[count == d]) for d in degrees])
    predicted = extensions.degree_temperature(degrees, 0.65, 0.75, 1.0, 10.0)
    errors = [scale_error(target[count == d]) for d in degrees]
    assert np.max(errors) < 0.04
    assert np.all(np.abs(predicted / measured - 1.0) < 3.0 * np.array(errors))
    assert predicted[0] > 2.5 * predicted[-1]


def test_temperature_falls_as_one_over_the_degree():
    temperatures = extensions.degree_temperature([[20, 40], [80, 20]], 0.7, 0.7, 1.0, 30.0)
    assert temperatures.shape == (2, 2)
    assert temperatures[0, 0] == temperatures[1, 1]
    product = temperatures * [[20, 40], [80, 20]]
    assert product == pytest.approx(product[0, 0], rel=0.03)


def test_temperature_by_degree_of_equal_degrees_is_the_single_one():
    ten = np.eye(11)[10]
    single = finite_degree_temperature(0.6, 0.8, 1.0, ten)
    assert extensions.degree_temperature(10, 0.6, 0.8, 1.0, ten) == pytest.approx(single)
    gain = extensions.degree_gain(0.6, 1.0, ten)
    assert gain.share == pytest.approx(0.0, abs=1e-9)


def test_gain_by_degree_is_that_of_sampled_nodes():
    coordinate, count = block_model(0.8, 1.0, 8.0, 300_000, seed=2)
    single = loss(coordinate, fitted_scale(coordinate))
    scales = np.array([0.0, *(optimal_scale(0.8, 1.0, np.eye(d + 1)[d]) for d in range(1, 50))])
    per_node = loss(coordinate, scales[count])
    gain = extensions.degree_gain(0.8, 1.0, 8.0)
    assert gain.single == pytest.approx(single, rel=0.01)
    assert gain.per_node == pytest.approx(per_node, rel=0.01)
    assert gain.share == pytest.approx(1 - per_node / single, rel=0.05)
    assert 0.05 < gain.share < 0.1


@pytest.mark.parametrize(
    ("h", "snr", "degree", "least", "most"),
    [(0.8, 1.0, 25.0, 0.03, 0.04), (0.7, 1.0, 20.0, 0.02, 0.03), (0.6, 1.0, 25.0, 0.005, 0.015)],
)
def test_one_temperature_is_not_the_best_without_any_shift(h, snr, degree, least, most):
    assert least < extensions.degree_gain(h, snr, degree).share < most


def mixed(h, snr, degree, seed):
    """Aggregated coordinate given class +1, one homophily per node."""
    rng = np.random.default_rng(seed)
    degrees = rng.poisson(degree, h.size)
    total = np.sqrt(snr) * (2 * rng.binomial(degrees, h) - degrees)
    total += np.sqrt(degrees) * rng.standard_normal(h.size)
    return total / np.maximum(degrees, 1)


@pytest.mark.parametrize("concentration", [4.0, 20.0])
def test_mixed_homophily_is_that_of_sampled_nodes(concentration):
    rng = np.random.default_rng(3)
    h = rng.beta(0.7 * concentration, 0.3 * concentration, 400_000)
    coordinate = mixed(h, 1.0, 10.0, seed=4)
    values, weights = extensions.beta_homophily(0.7, concentration)
    temperature = extensions.mixed_homophily_temperature(values, 0.8, 1.0, 10.0, weights=weights)
    scale = fitted_scale(coordinate)
    assert temperature == pytest.approx(optimal_scale(0.8, 1.0, 10.0) / scale, rel=0.015)
    # A spread of homophily raises the temperature above that of its mean.
    assert temperature > 1.02 * finite_degree_temperature(0.7, 0.8, 1.0, 10.0)
    table = np.linspace(0.5, 1.0, 26)
    scales = np.interp(h, table, optimal_scale(table, 1.0, 10.0), left=0.0)
    gain = extensions.mixed_homophily_gain(values, 1.0, 10.0, weights=weights)
    assert gain.single == pytest.approx(loss(coordinate, scale), rel=0.01)
    assert gain.per_node == pytest.approx(loss(coordinate, scales), rel=0.01)


def test_gain_of_a_small_spread_is_quadratic():
    def gain(spread):
        both = extensions.mixed_homophily_gain([0.7 - spread, 0.7 + spread], 1.0, 10.0)
        return both.single - both.per_node

    assert gain(0.02) / gain(0.01) == pytest.approx(4.0, rel=0.02)
    step = 1e-3
    rate = (optimal_scale(0.7 + step, 1.0, 10.0) - optimal_scale(0.7 - step, 1.0, 10.0)) / step / 2
    coordinate = mixed(np.full(400_000, 0.7), 1.0, 10.0, seed=5)
    p = expit(optimal_scale(0.7, 1.0, 10.0) * coordinate)
    curvature = np.mean(coordinate**2 * p * (1 - p))
    assert gain(0.01) == pytest.approx(0.5 * 0.01**2 * rate**2 * curvature, rel=0.02)


def test_one_value_of_homophily_is_no_mixture():
    single = finite_degree_temperature(0.65, 0.8, 1.0, 10.0)
    assert extensions.mixed_homophily_temperature([0.65], 0.8, 1.0, 10.0) == pytest.approx(single)
    assert extensions.mixed_homophily_gain([0.65, 0.65], 1.0, 10.0).share == pytest.approx(
        0, abs=1e-9
    )


def test_nodes_beyond_the_crossing_get_an_infinite_temperature():
    half = extensions.mixed_homophily_gain([0.3], 1.0, 10.0)
    assert half.single == half.per_node == pytest.approx(np.log(2.0))
    mixture = extensions.mixed_homophily_gain([0.3, 0.8], 1.0, 10.0)
    alone = extensions.mixed_homophily_gain([0.8], 1.0, 10.0)
    assert mixture.per_node == pytest.approx(0.5 * (np.log(2.0) + alone.per_node))


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: extensions.degree_temperature(0, 0.7, 0.8, 1.0, 10.0), RangeError),
        (lambda: extensions.degree_temperature(2.5, 0.7, 0.8, 1.0, 10.0), RangeError),
        (lambda: extensions.degree_temperature(5, 0.3, 0.8, 1.0, 10.0), RangeError),
        (lambda: extensions.degree_gain(0.7, 1.0, [1.0]), RangeError),
        (lambda: extensions.degree_gain(0.7, 1.0, 900.0), RangeError),
        (lambda: extensions.mixed_homophily_temperature([0.2, 0.6], 0.8, 1.0, 10.0), RangeError),
        (
            lambda: extensions.mixed_homophily_gain([0.6], 1.0, 10.0, weights=[0.5, 0.5]),
            ShapeError,
        ),
        (lambda: extensions.beta_homophily(1.0, 3.0), RangeError),
    ],
)
def test_refusals_name_the_argument(call, error):
    with pytest.raises(error):
        call()
