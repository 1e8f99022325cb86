import numpy as np
import pytest

from graphtemper import temperature
from graphtemper.metrics.binned import bin_probabilities
from graphtemper.signals.covariances import centred
from graphtemper.signals.gains import DRAWS, ClassMoments, transfer


def _gaussian(num_classes, count=20_000, size=2.0, seed=0, shares=None):
    """Return labelled Gaussian logits with means on the axes and a common covariance."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(num_classes, size=count, p=shares)
    mix = np.eye(num_classes) + 0.3 * rng.standard_normal((num_classes, num_classes))
    logits = size * np.eye(num_classes)[labels] + rng.standard_normal((count, num_classes)) @ mix
    return logits, labels


def best(model):
    return temperature.solve(model.logits, model.labels).temperature


def _moments(logits):
    z = centred(logits)
    return z.mean(axis=0), np.cov(z.T, bias=True)


@pytest.mark.parametrize("num_classes", range(2, 8))
def test_a_gain_of_one_gives_the_sources_accuracy_and_temperature(num_classes):
    logits, labels = _gaussian(num_classes)
    moments = ClassMoments.measure(logits, labels)
    same = transfer(moments, 1.0, *_moments(logits))
    # 4,096 draws have a standard error of at most 0.008.
    accuracy = (logits.argmax(axis=1) == labels).mean()
    assert same.accuracy == pytest.approx(accuracy, abs=0.02)
    assert best(same) == pytest.approx(temperature.fit(logits, labels), rel=0.1)


def test_moments_split_the_covariance_into_between_and_within():
    logits, labels = _gaussian(4, shares=[0.1, 0.2, 0.3, 0.4])
    moments = ClassMoments.measure(logits, labels)
    z = centred(logits)
    residual = z - z.mean(axis=0) - moments.offsets[labels]
    within = residual.T @ residual / len(z)
    np.testing.assert_allclose(moments.between + within, _moments(logits)[1], atol=1e-10)
    np.testing.assert_allclose(moments.shares, np.bincount(labels) / len(labels))
    np.testing.assert_allclose(moments.shares @ moments.offsets, 0.0, atol=1e-12)


def test_a_gain_with_a_matching_covariance_scales_the_logits():
    logits, labels = _gaussian(3)
    moments = ClassMoments.measure(logits, labels)
    mean, covariance = _moments(logits)
    same = transfer(moments, 1.0, mean, covariance)
    twice = transfer(moments, 2.0, 2.0 * mean, 4.0 * covariance)
    np.testing.assert_allclose(twice.logits, 2.0 * same.logits, atol=1e-9)
    assert twice.accuracy == same.accuracy
    assert best(twice) == pytest.approx(2.0 * best(same), rel=1e-5)


def test_accuracy_falls_with_more_noise_and_with_less_signal():
    logits, labels = _gaussian(4)
    moments = ClassMoments.measure(logits, labels)
    mean, covariance = _moments(logits)
    grown = [transfer(moments, 1.0, mean, covariance + c * np.eye(4)) for c in (0, 1, 3, 9, 30)]
    assert (np.diff([item.accuracy for item in grown]) < -0.02).all()
    assert (np.diff([best(item) for item in grown]) > 0.0).all()
    faded = [transfer(moments, g, mean, covariance).accuracy for g in (1.2, 1.0, 0.7, 0.4, 0.03)]
    assert (np.diff(faded) < -0.02).all()
    assert faded[-1] == pytest.approx(0.25, abs=0.05)


def test_known_noise_is_predicted():
    logits, labels = _gaussian(3, size=3.0)
    moments = ClassMoments.measure(logits, labels)
    noisy = logits + 2.0 * np.random.default_rng(1).standard_normal(logits.shape)
    predicted = transfer(moments, 1.0, *_moments(noisy))
    assert predicted.accuracy == pytest.approx((noisy.argmax(1) == labels).mean(), abs=0.02)
    assert best(predicted) == pytest.approx(temperature.fit(noisy, labels), rel=0.1)


def test_renaming_classes_changes_nothing_but_the_draws():
    logits, labels = _gaussian(5, shares=[0.4, 0.25, 0.2, 0.1, 0.05])
    order = np.array([3, 0, 4, 1, 2])
    renamed = np.empty_like(logits)
    renamed[:, order] = logits
    one = transfer(ClassMoments.measure(logits, labels), 0.8, *_moments(logits))
    two = transfer(ClassMoments.measure(renamed, order[labels]), 0.8, *_moments(renamed))
    assert two.accuracy == pytest.approx(one.accuracy, abs=0.03)
    assert best(two) == pytest.approx(best(one), rel=0.1)
    shares = [np.bincount(item.labels, minlength=5) for item in (one, two)]
    assert shares[1][order].tolist() == shares[0].tolist()


def test_a_class_without_nodes_is_not_sampled():
    logits, labels = _gaussian(4, shares=[0.5, 0.5, 0.0, 0.0])
    moments = ClassMoments.measure(logits, labels)
    assert moments.offsets[2:].tolist() == [[0.0] * 4] * 2
    same = transfer(moments, 1.0, *_moments(logits))
    assert set(same.labels) == {0, 1}
    assert np.isfinite(same.logits).all()
    assert same.accuracy == pytest.approx((logits.argmax(axis=1) == labels).mean(), abs=0.02)


@pytest.mark.parametrize("num_classes", [2, 5])
@pytest.mark.parametrize("gain", [0.03, 1.0, 2.5])
def test_a_covariance_of_zero_gives_finite_logits(num_classes, gain):
    logits, labels = _gaussian(num_classes)
    moments = ClassMoments.measure(logits, labels)
    zero = np.zeros((num_classes, num_classes))
    still = transfer(moments, gain, np.zeros(num_classes), zero)
    assert np.isfinite(still.logits).all()
    assert still.accuracy == 1.0  # without spread every class is at its offset
    assert np.isfinite(best(still))


def test_constant_source_logits_give_chance():
    labels = np.arange(100) % 3
    moments = ClassMoments.measure(np.ones((100, 3)), labels)
    flat = transfer(moments, 1.0, np.zeros(3), np.zeros((3, 3)))
    assert flat.accuracy == pytest.approx(1 / 3, abs=0.01)
    assert best(flat) == 1.0


def test_the_result_is_smooth_and_not_random():
    logits, labels = _gaussian(3)
    moments = ClassMoments.measure(logits, labels)
    mean, covariance = _moments(logits)
    again = [transfer(moments, 0.9, mean, covariance) for _ in range(2)]
    assert (again[0].logits == again[1].logits).all()
    near = transfer(moments, 0.9 + 1e-9, mean, covariance)
    np.testing.assert_allclose(near.logits, again[0].logits, atol=1e-6)
    assert abs(len(near.labels) - DRAWS) <= 3


def test_the_predicted_reliability_is_that_of_the_real_sample():
    logits, labels = _gaussian(3)
    same = transfer(ClassMoments.measure(logits, labels), 1.0, *_moments(logits))
    real = bin_probabilities(temperature.apply(logits, 1.5), labels)
    predicted = bin_probabilities(temperature.apply(same.logits, 1.5), same.labels)
    full = (real.count > 500) & (predicted.count > 100)
    assert full.sum() >= 4
    one, other = (part.correct_sum[full] / part.count[full] for part in (predicted, real))
    np.testing.assert_allclose(one, other, atol=0.1)
