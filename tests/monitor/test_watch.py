"""A watch: answers, what is refused or missed, late labels, and what gates look at."""

import sqlite3
from functools import partial

import numpy as np
import pytest
from tests.helpers import needs, raises

from graphtemper import Graph, metrics, recalibrate, temperature
from graphtemper.errors import FileError, InputError
from graphtemper.models import SIGN
from graphtemper.monitor import Snapshot, Watch


def names(found):
    return [one.name for one in found]


@pytest.fixture
def days(day):
    return {f"day{k}": partial(day, k) for k in range(5)}


def some(days, *numbers):
    return {f"day{k}": days[f"day{k}"] for k in numbers}


def broken(error=FileError):
    def load():
        raise error("it is damaged.")

    return load


@pytest.mark.parametrize("form", ["graph", "path", pytest.param("pyg", marks=pytest.mark.slow)])
def test_an_answer_is_that_of_recalibrate(watched, watch, day, tmp_path, form):
    model, card = watched
    given = day(0)
    if form == "path":
        given.save(tmp_path / "day0.npz")
        given = str(tmp_path / "day0.npz")
    elif form == "pyg":
        needs("torch_geometric")
        given = given.to_pyg()
    entry = watch.add(model, given, name="day0", when="2026-05")
    result = recalibrate(model, day(0).replace(labels=None), card)
    known = result.accuracy
    assert (entry.accuracy, entry.low, entry.high) == (known.value, known.low, known.high)
    assert (entry.temperature, entry.verdict) == (result.temperature, result.verdict)
    assert (entry.when, watch.names) == ("2026-05", ["day0"])
    assert watch.add(model, given, name="day0") == entry


def test_nodes_are_those_evaluated(watched, watch, day):
    model, card = watched
    entry = watch.add(model, day(0), name="some", nodes=np.arange(100))
    known = recalibrate(model, day(0).replace(labels=None), card, np.arange(100))
    assert (entry.num_nodes, entry.accuracy) == (100, known.accuracy.value)


def test_logits_alone(watched, watch, day):
    model, card = watched
    entry = watch.add(None, model(day(1)), name="day1")
    known = recalibrate(model(day(1)), day(1).replace(labels=None), card)
    assert entry.signals["confidence"] == pytest.approx(known.signals["confidence"], rel=1e-9)
    assert entry.high - entry.low > known.accuracy.high - known.accuracy.low
    with raises("other-log"):
        watch.add(model, day(2), name="day2")
    with raises("conflict"):
        Watch(watch._log.path, card, decisions={"positive": 1}).follow(None, {})


def test_a_name_is_needed_and_paths_are_one(watched, watch, day, tmp_path):
    model, _ = watched
    with raises("missing"):
        watch.add(model, day(0))
    for k in (1, 2):
        day(k).save(tmp_path / f"day{k}.npz")
    with raises("choice"):
        watch.add(model, tmp_path)


def test_another_model_is_refused_before_any_snapshot(watch, day, days):
    other = SIGN(hops=2).fit(day(9), range(300))
    for snapshots in (days, {}):
        with raises("other-model"):
            watch.follow(other, snapshots)


def test_a_run_resumes(watched, watch, days):
    model, _ = watched
    assert names(watch.follow(model, some(days, 0, 1)).added) == ["day0", "day1"]
    assert names(watch.follow(model, days).added) == ["day2", "day3", "day4"]
    assert watch.follow(model, days) == ([], [])
    with pytest.raises(InputError):
        watch.add(model, Graph(features=[[1.0]] * 3, edges=[[0, 1]]), name="bad")


def test_two_watches_over_the_same_snapshots_take_turns(watched, watch, days):
    """Another run measures days 1 and 2 while this one is at day 1."""
    model, card = watched
    other = Watch(watch._log.path, card)

    def meanwhile():
        other.follow(model, some(days, 0, 1, 2))
        return days["day1"]()

    run = watch.follow(model, {**some(days, 0), "day1": meanwhile, **some(days, 2, 3)})
    assert names(run.added) == ["day0", "day3"]
    assert watch.names == ["day0", "day1", "day2", "day3"]


