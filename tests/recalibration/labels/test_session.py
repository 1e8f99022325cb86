"""A labelling session: its order, its stop, its file, and what it refuses."""

import json
import zlib

import numpy as np
import pytest
from tests.helpers import answer_bytes, block_model, raises

from graphtemper import LabelSession, metrics, recalibrate, shifts, suggest_labels
from graphtemper.errors import VersionError
from graphtemper.models import SIGN
from graphtemper.recalibration.labels.session import ANY_MOMENT, AT_THE_GOAL


@pytest.fixture(scope="module")
def target():
    return shifts.noise(0.8)(block_model(2, num_nodes=1000), 5)


@pytest.fixture(scope="module")
def result(model, target, card):
    return recalibrate(model, target, card, nodes=range(100, 1000))


@pytest.fixture(scope="module")
def accuracy(model, target):
    return float((model(target).argmax(axis=1) == target.labels)[100:].mean())


def _truth(target, nodes):
    return {int(node): int(target.labels[node]) for node in nodes}


def _finish(session, target, batch=10):
    while not session.done:
        session.add(_truth(target, session.next(batch)))
    return session


def test_a_width_is_reached_and_holds(result, target, accuracy):
    held = []
    for seed in range(10):
        session = _finish(LabelSession(result, goal=0.07, seed=seed), target)
        found = session.accuracy
        assert found.method == AT_THE_GOAL
        assert found.high - found.low <= 0.14 + 1e-9
        assert session.more == session.waiting == 0
        held.append(found.low <= accuracy <= found.high)
    assert sum(held) >= 8


@pytest.mark.parametrize(("apart", "decision"), [(-0.12, "above"), (0.12, "below")])
def test_a_gate_is_decided(result, target, accuracy, apart, decision):
    session = _finish(LabelSession(result, at_least=accuracy + apart), target, 20)
    assert session.decision == decision
    assert session.accuracy.method == ANY_MOMENT
    excluded = session.accuracy.high if decision == "below" else session.accuracy.low
    assert abs(excluded - accuracy) < 0.13
    assert decision in session.summary()


def test_whoever_stops_early_gets_the_wider_interval(result, target):
    session = LabelSession(result, goal=0.05)
    before = session.accuracy
    assert (before.low, before.high, before.value) == (0.0, 1.0, result.accuracy.value)
    session.add(_truth(target, session.next(60)))
    assert not session.done
    assert session.accuracy.method == ANY_MOMENT
    assert session.accuracy.high - session.accuracy.low > 0.1
    assert 0 < session.more < 300
    assert f"{session.more} more" in session.summary()


def test_the_expected_number_of_labels_is_about_right(result, target):
    session = LabelSession(result, goal=0.06)
    hardest = session.more
    session.add(_truth(target, session.next(50)))
    expected = 50 + session.more
    labels = _finish(session, target, 5).num_labels
    assert labels == pytest.approx(expected, rel=0.35)
    # Before any label, the accuracy may be the one that needs most.
    assert 0.9 * labels < hardest < 2.0 * labels


def test_the_order_is_drawn_once(result, target):
    one, two, other = (LabelSession(result, goal=0.1, seed=seed) for seed in (3, 3, 4))
    assert one.next(30).tolist() == two.next(30).tolist() != other.next(30).tolist()
    assert one.next(30).tolist() == suggest_labels(result, 30, seed=3).tolist()
    assert np.unique(one.next(900)).size == 900
    asked = one.next(20)
    one.add(_truth(target, asked[:15]))
    assert one.next(5).tolist() == asked[15:].tolist()  # nobody answered these


def test_late_and_unasked_labels_wait_for_the_run(result, target):
    session = LabelSession(result, goal=0.05)
    nodes = session.next(60)
    session.add(_truth(target, nodes[:20]))
    before, temperature = session.accuracy, session.result.temperature
    session.add(_truth(target, nodes[21:]))  # one is late, and many come after it
    assert session.accuracy == before
    assert (session.num_labels, session.waiting) == (59, 39)
    assert "39 labels wait" in session.summary()
    assert session.result.num_labels == 59
    assert session.result.temperature != temperature
    session.add(_truth(target, nodes[20:21]))
    assert session.waiting == 0
    assert session.accuracy != before


