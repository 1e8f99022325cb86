"""Binned calibration against slow loops and torchmetrics, and the algebra of its statistics."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers import raises

from graphtemper import metrics

seeds = st.integers(0, 2**32 - 1)


@pytest.fixture(scope="module")
def torchmetrics_kernel():
    """The calibration error of torchmetrics before its conversion to float32."""
    import torch
    from torchmetrics.functional.classification.calibration_error import _ce_compute

    def measured(p, labels, bins, **options):
        confidence = torch.from_numpy(p.max(axis=1))
        correct = torch.from_numpy((p.argmax(axis=1) == labels).astype(float))
        return float(_ce_compute(confidence, correct, bins, **options))

    return measured


def slow_bins(p, labels, bins, closed):
    """(count, sum confidence, sum correct) a bin, node by node, from the definition."""
    table = np.zeros((bins, 3))
    for row, label in zip(p, labels, strict=True):
        c = max(row)
        for b in range(bins):
            low, high = b / bins, (b + 1) / bins
            if closed == "right":
                inside = low < c <= high or (b == 0 and c == 0)
            else:
                inside = low <= c < high or (b == bins - 1 and c == 1)
            if inside:
                table[b] += 1, c, list(row).index(c) == label
    return table


def on_a_grid(seed, steps, n=60):
    """Binary probabilities k / steps: many confidences equal a bin edge, 1 and ties occur."""
    rng = np.random.default_rng(seed)
    p = rng.integers(0, steps + 1, size=n) / steps
    return np.stack([1 - p, p], axis=1), rng.integers(2, size=n)


@pytest.mark.parametrize("closed", ["right", "left"])
@given(seed=seeds, bins=st.integers(1, 60), steps=st.sampled_from([4, 7, 10, 15, 49, 60]))
@settings(max_examples=40, deadline=None)
def test_bins_match_the_definition_also_on_edges(closed, seed, bins, steps):
    p, labels = on_a_grid(seed, steps)
    expected = slow_bins(p, labels, bins, closed)
    got = metrics.bin_probabilities(p, labels, bins, closed=closed)
    np.testing.assert_array_equal(got.count, expected[:, 0])
    np.testing.assert_allclose(got.confidence_sum, expected[:, 1], atol=1e-12)
    np.testing.assert_array_equal(got.correct_sum, expected[:, 2])
    gaps = np.abs(expected[:, 1] - expected[:, 2])
    assert metrics.ece(p, labels, bins, closed=closed) == pytest.approx(gaps.sum() / len(p))
    mce = (gaps / np.maximum(expected[:, 0], 1)).max()
    assert metrics.mce(p, labels, bins, closed=closed) == pytest.approx(mce, abs=1e-12)


def test_every_multiple_of_every_width_falls_on_its_edge():
    # b / bins * bins is not always b in floating point; the edge itself decides.
    for bins in range(1, 120):
        for b in range((bins + 1) // 2, bins + 1):
            p = [[1 - b / bins, b / bins]]
            if p[0][0] > p[0][1]:
                continue
            c = max(p[0])
            right = int(metrics.bin_probabilities(p, [1], bins).count.argmax())
            left = int(metrics.bin_probabilities(p, [1], bins, closed="left").count.argmax())
            assert right / bins < c <= (right + 1) / bins
            assert left / bins <= c
            assert c < (left + 1) / bins or left == bins - 1


@pytest.mark.parametrize("bins", [1, 10, 15])
@pytest.mark.parametrize("num_classes", [2, 7])
def test_against_torchmetrics(sample, torchmetrics_kernel, bins, num_classes):
    p, labels = sample(0, n=3000, num_classes=num_classes)
    for norm, ours in (("l1", metrics.ece), ("max", metrics.mce)):
        peer = torchmetrics_kernel(p, labels, bins, norm=norm)
        assert ours(p, labels, bins) == pytest.approx(peer, rel=1e-9)


def test_debiased_ece_against_torchmetrics(sample, torchmetrics_kernel):
    p, labels = sample(1, n=3000)
    peer = torchmetrics_kernel(p, labels, 15, norm="l2", debias=True)
    assert peer > 0.05
    assert metrics.debiased_ece(p, labels) == pytest.approx(peer, rel=1e-9)


# Half the nodes: confidence 1, wrong. Half: 0.95, right. Both lie in (0.9, 1], where the mean
# confidence is 0.975 and the accuracy 1/2.
AT_ONE = np.array([[0.0, 1.0], [0.05, 0.95]] * 10), np.array([0, 1] * 10)


@pytest.mark.parametrize("closed", ["right", "left"])
def test_a_confidence_of_one_belongs_to_the_last_bin(closed):
    assert metrics.ece(*AT_ONE, bins=10, closed=closed) == pytest.approx(0.475)


def test_the_two_conventions_differ_on_an_edge():
    p, labels = [[0.2, 0.8], [0.25, 0.75]], [1, 0]
    assert metrics.ece(p, labels, bins=5, closed="right") == pytest.approx(0.275)  # together
    assert metrics.ece(p, labels, bins=5, closed="left") == pytest.approx(0.475)  # apart


def test_the_first_of_tied_classes_is_the_prediction():
    p = [[0.4, 0.4, 0.2]] * 2
    assert metrics.bin_probabilities(p, [0, 1], bins=1).correct_sum == [1.0]


def test_float32_and_any_layout_agree_with_float64(sample):
    p, labels = sample(2, n=200_000)
    whole = metrics.bin_probabilities(p, labels)
    fortran = metrics.bin_probabilities(np.asfortranarray(p), labels)
    np.testing.assert_array_equal(whole.confidence_sum, fortran.confidence_sum)
    confidence, correct = p.max(axis=1), p.argmax(axis=1) == labels
    index = np.ceil(confidence * 15).astype(int) - 1
    np.testing.assert_array_equal(whole.count, np.bincount(index, minlength=15))
    np.testing.assert_allclose(whole.correct_sum, np.bincount(index, correct, minlength=15))
    single = metrics.ece(p.astype(np.float32), labels.astype(np.int32))
    assert single == pytest.approx(whole.ece, abs=1e-5)


@pytest.mark.parametrize("closed", ["right", "left"])
def test_equal_mass_bins_hold_equally_many(sample, closed):
    p, labels = sample(3, n=1000)
    statistics = metrics.bin_probabilities(p, labels, 8, scheme="mass", closed=closed)
    assert len(statistics.count) == 8
    assert statistics.count.max() - statistics.count.min() <= 2
    order = np.argsort(p.max(axis=1))
    residual = (p.max(axis=1) - (p.argmax(axis=1) == labels))[order]
    if closed == "right":
        expected = sum(abs(part.sum()) for part in residual.reshape(8, -1)) / 1000
        assert metrics.ece(p, labels, 8, scheme="mass") == pytest.approx(expected)


def test_equal_mass_bins_with_one_distinct_confidence():
    p, labels = [[0.3, 0.7]] * 10, [1] * 5 + [0] * 5
    assert metrics.ece(p, labels, scheme="mass") == pytest.approx(0.2)


# --- merging --------------------------------------------------------------------------------


def assert_same(a, b):
    np.testing.assert_array_equal(a.count, b.count)
    np.testing.assert_array_equal(a.correct_sum, b.correct_sum)
    np.testing.assert_allclose(a.confidence_sum, b.confidence_sum, rtol=1e-12)
    np.testing.assert_allclose(a.variance_sum, b.variance_sum, rtol=1e-9, atol=1e-12)


@given(seeds, st.lists(st.integers(1, 199), unique=True, max_size=6), st.randoms())
@settings(max_examples=40, deadline=None)
def test_any_split_in_any_order_adds_up(sample, seed, cuts, random):
    p, labels = sample(seed, n=200)
    chunks = list(zip(np.split(p, sorted(cuts)), np.split(labels, sorted(cuts)), strict=True))
    random.shuffle(chunks)
    parts = [metrics.bin_probabilities(*chunk) for chunk in chunks]
    while len(parts) > 1:  # a random tree, as on a cluster
        random.shuffle(parts)
        parts.append(parts.pop() + parts.pop())
    assert_same(parts[0], metrics.bin_probabilities(p, labels))


def test_the_built_in_sum_adds_up_statistics(sample):
    p, labels = sample(0, n=90)
    parts = [metrics.bin_probabilities(p[i::3], labels[i::3]) for i in range(3)]
    assert_same(sum(parts), metrics.bin_probabilities(p, labels))
    with pytest.raises(TypeError):
        sum(parts, 1)


def test_a_stream_with_edges_from_equal_mass_bins(sample):
    p, labels = sample(4)
    whole = metrics.bin_probabilities(p, labels, 6, scheme="mass")
    rows = (slice(i, i + 90) for i in range(0, len(p), 90))
    parts = (metrics.bin_probabilities(p[r], labels[r], edges=whole.edges) for r in rows)
    assert_same(sum(parts), whole)


def test_different_bins_do_not_add(sample):
    p, labels = sample(5)
    a = metrics.bin_probabilities(p, labels, 10)
    for other in (
        metrics.bin_probabilities(p, labels, 15),
        metrics.bin_probabilities(p, labels, 10, closed="left"),
    ):
        with raises("conflict"):
            a + other
    with pytest.raises(TypeError):
        a + 1


@given(seeds)
@settings(max_examples=20, deadline=None)
def test_metrics_do_not_depend_on_the_order_of_nodes_or_classes(sample, seed):
    p, labels = sample(seed, n=80)
    rng = np.random.default_rng(seed)
    nodes, classes = rng.permutation(80), rng.permutation(4)
    q, renamed = p[nodes][:, classes], np.argsort(classes)[labels[nodes]]
    names = ["ece", "mce", "debiased_ece", "classwise_ece", "nll", "brier"]
    for name in names:
        metric = getattr(metrics, name)
        assert metric(q, renamed) == pytest.approx(metric(p, labels), rel=1e-9, abs=1e-12), name


# --- other groupings ------------------------------------------------------------------------


def test_classwise_ece_is_the_mean_of_binary_loops(sample):
    p, labels = sample(6, n=150)
    expected = []
    for k in range(p.shape[1]):
        index = np.ceil(p[:, k] * 15) - 1
        gaps = [abs((p[index == b, k] - (labels[index == b] == k)).sum()) for b in range(15)]
        expected.append(sum(gaps) / len(p))
    assert metrics.classwise_ece(p, labels) == pytest.approx(np.mean(expected))


# --- noise ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "published"), [(200, 0.0625), (1000, 0.0285), (5000, 0.0122)])
def test_noise_floor_is_the_mean_ece_of_a_calibrated_model(n, published):
    rng = np.random.default_rng(n)
    floors, eces = [], []
    for _ in range(150):
        c = rng.uniform(0.5, 1, size=n)
        p = np.stack([1 - c, c], axis=1)
        floors.append(metrics.noise_floor(p))
        eces.append(metrics.ece(p, (rng.random(n) < c).astype(int)))
    assert np.mean(floors) == pytest.approx(published, rel=0.06)
    assert np.mean(floors) == pytest.approx(np.mean(eces), rel=0.06)


def test_debiasing_removes_the_bias_of_the_squared_error():
    rng = np.random.default_rng(0)
    c = rng.uniform(0.5, 1, size=500)
    p = np.stack([1 - c, c], axis=1)
    squares, raw = [], []
    for _ in range(400):
        statistics = metrics.bin_probabilities(p, (rng.random(500) < c).astype(int))
        accuracy = statistics.correct_sum / np.maximum(statistics.count, 1)
        noise = accuracy * (1 - accuracy) / np.maximum(statistics.count - 1, 1)
        raw.append((statistics.count * statistics.gap**2).sum() / 500)
        squares.append(raw[-1] - (statistics.count * noise).sum() / 500)
        assert statistics.debiased_ece == pytest.approx(np.sqrt(max(squares[-1], 0)), abs=1e-12)
    error = np.std(squares) / np.sqrt(len(squares))
    assert abs(np.mean(squares)) < 4 * error
    assert np.mean(raw) > 20 * error


def test_debiasing_assumes_one_accuracy_per_bin():
    # Two nodes of one bin, right with 0.2 and 0.9: the noise term exceeds the variance of the
    # accuracy by (variance of the probabilities) / (n - 1), as the docstring says.
    chance, noise, accuracy = [], [], []
    for labels in np.ndindex(2, 2):
        chance.append(np.prod(np.where(labels, [0.2, 0.9], [0.8, 0.1])))
        accuracy.append(np.mean(labels))
        noise.append(accuracy[-1] * (1 - accuracy[-1]))
        square = (0.7 - accuracy[-1]) ** 2 - noise[-1]
        debiased = metrics.debiased_ece([[0.3, 0.7]] * 2, labels)
        assert debiased == pytest.approx(np.sqrt(max(square, 0)))
    variance = np.dot(chance, np.square(accuracy)) - 0.55**2
    assert np.dot(chance, noise) == pytest.approx(variance + np.var([0.2, 0.9]))


# --- bad input ------------------------------------------------------------------------------

GOOD = [[0.5, 0.5], [0.1, 0.9]]
ALL = [
    metrics.ece,
    metrics.mce,
    metrics.debiased_ece,
    metrics.classwise_ece,
    metrics.nll,
    metrics.brier,
    metrics.reliability_curve,
    metrics.bin_probabilities,
]


@pytest.mark.parametrize(
    ("p", "labels", "error"),
    [
        ([[0.5, 0.5], [np.nan, 0.9]], [0, 1], "not-finite"),
        ([[0.5, 0.5], [-0.1, 1.1]], [0, 1], "range"),
        ([[0.5, 0.5], [0.4, 0.5]], [0, 1], "range"),
        ([0.5, 0.9], [0, 1], "shape"),
        ([[1.0], [1.0]], [0, 0], "shape"),
        (np.empty((0, 2)), np.empty(0, dtype=int), "empty"),
        (GOOD, [0], "shape"),
        (GOOD, [0, 2], "range"),
        (GOOD, [0, -1], "no-labels"),
        (GOOD, [0.0, 1.0], "wrong-type"),
        (GOOD, [[0], [0, 1]], "shape"),
    ],
)
def test_every_metric_rejects(p, labels, error):
    for metric in ALL:
        with raises(error):
            metric(p, labels)


@pytest.mark.parametrize("num_classes", [2, 3])
def test_a_bad_row_deep_in_a_large_array_is_named(num_classes):
    p = np.full((300_000, num_classes), 1 / num_classes, dtype=np.float32)
    p[250_001, 0] += 0.2
    with raises("range"):
        metrics.ece(p, np.zeros(300_000, dtype=int))


def test_rounding_of_single_precision_is_accepted():
    p = np.array([[1.0000002, 0.0], [0.3333333, 0.6666666]], dtype=np.float32)
    assert metrics.bin_probabilities(p, [0, 1]).count[-1] == 1


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: metrics.ece(GOOD, [0, 1], bins=0), "range"),
        (lambda: metrics.ece(GOOD, [0, 1], bins=2.5), "range"),
        (lambda: metrics.ece(GOOD, [0, 1], scheme="x"), "choice"),
        (lambda: metrics.ece(GOOD, [0, 1], closed="x"), "choice"),
        (lambda: metrics.bin_probabilities(GOOD, [0, 1], edges=[0, 0.5]), "wrong-type"),
        (lambda: metrics.bin_probabilities(GOOD, [0, 1], edges=[0, 0.5, 0.5, 1]), "range"),
        (lambda: metrics.ece(GOOD, [0, 1], bins=10**12), "range"),
    ],
)
def test_bad_options(call, error):
    with raises(error):
        call()
