"""Whether to correct for class shares: the evidence, the card that carries it, the main job."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import kstest
from tests.helpers import answer_bytes

from graphtemper import SourceCard, csbm, metrics, recalibrate, shifts, temperature
from graphtemper.card.class_profile import MOST_CLASSES, ClassProfile, fit_biases
from graphtemper.errors import InputError
from graphtemper.models import SIGN
from graphtemper.recalibration.class_shares import (
    LEAST_ERRORS,
    design_effect,
    estimate,
    likeliest,
    shares_fit,
)
from graphtemper.signals.observation import Observation

SOURCE = {2: np.array([0.8, 0.2]), 5: np.array([0.45, 0.25, 0.1, 0.1, 0.1])}
# All but a few families, so that a card takes a second.
EXCLUDED = (
    "heterogeneous",
    "drop_columns",
    "blend",
    "smooth",
    "offset",
    "add",
    "drop_hubs",
    "homophily",
    "drop",
)


def _draw(shares, n, rng, strength=1.6):
    """Logits that are calibrated under the source's shares, and labels with other ones."""
    classes = shares.size
    y = rng.choice(classes, n, p=shares)
    x = rng.standard_normal((n, classes))
    x[np.arange(n), y] += strength
    return strength * x + np.log(SOURCE[classes]), y


def _l1(estimate, labels):
    truth = np.bincount(labels, minlength=len(estimate)) / labels.size
    return float(np.abs(estimate - truth).sum())


def _corrected(found, logits):
    return temperature.apply(logits + found.offsets, found.temperature)


# The calibration and the test


def test_biases_are_those_of_a_general_optimiser():
    rng = np.random.default_rng(0)
    z, y = _draw(SOURCE[5][::-1], 400, rng)

    def loss(point):
        raw = point[0] * z + point[1:]
        chosen = raw[np.arange(len(z)), y]
        away = point - np.eye(6)[0]
        return (np.logaddexp.reduce(raw, axis=1) - chosen).sum() + 0.5 * away @ away

    best = minimize(loss, np.eye(6)[0], options={"gtol": 1e-9})
    slope, biases = fit_biases(z, y)
    np.testing.assert_allclose([slope, *biases], best.x, atol=1e-4)


def test_biases_make_every_mean_probability_that_of_the_labels():
    rng = np.random.default_rng(1)
    z, y = _draw(SOURCE[5], 20_000, rng)
    tilted = 1.3 * z + np.array([1.0, 0.0, -1.0, 0.5, 0.0])
    profile = ClassProfile.measure(tilted, y)
    found = temperature.apply(profile.calibrated(tilted)).mean(axis=0)
    np.testing.assert_allclose(found, np.bincount(y) / y.size, atol=2e-4)
    assert profile.slope == pytest.approx(1 / 1.3, abs=0.02)


@pytest.mark.parametrize("classes", [2, 5])
def test_the_fit_keeps_its_level_under_label_shift(classes):
    """P-values are uniform for the true shares, and no smaller for estimated ones."""
    rng = np.random.default_rng(classes)
    known, estimated = [], []
    for _ in range(60):
        profile = ClassProfile.measure(*_draw(SOURCE[classes], 1500, rng))
        logits, _ = _draw(SOURCE[classes][::-1], 1000, rng)
        cells = profile.cells(logits)
        shares = likeliest(logits, SOURCE[classes], prior=0.0)[0]
        known.append(shares_fit(profile.counts, cells, SOURCE[classes][::-1]))
        estimated.append(shares_fit(profile.counts, cells, shares))
    assert kstest(known, "uniform").pvalue > 0.01
    assert np.mean(np.array(estimated) < 0.05) <= 0.1
    assert np.mean(estimated) > np.mean(known)


def test_the_fit_sees_what_shares_cannot_explain():
    rng = np.random.default_rng(3)
    profile = ClassProfile.measure(*_draw(SOURCE[5], 1500, rng))
    logits, _ = _draw(SOURCE[5][::-1], 1500, rng)
    for changed in (0.6 * logits, 1.7 * logits, logits + 3 * rng.standard_normal(logits.shape)):
        assert estimate(profile, changed, 1.0).shares is None


def test_too_few_cells_test_nothing():
    """Where any shares would fit, a fit is no evidence."""
    table = np.array([[70, 10], [20, 30], [10, 60]])
    assert shares_fit(table, np.array([3, 2, 1]), np.array([0.5, 0.5])) == 0.0