def test_easy_nodes_that_nobody_asked_for_do_not_mislead(result, target, model, accuracy):
    right = np.flatnonzero(model(target).argmax(axis=1) == target.labels)
    session = LabelSession(result, goal=0.08, seed=1)
    session.add(_truth(target, right[right >= 100][:300]))
    assert not session.done
    _finish(session, target)
    assert session.accuracy.low <= accuracy <= session.accuracy.high


def test_nodes_that_cannot_be_labelled_leave_the_population(result, target):
    session = LabelSession(result, goal=0.06)
    nodes = session.next(200)
    session.add(_truth(target, nodes[::2]) | {int(node): None for node in nodes[1::2]})
    assert session.num_labels == 100
    assert session.waiting == 0
    assert session.labels[int(nodes[1])] is None
    assert not set(session.next(800).tolist()) & set(nodes.tolist())
    session.add({int(nodes[1]): int(target.labels[nodes[1]])})  # it could be after all
    assert session.num_labels == 101


def test_all_labels_are_exact(model, card, target):
    small = recalibrate(model, target, card, nodes=range(40))
    truth = (model(target).argmax(axis=1) == target.labels)[:40].mean()
    for goal in ({"goal": 0.01}, {"at_least": 0.5}):
        session = LabelSession(small, **goal)
        session.add(target.labels)
        assert session.done
        assert session.next(5).size == 0
        found = session.accuracy
        assert (found.low, found.value, found.high) == pytest.approx((truth, truth, truth))
        assert session.result.accuracy.value == truth


def test_the_result_is_that_of_recalibrate(model, target, card, result):
    session = LabelSession(result, goal=0.1)
    labels = _truth(target, session.next(40))
    session.add(labels)
    again = recalibrate(model, target, card, nodes=range(100, 1000), labels=labels)
    assert answer_bytes(session.result) == answer_bytes(again)


def test_a_result_with_labels_begins_with_them(model, target, card, result):
    nodes = suggest_labels(result, 50)
    labelled = recalibrate(model, target, card, range(100, 1000), labels=_truth(target, nodes))
    session = LabelSession(labelled, goal=0.05)
    assert (session.num_labels, session.waiting) == (50, 0)


# --- precision and recall -------------------------------------------------------------------


def _metric(result, target, name, **asked):
    return metrics.decisions(result.probabilities, target.labels[100:], **asked)[name]


@pytest.mark.parametrize("threshold", [None, 0.3])
@pytest.mark.parametrize("name", ["precision", "recall"])
def test_a_width_of_another_metric_is_reached(result, target, name, threshold):
    asked = {"positive": 1, "threshold": threshold}
    session = _finish(LabelSession(result, goal=0.09, metric=name, **asked), target)
    found = session.estimate
    assert found.high - found.low <= 0.18 + 1e-9
    assert found.method == AT_THE_GOAL
    assert found.value == pytest.approx(_metric(result, target, name, **asked), abs=0.11)


@pytest.mark.parametrize("name", ["precision", "recall"])
@pytest.mark.parametrize(("apart", "decision"), [(-0.15, "above"), (0.12, "below")])
def test_a_gate_of_another_metric_is_decided(result, target, name, apart, decision):
    truth = _metric(result, target, name, positive=1)
    session = LabelSession(result, at_least=truth + apart, metric=name, positive=1)
    assert _finish(session, target, 20).decision == decision
    assert name in session.summary()