def test_what_does_not_agree_with_the_log_is_refused_each_time(watched, watch, days):
    model, _ = watched
    watch.follow(model, some(days, 0, 2))
    changed = {"day0": days["day4"], **some(days, 1, 2, 3)}
    for added in (["day3"], []):
        run = watch.follow(model, changed)
        assert (names(run.added), names(run.missed)) == (added, ["day0", "day1"])
    with raises("other-log"):
        watch.add(model, days["day4"], name="day0")


def test_times_and_dates_in_names_decide_which_snapshot_is_older(watched, watch, day, tmp_path):
    model, _ = watched
    watch.add(model, day(1), name="b", when="2026-05")
    with raises("content"):
        watch.add(model, day(2), name="c", when="2026-04")
    for name, number in (("2026-06", 3), ("2025-12", 4)):
        day(number).save(tmp_path / f"{name}.npz")
    assert watch.add(model, tmp_path / "2026-06.npz").when == "2026-06"
    assert names(watch.follow(model, tmp_path / "2025-12.npz").missed) == ["2025-12.npz"]


@pytest.mark.parametrize(
    "error", [FileError, ValueError, partial(UnicodeDecodeError, "u", b"", 0, 1)]
)
def test_a_missed_snapshot_keeps_its_place_until_it_is_measured(watched, watch, days, error):
    model, _ = watched
    bad = {"day0": days["day0"], "day1": broken(error), "day2": days["day2"]}
    run = watch.follow(model, bad)
    assert (names(run.added), names(run.missed)) == (["day0", "day2"], ["day1"])
    assert run.missed[0].reason.isprintable()
    assert watch.follow(model, bad).added == []
    assert names(watch.standing.missed) == ["day1"]
    before = [entry.accuracy for entry in watch.standing.answers]
    assert names(watch.follow(model, days).added) == ["day1", "day3", "day4"]
    assert watch.names == list(days)
    assert [entry.accuracy for entry in watch.standing.answers][:3:2] == before
    assert watch.standing.missed == []


def test_a_missed_snapshot_is_not_forgotten_by_itself(watched, watch, days):
    """The newest of a run is remembered too, also if its file is gone the next time."""
    model, _ = watched
    watch.follow(model, {**some(days, 0), "day1": broken()})
    assert names(watch.standing.missed) == ["day1"]
    assert watch.follow(model, some(days, 0, 2)).missed == []
    assert names(watch.standing.missed) == ["day1"]
    with raises("conflict"):
        watch.forget("day0")
    watch.forget("day1")
    assert watch.standing.missed == []
    assert watch.follow(model, some(days, 0, 1, 2)) == ([], [])
    with raises("conflict"):
        watch.add(model, days["day1"], name="day1")


def test_a_file_that_changes_while_it_is_read_is_missed(watched, watch, day, tmp_path):
    model, _ = watched
    path = tmp_path / "day1.npz"
    day(1).save(path)

    def load():
        day(2).save(path)
        return day(1)

    changing = Snapshot("day1.npz", load, place=path)
    assert names(watch.follow(model, changing).missed) == ["day1.npz"]
    assert names(watch.follow(model, path).added) == ["day1.npz"]


def test_drift_raises_a_change(watched, day, tmp_path):
    model, card = watched
    watch = Watch(tmp_path / "watch.sqlite", card, false_alarms=0.05, gates=["change"])
    watch.follow(model, {f"{k}": partial(day, k, 0.85 if k < 25 else 0.65) for k in range(50)})
    change = watch.standing.changes[0]
    assert 25 < change.position < 50
    assert watch.closed() == {"change": f"a change at {change.position}"}


# Late labels


@pytest.fixture
def followed(watched, watch, days):
    watch.follow(watched[0], days)
    return watch


