"""Estimated metrics of decisions."""

import json
from dataclasses import replace

import numpy as np
import pytest
from tests.helpers import answering, raises

from graphtemper import SourceCard, csbm, metrics, recalibrate
from graphtemper._core.estimate import Estimate
from graphtemper.errors import InputError
from graphtemper.models import SIGN

LEVELS = {"noise": (0.5, 1.0), "drop": (0.5,), "rewire": (0.3,)}
COSTS = [[0, 1], [20, 0]]


def sample(seed, classes=2, size=900):
    return csbm.sample(
        size, degree=6, homophily=0.75, snr=0.8, num_classes=classes, num_features=8, seed=seed
    )


@pytest.fixture(scope="module", params=[2, 3])
def known(request):
    graph = sample(1, request.param)
    model = SIGN(hops=1).fit(graph, range(300))
    card = SourceCard.build(model, graph, range(300, 900), compositions=0, shifts=LEVELS)
    target = sample(2, request.param).replace(
        class_names=("licit", "fraud", "other")[: request.param]
    )
    return model, card, target


@pytest.fixture(scope="module")
def result(known):
    model, card, target = known
    return recalibrate(model, target, card)


def test_intervals_hold_the_realised_metrics(known, result):
    _, _, target = known
    asked = {"positive": 1, "k": 100, "costs": COSTS}
    found = result.metrics(**asked)
    truth = metrics.decisions(result.probabilities, target.labels, **asked)
    held = [getattr(found, name).low <= truth[name] <= getattr(found, name).high for name in truth]
    assert sum(held) >= len(held) - 1
    assert all(abs(getattr(found, name).value - truth[name]) < 0.1 for name in ("recall", "f1"))
    assert found.confusion.value.sum() == pytest.approx(900)
    assert (found.confusion.low <= found.confusion.value + 1e-9).all()


def test_means_over_classes(known, result):
    _, _, target = known
    found = result.metrics()
    truth = metrics.decisions(result.probabilities, target.labels)
    for name in ("precision", "recall", "f1", "specificity", "auroc", "average_precision"):
        value = getattr(found, name)
        assert value.low - 0.02 <= truth[name] <= value.high + 0.02
        weighted = found.weighted[name]
        assert weighted.low <= weighted.value <= weighted.high
    assert found.reasons == {
        "precision_at_k": "it needs k, and all nodes",
        "recall_at_k": "it needs k, and all nodes",
        "cost": "it needs costs",
    }
    json.dumps(found.to_dict())


def test_with_all_labels_the_answer_is_exact(known):
    model, card, target = known
    labels = dict(enumerate(target.labels.tolist()))
    result = recalibrate(model, target, card, labels=labels)
    asked = {"positive": 1, "threshold": 0.4, "k": 50, "costs": COSTS}
    found = result.metrics(**asked)
    truth = metrics.decisions(result.probabilities, target.labels, **asked)
    for name, value in truth.items():
        one = getattr(found, name)
        assert [one.value, one.low, one.high] == pytest.approx([value] * 3, abs=1e-9)


def test_labels_narrow_the_interval(known, result):
    model, card, target = known
    rows = np.random.default_rng(0).choice(900, 300, replace=False)
    labelled = recalibrate(
        model, target, card, labels={int(i): int(target.labels[i]) for i in rows}
    )
    before, after = (item.metrics(positive=1).precision for item in (result, labelled))
    assert after.high - after.low < before.high - before.low


def test_an_uncertain_accuracy_makes_uncertain_metrics(result):
    value = result.accuracy.value
    ends = ((value - 0.02, value + 0.02), (0.5 * value, value + 0.02))
    narrow, unsure = (
        answering(result, accuracy=Estimate(value, *item, "")).metrics().precision for item in ends
    )
    assert unsure.high - unsure.low > 1.5 * (narrow.high - narrow.low)


def test_nearly_flat_probabilities_lose_nothing(result):
    """A handful of labels may ask for a temperature at which all classes look alike."""
    flat = answering(result, temperature=1e7 * result.temperature)
    flat = replace(flat, probabilities=flat.apply(result.logits))
    found, expected = (item.metrics(positive=1).precision for item in (flat, result))
    assert [found.low, found.value, found.high] == pytest.approx(
        [expected.low, expected.value, expected.high], abs=1e-4
    )