def test_for_precision_only_flagged_nodes_are_asked_for(result, target):
    session = LabelSession(result, goal=0.1, metric="precision", positive=1)
    assert (result.predictions[session.next(300) - 100] == 1).all()
    others = np.flatnonzero(result.predictions != 1)[:5] + 100
    session.add(_truth(target, others))
    assert (session.num_labels, session.waiting) == (5, 0)
    with raises("conflict", match="flagged nodes alone"):
        _ = session.result


@pytest.mark.parametrize("name", ["precision", "recall"])
def test_with_all_labels_another_metric_is_exact(model, card, target, tmp_path, name):
    small = recalibrate(model, target, card, nodes=range(40))
    truth = metrics.decisions(small.probabilities, target.labels[:40], 1)[name]
    session = LabelSession(small, goal=0.01, metric=name, positive="1")
    session.add(_truth(target, session.next(7)))
    session.save(tmp_path / "s.json")
    session = LabelSession.load(tmp_path / "s.json", small)
    found = _finish(session, target).estimate
    assert (found.low, found.value, found.high) == pytest.approx((truth, truth, truth))


def test_a_recall_without_positive_nodes_stays_open(model, card, target):
    small = recalibrate(model, target, card, nodes=range(40))
    session = LabelSession(small, at_least=0.5, metric="recall", positive=1)
    session.add(dict.fromkeys(range(40), 0))
    assert session.done
    assert session.decision is None
    assert (session.estimate.low, session.estimate.high) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"metric": "precision"}, "missing"),
        ({"metric": "f1", "positive": 1}, "conflict"),
        ({"metric": "f1"}, "choice"),
        ({"positive": 1}, "conflict"),
        ({"metric": "recall", "positive": 9}, "range"),
        ({"metric": "precision", "positive": 1, "threshold": 1.0}, "missing"),
    ],
)
def test_odd_metrics_are_refused(result, asked, error):
    with raises(error):
        LabelSession(result, goal=0.05, **asked)


# --- files ----------------------------------------------------------------------------------


def test_a_session_goes_on_from_its_file_without_the_model(result, target, tmp_path):
    path = tmp_path / "june.session.json"
    session = LabelSession(result, goal=0.06, seed=2)
    while not session.done:
        session.save(path)
        again = LabelSession.load(path)
        assert again.next(10).tolist() == session.next(10).tolist()
        assert (again.accuracy, again.more) == (session.accuracy, session.more)
        nodes = session.next(40)
        for one in (session, again):
            one.add(_truth(target, nodes))
        assert again.accuracy == session.accuracy
        session = again
    with raises("missing"):
        _ = session.result
    session.save(path)
    whole = LabelSession.load(path, result)
    assert whole.done
    assert whole.result.num_labels == session.num_labels
    assert path.stat().st_size < 60_000


def test_a_session_with_columns_keeps_them(model, target, card, tmp_path):
    old = np.where(np.arange(1000) % 3 == 0, -1, target.labels)
    found = recalibrate(model, target, card, earlier=old, proxies={"other": target.labels})
    session = LabelSession(found, goal=0.05)
    session.add(_truth(target, session.next(100)))
    session.save(tmp_path / "s.json")
    assert LabelSession.load(tmp_path / "s.json", found).accuracy == session.accuracy
    with raises("other-model"):
        LabelSession.load(tmp_path / "s.json", recalibrate(model, target, card))


def test_a_session_of_another_model_or_graph_is_refused(
    result, model, source, target, card, tmp_path
):
    path = tmp_path / "s.json"
    LabelSession(result, goal=0.05).save(path)
    others = [
        recalibrate(model, target, card),
        recalibrate(model, block_model(9, num_nodes=1000), card, nodes=range(100, 1000)),
        recalibrate(
            SIGN(hops=1, C=0.001).fit(source, range(50))(target), target, card, range(100, 1000)
        ),
    ]
    for other in others:
        with raises("other-model"):
            LabelSession.load(path, other)
    assert LabelSession.load(path, result).num_labels == 0