def test_labels_score_what_was_answered_and_the_card_learns(watched, followed, day, days):
    model, card = watched
    before = followed.standing.answers
    late = followed.labels(model, days, "day1")
    logits, labelled = model(day(1)), late.scored.labelled
    assert labelled.accuracy == (logits.argmax(axis=1) == day(1).labels).mean()
    assert (labelled.num_labels, labelled.deviation) == (400, 0.0)  # all nodes, so it is exact
    for value, chosen in (
        (labelled.ece_before, card.temperature),
        (labelled.ece_after, before[1].temperature),
    ):
        assert value == metrics.ece(temperature.apply(logits, chosen), day(1).labels)
    wiser = card.learn(model, day(1), name="day1")
    assert late.card.to_json() == wiser.to_json()
    assert names(late.answered) == ["day2", "day3", "day4"]
    standing = followed.standing
    assert (standing.first, standing.answers[:2]) == (before, before[:2])
    expected = recalibrate(model, day(3).replace(labels=None), wiser).accuracy
    assert (standing.answers[3].accuracy, standing.answers[3].low) == (expected.value, expected.low)
    new = followed.add(model, day(5), name="day5")
    assert new.revision == 1
    assert new.accuracy == recalibrate(model, day(5).replace(labels=None), wiser).accuracy.value


def test_labels_come_in_any_order_and_labelled_snapshots_keep_their_answers(
    watched, followed, days
):
    model, _ = watched
    followed.labels(model, days, "day3")
    second = followed.labels(model, days, "day1")
    assert names(second.answered) == ["day2", "day4"]
    assert [entry.revision for entry in followed.standing.answers] == [0, 0, 2, 0, 2]
    third = followed.labels(model, days, "day4")
    assert (third.scored.first.revision, third.scored.latest.revision) == (0, 2)


def test_a_table_of_labels_is_the_same_and_few_have_a_sampling_error(
    watched, followed, day, days, tmp_path
):
    model, card = watched
    other = Watch(tmp_path / "other.sqlite", card)
    other.follow(model, days)
    hidden = {name: lambda load=load: load().replace(labels=None) for name, load in days.items()}
    with raises("no-labels"):
        other.labels(model, hidden, "day1")
    one = followed.labels(model, days, "day1")
    two = other.labels(model, hidden, "day1", dict(enumerate(day(1).labels.tolist())))
    assert (one.card.to_json(), one.scored) == (two.card.to_json(), two.scored)
    chosen = np.random.default_rng(0).choice(400, 50, replace=False)
    given = {int(node): int(day(2).labels[node]) for node in chosen}
    labelled = followed.labels(model, days, "day2", given).scored.labelled
    share = (labelled.accuracy * 50 + 0.5) / 51
    assert labelled.deviation == pytest.approx(np.sqrt(share * (1 - share) / 50 * 350 / 399))


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("day1", {400: 0}),
        ("day1", {3: 2}),
        ("day9", {3: 1}),
        ("day1", dict.fromkeys(range(9), 0)),
        ("day1", {}),
    ],
)
def test_impossible_labels_are_refused_without_a_trace(watched, followed, days, name, given):
    with pytest.raises(InputError):
        followed.labels(watched[0], days, name, given)
    assert followed.standing.record == []
    assert all(entry.revision == 0 for entry in followed.standing.answers)


def test_labels_are_refused_twice_and_for_other_models_and_contents(watched, followed, day, days):
    model, _ = watched
    for wrong, given in (
        (SIGN(hops=2).fit(day(1), np.arange(300)), days),
        (model, days | {"day1": days["day4"]}),
        (model, some(days, 2, 3)),
        (None, days),
    ):
        with pytest.raises(InputError):
            followed.labels(wrong, given, "day1")
    followed.labels(model, days, "day1")
    with pytest.raises(InputError):
        followed.labels(model, days, "day1")
    assert len(followed.standing.record) == 1


def test_later_snapshots_that_are_gone_keep_their_answers(watched, followed, days):
    given = some(days, 1, 2) | {"day3": days["day4"]}
    before = followed.standing.answers
    late = followed.labels(watched[0], given, "day1")
    assert (names(late.answered), names(late.unanswered)) == (["day2"], ["day3", "day4"])
    assert followed.standing.answers[3:] == before[3:]


def test_a_run_that_began_before_the_labels_does_not_mix_answers(watched, followed, days, day):
    model, card = watched
    other = Watch(followed._log.path, card)

    def meanwhile():
        other.labels(model, days, "day1")
        return day(6)

    with raises("other-log"):
        followed.follow(model, {**days, "day5": meanwhile})
    assert [one.revision for one in followed.follow(model, {**days, "day5": day(6)}).added] == [1]