def test_classes_have_names(result):
    assert result.metrics(positive="fraud").f1 == result.metrics(positive=1).f1
    assert result.metrics(positive="1").f1 == result.metrics(positive=1).f1


def test_curve_and_best_thresholds(result):
    found = result.metrics(positive=1, costs=COSTS)
    curve = found.at([0.1, 0.5, 0.9])
    assert (np.diff(curve.recall[:, 0]) <= 0).all()
    assert (curve.precision[:, 1] <= curve.precision[:, 2]).all()
    assert (np.diff(curve.flagged) <= 0).all()
    cheap = found.best_threshold("cost")
    tables = found.ranked.tables(np.array([cheap.threshold, *np.linspace(0.05, 0.95, 19)]))
    expected = (np.array(COSTS) * tables[1:]).sum(axis=(-2, -1)).mean(axis=0)
    assert expected[0] <= 1.02 * expected.min()
    precise = found.best_threshold({"precision": 0.8})
    assert precise.precision.value >= 0.8
    assert 0.0 <= precise.sure <= 1.0
    assert found.best_threshold({"recall": 0.9}).recall.value >= 0.9
    assert found.best_threshold("f1").f1.value >= found.f1.value - 0.02


def test_segments_add_up_and_are_less_certain(result):
    """With the accuracy of the whole known well: otherwise its interval outweighs the segment's."""
    country, value = np.where(np.arange(900) < 600, "DE", "FR"), result.accuracy.value
    sure = replace(result.accuracy, low=value - 0.01, high=value + 0.01)
    found = answering(result, accuracy=sure).metrics(positive=1, segments=country)
    assert {name: one.num_nodes for name, one in found.segments.items()} == {"DE": 600, "FR": 300}
    small = found.segments["FR"].recall
    assert small.high - small.low > found.recall.high - found.recall.low


def test_labels_of_a_segment_move_it_most(known):
    """In one segment every label says class 0; its precision of class 1 falls below the other's."""
    model, card, target = known
    rows = np.arange(0, 900, 3)
    labels = {int(i): 0 if i < 450 else int(target.labels[i]) for i in rows}
    found = recalibrate(model, target, card, labels=labels)
    parts = found.metrics(positive=1, segments=np.arange(900) < 450).segments
    assert parts[True].precision.value < parts[False].precision.value - 0.1


def test_metrics_that_are_undefined_are_none(result):
    found = result.metrics(positive=1, threshold=1.0)
    assert found.precision is None
    assert found.reasons["precision"] == "no node is flagged"
    assert found.recall.value == 0.0
    assert found.rows()["precision"] == "undefined: no node is flagged"
    assert "cost" not in found.rows()
    assert "Precision          undefined: no node is flagged" in result.summary(metrics=found)
    assert np.isnan(found.at([1.0]).precision).all()


def test_large_results_are_thinned(result):
    rng = np.random.default_rng(0)
    classes = result.probabilities.shape[1]
    logits = 2.0 * rng.standard_normal((60_000, classes))
    p = np.exp(logits)
    p /= p.sum(axis=1, keepdims=True)
    large = replace(result, logits=logits, probabilities=p, nodes=np.arange(60_000))
    found = large.metrics(positive=1, threshold=0.9, k=500)
    assert found.num_nodes == 60_000
    assert found.at([0.9]).flagged[0] == pytest.approx((p[:, 1] >= 0.9).sum(), rel=0.01)
    assert found.confusion.value.sum() == pytest.approx(60_000)
    assert large.metrics().num_nodes == 60_000


@pytest.mark.parametrize(
    ("asked", "error", "text"),
    [
        ({"positive": 7}, "range", "positive must be"),
        ({"positive": 1.5}, "range", "positive must be an integer"),
        ({"positive": float("nan")}, "range", "positive must be an integer"),
        ({"positive": "ham"}, "choice", "the graph names licit, fraud"),
        ({"threshold": 0.5}, "missing", "pass positive="),
        ({"positive": 1, "threshold": 1.5}, "range", "between 0 and 1"),
        ({"positive": 1, "k": 901}, "range", "k must be"),
        ({"positive": 1, "costs": [1, 2]}, "shape", "2 x 2"),
        ({"segments": ["a"]}, "shape", "one for each of the 900 nodes"),
        ({"segments": np.arange(900)}, "range", "merge some"),
    ],
)
def test_bad_input_is_one_sentence(result, asked, error, text):
    with raises(error, match=text):
        result.metrics(**asked)