def test_the_likelihood_is_at_its_maximum():
    """Plain EM, many times over, gives the same shares."""
    rng = np.random.default_rng(7)
    logits, _ = _draw(SOURCE[5][::-1], 500, rng, strength=0.9)
    p, shares = temperature.apply(logits), SOURCE[5]
    for _ in range(20_000):
        posterior = p * shares / SOURCE[5]
        posterior /= posterior.sum(axis=1, keepdims=True)
        shares = (posterior.sum(axis=0) + 10.0 * SOURCE[5]) / 510.0
    np.testing.assert_allclose(likeliest(logits, SOURCE[5])[0], shares, atol=1e-5)


def test_indistinct_classes_are_not_told_apart():
    source = np.array([0.5, 0.3, 0.2])
    shares, error = likeliest(np.tile(np.log(source), (50, 1)), source)
    np.testing.assert_allclose(shares, source, atol=1e-6)
    assert error > 0.3


def test_the_share_error_is_that_of_repeated_samples():
    rng = np.random.default_rng(4)
    shares = np.array([0.3, 0.2, 0.2, 0.2, 0.1])
    errors, stated = [], []
    for _ in range(100):
        found, error = likeliest(_draw(shares, 400, rng)[0], SOURCE[5], prior=0.0)
        errors.append(np.abs(found - shares).sum())
        stated.append(error)
    assert np.mean(stated) == pytest.approx(np.mean(errors), rel=0.12)


# The evidence


@pytest.mark.parametrize("classes", [2, 5])
def test_true_label_shift_is_corrected(classes):
    rng = np.random.default_rng(10 + classes)
    profile = ClassProfile.measure(*_draw(SOURCE[classes], 2000, rng))
    logits, labels = _draw(SOURCE[classes][::-1], 2000, rng)
    found = estimate(profile, logits, 1.0)
    assert not found.objection
    predicted = np.bincount(logits.argmax(axis=1), minlength=classes) / labels.size
    assert _l1(found.shares, labels) < 0.4 * _l1(predicted, labels)
    before, after = temperature.apply(logits), _corrected(found, logits)
    assert metrics.ece(after, labels) < 0.5 * metrics.ece(before, labels)
    accuracy = (after.argmax(axis=1) == labels).mean()
    assert accuracy > (before.argmax(axis=1) == labels).mean()
    assert found.accuracy == pytest.approx(accuracy, abs=0.03)
    changed = (before.argmax(axis=1) != after.argmax(axis=1)).mean()
    assert found.changed == pytest.approx(changed)


def test_unmoved_shares_are_left_alone():
    rng = np.random.default_rng(20)
    profile = ClassProfile.measure(*_draw(SOURCE[2], 2000, rng))
    objections = [
        estimate(profile, _draw(SOURCE[2], 500, rng)[0], 1.0).objection for _ in range(30)
    ]
    assert all(objections)


def test_few_nodes_and_weak_models_are_left_alone():
    rng = np.random.default_rng(21)
    profile = ClassProfile.measure(*_draw(SOURCE[5], 2000, rng))
    small = estimate(profile, _draw(SOURCE[5][::-1], 12, rng)[0], 1.0)
    assert small.shares is None
    assert small.objection
    weak = ClassProfile.measure(*_draw(SOURCE[5], 2000, rng, strength=0.1))
    found = estimate(weak, _draw(SOURCE[5][::-1], 2000, rng, strength=0.1)[0], 1.0)
    assert found.objection


def test_a_class_that_the_source_lacks_stays_absent():
    rng = np.random.default_rng(22)
    shares = np.array([0.7, 0.2, 0.1, 0.0, 0.0])
    profile = ClassProfile.measure(*_draw(shares, 3000, rng))
    assert (profile.shares[3:] == 0.0).all()
    logits, labels = _draw(shares[[2, 1, 0, 3, 4]], 3000, rng)
    found = estimate(profile, logits, 1.0)
    assert np.isfinite(found.offsets).all()
    assert not found.objection
    assert (found.shares[3:] == 0.0).all()
    assert _l1(found.shares, labels) < 0.06
    assert metrics.ece(_corrected(found, logits), labels) < 0.05


def test_many_classes_have_no_profile():
    logits = np.eye(MOST_CLASSES + 1)
    assert ClassProfile.measure(logits, np.arange(MOST_CLASSES + 1)) is None
    assert ClassProfile.measure(logits[:, :5], np.arange(MOST_CLASSES + 1) % 5) is not None


# The main job


@pytest.fixture(scope="module")
def graph():
    """Two equal classes; which nodes are looked at makes the shares."""
    return csbm.sample(
        3200, degree=6, homophily=0.65, snr=0.3, num_classes=2, num_features=12, seed=1
    )


@pytest.fixture(scope="module")
def nodes(graph):
    rng = np.random.default_rng(0)
    return rng.permutation(shifts.resample_classes(graph.labels, range(2200), SOURCE[2], 0))