def _resealed(content):
    fields = {key: value for key, value in content.items() if key != "crc32"}
    text = json.dumps(fields, separators=(",", ":"), sort_keys=True)
    return json.dumps(fields | {"crc32": f"{zlib.crc32(text.encode()):08x}"})


BAD_FILES = {
    "not JSON": lambda c: "{",
    "another file": lambda c: '{"schema": 3}',
    "edited": lambda c: json.dumps(c | {"seed": 9}),
    "no nodes": lambda c: _resealed(c | {"nodes": [], "predictions": [], "confidence": []}),
    "a node twice": lambda c: _resealed(c | {"nodes": [c["nodes"][0], *c["nodes"][:-1]]}),
    "a row outside": lambda c: _resealed(c | {"answers": [[900, 0]]}),
    "confidence as text": lambda c: _resealed(c | {"confidence": ["a"] * 900}),
    "no goal": lambda c: _resealed(c | {"goal": None}),
    "a tiny goal": lambda c: _resealed(c | {"goal": 1e-300}),
    "the tiniest goal": lambda c: _resealed(c | {"goal": 5e-324}),
    "no threshold": lambda c: _resealed({k: c[k] for k in c if k != "threshold"}),
    "no class": lambda c: _resealed({k: c[k] for k in c if k != "positive"}),
    "a field less": lambda c: _resealed({k: v for k, v in c.items() if k != "start"}),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_damaged_files_are_one_clear_sentence(result, tmp_path, name):
    path = tmp_path / "s.json"
    LabelSession(result, goal=0.05).save(path)
    path.write_text(BAD_FILES[name](json.loads(path.read_text())))
    with raises(("damaged", VersionError)) as caught:
        LabelSession.load(path)
    assert "\n" not in str(caught.value)


def test_other_versions_and_missing_files_say_so(result, tmp_path):
    path = tmp_path / "s.json"
    path.write_text(_resealed({"schema": "graphtemper.session/9"}))
    with pytest.raises(VersionError):
        LabelSession.load(path)
    with raises("no-file"):
        LabelSession.load(tmp_path / "nowhere.json")


# --- refusals -------------------------------------------------------------------------------

BAD_LABELS = {
    "unknown node": ({1000: 0}, "range"),
    "not chosen": ({5: 0}, "foreign"),
    "two labels": ({150: 0}, "repeated"),
    "pairs": ([(150, 1)], "wrong-type"),
}


@pytest.mark.parametrize("name", BAD_LABELS)
def test_bad_labels_leave_the_session_as_it_was(result, name):
    labels, error = BAD_LABELS[name]
    session = LabelSession(result, goal=0.05)
    session.add({150: 1})
    with raises(error) as caught:
        session.add({300: 0} | labels if isinstance(labels, dict) else labels)
    assert "\n" not in str(caught.value)
    assert session.labels == {150: 1}


def test_a_label_can_be_corrected(result):
    session = LabelSession(result, goal=0.05)
    session.add({150: 1})
    session.add({150: 0}, replace=True)
    assert session.labels == {150: 0}


@pytest.mark.parametrize(
    ("goals", "error"),
    [
        ({}, "conflict"),
        ({"goal": 0.05, "at_least": 0.8}, "conflict"),
        ({"goal": 0.0}, "range"),
        ({"goal": 0.5}, "range"),
        ({"goal": float("nan")}, "range"),
        ({"at_least": 1.0}, "range"),
        ({"goal": "narrow"}, ("range", "wrong-type")),
        ({"goal": {"precision": 0.1}}, ("range", "wrong-type")),
    ],
)
def test_odd_goals_are_refused(result, goals, error):
    with raises(error):
        LabelSession(result, **goals)


def test_results_that_cannot_be_labelled_on_are_refused(model, target, card):
    with raises("conflict"):
        LabelSession(recalibrate(model, target, card, per_node=True), goal=0.05)
    with raises("wrong-type"):
        LabelSession(card, goal=0.05)
    with raises("wrong-type"):
        suggest_labels(card, 5)