def test_bad_goals_are_one_sentence(result):
    with raises("missing", match="thresholds need a class"):
        result.metrics().at([0.5])
    found = result.metrics(positive=1)
    with raises("missing", match="at least one threshold"):
        found.at([])
    with raises("choice", match="with costs 'cost'"):
        found.best_threshold("cost")
    with raises("choice", match="a condition is"):
        found.best_threshold({"auroc": 0.5})
    with raises("range", match="ask for less"):
        found.best_threshold({"precision": 1.0})


def test_results_without_nodes_have_no_metrics(result):
    with pytest.raises(InputError, match="in memory"):
        replace(result, probabilities=np.empty((0, 2))).metrics()


@pytest.mark.parametrize("case", ["one node", "flat", "certain", "class 0", "per node"])
def test_odd_results_have_finite_metrics(known, result, case):
    model, card, target = known
    classes = card.num_classes
    p = result.probabilities[:60].copy()
    if case == "one node":
        p = p[:1]
    elif case == "flat":
        p[:] = 1.0 / classes
    elif case == "certain":
        p = np.eye(classes)[p.argmax(axis=1)]
    odd = replace(result, probabilities=p, logits=np.log(p + 1e-9), nodes=np.arange(len(p)))
    if case == "per node":
        odd = recalibrate(model, target, card, range(60), per_node=True)
    for asked in ({}, {"positive": 0 if case == "class 0" else 1, "k": 1}):
        found = odd.metrics(**asked)
        for name, value in found.values().items():
            assert np.isfinite(list(value.values())).all(), name
            assert value["low"] <= value["value"] <= value["high"]
        assert np.isfinite(found.confusion.value).all()
        json.dumps(found.to_dict(), allow_nan=False)


def test_classes_that_are_hardly_there_do_not_count(result):
    """A class with no expected node has no recall; it must not halve the mean over classes."""
    card, p = result.reading.card, np.maximum(result.probabilities[:150], 0.01)
    p[:, -1] = 1e-6
    p /= p.sum(axis=1, keepdims=True)
    moments = replace(card.reference.moments, shares=p.mean(axis=0))
    there = replace(card, reference=replace(card.reference, moments=moments))
    right = float(p.max(axis=1).mean())
    accuracy = Estimate(right, right - 0.02, min(right + 0.02, 0.9999), "")
    known = {"accuracy": accuracy, "temperature": card.temperature, "claimed": right}
    found = replace(
        answering(result, **known),
        probabilities=p,
        logits=card.temperature * np.log(p),
        nodes=np.arange(150),
        mean_confidence=(right, right),
        reading=replace(result.reading, card=there),
    )
    assert found.metrics().confusion.value[-1].sum() < 0.5
    assert found.metrics(positive=card.num_classes - 1).recall is None
    one = [found.metrics(positive=k).recall.value for k in range(card.num_classes - 1)]
    assert found.metrics().recall.value == pytest.approx(np.mean(one), abs=0.02)


def test_the_best_threshold_may_flag_a_handful_or_none(result):
    rng = np.random.default_rng(0)
    p = np.full((20_000, result.probabilities.shape[1]), 0.0)
    p[:, 1] = 0.01 * rng.random(20_000)
    p[:20, 1] = 0.9 + 0.05 * rng.random(20)
    p[:, 0] = 1.0 - p[:, 1]
    p = np.maximum(p, 1e-9)
    large = replace(result, logits=np.log(p), probabilities=p, nodes=np.arange(20_000))
    found = large.metrics(positive=1, costs=[[0, 1e6], [1, 0]])
    top = found.at([0.9]).precision[0, 0]
    assert found.best_threshold({"precision": 0.9 * top}).precision.value >= 0.9 * top
    none = found.best_threshold("cost")
    assert (none.threshold, none.precision) == (1.0, None)