@pytest.fixture(scope="module")
def model(graph, nodes):
    return SIGN(hops=1).fit(graph, nodes[: nodes.size // 2])


@pytest.fixture(scope="module")
def card(graph, model, nodes):
    return SourceCard.build(
        model, graph, nodes[nodes.size // 2 :], compositions=0, exclude=EXCLUDED
    )


@pytest.fixture(scope="module")
def moved(graph):
    return shifts.resample_classes(graph.labels, range(2200, 3200), SOURCE[2][::-1], 1)


@pytest.fixture(scope="module")
def reported(model, graph, card, moved):
    return recalibrate(model, graph, card, moved)


@pytest.fixture(scope="module")
def estimated(model, graph, card, moved):
    return recalibrate(model, graph, card, moved, class_shares="estimate")


def test_a_correction_repairs_ece_accuracy_and_shares(graph, reported, estimated):
    labels = graph.labels[reported.nodes]
    ece = [metrics.ece(r.probabilities, labels) for r in (reported, estimated)]
    right = [(r.probabilities.argmax(axis=1) == labels).mean() for r in (reported, estimated)]
    assert ece[1] < 0.5 * ece[0]
    assert right[1] > right[0] + 0.1
    predicted = np.bincount(reported.probabilities.argmax(axis=1), minlength=2) / labels.size
    assert _l1(estimated.class_shares, labels) < 0.4 * _l1(predicted, labels)
    assert estimated.accuracy.low <= right[1] <= estimated.accuracy.high
    assert estimated.verdict != "abstain"


def test_the_answer_says_what_was_done(model, graph, reported, estimated):
    assert reported.logit_shift is None
    assert reported.class_shares is None
    assert not [item for item in reported.reasons if item.code.startswith("class_shares")]
    assert estimated.reasons[-1].code == "class_shares_corrected"
    logits = np.asarray(model(graph), np.float64)[estimated.nodes]
    np.testing.assert_allclose(
        estimated.probabilities,
        temperature.apply(logits + estimated.logit_shift, estimated.temperature),
        atol=1e-9,
    )
    told = json.loads(json.dumps(estimated.to_dict(), allow_nan=False))
    assert told["class_shares"] == estimated.class_shares.tolist()
    assert told["logit_shift"] == estimated.logit_shift.tolist()
    assert reported.to_dict()["logit_shift"] is None


def test_the_targets_labels_change_no_byte(model, graph, card, moved, estimated):
    for changed in (None, graph.labels[::-1].copy(), np.full(graph.num_nodes, -1)):
        other = graph.replace(labels=changed)
        again = recalibrate(model, other, card, moved, class_shares="estimate")
        assert answer_bytes(again) == answer_bytes(estimated)


def test_without_a_profile_nothing_else_changes(model, graph, card, moved, reported):
    old = replace(card, class_profile=None)
    assert old.class_profile is None
    found = recalibrate(model, graph, old, moved, class_shares="estimate")
    assert found.class_shares is None
    assert found.reasons[-1].code == "class_profile_missing"
    assert found.reasons[:-1] == reported.reasons
    assert answer_bytes(recalibrate(model, graph, old, moved)) == answer_bytes(reported)


@pytest.mark.parametrize("shift", [shifts.noise(1.0), shifts.rewire(0.6), shifts.shuffle(0.5)])
def test_other_shifts_are_not_corrected(model, graph, card, shift):
    same = shifts.resample_classes(graph.labels, range(2200, 3200), SOURCE[2], 2)
    target = shift(graph, 3)
    plain = recalibrate(model, target, card, same)
    asked = recalibrate(model, target, card, same, class_shares="estimate")
    assert asked.logit_shift is None
    assert asked.reasons[:-1] == plain.reasons
    assert asked.reasons[-1].code == "class_shares_not_corrected"
    assert asked.probabilities.tobytes() == plain.probabilities.tobytes()
    assert asked.accuracy == plain.accuracy


def test_labels_are_about_the_corrected_predictions(model, graph, card, moved, estimated):
    some = np.random.default_rng(0).choice(moved, 80, replace=False)
    labels = {int(node): int(graph.labels[node]) for node in some}
    found = recalibrate(model, graph, card, moved, class_shares="estimate", labels=labels)
    assert found.num_labels == 80
    assert found.accuracy.high - found.accuracy.low < (
        estimated.accuracy.high - estimated.accuracy.low
    )
    truth = graph.labels[found.nodes]
    assert metrics.ece(found.probabilities, truth) < 0.08
    assert found.accuracy.low <= (found.probabilities.argmax(axis=1) == truth).mean()
    rows = np.searchsorted(found.nodes, sorted(labels))
    hits = (found.probabilities.argmax(axis=1)[rows] == truth[rows]).sum()
    assert any(f"right on {hits} of 80" in reason.text for reason in found.reasons)
    none = recalibrate(model, graph, card, moved, class_shares="estimate", labels={})
    assert answer_bytes(none) == answer_bytes(estimated)


def test_labels_can_refuse_a_correction(model, graph, card, moved, estimated):
    """Labels that deny the moved shares: nothing is corrected, and it says why."""
    assert estimated.logit_shift is not None
    plain = model(graph).argmax(axis=1)
    corrected = dict(zip(estimated.nodes.tolist(), estimated.probabilities.argmax(1), strict=True))
    changed = [node for node in moved.tolist() if plain[node] != corrected[node]][:40]
    assert len(changed) >= 20
    labels = {node: int(plain[node]) for node in changed}
    found = recalibrate(model, graph, card, moved, class_shares="estimate", labels=labels)
    assert found.logit_shift is None
    assert (found.probabilities.argmax(axis=1) == plain[moved]).all()
    assert any("the labels are less likely with it" in reason.text for reason in found.reasons)


def test_a_correction_alone_earns_no_trust():
    """An interval may be narrow because only shares are taken to have moved; labels can show it."""
    graph = csbm.sample(
        3200, degree=6, homophily=0.8, snr=0.5, num_classes=2, num_features=12, seed=1
    )
    drawn = shifts.resample_classes(graph.labels, range(2200), SOURCE[2], 0)
    train, held_out = np.array_split(np.random.default_rng(0).permutation(drawn), 2)
    model = SIGN(hops=1).fit(graph, train)
    card = SourceCard.build(model, graph, held_out, compositions=0, exclude=EXCLUDED)
    moved = shifts.resample_classes(graph.labels, range(2200, 3200), np.array([0.5, 0.5]), 1)
    assert recalibrate(model, graph, card, moved).verdict == "caution"
    found = recalibrate(model, graph, card, moved, class_shares="estimate")
    assert found.logit_shift is not None
    assert found.verdict == "caution"
    assert "only if nothing else has changed" in found.reasons[-1].text
    labels = {int(node): int(graph.labels[node]) for node in moved[::3]}
    known = recalibrate(model, graph, card, moved, class_shares="estimate", labels=labels)
    assert known.logit_shift is not None
    assert known.verdict == "trust"


@pytest.mark.parametrize("wanted", ["correct", "", "report", True])
def test_other_values_are_refused(model, graph, card, wanted):
    with pytest.raises(InputError):
        recalibrate(model, graph, card, class_shares=wanted)


def test_temperatures_per_node_are_not_for_corrected_predictions(model, graph, card):
    with pytest.raises(InputError):
        recalibrate(model, graph, card, class_shares="estimate", per_node=True)


# Neighbours that err alike


def _alike(seed):
    """A graph of noisy nodes whose errors neighbours share; all are drawn alike."""
    return csbm.sample(
        800, degree=12, homophily=0.4, snr=0.6, num_classes=3, num_features=12, seed=seed
    )


def test_graphs_that_are_drawn_alike_have_not_moved():
    naive, honest = [], []
    for seed in range(4):
        source, order = _alike(seed), np.random.default_rng(seed).permutation(800)
        nodes = np.sort(order[100:])
        model = SIGN(hops=2).fit(source, order[:100])
        logits = np.asarray(model(source), dtype=np.float64)[nodes]
        profile = ClassProfile.measure(logits, source.labels[nodes])
        for target in (_alike(100 + 10 * seed + k) for k in range(5)):
            observation = Observation(model, target)
            effect = design_effect(observation)
            for found, value in ((naive, 1.0), (honest, effect)):
                shares, error = likeliest(profile.calibrated(observation.logits), profile.shares)
                change = np.abs(shares - profile.shares).sum()
                found.append(change > LEAST_ERRORS * error * np.sqrt(value))
    assert np.mean(naive) > 0.15
    assert not any(honest)


def test_the_design_effect_is_that_of_noise_averaged_over_two_hops():
    graph = csbm.sample(60, degree=4, homophily=0.6, snr=1.0, num_features=3, seed=0)
    links = np.eye(60)
    links[tuple(graph.edges.T)] = links[tuple(graph.edges.T[::-1])] = 1.0
    mean = links / links.sum(axis=1, keepdims=True)
    kernel = mean @ mean @ (mean @ mean).T
    found = design_effect(Observation(np.zeros((60, 2)), graph))
    assert found == pytest.approx(kernel.sum() / np.trace(kernel), rel=0.2)
    alone = graph.replace(edges=np.empty((0, 2), dtype=np.int64))
    assert design_effect(Observation(np.zeros((60, 2)), alone)) == pytest.approx(1.0)