def test_labels_of_logits_are_scored(watched, watch, day):
    model, _ = watched
    logits = {f"{k}": model(day(k)) for k in range(3)}
    watch.follow(None, logits)
    given = dict(enumerate(day(1).labels.tolist()))
    late = watch.labels(None, logits, "1", given)
    assert late.scored.labelled.accuracy == (logits["1"].argmax(axis=1) == day(1).labels).mean()
    assert late.answered == []
    with pytest.raises(InputError):
        watch.labels(None, logits, "2", {1000: 0})
    with raises("other-model"):
        watch.labels(None, logits | {"2": 2 * logits["2"]}, "2", given)


# Gates


@pytest.fixture
def alter(watch):
    """Return a function that changes the numbers of a logged answer."""

    def change(name, **facts):
        with sqlite3.connect(watch._log.path) as base:
            for key, value in facts.items():
                base.execute(
                    f"UPDATE log SET content = json_set(content, '$.{key}', ?) WHERE name = ?",
                    [value, name],
                )
        base.close()

    return change


def test_a_gate_looks_at_every_snapshot_that_nobody_has_seen(watched, watch, days, alter):
    model, card = watched
    watch.follow(model, some(days, 0, 1, 2))
    alter("day1", accuracy=0.5, low=0.4)
    assert watch.gate("accuracy<0.6") == "on day1 accuracy is 0.5"
    assert watch.gate("accuracy<0.6", only_last=True) == ""
    # A run that was killed here has seen nothing.
    assert Watch(watch._log.path, card).gate("accuracy<0.6")
    watch.acknowledge()
    for later in (watch, Watch(watch._log.path, card)):
        assert later.gate("accuracy<0.6") == ""
    alter("day2", accuracy=0.5, low=0.4)
    assert watch.gate("accuracy<0.6") == "on day2 accuracy is 0.5"  # the newest always counts


def test_an_abstention_closes_gates_also_that_of_drops(watched, watch, days, alter):
    model, _ = watched
    watch.follow(model, some(days, 0, 1))
    alter("day1", verdict="abstain")
    for gate in (
        "abstain",
        "caution",
        "accuracy<0.01",
        "low<0",
        "temperature<0",
        "slope<0",
        "drop",
    ):
        assert "verdict is abstain" in watch.gate(gate), gate
    assert watch.gate("change") == ""
    watch.labels(model, some(days, 1), "day1")  # the accuracy is known now
    assert "abstain" not in watch.gate("drop")


def test_metrics_that_were_not_measured_close_gates(watched, watch, days):
    model, card = watched
    watch.follow(model, some(days, 0))
    path = watch._log.path
    asking = Watch(path, card, decisions={"positive": 1})
    for one in (watch, asking):
        assert one.gate("precision<0") == (
            "on day0 precision was not measured; name the positive class"
        )
    watch.acknowledge()
    asking.follow(model, some(days, 0, 1))
    assert asking.gate("precision<0.01") == watch.gate("precision<0.01") == ""
    assert "cost was not measured" in asking.gate("cost>1e9")
    # The other class, and the same one in other words.
    assert "not measured as asked" in Watch(path, card, decisions={"positive": 0}).gate("recall<0")
    assert Watch(path, card, decisions={"positive": "1"}).gate("recall<0.01") == ""
    nobody = Watch(path, card, decisions={"positive": 1, "threshold": 1.0})
    nobody.follow(model, some(days, 0, 1, 2))
    assert nobody.gate("precision<0", only_last=True) == (
        "on day2 precision is not defined: no node is flagged"
    )


def test_a_drop_closes_its_gate_once_and_at_the_newest(watched, watch, days, alter):
    model, card = watched
    gated = Watch(watch._log.path, card, gates=["drop"])
    gated.follow(model, some(days, 0, 1, 2))
    alter("day1", accuracy=0.3, low=0.2, high=0.4)
    assert gated.closed() == {"drop": "day1 is below source"}
    watch.acknowledge()  # without the gate
    assert list(gated.closed()) == ["drop"]
    assert gated.closed(only_last=True) == {}
    gated.acknowledge()
    assert gated.closed() == {}
    alter("day2", accuracy=0.3, low=0.2, high=0.4)
    gated.acknowledge()
    assert gated.closed() == {"drop": "day2 is below source"}
